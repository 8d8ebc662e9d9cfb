"""Figures of an experiment, each as PNG and SVG: lines, grouped bars and densities.

A figure is as wide as one text column or as two. A series has the same colour, marker and line in every panel; the
markers, lines and hatches distinguish the series in grey.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from scipy.stats import gaussian_kde

from happycat.base.errors import InputError
from happycat.report import panels as page
from happycat.report.charts import Panel, Series
from happycat.report.pictures import BLACK, BLUE, GREY, VERMILION

# Okabe and Ito's colours without the yellow, which is lost on white.
COLOURS = (BLUE, VERMILION, "#009E73", "#E69F00", GREY, "#CC79A7", "#56B4E9", BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "<", ">", "*")
DASHES = (
    *("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5))),
    *((0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (2, 2))),
)
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "ooo", "---")
PAPER = "paper"
HOLLOW: dict[str, Any] = {"markersize": 5.5, "markerfacecolor": "none", "markeredgewidth": 0.6, "linestyle": ""}
BAR = 0.09  # inches that a bar needs


def lines(panels: Sequence[Panel], stem: Path, log_x: bool = False) -> list[Path]:
    """Write STEM.png and STEM.svg: a line for each series, the paper's numbers as hollow markers around it.

    With `log_x`, as with names for x, the values of x are evenly spaced: a sweep over 0, 0.1 and 1 has its 0.
    """
    names = _names(panels)
    legend: list[tuple[str, Artist]] = [(name, Line2D([], [], **_line(i))) for i, name in enumerate(names)]
    if _with_paper(panels):
        legend.append((PAPER, Line2D([], [], color=GREY, marker="o", **HOLLOW)))
    frames = [
        page.Frame(panel.title, panel.x_label, panel.y_label, partial(_draw_lines, panel, names, log_x))
        for panel in panels
    ]
    width, height = (page.SINGLE, 1.9) if len(panels) == 1 else (page.DOUBLE, 1.65)
    return page.write(frames, legend, stem, across=page.across(len(panels)), width=width, height=height)


def bars(panels: Sequence[Panel], stem: Path) -> list[Path]:
    """Write STEM.png and STEM.svg: at each x a bar for each series, the paper's number as a tick across it."""
    names = _names(panels)
    legend: list[tuple[str, Artist]] = [(name, Patch(**_fill(i))) for i, name in enumerate(names)]
    if _with_paper(panels):
        legend.append((PAPER, Line2D([], [], color=BLACK, linewidth=1)))
    frames = [
        page.Frame(panel.title, panel.x_label, panel.y_label, partial(_draw_bars, panel, names)) for panel in panels
    ]
    needed = 0.6 + BAR * max(len(panel.x) * len(panel.series) for panel in panels)
    width = page.SINGLE if len(panels) == 1 and needed <= page.SINGLE else page.DOUBLE
    across = max(1, min(page.across(len(panels)), int(width / needed)))
    return page.write(frames, legend, stem, across=across, width=width, height=1.65)


def densities(
    panels: Sequence[tuple[str, dict[str, np.ndarray]]], stem: Path, x_labels: Sequence[str], across: int | None = None
) -> list[Path]:
    """Write STEM.png and STEM.svg: for each panel (title, {name: values}) the smooth density of each name's values.

    So many are put `across`, or as many as look well. A density ends where its values end; values that are all the
    same become an upright line.
    """
    if not panels or len(x_labels) != len(panels):
        raise InputError(f"{len(panels)} panels of densities have {len(x_labels)} x labels; give one for each")
    names = list(dict.fromkeys(name for _, groups in panels for name in groups))
    legend = [(name, Line2D([], [], **_line(i) | {"marker": ""})) for i, name in enumerate(names)]
    frames = [
        page.Frame(title, x_label, "density", partial(_draw_densities, groups, names))
        for (title, groups), x_label in zip(panels, x_labels, strict=True)
    ]
    width = page.SINGLE if len(panels) == 1 else page.DOUBLE
    return page.write(frames, legend, stem, across=across or page.across(len(panels)), width=width, height=1.3)


def density(values: Sequence[float] | np.ndarray, points: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Where a density is drawn and its height there: nowhere without values, at one place if all are the same.

    The estimate is a mean of Gaussians around the values, their width by Scott's rule.
    """
    finite = np.asarray(values, float).ravel()
    finite = finite[np.isfinite(finite)]
    if len(finite) == 0:
        return np.empty(0), np.empty(0)
    low, high = finite.min(), finite.max()
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        return finite[:1], np.ones(1)
    x = np.linspace(low, high, points)
    return x, gaussian_kde(finite)(x)


def _draw_lines(panel: Panel, names: list[str], log_x: bool, axes: Axes, width: float) -> None:
    numeric = not any(isinstance(value, str) for value in panel.x)
    x = _numbers(panel.x) if numeric and not log_x else np.arange(len(panel.x), dtype=float)
    for series in panel.series:
        line = _line(names.index(series.name))
        axes.errorbar(x, _numbers(series.values), _error(series), elinewidth=0.7, **line)
        if series.paper is not None:
            axes.plot(x, _numbers(series.paper), zorder=1.9, **(line | HOLLOW))
    axes.margins(x=0.05)
    for i in (i for i, value in enumerate(panel.x) if value == panel.best):
        axes.plot(x[i], _numbers(panel.series[0].values)[i], "o", color=VERMILION, zorder=3)
    if panel.band is not None and numeric and not log_x:
        axes.axvspan(panel.band[0] - 0.5, panel.band[1] + 0.5, color=BLUE, alpha=0.13, linewidth=0)
        whole = np.arange(math.ceil(panel.extent()[0]), math.floor(panel.extent()[1]) + 1)
        page.label_x(axes, whole, [str(value) for value in whole], width, thin=True)
    elif len(x) < 3 or np.allclose(np.diff(x, 2), 0):  # evenly spaced
        page.label_x(axes, x, [_text(value) for value in panel.x], width, thin=numeric)
    if not _with_numbers(panel):
        page.say_no_data(axes)


def _draw_bars(panel: Panel, names: list[str], axes: Axes, width: float) -> None:
    thick = 0.8 / max(1, len(panel.series))
    for i, series in enumerate(panel.series):
        x = np.arange(len(panel.x)) + (i - (len(panel.series) - 1) / 2) * thick
        values = _numbers(series.values)
        axes.bar(x, values, thick * 0.94, **_fill(names.index(series.name)))
        if series.spread is not None:
            axes.errorbar(x, values, _error(series), fmt="none", ecolor=BLACK, elinewidth=0.7, zorder=4)
        if series.paper is not None:
            halo = [withStroke(linewidth=2.2, foreground="white")]
            left, right = x - 0.42 * thick, x + 0.42 * thick
            axes.hlines(_numbers(series.paper), left, right, color=BLACK, linewidth=1, path_effects=halo, zorder=3)
    axes.axhline(0, color=GREY, linewidth=0.6)
    axes.set_xlim(-0.6, max(1, len(panel.x)) - 0.4)
    page.label_x(axes, np.arange(len(panel.x)), [_text(value) for value in panel.x], width, thin=False)
    if not _with_numbers(panel):
        page.say_no_data(axes)


def _draw_densities(groups: dict[str, np.ndarray], names: list[str], axes: Axes, width: float) -> None:
    for name, values in groups.items():
        line = _line(names.index(name)) | {"marker": ""}
        x, height = density(values)
        if len(x) == 1:
            axes.axvline(x[0], **line)
        elif len(x):
            axes.fill_between(x, height, color=line["color"], alpha=0.25, linewidth=0)
            axes.plot(x, height, **line)
    axes.set_ylim(bottom=0)
    axes.set_yticks([])
    if not axes.lines:
        page.say_no_data(axes)


def _names(panels: Sequence[Panel]) -> list[str]:
    """The names of the series in the order of the legend, after checking that every series fits its panel."""
    if not panels:
        raise InputError("a figure needs at least one panel")
    for panel in panels:
        for series in panel.series:
            for numbers in (series.values, series.spread, series.paper):
                if numbers is not None and len(numbers) != len(panel.x):
                    raise InputError(
                        f"{series.name!r} in the panel {panel.title!r} has {len(numbers)} numbers for "
                        f"{len(panel.x)} values of x; give one for each, None where there is none"
                    )
    return list(dict.fromkeys(series.name for panel in panels for series in panel.series))


def _numbers(values: Sequence[float | str | None]) -> np.ndarray:
    """The values as floats, NaN where there is none, or it is a word or not finite."""
    numbers = [math.nan if value is None or isinstance(value, str) else value for value in values]
    return np.array([value if math.isfinite(value) else math.nan for value in numbers], float)


def _error(series: Series) -> np.ndarray | None:
    return None if series.spread is None else np.nan_to_num(_numbers(series.spread))


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _with_paper(panels: Sequence[Panel]) -> bool:
    given = (series.paper for panel in panels for series in panel.series if series.paper is not None)
    return any(np.isfinite(_numbers(paper)).any() for paper in given)


def _with_numbers(panel: Panel) -> bool:
    return any(np.isfinite(_numbers(series.values)).any() for series in panel.series) or _with_paper([panel])


def _line(i: int) -> dict[str, Any]:
    """How the line of series i is drawn."""
    return {
        "color": COLOURS[i % len(COLOURS)],
        "marker": MARKERS[i % len(MARKERS)],
        "linestyle": DASHES[i % len(DASHES)],
        "linewidth": 1.1,
        "markersize": 3,
    }


def _fill(i: int) -> dict[str, Any]:
    """How the bars of series i are filled."""
    fill, hatch = COLOURS[i % len(COLOURS)], HATCHES[i % len(HATCHES)]
    return {"facecolor": fill, "edgecolor": "white", "hatch": hatch, "linewidth": 0}
