"""Figure layout: panels, their places and labels, the legend above them, and the files.

Sizes are inches. Every page is an explicit `Figure`; the same drawing gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure

from happycat.base.disk import replacing
from happycat.report.pictures import GREY, PALE, PIXELS_PER_INCH

SINGLE, DOUBLE = 3.3, 6.8  # widths of one and of two text columns
POINTS, CHARACTER = 7, 0.058  # size of the text; inches that a character of it needs
STYLE: dict[Any, Any] = {
    "font.size": POINTS,
    "axes.titlesize": POINTS + 1,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "grid.color": PALE,
    "grid.linewidth": 0.5,
    "xtick.major.size": 2,
    "ytick.major.size": 0,
    "xtick.major.width": 0.6,
    "hatch.linewidth": 0.5,
    "figure.constrained_layout.h_pad": 0.035,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "happycat",  # the same drawing gets the same identifiers
}


class Frame(NamedTuple):
    """A panel to be: `draw` fills its axes, which are about so many inches wide."""

    title: str
    x_label: str
    y_label: str
    draw: Callable[[Axes, float], None]


def write(
    frames: Sequence[Frame],
    legend: Sequence[tuple[str, Artist]],
    stem: Path,
    *,
    across: int,
    width: float,
    height: float,
) -> list[Path]:
    """Draw the panels below a legend, so many `across` and each `height` high; write STEM.png and STEM.svg."""
    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        renderer = FigureCanvasAgg(figure).get_renderer()
        rows = math.ceil(len(frames) / across)
        for n, frame in enumerate(frames):
            axes = figure.add_subplot(rows, across, n + 1, title=frame.title)
            axes.grid(axis="y")
            frame.draw(axes, width / across - 0.5)
            if n % across == 0 or frame.y_label != frames[n - 1].y_label:
                axes.set_ylabel(frame.y_label)
            if n + across >= len(frames) or frame.x_label != frames[n + across].x_label:
                axes.set_xlabel(frame.x_label)
        labels = [label for axes in figure.axes for label in axes.get_xticklabels()]
        height += max((label.get_window_extent(renderer).height / figure.dpi for label in labels), default=0)
        figure.set_figheight(rows * height + _add_legend(figure, legend, renderer))
        return _save(figure, Path(stem))


def across(panels: int) -> int:
    """How many of the panels are side by side."""
    return {1: 1, 2: 2, 4: 2}.get(panels, 3 if panels <= 9 else 4)


def label_x(axes: Axes, x: Sequence[float] | np.ndarray, labels: Sequence[str], width: float, thin: bool) -> None:
    """Label the places on an axis of this width; if the labels do not fit, leave some out (`thin`) or turn them."""
    crowding = CHARACTER * (max(map(len, labels), default=0) + 1) * len(labels) / width
    if crowding <= 1 or thin:
        step = max(1, math.ceil(crowding))
        axes.set_xticks(x[::step], labels[::step])
    else:
        axes.set_xticks(x, labels, rotation=40, ha="right", rotation_mode="anchor")


def say_no_data(axes: Axes) -> None:
    """Say so where there is nothing to draw."""
    axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color=GREY)
    axes.set_yticks([])


def _add_legend(figure: Figure, entries: Sequence[tuple[str, Artist]], renderer: RendererAgg) -> float:
    """Put the legend above all axes, in as few rows as fit the width; return its height."""
    for rows in range(1, len(entries) + 1):
        legend = figure.legend(
            [handle for _, handle in entries],
            [name for name, _ in entries],
            loc="outside upper center",
            ncols=math.ceil(len(entries) / rows),
            frameon=False,
            handlelength=2.6,
            columnspacing=1.2,
            borderaxespad=0,
        )
        box = legend.get_window_extent(renderer)
        if box.width <= figure.bbox.width or rows == len(entries):
            return box.height / figure.dpi
        legend.remove()
    return 0.0


def _save(figure: Figure, stem: Path) -> list[Path]:
    """Write the figure without a date or a version in it; laid out once, so that both files show the same."""
    paths = []
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        paths.append(stem.with_name(f"{stem.name}.{suffix}"))
        with replacing(paths[-1]) as part:
            figure.savefig(part, format=suffix, dpi=PIXELS_PER_INCH, facecolor="white", metadata=metadata)
        figure.set_layout_engine("none")
    return paths
