"""Static figures of a run: accuracy against the stage, and the discovered classes.

Sizes are inches. Every picture is an explicit `Figure`: pyplot and its global state are not used.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from PIL import Image

from happycat.base.errors import StorageError
from happycat.report.charts import ALL, NEW, OLD, STRICT, Panel, accuracy_panel
from happycat.report.classes import ClassSummary

# Okabe and Ito's colours, which colour-blind eyes can distinguish; the markers distinguish the curves in grey.
BLACK, BLUE, VERMILION, GREY, PALE = "#000000", "#0072B2", "#D55E00", "#666666", "#DDDDDD"
LINES: dict[str, dict[str, Any]] = {
    OLD: {"color": BLUE, "marker": "s", "linewidth": 1.4, "markersize": 4},
    NEW: {"color": VERMILION, "marker": "^", "linewidth": 1.4, "markersize": 5},
    STRICT: {"color": GREY, "linestyle": "--", "linewidth": 0.9},
    ALL: {"color": BLACK, "marker": "o", "linewidth": 2.0, "markersize": 4.5},
}
PIXELS_PER_INCH = 200
LEFT, BOTTOM, TOP, EDGE = 0.55, 0.36, 0.7, 0.15  # what the curves need around their axes; any other margin
LABEL, THUMBNAIL, ROW = 1.75, 0.44, 0.52  # of the gallery
TILE = 96  # pixels of a thumbnail: a multiple of 8 and 32, the sides of digits and CIFAR


Picture = np.ndarray | Image.Image  # (H, W, 3) or (H, W) uint8


class Row(NamedTuple):
    """One row of the gallery: a class and some of its images."""

    found: ClassSummary
    pictures: Sequence[Picture]


def curves(stage_scores: Sequence[Mapping[str, Any]], path: str | Path, title: str) -> None:
    """Write a PNG of All, Old, New and strict All (per cent) against the stage.

    `stage_scores` are `scores.score_stage` dicts, stage 0 first; a missing key or None leaves a gap.
    """
    width, height = 4.2, 2.6
    figure = Figure(figsize=(LEFT + width + EDGE, BOTTOM + height + TOP))
    _draw_curves(_axes(figure, LEFT, BOTTOM, width, height), accuracy_panel(stage_scores, title))
    _save(figure, path)


def discovered(classes: Sequence[Row], path: str | Path, most: int = 24) -> None:
    """Write a PNG gallery: one row for each of the first `most` classes, with up to ten of their images."""
    thumbnails = 10
    width, height = _gallery_size(len(classes), most, thumbnails)
    figure = Figure(figsize=(width + 2 * EDGE, height + 2 * EDGE))
    _draw_gallery(_axes(figure, EDGE, EDGE, width, height), classes, most, thumbnails)
    _save(figure, path)


def summary(stage_scores: Sequence[Mapping[str, Any]], classes: Sequence[Row], path: str | Path, most: int = 8) -> None:
    """Write a PNG with the curves on the left and the gallery on the right, to fit a text column."""
    thumbnails, curves_width, least_height, between, heading = 6, 3.2, 2.0, 0.35, 0.45
    width, height = _gallery_size(len(classes), most, thumbnails)
    total_height = max(BOTTOM + least_height + TOP, EDGE + height + heading)
    figure = Figure(figsize=(LEFT + curves_width + between + width + EDGE, total_height))
    axes = _axes(figure, LEFT, BOTTOM, curves_width, total_height - BOTTOM - TOP)
    _draw_curves(axes, accuracy_panel(stage_scores, "Accuracy after each stage"))
    axes = _axes(figure, LEFT + curves_width + between, total_height - heading - height, width, height)
    _draw_gallery(axes, classes, most, thumbnails, "What was discovered")
    _save(figure, path)


def _draw_curves(axes: Axes, panel: Panel) -> None:
    stages = np.arange(len(panel.x))
    values = {name: np.full(len(stages), math.nan) for name in LINES}
    for series in panel.series:
        values[series.name] = np.array([math.nan if value is None else value for value in series.values])
    for name, line in LINES.items():
        if np.isfinite(values[name]).any():
            axes.plot(stages, values[name], label=name, clip_on=False, zorder=3, **line)
    figure = axes.get_figure()
    assert isinstance(figure, Figure)  # not a part of one
    width = axes.get_position().width * figure.get_figwidth()
    step = max(1, math.ceil(len(stages) * 0.36 / width))  # a value is 0.36 inches wide
    for stage in stages[::-1][::step]:  # the last one always
        _annotate(axes, stage, values[ALL][stage], [values[name][stage] for name in (OLD, NEW)])

    ticks = stages[::step]
    axes.set_xticks(ticks, [f"Stage {t}" if t == 0 or len(stages) <= 4 else str(t) for t in ticks])
    axes.set_ylabel("Accuracy (%)", fontsize=9)
    axes.set_xlim(-0.3, max(len(stages) - 1, 0) + 0.3)
    axes.set_ylim(0, 100)
    axes.tick_params(labelsize=8.5, length=0)
    axes.tick_params(axis="x", pad=6)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    if axes.lines:
        handles, names = axes.get_legend_handles_labels()
        axes.legend(
            handles[-1:] + handles[:-1],  # All first, though it is drawn last, on top
            names[-1:] + names[:-1],
            loc="lower left",
            bbox_to_anchor=(0, 1.04),
            ncols=len(LINES),
            frameon=False,
            fontsize=8.5,
            handlelength=1.8,
            columnspacing=1.4,
            borderpad=0,
            borderaxespad=0,
        )
    _title(axes, panel.title, 26)


def _annotate(axes: Axes, stage: int, value: float, others: Sequence[float]) -> None:
    """Write the value on the side of its point that has more room before another curve or the frame."""
    if not math.isfinite(value):
        return
    above = min([other - value for other in others if other > value], default=100 - value)
    below = min([value - other for other in others if other < value], default=value)
    up = above > below
    axes.annotate(
        f"{value:.1f}",
        (stage, value),
        xytext=(0, 6 if up else -6),
        textcoords="offset points",
        ha="center",
        va="bottom" if up else "top",
        fontsize=8,
        fontweight="bold",
        path_effects=[withStroke(linewidth=2, foreground="white")],
        zorder=4,
    )


def _gallery_size(num_classes: int, most: int, thumbnails: int) -> tuple[float, float]:
    """Width and height: a row for each class shown, and a low one for a note below or instead of them."""
    note = num_classes > most or num_classes == 0
    return LABEL + thumbnails * ROW, ROW * (min(num_classes, most) + 0.6 * note)


def _draw_gallery(axes: Axes, classes: Sequence[Row], most: int, thumbnails: int, title: str = "") -> None:
    """Draw the rows from the top down; the axes' data coordinates are inches."""
    width, height = _gallery_size(len(classes), most, thumbnails)
    axes.set_axis_off()
    for n, (found, pictures) in enumerate(classes[:most]):
        middle = height - ROW * (n + 0.5)
        _draw_label(axes, found, middle)
        for i, picture in enumerate(pictures[:thumbnails]):
            left, low = LABEL + i * ROW, middle - THUMBNAIL / 2
            axes.imshow(_thumbnail(picture), extent=(left, left + THUMBNAIL, low, low + THUMBNAIL))
    note: dict[str, Any] = {"x": 0, "y": ROW * 0.3, "va": "center", "fontsize": 8.5, "color": GREY}
    if not classes:
        axes.text(s="No new class was discovered.", **note)
    elif len(classes) > most:
        axes.text(s=f"+{len(classes) - most} more", **note)
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.set_aspect("auto")
    _title(axes, title, 8)


def _draw_label(axes: Axes, found: ClassSummary, middle: float) -> None:
    lines = [f"stage {found.stage} · {found.images:,} image{'' if found.images == 1 else 's'}"]
    if found.match is not None:
        name, share = found.match
        lines.append(f"mostly “{_shortened(name, 16)}”" + ("" if share is None else f" ({share:.0f}%)"))
    name = _shortened(found.label, 22)
    axes.text(0, middle + 0.075 * len(lines), name, va="center", fontsize=8.5, fontweight="bold", parse_math=False)
    for i, line in enumerate(lines):
        y = middle + 0.075 * len(lines) - 0.145 * (i + 1)
        axes.text(0, y, line, va="center", fontsize=7.2, color=GREY, parse_math=False)


def _thumbnail(picture: Picture) -> np.ndarray:
    """The square at the picture's centre, the part that the model sees, as (TILE, TILE, 3) uint8.

    A small picture is first enlarged by a whole factor with nearest neighbours, so its pixels stay square.
    """
    image = (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.crop((left, top, left + side, top + side))
    whole = side * math.ceil(TILE / side)
    image = image.resize((whole, whole), Image.Resampling.NEAREST)
    return np.asarray(image.resize((TILE, TILE), Image.Resampling.BOX))


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _title(axes: Axes, title: str, pad: float) -> None:
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", pad=pad, parse_math=False)


def _axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place that is given in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def _save(figure: Figure, path: str | Path) -> None:
    """Write the figure as a PNG: a reader sees the old file or the new one, never half of it."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    FigureCanvasAgg(figure)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(part, format="png", dpi=PIXELS_PER_INCH, facecolor="white")
        part.replace(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({error}); free some space or choose another place") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
