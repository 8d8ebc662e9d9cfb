"""Stage-0 of one run as the start of another, stopping early, and an estimated number of classes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from happycat.base.disk import read_json
from happycat.base.errors import InputError
from happycat.benchmark.record import Record
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.number import Count
from tests.helpers.runs import QUICK, quick_run

STAGES = {k: v for k, v in QUICK.items() if not k.startswith("base_")}


def files(folder: Path, *stages: int) -> dict[str, bytes]:
    """What a run says of its stages, file by file."""
    return {
        f"{t}/{path.name}": path.read_bytes() for t in stages for path in sorted((folder / "stages" / str(t)).iterdir())
    }


@pytest.fixture(scope="module")
def contrastive(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("contrastive") / "run"
    quick_run(folder, method="vanilla_gcd", loop={"until": 0})
    return folder


def test_a_run_that_starts_from_another_is_the_same_as_if_it_had_done_stage_0_itself(finished, tmp_path):
    quick_run(tmp_path / "run", start=finished, method_values=STAGES)
    assert files(tmp_path / "run", 0, 1, 2) == files(finished, 0, 1, 2)


def test_another_method_of_the_family_starts_from_it(finished, tmp_path):
    scores = quick_run(tmp_path / "run", method="simgcd", start=finished, method_values=STAGES)
    assert scores[0] == Record(finished).stage_scores()[0]
    assert len(scores) == 3
    numbers = Record(tmp_path / "run").metadata()["numbers"]
    assert numbers["config"]["base_epochs"] == QUICK["base_epochs"]
    assert numbers["start"] == Record(finished).stage(0).files()
    assert Record(tmp_path / "run").model(0)["method"] == "simgcd"


def test_a_method_that_rehearses_does_so_after_anothers_stage_0(contrastive, tmp_path):
    values = {**STAGES, "tasks": 2, "inner_epochs": 1, "outer_rate": 0.1}
    quick_run(tmp_path / "run", method="metagcd", start=contrastive, method_values=values)
    record = Record(tmp_path / "run")
    assert [e["epoch"] for e in record.epochs() if e["stage"] == 0] == [1, 2]
    before, after = Record(contrastive).load_state(0), record.load_state(0)
    assert before.keys() == after.keys()
    assert not (before["memory.prototypes"] == after["memory.prototypes"]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "vanilla_gcd"}, "another kind"),
        ({"method_values": {**STAGES, "base_epochs": 9}}, "base_epochs has no meaning"),
        ({"protocol_values": {"base_classes": 4, "stages": 2, "split_seed": 1}}, "other labelled images"),
    ],
)
def test_a_start_that_does_not_fit(finished, tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        quick_run(tmp_path / "run", **{"start": finished, "method_values": STAGES, **change})
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_start_that_is_no_run_or_not_far_enough(tmp_path):
    with pytest.raises(InputError, match="not a run folder"):
        quick_run(tmp_path / "run", start=tmp_path, method_values=STAGES)


def test_until_stops_and_resume_goes_on_to_the_same_end(finished, tmp_path):
    folder = tmp_path / "run"
    assert len(quick_run(folder, loop={"until": 1})) == 2
    assert len(quick_run(folder, loop={"until": 1}, resume=True)) == 2
    assert len(quick_run(folder, resume=True)) == 3
    assert files(folder, 0, 1, 2) == files(finished, 0, 1, 2)


def test_an_estimated_number_of_classes_is_scored_and_described(finished, tmp_path):
    folder = tmp_path / "run"
    scores = quick_run(folder, start=finished, method_values=STAGES, loop={"num_new": "silhouette", "most_new": 3})
    record = Record(folder)
    for t in (1, 2):
        stages = [c["stage"] for c in record.model(t)["classes"]]
        assert stages == sorted(stages)
        assert 1 <= stages.count(t) <= 3
        assert len(scores[t]["identities"]) == len(stages)
        assert {int(row["predicted"]) for row in record.assigned(t)} <= set(range(len(stages)))
    assert scores[2]["all"] is not None


AUTO = {"num_new": "auto", "most_new": 3}
CALM = {"episodes": 1}


@pytest.fixture
def quick_counter(monkeypatch) -> None:
    monkeypatch.setattr("happycat.methods.counting.CalmConfig", partial(CalmConfig, **CALM))


def test_a_counter_beside_the_method_says_how_many_and_is_resumed(finished, tmp_path, quick_counter):
    """Its own calibration is not of one's method: it learns at Stage-0, or, for another run's, before stage 1."""
    one, two = tmp_path / "one", tmp_path / "two"
    scores = quick_run(one, start=finished, method_values=STAGES, loop=AUTO)
    quick_run(two, start=finished, method_values=STAGES, loop={**AUTO, "until": 1})
    quick_run(two, start=finished, method_values=STAGES, loop=AUTO, resume=True)
    assert files(one, 1, 2) == files(two, 1, 2)
    record = Record(one)
    for t in (1, 2):
        found = record.model(t)["count"]
        assert found["low"] <= found["number"] <= found["high"] <= 3
        assert len(found["numbers"]) == len(found["curve"])
        assert [c["stage"] for c in record.model(t)["classes"]].count(t) == found["number"]
        counted = record.load_state(t, "counter")
        assert len(counted["memory.prototypes"]) == len(scores[t]["identities"])


def test_calm_counts_for_itself(tmp_path):
    quick_run(tmp_path / "run", method="calm", method_values={**QUICK, **CALM}, loop=AUTO)
    model = Record(tmp_path / "run").model(2)
    assert "counter.safetensors" not in model["files"]
    assert model["count"]["number"] == [c["stage"] for c in model["classes"]].count(2)


def test_a_stage_with_nothing_new_leaves_the_model_as_it_is(finished, tmp_path, monkeypatch, quick_counter):
    monkeypatch.setattr("happycat.methods.calm.method.Calm.count", lambda *_: Count(0, 0, 0, [0, 1], [0.0, -1.0]))
    scores = quick_run(tmp_path / "run", start=finished, method_values=STAGES, loop=AUTO)
    record = Record(tmp_path / "run")
    assert len(record.model(2)["classes"]) == 4
    before, after = record.load_state(0), record.load_state(2)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert scores[2]["new"] == 0


def test_the_csv_files_hold_what_the_lines_hold(finished):
    epochs = (finished / "epochs.csv").read_text().splitlines()
    assert epochs[0] == "stage,epoch,term,value"
    first = Record(finished).epochs()[0]
    assert f"0,1,loss,{first['loss']}" in epochs
    assert len((finished / "stages.csv").read_text().splitlines()) == 4
    assert read_json(finished / "run.json")["numbers"]["start"] is None
