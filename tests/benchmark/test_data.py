"""What a stage is served and stores; a backbone that is trained before a method; values that belong to it."""

from __future__ import annotations

import pytest
import torch

from happycat.base.errors import InputError
from happycat.benchmark.record import Record
from happycat.learning.batches import StoredViews, VectorViews
from tests.helpers.runs import QUICK, quick_loop, quick_run

CALM = {"episodes": 1, "restarts": 1, "moves": 2}


def test_a_method_that_tunes_nothing_is_served_features_and_stores_no_tokens(tmp_path):
    folder, values = tmp_path / "run", {**QUICK, **CALM}
    del values["epochs"]
    quick_run(folder, method="calm", method_values=values, loop={"keep_tokens": True, "until": 1})
    assert {path.name for path in folder.glob("tokens/*/*.bin")} == {"features.bin"}
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
    with pytest.raises(InputError, match="kmeans has no value 'moves'"):
        quick_loop(tmp_path / "other", method="kmeans", method_values={"moves": 2})


def test_only_a_method_that_tunes_nothing_has_its_tail_tuned_before(tmp_path):
    with pytest.raises(InputError, match="happy tunes the tail itself"):
        quick_loop(tmp_path / "run", loop={"tune_tail": True})
