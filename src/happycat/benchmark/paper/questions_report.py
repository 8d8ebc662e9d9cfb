"""The results of `paper questions`: a table, a figure of accuracy and number of classes by answers, and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from happycat.base.disk import write_json
from happycat.base.version import __version__
from happycat.benchmark.paper.check_data import CheckConfig
from happycat.benchmark.paper.questions import BATCH, CHOSEN, KNOWN, NOBODY_ASKED, RANDOM, AnsweredRun
from happycat.benchmark.paper.results import over_seeds
from happycat.report.charts import Panel, Series
from happycat.report.figures import lines
from happycat.report.tables import Cell, ResultTable, Row

Figure = Callable[[AnsweredRun], float | None]
NAME = "questions"
KINDS = ("same", "pair", "member")
GROUPS = ("all", "old", "new")
OFF_BY = "K off by (classes)"


@dataclass(frozen=True)
class QuestionResults:
    """The class orders that are finished, by data set: the runs of all orders one after another."""

    config: CheckConfig
    sets: dict[str, list[AnsweredRun]]

    def write(self, folder: Path) -> list[Path]:
        """Write the numbers, the tables and the figure into the folder, and return their paths."""
        path = Path(folder) / f"{NAME}.json"
        write_json(path, self.numbers())
        tables = [made for name, table in self.tables().items() for made in table.write(folder, name)]
        return [path, *tables, *lines(self.panels(), Path(folder) / NAME, log_x=True)]

    def numbers(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        sets = {name: [asdict(run) for run in runs] for name, runs in self.sets.items()}
        return {"version": __version__, "protocol": asdict(self.config), "sets": sets}

    def tables(self) -> dict[str, ResultTable]:
        """The tables by the name of their file."""
        return {NAME: self._accuracy(), f"{NAME}-answers": self._answers()}

    def _accuracy(self) -> ResultTable:
        figures: tuple[Figure, ...] = (*map(mean_of, GROUPS), last_all, number_error, classes_found)
        rows = [
            (labels, (*cells, *(self._gain(labels[0], labels[2], int(labels[1]), group) for group in GROUPS)))
            for labels, cells in self._rows(figures)
        ]
        return ResultTable(
            title="Accuracy and number of classes after so many answers a stage, averages over the stages (%)",
            labels=("features", "answers", "questions"),
            columns=("All", "Old", "New", "last All", "K off by", "K found", "All +", "Old +", "New +"),
            rows=tuple(rows),
            notes=(
                "Answers of a simulated truthful person to each stage; K, the number of new classes, is estimated "
                f"before she is asked (but in the row {KNOWN!r}). K off by: the mean distance of the number of classes "
                "of a stage from the truth; K found: classes of the stages, % of the truth. All +, Old +, New +: "
                "points more than without an answer in the same class order. Mean ± deviation over the orders.",
                f"Chosen questions are chosen again after {BATCH} answers. A random question is of a kind drawn first: "
                "a new class and another, two images of a new class, or an image and its class.",
            ),
        )

    def _answers(self) -> ResultTable:
        counts: list[Figure] = [_answers_of(f"{kind} {said}") for kind in KINDS for said in ("yes", "no")]
        asked = (CHOSEN, RANDOM)
        return ResultTable(
            title="Answers a stage by kind of question",
            labels=("features", "answers", "questions"),
            columns=tuple(f"{kind} {said}" for kind in KINDS for said in ("yes", "no")),
            rows=tuple(row for row in self._rows(tuple(counts)) if row[0][2] in asked),
            notes=("Same: two classes. Pair: two images of a class. Member: an image and its class.",),
        )

    def _rows(self, figures: tuple[Figure, ...]) -> list[Row]:
        rows: list[Row] = []
        for name, runs in self.sets.items():
            for asked, budget in dict.fromkeys((run.asked, run.budget) for run in runs):
                some = self._some(name, asked, budget)
                cells = tuple(over_seeds([figure(run) for run in some]) for figure in figures)
                rows.append(((name, str(budget), asked), cells))
        return rows

    def panels(self) -> list[Panel]:
        """What is gained in All and New, and the error of the number of classes, against the answers a stage."""
        made = []
        for name, runs in self.sets.items():
            budgets = sorted({run.budget for run in runs})
            for label in ("All, gain (points)", "New, gain (points)", OFF_BY):
                curves = []
                for asked in (CHOSEN, RANDOM):
                    cells = [self._point(name, label, asked if budget else NOBODY_ASKED, budget) for budget in budgets]
                    curves.append(Series(f"{asked} questions", [c.mean for c in cells], [c.spread for c in cells]))
                made.append(Panel(name, budgets, curves, "answers a stage", label))
        return made

    def _point(self, name: str, label: str, asked: str, budget: int) -> Cell:
        """What is drawn in the panel with that label."""
        if label == OFF_BY:
            return over_seeds([number_error(run) for run in self._some(name, asked, budget)])
        return self._gain(name, asked, budget, label.split(",")[0].lower())

    def _some(self, name: str, asked: str, budget: int) -> list[AnsweredRun]:
        """The runs of a data set with so many answers, in the order of the class orders."""
        return [run for run in self.sets[name] if (run.asked, run.budget) == (asked, budget)]

    def _gain(self, name: str, asked: str, budget: int, group: str) -> Cell:
        """By how much a group's accuracy is higher than without an answer in the same class order."""
        without = {run.order: mean_of(group)(run) for run in self._some(name, NOBODY_ASKED, 0)}
        pairs = [(mean_of(group)(run), without[run.order]) for run in self._some(name, asked, budget)]
        return over_seeds([None if a is None or b is None else a - b for a, b in pairs])


def mean_of(group: str) -> Figure:
    """The mean over a run's stages of the accuracy of a group of images."""
    return lambda run: _mean([getattr(stage, group) for stage in run.stages])


def last_all(run: AnsweredRun) -> float | None:
    """The accuracy after the last stage."""
    return run.stages[-1].all


def number_error(run: AnsweredRun) -> float:
    """By how many classes the stages are off, on average."""
    return fmean(abs(stage.found - stage.new_classes) for stage in run.stages)


def classes_found(run: AnsweredRun) -> float:
    """The classes of all stages, per cent of those that there are."""
    return 100 * sum(stage.found for stage in run.stages) / sum(stage.new_classes for stage in run.stages)


def _answers_of(what: str) -> Figure:
    return lambda run: fmean(Counter(stage.answers)[what] for stage in run.stages)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
