"""The page that shows what was discovered: one HTML file that fetches nothing from a network.

Names and paths are a person's: the template escapes them, and the scripts get them as JSON and set them as text.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from happycat.base.disk import replacing
from happycat.base.errors import InputError
from happycat.report.charts import Number, Run, accuracy_panel, confidence_panel, forgetting_panel, number_panel
from happycat.report.classes import CONFIDENCE, SEPARATION, ClassSummary
from happycat.report.svg import SIZE, Chart, bar_chart, line_chart
from happycat.report.words import words_of

STYLES = ("map.css", "page.css", "meaning.css", "dialogs.css")
SCRIPTS = (
    *("dom.js", "meaning.js", "marks.js", "album.js", "gallery.js", "large.js", "all.js", "labels.js", "pointer.js"),
    *("map.js", "legend.js", "page.js"),
)


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

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (self.probability, self.x, self.y))):
            raise InputError(f"{self.path}: probability and place must be finite numbers")
        if self.thumbnail is not None and not self.thumbnail.startswith("data:image/"):
            raise InputError(f"{self.path}: a thumbnail must be a data:image/ URI, got {self.thumbnail[:40]!r}")


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that the page shows; what is empty is left out.

    `root` is the folder that the images' paths are below, if the page is to link to them. `left_out` images have no
    small picture because the page would become too large, `gone` ones because their files could not be read.
    """

    title: str
    sentence: str
    made: str
    version: str
    model: str = ""
    cards: tuple[ClassSummary, ...] = ()
    dots: tuple[Dot, ...] = ()
    root: Path | None = None
    left_out: int = 0
    gone: int = 0
    number: Number | None = None
    doubt: str = ""  # why the estimate of the number is rough, a sentence
    skipped: tuple[tuple[str, str], ...] = ()  # path, reason
    duplicates: int = 0
    history: tuple[tuple[int, str, str], ...] = ()  # version, when, what
    shown: str = ""  # which version of the model, and which discovery
    since: tuple[tuple[int, str, str], ...] = ()  # the corrections since that discovery, like the history
    runs: tuple[Run, ...] = ()

    def __post_init__(self) -> None:
        if missing := {dot.cls for dot in self.dots if dot.cls is not None} - {card.id for card in self.cards}:
            raise InputError(f"images were put into classes that have no card: {sorted(missing)}")
        for card in self.cards:
            if not all(0 <= i < len(self.dots) for i in (*card.typical, *card.doubtful)):
                raise InputError(f"class {card.id} shows an image that is not among the {len(self.dots)} dots")


def write_page(page: Page, path: Path) -> None:
    """Write the page as one file, whole or not at all."""
    with replacing(path) as temporary:
        html = render(page, _way(page.root, path))
        temporary.write_bytes(html.encode("utf-8", "replace"))  # a file name may hold lone surrogates


def _way(root: Path | None, page: Path) -> str | None:
    """The relative address of the folder of the originals, seen from the page; None if there is no way to it.

    Relative, so that the page does not say where on this computer it was made.
    """
    if root is None:
        return None
    try:
        way = os.path.relpath(root, page.resolve().parent)
    except ValueError:  # on another drive
        return None
    return quote(os.fsencode(Path(way).as_posix())) + "/"


def render_number(number: Number) -> str:
    """The chart of the number of new classes, a part of a page."""
    template = '{% from "parts.html" import chart with context %}{{ chart(drawn) }}'
    return render_template(template, drawn=line_chart(number_panel(number), False))


def render_template(template: str, **values: Any) -> str:
    """A template that is made of the page's parts, as HTML."""
    return _environment().from_string(template).render(size=SIZE, **values)


@cache  # it compiles each template once
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(thousands="{:,}".format, counted=_counted, percent=_percent, decimal="{:.2f}".format)
    return environment


def render(page: Page, originals: str | None = None) -> str:
    """The page as HTML; `originals` is the address of the folder that the images' paths are below."""
    known = [card for card in page.cards if card.kind in ("labelled", "found")]
    new = [card for card in page.cards if card.kind == "new"]
    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            new=new,
            known=[card for card in known if card.images],
            idle=[card for card in known if not card.images],
            dropped=[card for card in page.cards if card.kind == "dropped"],
            pictured=any(dot.thumbnail for dot in page.dots),
            unsure=sum(dot.unsure or dot.cls is None for dot in page.dots),
            groups=_groups(page, known, new),
            number_chart=line_chart(number_panel(page.number), False) if page.number and page.number.curve else None,
            runs=[(run.name, _run_charts(run)) for run in page.runs],
            data=_data(page, [*new, *sorted(known, key=lambda card: -card.images)], originals),
            words=words_of(images=bool(page.dots), number=page.number is not None, runs=bool(page.runs)),
            size=SIZE,
            SEPARATION=SEPARATION,
            CONFIDENCE=CONFIDENCE,
            style=Markup("".join(map(_read, STYLES))),
            theme=Markup(_read("theme.js")),
            script=Markup("".join(map(_inlined, SCRIPTS))),
        )
    )


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _inlined(name: str) -> str:
    """A JavaScript module as a part of one script, which has the names of all parts: no import, no export."""
    source = re.sub(r"^import .*?;\n+", "", _read(name), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^export ", "", source, flags=re.MULTILINE)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}%"


def _groups(page: Page, known: Sequence[ClassSummary], new: Sequence[ClassSummary]) -> list[tuple[str, int, str]]:
    """Where the images went: (kind, how many, in words)."""
    kinds: dict[int | None, str] = {card.id: card.kind for card in page.cards}
    got = [kinds.get(dot.cls, "none") for dot in page.dots]
    counts = {"new": got.count("new"), "known": got.count("labelled") + got.count("found"), "none": got.count("none")}
    named = {"new": _classes(new, "new"), "known": _classes(known, "known"), "none": "fit no class"}
    return [(kind, count, named[kind]) for kind, count in counts.items() if count or kind != "none"]


def _classes(cards: Sequence[ClassSummary], kind: str) -> str:
    used = sum(card.images > 0 for card in cards)
    return f"in {used} {kind} class{'' if used == 1 else 'es'}"


def _data(page: Page, cards: Sequence[ClassSummary], originals: str | None) -> dict[str, Any]:
    """What the scripts need: the dots column by column, the classes in the order of the legend."""
    dots = page.dots
    others = [card for card in page.cards if card.kind == "dropped"]
    return {
        "model": page.model,
        "originals": originals,
        "classes": [
            {"id": card.id, "name": card.label, "kind": "new" if card.kind == "new" else "known"}
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


def _run_charts(run: Run) -> list[Chart]:
    """Charts of a run: accuracy, forgetting of the labelled classes, confidence."""
    charts = [line_chart(panel(run.scores), True) for panel in (accuracy_panel, forgetting_panel)]
    return [*charts, bar_chart(confidence_panel(run))] if run.confidence_old or run.confidence_new else charts
