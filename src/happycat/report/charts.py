"""Charts as data: what each shows, said once, whether the page draws it (`svg`) or a file does (`figures`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

ALL, OLD, NEW, STRICT = "All", "Old", "New", "All, strict"
ACCURACIES = (("all", ALL), ("old", OLD), ("new", NEW), ("strict_all", STRICT))  # key of a stage's scores, series


class Series(NamedTuple):
    """The values of one method at each x of its panel, None where there is none; `spread` becomes error bars."""

    name: str
    values: Sequence[float | None]
    spread: Sequence[float | None] | None = None
    paper: Sequence[float | None] | None = None


class Panel(NamedTuple):
    """What one pair of axes shows. `band` is an interval of x that is shaded, `best` the x of the point to mark."""

    title: str
    x: Sequence[float | str]
    series: Sequence[Series]
    x_label: str
    y_label: str
    band: tuple[float, float] | None = None
    best: float | None = None

    def extent(self) -> tuple[float, float]:
        """The least and the largest x, the band's ends among them; names count from 0."""
        numbers = [i if isinstance(value, str) else value for i, value in enumerate(self.x)]
        ends = [*numbers, *(self.band or ())] or [0]
        return min(ends), max(ends)


@dataclass(frozen=True, kw_only=True)
class Number:
    """The number of new classes: an estimate, or `given` by a person.

    An estimate does not count classes of fewer than `smallest` images.
    `curve` is the `measure` of each of the `numbers`: "probability", "silhouette", or "score" in an earlier record.
    """

    number: int
    low: int
    high: int
    numbers: tuple[int, ...] = ()
    curve: tuple[float, ...] = ()
    measure: str = "score"
    given: bool = False
    smallest: int | None = None

    @property
    def limit(self) -> str:
        """From which size on classes are counted, in a sentence; empty if that is not known."""
        return "" if self.given else detection_limit(self.smallest)

    @property
    def others(self) -> str:
        """The plausible numbers in words; empty if only the estimate is, or if the number was given."""
        return "" if self.given else plausible(self.low, self.high)

    @classmethod
    def of(cls, count: Mapping[str, Any] | None) -> Number | None:
        """A recorded estimate as it is shown."""
        if count is None:
            return None
        return cls(
            number=count["number"],
            low=count["low"],
            high=count["high"],
            numbers=tuple(count["numbers"]),
            curve=tuple(count["curve"]),
            measure=count.get("measure", "score"),
            smallest=count.get("smallest"),
        )


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run whose images have labels: its scores (per cent) stage by stage, then the last stage's confidences.

    `confidence_old` and `confidence_new` are the shares of equal bins of 0–1, or empty.
    """

    name: str
    scores: tuple[Mapping[str, Any], ...]
    confidence_old: tuple[float, ...] = ()
    confidence_new: tuple[float, ...] = ()


def plausible(low: int, high: int) -> str:
    """The interval of an estimated number of new classes in words; empty if there is only one number in it.

    >>> plausible(2, 5), plausible(0, 1)
    ('between 2 and 5', '0 or 1: perhaps nothing is new')
    """
    if low == high:
        return ""
    words = f"{low} or {high}" if high == low + 1 else f"between {low} and {high}"
    return f"{words}: perhaps nothing is new" if low == 0 else words


def detection_limit(smallest: int | None) -> str:
    """From which size on new classes are counted, in a sentence; empty if that is not known.

    >>> detection_limit(8)
    'A new class of fewer than about 8 images would hardly be noticed, and is not counted.'
    """
    if smallest is None or smallest < 2:
        return ""
    return f"A new class of fewer than about {smallest} images would hardly be noticed, and is not counted."


def number_panel(number: Number, title: str | None = None) -> Panel:
    """The probability or score of each number of new classes; the estimate is marked, its interval shaded."""
    band = None if number.given else (number.low, number.high)
    share = number.measure == "probability"
    unit, name = " (%)" if share else "", number.measure.capitalize()
    line = Series(name, [100 * value for value in number.curve] if share else number.curve)
    title = title or f"{name} of each number{unit}"
    return Panel(title, number.numbers, [line], "number of new classes", number.measure + unit, band, number.number)


def accuracy_panel(scores: Sequence[Mapping[str, Any]], title: str = "Accuracy after each stage (%)") -> Panel:
    """All, Old, New and strict All against the stage, as far as there are such scores."""
    lines = [Series(name, [stage.get(key) for stage in scores]) for key, name in ACCURACIES]
    given = [line for line in lines if any(value is not None for value in line.values)]
    return Panel(title, range(len(scores)), given, "stage", "accuracy (%)")


def forgetting_panel(scores: Sequence[Mapping[str, Any]]) -> Panel:
    """The accuracy on the labelled classes against the stage."""
    line = Series("Labelled classes", [stage.get("base") for stage in scores])
    return Panel("Forgetting: labelled classes (%)", range(len(scores)), [line], "stage", "accuracy (%)")


def confidence_panel(run: Run) -> Panel:
    """The share of the old and of the new classes' images in each bin of confidence."""
    bins = max(len(run.confidence_old), len(run.confidence_new))
    names = [f"{100 * i / bins:.0f}–{100 * (i + 1) / bins:.0f}%" for i in range(bins)]
    groups = ((OLD, run.confidence_old), (NEW, run.confidence_new))
    bars = [Series(name, [100 * share for share in shares]) for name, shares in groups if shares]
    return Panel("Confidence: share of images (%)", names, bars, "confidence, last stage", "share (%)")
