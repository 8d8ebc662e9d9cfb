"""HTML page and CSV lists of a discovery, with the classes as the model has them now, corrections included."""

from __future__ import annotations

import base64
import datetime
import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageOps

from happycat.base.errors import HappycatError
from happycat.base.version import __version__
from happycat.images.collecting import write_table
from happycat.images.pictures import Pictures
from happycat.model import file as model_file
from happycat.model.classes import assignments, decide
from happycat.model.estimator import Happycat
from happycat.model.knowledge import Knowledge
from happycat.model.results import Assignment
from happycat.model.review import Review, last_discovery, last_review
from happycat.model.summary import class_summaries, sentence
from happycat.report.charts import Number
from happycat.report.html import Dot, Page

PIXELS = 96  # a side of a small picture
ROOM = 12_000_000  # bytes of the small pictures and of what is said of the images: a page has at most some 13 MB


def review_page(model: Path, images: bool = True) -> Page:
    """The page of a model's last discovery, with its classes and assignments as they are now."""
    return page_of(Happycat.load(model), last_review(model), model, images)


def page_of(cat: Happycat, review: Review, model: Path, images: bool = True) -> Page:
    """The page of a discovery as the model `cat`, which is the last version of the file `model`, sees it."""
    points = torch.from_numpy(review.points)
    decision = decide(cat.registry_, cat.calm_.softmax_temperature, points, review.digests)
    rows = assignments(cat.registry_, review.keys, decision, review.digests)
    classes = class_summaries(cat, rows, points, review.stage)
    versions = model_file.history(model)
    discovery = last_discovery(versions)
    since = versions[discovery["number"] :] if discovery else []
    page = Page(
        title=model.name,
        sentence=sentence(rows, classes),
        made=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        version=__version__,
        model=model.name,
        cards=tuple(classes),
        dots=tuple(
            Dot(path=row.image, cls=row.id, probability=row.probability, unsure=row.unsure, x=float(x), y=float(y))
            for row, (x, y) in zip(rows, review.places, strict=True)
        ),
        root=review.root if images else None,
        number=Number.of(review.count) or Number(number=review.found, low=review.found, high=review.found, given=True),
        doubt="" if review.count is None else Knowledge.of(cat.registry_).doubt,
        skipped=review.skipped,
        duplicates=review.duplicates,
        history=_version_rows(versions),
        shown=_shown(versions, discovery, len(since)),
        since=_version_rows(since),
    )
    return with_pictures(page, review.pictures) if images and review.pictures else page


def with_pictures(page: Page, pictures: Pictures, room: int = ROOM) -> Page:
    """The page with small pictures, as many as there is room for.

    Those of the galleries come first, then those of unsure images, then the others, the surest of each class first.
    """
    place = {key: i for i, key in enumerate(pictures.keys)}
    room -= sum(len(dot.path) + 45 for dot in page.dots)  # a path and five numbers
    made: dict[int, str | None] = {}
    order = iter(_by_importance(page))
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        while room > 0 and (some := list(islice(order, 64))):
            thumbnails = pool.map(lambda i: _thumbnail(pictures, place[page.dots[i].path]), some)
            for i, small in zip(some, thumbnails, strict=True):
                room -= len(small or "")
                if room > 0:
                    made[i] = small
    dots = tuple(replace(dot, thumbnail=made.get(i)) for i, dot in enumerate(page.dots))
    gone = sum(small is None for small in made.values())
    return replace(page, dots=dots, left_out=len(dots) - len(made), gone=gone)


def _by_importance(page: Page) -> list[int]:
    """All images in the order in which they are given a small picture."""
    galleries = [i for card in page.cards for i in (*card.typical, *card.doubtful)]
    unsure = [i for i, dot in enumerate(page.dots) if dot.unsure or dot.cls is None]
    members: dict[int | None, list[int]] = {}
    for i in sorted(range(len(page.dots)), key=lambda i: -page.dots[i].probability):
        members.setdefault(page.dots[i].cls, []).append(i)
    in_turn = [i for some in zip_longest(*members.values()) for i in some if i is not None]
    return list(dict.fromkeys([*galleries, *unsure, *in_turn]))


def write_assignments(path: Path, rows: Sequence[Assignment]) -> None:
    """A line an image: where it went."""
    cells = (
        (row.image, "" if row.id is None else row.id, row.label, f"{row.probability:.6f}", "yes" if row.unsure else "")
        for row in rows
    )
    write_table(path, ("image", "id", "class", "probability", "unsure"), cells)


def _version_rows(versions: Sequence[dict[str, Any]]) -> tuple[tuple[int, str, str], ...]:
    return tuple((one["number"], local_time(one["when"]), one["what"]) for one in versions)


def local_time(when: str) -> str:
    """A version's time as it was on this computer's clock, to the minute."""
    return datetime.datetime.fromisoformat(when).astimezone().strftime("%Y-%m-%d %H:%M")


def _shown(versions: Sequence[dict[str, Any]], discovery: dict[str, Any] | None, since: int) -> str:
    """Which version the page shows, in words."""
    last = versions[-1]["number"]
    if discovery is None or not since:
        return f"This is version {last} of the model, as it was discovered."
    corrections = "one correction" if since == 1 else f"{since} corrections"
    return (
        f"This is version {last} of the model: the discovery of version {discovery['number']} and {corrections} since."
    )


def _thumbnail(pictures: Pictures, i: int) -> str | None:
    """A small square picture as a data: URI; None if the file is gone meanwhile."""
    try:
        small = ImageOps.fit(pictures.read(i), (PIXELS, PIXELS), Image.Resampling.LANCZOS)
    except HappycatError:
        return None
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=75, method=2)  # half of what JPEG needs
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()
