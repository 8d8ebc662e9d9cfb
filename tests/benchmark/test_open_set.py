"""What a run records of the probabilities: calibration error, and the ROC area of classes that are still to come."""

from __future__ import annotations

import csv
from itertools import chain

import pytest

from happycat.benchmark.record import Record
from happycat.cli.display import scores_table
from tests.helpers.runs import QUICK, quick_loop, quick_run

VALUES = {"calm": {**QUICK, "episodes": 1}, "happy": QUICK}


@pytest.fixture(scope="module", params=VALUES)
def run(request, tmp_path_factory):
    """A method's name and its finished run."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    quick_run(folder, method=request.param, method_values=VALUES[request.param])
    return request.param, folder


def test_the_area_is_that_of_seen_against_later_classes(run):
    name, folder = run
    record = Record(folder)
    scores = record.stage_scores()
    loop = quick_loop(folder, method=name, method_values=VALUES[name], resume=True)
    with loop.record:
        for stage in (0, 1):
            loop.load(record, stage)
            sets = [loop.method.evaluate(test.served)[1].tolist() for test in loop.data.test_sets(2)]
            known, unknown = (list(chain(*some)) for some in (sets[: stage + 1], sets[stage + 1 :]))
            pairs = [(k > u) + (k == u) / 2 for k in known for u in unknown]
            assert scores[stage]["roc"] == pytest.approx(100 * sum(pairs) / len(pairs))
    assert scores[2]["roc"] is None  # no class is left


def test_it_stands_in_the_csv_and_in_the_table(run):
    _, folder = run
    scores = Record(folder).stage_scores()
    with open(folder / "stages.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["ece"]) for row in rows] == [stage["ece"] for stage in scores]
    assert [float(row["roc"]) for row in rows[:2]] == [stage["roc"] for stage in scores[:2]]
    assert rows[2]["roc"] == ""
    columns = {column.header: list(column.cells) for column in scores_table(scores, "a run").columns}
    assert columns["ROC"] == [f"{scores[0]['roc']:.1f}", f"{scores[1]['roc']:.1f}", "–"]
    assert columns["ECE"] == [f"{stage['ece']:.1f}" for stage in scores]


def test_a_record_without_the_area_is_shown_without_it(run):
    earlier = [{k: v for k, v in stage.items() if k != "roc"} for stage in Record(run[1]).stage_scores()]
    assert list(scores_table(earlier, "a run").columns[-1].cells) == ["–"] * 3


def test_a_run_that_stops_early_has_it_too(tmp_path):
    (only,) = quick_run(tmp_path / "run", loop={"until": 0})
    assert 0 <= only["roc"] <= 100
