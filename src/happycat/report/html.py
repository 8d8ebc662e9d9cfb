"""The page that shows what was discovered: one HTML file that fetches nothing.

Names and paths are a person's: the template escapes them, and the scripts get them as JSON and set them as text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from happycat.base.disk import replacing
from happycat.base.errors import InputError

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 210, 38, 12, 12, 38  # of a chart, in pixels
PER_CENT = tuple((value, str(value)) for value in (0, 25, 50, 75, 100))


@dataclass(frozen=True, kw_only=True)
class Dot:
    """One image of the inbox and its place on the map; `cls` is None if no class fits, `thumbnail` a data: URI."""

    path: str
    cls: int | None
    probability: float
    unsure: bool
    x: float
    y: float
    thumbnail: str | None = None

    def __post_init__(self):
        if not all(map(math.isfinite, (self.probability, self.x, self.y))):
            raise InputError(f"{self.path}: probability and place must be finite numbers")
        if self.thumbnail is not None and not self.thumbnail.startswith("data:image/"):
            raise InputError(f"{self.path}: a thumbnail must be a data:image/ URI, got {self.thumbnail[:40]!r}")


@dataclass(frozen=True, kw_only=True)
class Card:
    """One class: `images` of this inbox, learned from `total` in all; `typical` and `doubtful` are places in dots."""

    id: int
    label: str
    name: str | None
    kind: Literal["labelled", "found", "new", "dropped"]
    stage: int
    images: int
    total: int
    confidence: float | None = None
    coherence: float | None = None
    nearest: tuple[tuple[int, str, float], ...] = ()  # id, label, similarity
    typical: tuple[int, ...] = ()
    doubtful: tuple[int, ...] = ()

    @property
    def shown(self) -> str:
        return self.name or self.label


@dataclass(frozen=True, kw_only=True)
class Number:
    """The estimate of the number of new classes: the highest point of `curve` over `numbers`, or what was told."""

    number: int
    low: int
    high: int
    numbers: tuple[int, ...] = ()
    curve: tuple[float, ...] = ()
    told: bool = False

    @classmethod
    def of(cls, count: dict | None) -> Number | None:
        """A recorded estimate as the page shows it."""
        if count is None:
            return None
        lists = {name: tuple(count[name]) for name in ("numbers", "curve")}
        return cls(number=count["number"], low=count["low"], high=count["high"], **lists)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A run whose images have labels: accuracies in per cent after each stage, then the last stage's confidences.

    `forgetting` is the accuracy on the labelled classes; `confidence_old` and `confidence_new` are the shares of ten
    equal bins of 0–1, or empty.
    """

    name: str
    stages: tuple[int, ...]
    all: tuple[float | None, ...]
    old: tuple[float | None, ...]
    new: tuple[float | None, ...]
    forgetting: tuple[float | None, ...]
    confidence_old: tuple[float, ...] = ()
    confidence_new: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that the page shows; what is empty is left out."""

    title: str
    sentence: str
    made: str
    version: str
    model: str = ""
    cards: tuple[Card, ...] = ()
    dots: tuple[Dot, ...] = ()
    number: Number | None = None
    skipped: tuple[tuple[str, str], ...] = ()  # path, reason
    duplicates: int = 0
    history: tuple[tuple[int, str, str], ...] = ()  # version, when, what
    curves: tuple[Curve, ...] = ()

    def __post_init__(self):
        if missing := {dot.cls for dot in self.dots} - {card.id for card in self.cards} - {None}:
            raise InputError(f"images were put into classes that have no card: {sorted(missing)}")
        for card in self.cards:
            if not all(0 <= i < len(self.dots) for i in (*card.typical, *card.doubtful)):
                raise InputError(f"class {card.id} shows an image that is not among the {len(self.dots)} dots")


def write_page(page: Page, path: Path) -> None:
    """Write the page as one file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(render(page).encode("utf-8", "replace"))  # a file name may hold lone surrogates


def render(page: Page) -> str:
    """The page as HTML."""
    blocks = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    environment = Environment(loader=FunctionLoader(_read), autoescape=True, undefined=StrictUndefined, **blocks)
    environment.filters.update(thousands="{:,}".format, counted=_counted, percent=_percent, decimal=_decimal)
    known = [card for card in page.cards if card.kind in ("labelled", "found")]
    new = [card for card in page.cards if card.kind == "new"]
    return environment.get_template("page.html").render(
        page=page,
        new=new,
        known=[card for card in known if card.images],
        idle=[card for card in known if not card.images],
        dropped=[card for card in page.cards if card.kind == "dropped"],
        pictured=any(dot.thumbnail for dot in page.dots),
        unsure=sum(dot.unsure or dot.cls is None for dot in page.dots),
        groups=_groups(page, known, new),
        number_chart=page.number and page.number.curve and _number_chart(page.number),
        runs=[(curve.name, _run_charts(curve)) for curve in page.curves],
        data=_data(page, [*new, *sorted(known, key=lambda card: -card.images)]),
        size={"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "floor": HEIGHT - BOTTOM},
        style=Markup(_read("map.css") + _read("page.css")),
        script=Markup(_read("marks.js") + _read("map.js") + _read("page.js")),
    )


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}%"


def _decimal(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _groups(page: Page, known: Sequence[Card], new: Sequence[Card]) -> list[tuple[str, int, str]]:
    """Where the images went: (kind, how many, in words)."""
    kinds = {card.id: card.kind for card in page.cards}
    got = [kinds.get(dot.cls, "none") for dot in page.dots]
    counts = {"new": got.count("new"), "known": got.count("labelled") + got.count("found"), "none": got.count("none")}
    named = {"new": _classes(new, "new"), "known": _classes(known, "known"), "none": "fit no class"}
    return [(kind, count, named[kind]) for kind, count in counts.items() if count or kind != "none"]


def _classes(cards: Sequence[Card], kind: str) -> str:
    used = sum(card.images > 0 for card in cards)
    return f"in {used} {kind} class{'' if used == 1 else 'es'}"


def _data(page: Page, cards: Sequence[Card]) -> dict:
    """What the scripts need: the dots column by column, the classes in the order of the legend."""
    dots = page.dots
    others = [card for card in page.cards if card.kind == "dropped"]
    return {
        "model": page.model,
        "classes": [
            {"id": card.id, "name": card.shown, "kind": "new" if card.kind == "new" else "known"}
            for card in [*cards, *others]
        ],
        "path": [dot.path for dot in dots],
        "cls": [dot.cls for dot in dots],
        "probability": [round(dot.probability, 4) for dot in dots],
        "unsure": [int(dot.unsure) for dot in dots],
        "x": [round(dot.x, 4) for dot in dots],
        "y": [round(dot.y, 4) for dot in dots],
        "thumbnail": [dot.thumbnail for dot in dots],
    }


class Scale(NamedTuple):
    """A linear map of low…high onto the pixels start…end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def _axes(x_low: float, x_high: float, y_low: float, y_high: float) -> tuple[Scale, Scale]:
    return Scale(x_low, x_high, LEFT + 10, WIDTH - RIGHT - 10), Scale(y_low, y_high, HEIGHT - BOTTOM, TOP)


def _chart(title: str, x_label: str, x: Scale, y: Scale, x_ticks, y_ticks, series, **more) -> dict:
    """What the template draws; a series has a name, a style, a last value and lines, marks or bars."""
    return {
        "title": title,
        "x_label": x_label,
        "x_ticks": [(x(value), text) for value, text in x_ticks],
        "y_ticks": [(y(value), text) for value, text in y_ticks],
        "series": series,
        "band": None,
        "best": None,
        **more,
    }


def _line(name: str, style: str, xs: Sequence[int], values: Sequence[float | None], x: Scale, y: Scale, unit: str = ""):
    """One curve; it is broken where there is no value."""
    steps, pen = [], "M"
    for place, value in zip(xs, values, strict=True):
        steps += [] if value is None else [f"{pen}{x(place)} {y(value)}"]
        pen = "M" if value is None else "L"
    given = [(place, value) for place, value in zip(xs, values, strict=True) if value is not None]
    return {
        "name": name,
        "style": style,
        "last": f"{given[-1][1]:.1f}{unit}" if given else "–",
        "line": " ".join(steps),
        "marks": [(x(place), y(value), f"{name} {place}: {value:.1f}{unit}") for place, value in given],
        "bars": [],
    }


def _thinned(values: Sequence[int], most: int = 8) -> list[tuple[int, str]]:
    return [(value, str(value)) for value in values[:: math.ceil(len(values) / most) or 1]]


def _number_chart(number: Number) -> dict:
    xs, values = number.numbers, number.curve
    x, y = _axes(min(xs), max(xs), min(values), max(values))
    half = (x(1) - x(0)) / 2 if len(xs) > 1 else 10
    low, high = x(max(number.low, min(xs))) - half, x(min(number.high, max(xs))) + half
    low, high = max(low, LEFT), min(high, WIDTH - RIGHT)
    line = _line("Worth of", "all", xs, values, x, y)
    best = next((mark for mark, n in zip(line["marks"], xs, strict=True) if n == number.number), None)
    more = {"band": (low, round(high - low, 1)), "best": best}
    return _chart("Worth of each number", "number of new classes", x, y, _thinned(xs), [], [line], **more)


def _run_charts(curve: Curve) -> list[dict]:
    """Accuracy, what is left of the labelled classes, and how sure the model is."""
    stages = curve.stages
    x, y = _axes(min(stages, default=0), max(stages, default=1), 0, 100)
    ticks = _thinned(stages)
    accuracies = [("All", "all", curve.all), ("Old", "old", curve.old), ("New", "new", curve.new)]
    lines = [_line(name, style, stages, values, x, y, "%") for name, style, values in accuracies]
    kept = [_line("Labelled classes", "old", stages, curve.forgetting, x, y, "%")]
    charts = [
        _chart("Accuracy after each stage (%)", "stage", x, y, ticks, PER_CENT, lines),
        _chart("Forgetting: labelled classes (%)", "stage", x, y, ticks, PER_CENT, kept),
    ]
    return [*charts, _confidence_chart(curve)] if curve.confidence_old or curve.confidence_new else charts


def _confidence_chart(curve: Curve) -> dict:
    """Two bars for each bin: the share of the old classes' images with such a confidence, and of the new ones'."""
    groups = [("Old", "old", curve.confidence_old), ("New", "new", curve.confidence_new)]
    top = math.ceil(10 * max(*curve.confidence_old, *curve.confidence_new, 0.1)) * 10
    x, y = Scale(0, 1, LEFT + 4, WIDTH - RIGHT - 4), Scale(0, top, HEIGHT - BOTTOM, TOP)
    series = []
    for n, (name, style, shares) in enumerate(groups):
        bars = []
        for i, share in enumerate(shares):
            title = f"{name}, confidence {10 * i}–{10 * i + 10}%: {100 * share:.0f}% of the images"
            bars.append((x(0.1 * i + 0.01 + 0.04 * n), y(100 * share), round(y(0) - y(100 * share), 1), title))
        series.append({"name": name, "style": style, "last": "", "line": "", "marks": [], "bars": bars})
    y_ticks = [(value, str(value)) for value in range(0, top + 1, 10 if top <= 50 else 20)]
    x_ticks = [(0, "0"), (0.5, "50"), (1, "100")]
    return _chart("Confidence: share of images (%)", "confidence (%), last stage", x, y, x_ticks, y_ticks, series)
