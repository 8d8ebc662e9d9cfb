"""What a simulated person's answers are worth: the person, the runs, the tables, the figure and the command."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from happycat import Happycat
from happycat.benchmark.paper import questions
from happycat.benchmark.paper.check_data import CheckConfig, read_features, splits
from happycat.benchmark.paper.questions import (
    CHOSEN,
    KNOWN,
    NOBODY_ASKED,
    RANDOM,
    AnsweredRun,
    StageAnswers,
    Study,
    answered_runs,
    plan,
)
from happycat.benchmark.paper.questions_report import QuestionResults, classes_found, last_all, mean_of, number_error
from happycat.cli import display, main
from happycat.model.simulation import AskingModel

CLASSES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")
CONFIG = CheckConfig(orders=1, stages=2, new_images=10, old_images=3)
BUDGETS = (0, 4)
STUDY = Study(lambda: Happycat(random_state=0), AskingModel)


@pytest.fixture(scope="module")
def features(tmp_path_factory) -> Path:
    random, number = np.random.default_rng(0), 19
    kind = random.permutation(np.repeat(np.arange(len(CLASSES)), number))
    vectors = np.eye(12)[kind] + 0.05 * random.normal(size=(len(kind), 12))
    part = np.full(len(kind), "train", dtype="U5")
    for i in range(len(CLASSES)):
        part[np.flatnonzero(kind == i)[:4]] = "test"
    path = tmp_path_factory.mktemp("features") / "made.npz"
    np.savez(path, X=vectors, cls=np.array(CLASSES)[kind], part=part)
    return path


@pytest.fixture(scope="module")
def runs(features) -> list[AnsweredRun]:
    images = read_features(features)
    (split,) = splits(images, CONFIG)
    told: list[int] = []
    made = answered_runs(STUDY, images, split, 0, BUDGETS, told.append)
    assert told == [1] * len(plan(BUDGETS))
    return made


# The runs


def test_a_run_for_each_number_of_answers_and_way_to_choose(runs):
    assert [(run.asked, run.budget) for run in runs] == [
        *((KNOWN, 0), (NOBODY_ASKED, 0), (CHOSEN, 4), (RANDOM, 4)),
    ]
    for run in runs:
        assert [stage.stage for stage in run.stages] == [1, 2]
        assert [stage.new_classes for stage in run.stages] == [2, 2]
        assert all(sum(stage.answers.values()) == run.budget for stage in run.stages)
    assert [stage.found for stage in runs[0].stages] == [2, 2]
    assert runs[0].stages[-1].all == 100


def test_the_same_again(features, runs):
    images = read_features(features)
    (split,) = splits(images, CONFIG)
    assert answered_runs(STUDY, images, split, 0, BUDGETS) == runs


# Tables and figure


def made_run(order: int, asked: str, budget: int, found: int = 3) -> AnsweredRun:
    stages = [
        StageAnswers(
            stage=stage,
            all=80.0 + stage + budget / 10,
            old=90.0,
            new=None if stage == 1 else 60.0 + order,
            found=found,
            new_classes=4,
            answers={"same yes": stage, "member no": budget - stage} if budget else {},
        )
        for stage in (1, 2)
    ]
    return AnsweredRun(order=order, asked=asked, budget=budget, stages=stages)


def test_figures_of_a_run():
    run = made_run(0, CHOSEN, 10, found=5)
    assert mean_of("all")(run) == 82.5
    assert mean_of("new")(run) == 60
    assert last_all(run) == 83
    assert number_error(run) == 1
    assert classes_found(run) == 125


def test_tables_and_panels_are_over_the_orders():
    plans = ((NOBODY_ASKED, 0), (CHOSEN, 10), (RANDOM, 10))
    results = QuestionResults(CONFIG, {"made": [made_run(order, *plan) for order in (0, 1) for plan in plans]})
    tables = results.tables()
    accuracy, answers = tables["questions"], tables["questions-answers"]
    assert [labels for labels, _ in accuracy.rows] == [
        *(("made", "0", NOBODY_ASKED), ("made", "10", CHOSEN), ("made", "10", RANDOM)),
    ]
    assert [cell.mean for cell in accuracy.rows[1][1]] == [82.5, 90, 60.5, 83, 1, 75, 1, 0, 0]
    assert accuracy.rows[1][1][6].spread == 0  # within each order
    assert accuracy.rows[1][1][2].spread == pytest.approx(0.5**0.5)
    assert [labels[2] for labels, _ in answers.rows] == [CHOSEN, RANDOM]
    assert [cell.mean for cell in answers.rows[0][1]] == [1.5, 0, 0, 0, 0, 8.5]
    panels = results.panels()
    assert [panel.y_label for panel in panels] == ["All, gain (points)", "New, gain (points)", "K off by (classes)"]
    assert {panel.title for panel in panels} == {"made"}
    assert panels[0].x == [0, 10]
    assert [list(series.values) for series in panels[0].series] == [[0, 1]] * 2  # both begin with no answer
    assert [list(series.values) for series in panels[2].series] == [[1, 1]] * 2


# The command


@pytest.fixture
def say(monkeypatch, capsys, tmp_path):
    """Run `happycat paper …` in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(display.results, "width", 200)

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["happycat", "paper", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run


def test_the_command_prints_and_writes_tables_and_figure(say, features, monkeypatch):
    def quick(study, images, split, order, advance):
        return [made_run(order, *plan) for plan in ((NOBODY_ASKED, 0), (CHOSEN, 10), (RANDOM, 10))]

    monkeypatch.setattr(questions, "answered_runs", quick)
    code, out, err = say("questions", features, "--stages", 2, "--orders", 2, "--new-images", 10, "--out", "found")
    assert code == 0, err
    assert "after so many answers a stage" in out
    assert "made, order 1" in err
    written = {path.name for path in Path("found").iterdir()}
    assert written == {
        *("questions.json", "questions.png", "questions.svg"),
        *(f"questions{table}.{end}" for table in ("", "-answers") for end in ("csv", "md", "tex")),
    }
    numbers = json.loads(Path("found/questions.json").read_text("utf-8"))
    assert [run["order"] for run in numbers["sets"]["made"]] == [0, 0, 0, 1, 1, 1]
    with open("found/questions.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["column"] == "All"]
    assert [(row["answers"], row["questions"]) for row in rows] == [
        *(("0", NOBODY_ASKED), ("10", CHOSEN), ("10", RANDOM)),
    ]


def test_mistakes_are_one_line_before_any_work(say, features):
    for words, text in (
        (("questions", "none.npz"), "there is no file none.npz"),
        (("questions", features, "--stages", 5), "leave 4 new classes for 5 stages"),
        (("--out", "x", "questions"), "questions comes first"),
        (("table-9",), "questions"),
    ):
        code, _, err = say(*words)
        assert code == 2
        assert text in err
        assert err.count("\n") == 1


def test_the_help_names_it(say):
    assert "questions" in say("--help")[1]
    code, out, _ = say("questions", "--help")
    assert code == 0
    assert "happycat paper questions [OPTIONS]" in out
    assert "--new-images" in out
