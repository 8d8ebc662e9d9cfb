"""Held-out classes: values are chosen on the labelled images, and on nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from happycat.base.errors import InputError
from happycat.benchmark.held_out import held_out_split
from happycat.benchmark.protocol import check_split
from happycat.benchmark.record import Record
from happycat.benchmark.setup import load_images, the_split
from tests.helpers.runs import QUICK, quick_request, quick_run


def request(folder, **changes):
    values = {
        "dataset_options": {"num_classes": 12, "per_class": 30},
        "protocol_values": {"base_classes": 8, "stages": 2},
    }
    return quick_request(folder, **{**values, **changes})


@pytest.fixture
def splits(tmp_path):
    """The usual split, and that of its labelled images."""
    usual, held_out = request(tmp_path), request(tmp_path, held_out=True)
    return the_split(usual, load_images(usual)), the_split(held_out, load_images(held_out))


def test_only_labelled_images_are_in_it_and_each_has_one_part(splits):
    usual, held_out = splits
    labelled = {key for keys in usual.labelled.values() for key in keys}
    learned = {key for keys in held_out.labelled.values() for key in keys}
    served = {key for stage in held_out.stages for keys in stage["images"].values() for key in keys}
    tested = {key for keys in held_out.test.values() for key in keys}
    assert learned | served | tested <= labelled
    assert not learned & served
    assert not tested & (learned | served)
    assert not served & {key for stage in usual.stages for keys in stage["images"].values() for key in keys}


def test_as_large_a_share_of_the_classes_stays_labelled(splits):
    usual, held_out = splits
    assert held_out.classes == usual.classes[:8]
    assert tuple(held_out.labelled) == usual.classes[:5]  # 8 of 12 are 5 of 8
    assert [stage["new"] for stage in held_out.stages] == [[usual.classes[5]], [*usual.classes[6:8]]]
    assert all(len(keys) == round(0.2 * len(usual.labelled[name])) for name, keys in held_out.test.items())
    check_split(held_out, batch_size=16)


def test_a_given_order_says_which_classes_are_held_out(tmp_path):
    usual = request(tmp_path)
    names = [*reversed(the_split(usual, load_images(usual)).classes)]
    (tmp_path / "order.txt").write_text("\n".join(names), encoding="utf-8")
    asked = request(tmp_path, class_order=tmp_path / "order.txt", held_out=True)
    assert the_split(asked, load_images(asked)).classes == tuple(names[:8])


def test_a_run_is_scored_on_them(tmp_path):
    values = {name: value for name, value in QUICK.items() if name != "epochs"}  # k-means learns nothing later
    asked = request(tmp_path, held_out=True)
    of_request = {name: getattr(asked, name) for name in ("held_out", "dataset_options", "protocol_values")}
    scores = quick_run(tmp_path / "run", method="kmeans", method_values=values, **of_request)
    assert len(scores) == 3
    assert all(score["new"] is not None for score in scores[1:])
    assert Record(tmp_path / "run").metadata()["numbers"]["dataset"] == "glyphs-held-out"


def test_too_few_labelled_classes_are_told(splits):
    usual, _ = splits
    few = replace(usual, protocol=replace(usual.protocol, base_classes=3))
    with pytest.raises(InputError, match="3 labelled classes are too few to hold some out"):
        held_out_split(None, few)
