"""The results of the check as JSON and as tables: accuracy and bounds, the number of new classes, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from happycat.base.disk import write_json
from happycat.base.version import __version__
from happycat.benchmark.paper.check import OrderCheck, Scores, StageCheck
from happycat.benchmark.paper.check_data import CheckConfig
from happycat.benchmark.paper.results import over_seeds
from happycat.report.tables import Cell, ResultTable, Row

GROUPS = ("all", "old", "new")
MEAN = "mean"  # the row of all orders


@dataclass(frozen=True)
class CheckResults:
    """The class orders that are finished, by data set."""

    config: CheckConfig
    sets: dict[str, list[OrderCheck]]

    def write(self, folder: Path) -> list[Path]:
        """Write check.json and the tables into the folder, and return their paths."""
        path = Path(folder) / "check.json"
        write_json(path, self.numbers())
        return [path, *(made for name, table in self.tables().items() for made in table.write(folder, name))]

    def numbers(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        sets = {
            name: [{**_plain(asdict(one)), "summary": summary(one)} for one in orders]
            for name, orders in self.sets.items()
        }
        return {"version": __version__, "protocol": asdict(self.config), "sets": sets}

    def tables(self) -> dict[str, ResultTable]:
        """The tables by the name of their file."""
        return {"check": self._accuracy(), "check-number": self._number(), "check-stages": self._stages()}

    def _accuracy(self) -> ResultTable:
        rows: list[Row] = []
        for name, label, orders in self._groups():
            for number in ("known", "estimated"):
                figures = [summary(one) for one in orders]
                of_bound = ("mean_bound", "lda_bound", "bound")
                keys = [
                    *(f"{number}_{group}" for group in (*GROUPS, "last")),
                    *("mean_bound_all", "lda_bound_all"),
                    *(f"{number}_share_of_{bound}" for bound in of_bound),
                ]
                rows.append(((name, label, number), tuple(over_seeds([f[key] for f in figures]) for key in keys)))
        return ResultTable(
            title="Accuracy, averages over the stages, and its share of the supervised bounds (%)",
            labels=("features", "order", "K"),
            columns=("All", "Old", "New", "last All", "mean bound", "LDA bound", "of mean", "of LDA", "of larger"),
            rows=tuple(rows),
            notes=(
                "K, the number of new classes, is given (known) or estimated. Bounds: all images labelled or served so "
                "far with their true labels; the nearest class mean in Calm's space, and linear discriminant analysis "
                "of the features.",
            ),
        )

    def _number(self) -> ResultTable:
        keys = {
            "K error": "relative_error",
            "K inside": "coverage",
            "noticed inside": "noticed_coverage",
            "nothing new": "nothing_new_right",
            "ROC": "roc_cosine",
            "ECE": "known_ece",
            "fit s": "fit_seconds",
            "discover s": "known_discover_seconds",
            "estimate s": "estimated_discover_seconds",
            "predict s": "predict_seconds",
        }
        rows: list[Row] = [
            ((name, label), tuple(over_seeds([summary(one)[key] for one in orders]) for key in keys.values()))
            for name, label, orders in self._groups()
        ]
        stages = [stage for orders in self.sets.values() for one in orders for stage in one.stages]
        inside, noticed, quiet = (sum(map(what, stages)) for what in (_inside, _noticed_inside, _nothing_found))
        return ResultTable(
            title="The estimated number of new classes K, new images told from known ones, calibration (%); seconds",
            labels=("features", "order"),
            columns=tuple(keys),
            rows=tuple(rows),
            notes=(
                f"The interval holds the true number in {inside} of {len(stages)} stages, that of the classes large "
                f"enough to be noticed in {noticed} of {len(stages)}; with nothing new, the "
                f"estimate is 0 in {quiet} of {len(stages)}.",
                "ROC area of the cosine with the nearest class, less its threshold, before the stage. Seconds: fit; "
                "discover a stage with K given, and with K estimated; predict the test images of all classes.",
            ),
        )

    def _stages(self) -> ResultTable:
        rows: list[Row] = []
        for name, orders in self.sets.items():
            for one in orders:
                for stage in one.stages:
                    count, quiet = stage.count, stage.nothing_new
                    true = (stage.new_classes, count.smallest, stage.large_enough)
                    numbers = (*true, count.number, count.low, count.high, quiet.number, quiet.high)
                    rows.append(((name, str(one.order), str(stage.stage)), tuple(Cell(n) for n in numbers)))
        return ResultTable(
            title="The number of new classes, stage by stage: estimate and interval; the same with nothing new",
            labels=("features", "order", "stage"),
            columns=("true", "noticed from", "so large", "estimate", "low", "high", "nothing new", "at most"),
            rows=tuple(rows),
            digits=0,
            notes=("A class of fewer images than `noticed from` is hardly ever found; `so large` are the others.",),
        )

    def _groups(self) -> Iterator[tuple[str, str, list[OrderCheck]]]:
        """Each finished order of each set by itself, and several of them together."""
        for name, orders in self.sets.items():
            yield from ((name, str(one.order), [one]) for one in orders)
            if len(orders) > 1:
                yield name, MEAN, orders


def summary(one: OrderCheck) -> dict[str, float | None]:
    """A class order's figures: means over the stages, last All, shares of the bounds (%)."""
    stages = one.stages
    made: dict[str, float | None] = {}
    for bound in ("mean_bound", "lda_bound"):
        for group in GROUPS:
            made[f"{bound}_{group}"] = _mean([getattr(getattr(stage, bound), group) for stage in stages])
    bounds = {"mean_bound": made["mean_bound_all"] or 0.0, "lda_bound": made["lda_bound_all"] or 0.0}
    bounds["bound"] = max(bounds.values())
    for number in ("known", "estimated"):
        scores: list[Scores] = [getattr(stage, number) for stage in stages]
        for figure in (*GROUPS, "ece", "discover_seconds"):
            made[f"{number}_{figure}"] = _mean([getattr(some, figure) for some in scores])
        made[f"{number}_last"] = scores[-1].all
        every = made[f"{number}_all"]
        for bound, most in bounds.items():
            made[f"{number}_share_of_{bound}"] = 100 * every / most if every is not None and most else None
    return {
        **made,
        "relative_error": _mean([100 * abs(s.count.number - s.new_classes) / s.new_classes for s in stages]),
        "coverage": _mean([100.0 * _inside(stage) for stage in stages]),
        "noticed_coverage": _mean([100.0 * _noticed_inside(stage) for stage in stages]),
        "nothing_new_right": _mean([100.0 * _nothing_found(stage) for stage in stages]),
        "roc_cosine": _mean([stage.roc_cosine for stage in stages]),
        "roc_probability": _mean([stage.roc_probability for stage in stages]),
        "fit_seconds": one.fit_seconds,
        "predict_seconds": stages[-1].known.predict_seconds,
    }


def _inside(stage: StageCheck) -> bool:
    """Whether the interval holds the true number."""
    return stage.count.low <= stage.new_classes <= stage.count.high


def _noticed_inside(stage: StageCheck) -> bool:
    """Whether the interval holds the number of new classes that are large enough to be noticed."""
    return stage.count.low <= stage.large_enough <= stage.count.high


def _nothing_found(stage: StageCheck) -> bool:
    """Whether nothing was found where nothing is new."""
    return stage.nothing_new.number == 0


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _plain(value: Any) -> Any:
    """Named tuples as dicts, so that JSON keeps their names."""
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value
