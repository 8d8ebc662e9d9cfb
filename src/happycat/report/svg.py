"""Charts of the page as inline SVG, in the page's own colours, light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from happycat.report.charts import NEW, OLD, STRICT, Panel, Series

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 360, 210, 38, 12, 12, 38  # of a chart, in pixels
SIZE = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "floor": HEIGHT - BOTTOM}
STYLES = {OLD: "old", NEW: "new", STRICT: "strict", "Labelled classes": "old"}  # the others: "all"
PER_CENT = (0, 25, 50, 75, 100)
TICKS = 8  # labels of x that fit


class Scale(NamedTuple):
    """A linear map of low…high onto the pixels start…end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.start + share * (self.end - self.start), 1)


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A series: its style, its last value in words, and the line with marks (x, y, title) or bars (…, height)."""

    name: str
    style: str
    last: str = ""
    line: str = ""
    marks: list[tuple[float, float, str]] = field(default_factory=list)
    bars: list[tuple[float, float, float, float, str]] = field(default_factory=list)  # x, y, width, height, title


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What the template draws."""

    title: str
    x_label: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    series: list[Drawn]
    band: tuple[float, float] | None = None  # left end and width
    best: tuple[float, float] | None = None


def line_chart(panel: Panel, per_cent: bool) -> Chart:
    """Lines over numbers; on an axis of 0–100%, or on one without numbers that just holds the values."""
    low, high = panel.extent()
    values = [value for series in panel.series for value in series.values if value is not None]
    x = Scale(low, high, LEFT + 10, WIDTH - RIGHT - 10)
    span = (0.0, 100.0) if per_cent else (min(values, default=0), max(values, default=1))
    y = Scale(*span, HEIGHT - BOTTOM, TOP)
    lines = [_line(series, panel.x, x, y, "%" if per_cent else "") for series in panel.series]
    best = [
        (x(place), y(value))
        for place, value in zip(panel.x, panel.series[0].values, strict=True)
        if value is not None and place == panel.best and not isinstance(place, str)
    ]
    return Chart(
        title=panel.title,
        x_label=panel.x_label,
        x_ticks=[(x(value), str(value)) for value in _ticks(low, high)],
        y_ticks=[(y(value), str(value)) for value in PER_CENT] if per_cent else [],
        series=lines,
        band=_band(panel.band, x) if panel.band else None,
        best=best[0] if best else None,
    )


def bar_chart(panel: Panel) -> Chart:
    """Bars of per cents side by side, for bins that have names; the bins' ends are labelled."""
    values = [value for series in panel.series for value in series.values if value is not None]
    top = math.ceil(max(*values, 10) / 10) * 10
    x, y = Scale(0, len(panel.x), LEFT + 4, WIDTH - RIGHT - 10), Scale(0, top, HEIGHT - BOTTOM, TOP)
    width = 0.8 / len(panel.series)
    drawn = []
    for n, series in enumerate(panel.series):
        bars = []
        for i, (name, value) in enumerate(zip(panel.x, series.values, strict=True)):
            height, thick = round(y(0) - y(value or 0), 1), round(x(width) - x(0), 1)
            title = f"{series.name}, {name}: {value or 0:.0f}% of the images"
            bars.append((x(i + 0.1 + width * n), y(value or 0), thick, height, title))
        drawn.append(Drawn(name=series.name, style=STYLES.get(series.name, "all"), bars=bars))
    return Chart(
        title=panel.title,
        x_label=panel.x_label,
        x_ticks=[(x(share * len(panel.x)), f"{share:.0%}") for share in (0, 0.5, 1)],
        y_ticks=[(y(value), str(value)) for value in range(0, top + 1, 10 if top <= 50 else 20)],
        series=drawn,
    )


def _line(series: Series, places: Sequence[float | str], x: Scale, y: Scale, unit: str) -> Drawn:
    """One curve; it is broken where there is no value."""
    steps, marks, pen, last = [], [], "M", "–"
    for i, (place, value) in enumerate(zip(places, series.values, strict=True)):
        if value is None:
            pen = "M"
            continue
        left = x(i if isinstance(place, str) else place)
        steps.append(f"{pen}{left} {y(value)}")
        marks.append((left, y(value), f"{series.name} at {place}: {value:.1f}{unit}"))
        pen, last = "L", f"{value:.1f}{unit}"
    return Drawn(name=series.name, style=STYLES.get(series.name, "all"), last=last, line=" ".join(steps), marks=marks)


def _band(band: tuple[float, float], x: Scale) -> tuple[float, float]:
    """The shaded interval, half a step wider on both sides, within the axes."""
    half = (x(1) - x(0)) / 2 if x.high > x.low else 10.0
    left, right = max(x(band[0]) - half, LEFT), min(x(band[1]) + half, WIDTH - RIGHT)
    return round(left, 1), round(right - left, 1)


def _ticks(low: float, high: float) -> list[int]:
    """Whole numbers from the least to the largest x, so many that their labels fit."""
    first, last = math.ceil(low), math.floor(high)
    return list(range(first, last + 1, math.ceil((last - first + 1) / TICKS) or 1))
