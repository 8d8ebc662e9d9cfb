"""What a stage is served and stores; a backbone that is trained before a method; values that belong to it."""

from __future__ import annotations

import pytest
import timm
import torch
from safetensors.torch import save_file

from happycat.backbone.config import BackboneConfig
from happycat.backbone.trunk import Trunk
from happycat.base.disk import read_json
from happycat.base.errors import InputError
from happycat.base.progress import Progress
from happycat.benchmark.record import Record
from happycat.benchmark.setup import prepare
from happycat.learning.batches import StoredViews, VectorViews
from happycat.methods import METHODS
from tests.helpers.runs import QUICK, quick_loop, quick_request, quick_run

CALM = {"episodes": 1}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> BackboneConfig:
    """A ViT with weights, of pictures of a few pixels."""
    weights = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model("test_vit", num_classes=0, img_size=32).state_dict(), weights)
    return BackboneConfig(name="test_vit", weights=weights, image_size=32, device="cpu")


def test_a_method_that_tunes_nothing_is_served_features_and_stores_no_tokens(tmp_path):
    folder, values = tmp_path / "run", {**QUICK, **CALM}
    del values["epochs"]
    quick_run(folder, method="calm", method_values=values, loop={"keep_tokens": True, "until": 1})
    kinds = {read_json(path)["kind"] for path in folder.glob("tokens/*/recipe.json")}
    assert kinds == {"features"}
    loop = quick_loop(folder, method="calm", method_values=values, loop={"keep_tokens": True}, resume=True)
    with loop.record:
        loop.load(loop.record, 1)
        views = loop.data.unlabelled(1).views
        assert isinstance(views, VectorViews)
        assert views.features.shape[1] == 3
        assert not any(name.startswith("tail.") for name in loop.method.state_dict())


def test_features_are_deleted_when_the_run_ends_and_a_resumed_run_is_the_same(tmp_path):
    values = {name: value for name, value in {**QUICK, **CALM}.items() if name != "epochs"}
    for folder, stops in (("one", (None,)), ("two", (0, 1, None))):
        for until in stops:
            quick_run(tmp_path / folder, method="calm", method_values=values, loop={"until": until}, resume=True)
    one, two = (Record(tmp_path / folder) for folder in ("one", "two"))
    assert one.stage_scores() == two.stage_scores()
    for name in one.load_state(2):
        assert torch.equal(one.load_state(2)[name], two.load_state(2)[name]), name
    assert not list((tmp_path / "two" / "tokens").iterdir())


def test_what_is_averaged_does_not_depend_on_the_number_of_stored_views(tmp_path):
    values = {name: value for name, value in {**QUICK, **CALM}.items() if name != "epochs"}
    two = quick_run(tmp_path / "two", method="calm", method_values=values, loop={"views": 2})
    four = quick_run(tmp_path / "four", method="calm", method_values=values, loop={"views": 4})
    assert two == four


def test_features_are_made_of_the_tokens_of_another_run(tmp_path, tiny, monkeypatch):
    def scores(folder, method, values, tokens):
        loop = {"tokens": tokens, "keep_tokens": True, "workers": 0}
        return quick_run(tmp_path / folder, method=method, method_values=values, loop=loop, backbone=tiny)

    alone = scores("alone", "calm", CALM, tmp_path / "other")
    scores("happy", "happy", QUICK, tmp_path / "tokens")

    def refused(*_):
        raise AssertionError("a view went through the trunk")

    monkeypatch.setattr(Trunk, "forward", refused)
    assert scores("calm", "calm", CALM, tmp_path / "tokens") == alone
    scores("kmeans", "kmeans", {}, tmp_path / "tokens")


def test_a_method_that_tunes_the_tail_is_served_tokens(tmp_path):
    loop = quick_loop(tmp_path / "run", loop={"until": 0})
    with loop.record:
        loop.run()
        assert isinstance(loop.data.unlabelled(1).views, StoredViews)


def test_values_of_the_backbones_training_are_not_the_methods(tmp_path):
    loop = quick_loop(tmp_path / "run", method="kmeans", method_values={"base_epochs": 2, "restarts": 3})
    loop.record.close()
    assert loop.pretraining.base_epochs == 2
    assert loop.pretraining.base_optimizer == "adamw"  # the usual one of a small ViT
    assert loop.method.config.restarts == 3
    with pytest.raises(InputError, match="kmeans has no value 'episodes'"):
        quick_loop(tmp_path / "other", method="kmeans", method_values={"episodes": 2})


def test_only_a_method_that_tunes_nothing_has_its_tail_tuned_before(tmp_path):
    with pytest.raises(InputError, match="happy tunes the tail itself"):
        quick_loop(tmp_path / "run", loop={"tune_tail": True})


class Steps(Progress):
    """Remembers how far each step came, and of how many parts."""

    def __init__(self):
        self.done = {}

    def step(self, title, total=None):
        self.done[title] = (0, total)
        self.now = title

        def advance(steps, total=None, loss=None):
            assert self.now == title  # what is shown is what is under way
            done, before = self.done[title]
            self.done[title] = (done + steps, before if total is None else total)

        return advance


def steps_of(folder, **changes) -> dict[str, tuple[int, int]]:
    steps = Steps()
    loop = prepare(quick_request(folder, **changes), steps)
    with loop.record:
        loop.run()
    return steps.done


def test_calibration_and_counting_have_totals(tmp_path, tiny):
    values = {"method": "calm", "method_values": CALM, "backbone": tiny, "loop": {"num_new": "auto", "workers": 0}}
    steps = steps_of(tmp_path / "calm", **values)
    done, total = steps["Stage-0: calibrating"]
    assert done == total > 0
    for stage, images in ((1, 20), (2, 22)):
        assert steps[f"Stage {stage}: counting"] == (images - 1, images - 1)
    assert "Stage-0: training" not in steps


@pytest.mark.parametrize(("counter", "total"), [("auto", 19), ("silhouette", 2)])
def test_counting_beside_a_method_has_totals(tmp_path, tiny, counter, total):
    steps = steps_of(tmp_path / "happy", backbone=tiny, loop={"num_new": counter, "workers": 0, "until": 1})
    assert steps["Stage-0: training"] == (2, 2)
    assert steps["Stage 1: counting"] == (total, total)
    if counter == "auto":
        done, all_of_them = steps["Stage-0: calibrating the count"]
        assert done == all_of_them > 0


@pytest.mark.parametrize("method", [name for name, (made, _) in METHODS.items() if made.trains])
def test_a_method_trains_the_last_block_of_a_backbone_that_has_its_weights(tiny, method, tmp_path):
    """What makes features beside it, of the same backbone, freezes nothing of it."""
    loop = quick_loop(tmp_path, backbone=tiny, method=method)
    with loop.record:
        block = loop.method.tail.block
        assert all(value.requires_grad for value in block.parameters())
        assert not any(value.requires_grad for value in loop.method.tail.norm.parameters())
        if method == "happy":
            before = {name: value.clone() for name, value in block.named_parameters()}
            loop.run()
            assert not [name for name, value in block.named_parameters() if torch.equal(before[name], value)]
