"""What a discovery came to, class by class, as a list of images and as a page."""

from __future__ import annotations

import base64
import csv
import datetime
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits
from torch import Tensor

from happycat.base.disk import read_json, replacing, write_text
from happycat.base.errors import HappycatError
from happycat.base.version import __version__
from happycat.images.pictures import FilePictures, Pictures
from happycat.images.sources import VectorRows
from happycat.model.estimator import Happycat
from happycat.model.registry import ClassEntry
from happycat.model.results import Assignment, Discovery
from happycat.report.html import Card, Dot, Number, Page

TYPICAL, DOUBTFUL, NEAREST = 12, 6, 3  # what is shown of a class
THUMBNAILS, PIXELS = 2000, 72  # at most so many small pictures, so many pixels a side
PLACED = 2000  # images whose places on the map are computed; others lie among their neighbours


class ClassFound(NamedTuple):
    """A class and the images that it was given, the surest first (places in `found.assigned`).

    Confidence is their mean probability; coherence, how alike they are: 1 is as alike as those of a labelled class.
    """

    identity: ClassEntry
    new: bool
    members: list[int]
    confidence: float | None
    coherence: float | None

    @property
    def images(self) -> int:
        return len(self.members)


def about_classes(cat: Happycat, found: Discovery) -> list[ClassFound]:
    """Every class that an image can be given, the new ones first."""
    rows = found.assigned
    likeness = (found.points @ cat.calm_.memory.prototypes.T).amax(1)
    by_class: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        by_class.setdefault(row.id, []).append(i)
    classes = []
    for identity in cat.registry_:
        members = sorted(by_class.get(identity.id, []), key=lambda i: -rows[i].probability)
        confidence = coherence = None
        if members:
            confidence = float(np.mean([rows[i].probability for i in members]))
            coherence = min(1.0, max(0.0, float(likeness[members].mean()) / max(cat.likeness_, 1e-6)))
        classes.append(ClassFound(identity, identity.id in found.new, members, confidence, coherence))
    return sorted(classes, key=lambda c: (not c.new, -c.images))


def write_assignments(path: Path, rows: Sequence[Assignment]) -> None:
    """A line an image: where it went."""
    with (
        replacing(path) as temporary,
        open(temporary, "w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["image", "id", "class", "probability", "unsure"])
        for row in rows:
            known = "" if row.id is None else row.id
            writer.writerow([row.image, known, row.label, f"{row.probability:.6f}", "yes" if row.unsure else ""])


def found_page(cat: Happycat, found: Discovery, model: str, history: Sequence[tuple[int, str, str]]) -> Page:
    """The page of a discovery, without pictures."""
    classes, rows = about_classes(cat, found), found.assigned
    dots = tuple(
        Dot(path=row.image, cls=row.id, probability=row.probability, unsure=row.unsure, x=float(x), y=float(y))
        for row, (x, y) in zip(rows, map_places(found.points), strict=True)
    )
    told = Number(number=len(found.new), low=len(found.new), high=len(found.new), told=True)
    return Page(
        title=model,
        sentence=_sentence(found),
        made=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        version=__version__,
        model=model,
        cards=tuple(_card(cat, c, classes) for c in classes),
        dots=dots,
        number=Number.of(found.count._asdict()) if found.count else told,
        skipped=tuple((s.path, s.reason) for s in found.skipped),
        duplicates=found.duplicates,
        history=tuple(history),
    )


def with_pictures(page: Page, pictures: Pictures) -> Page:
    """The page with small pictures: of the galleries first, then of doubtful images, then of any."""
    if isinstance(pictures, VectorRows):
        return page
    place = {key: i for i, key in enumerate(pictures.keys)}
    first = [i for card in page.cards for i in (*card.typical, *card.doubtful)]
    doubtful = [i for i, dot in enumerate(page.dots) if dot.unsure]
    shown = set(list(dict.fromkeys([*first, *doubtful, *range(len(page.dots))]))[:THUMBNAILS])
    dots = [
        replace(dot, thumbnail=_thumbnail(pictures, place[dot.path])) if i in shown else dot
        for i, dot in enumerate(page.dots)
    ]
    return replace(page, dots=tuple(dots))


def save_page(page: Page, root: Path | None, path: Path) -> None:
    """The page's contents without pictures, and where those lie: what `read_page` makes the page of again."""
    bare = replace(page, dots=tuple(replace(dot, thumbnail=None) for dot in page.dots))
    text = json.dumps({"root": str(root.resolve()) if root else None, "page": asdict(bare)}, ensure_ascii=True)
    write_text(path, text)


def read_page(path: Path) -> tuple[Page, Pictures | None]:
    """A saved page, and its pictures as far as they are still there."""
    told = read_json(path)
    values = told["page"]
    page = Page(
        **{
            **values,
            "cards": tuple(_card_of(card) for card in values["cards"]),
            "dots": tuple(Dot(**dot) for dot in values["dots"]),
            "number": Number(**_tuples(values["number"])) if values["number"] else None,
            "skipped": tuple(map(tuple, values["skipped"])),
            "history": tuple(map(tuple, values["history"])),
            "curves": (),
        }
    )
    return page, FilePictures(Path(told["root"]), [dot.path for dot in page.dots]) if told["root"] else None


def _card_of(values: dict) -> Card:
    return Card(**{**_tuples(values), "nearest": tuple(map(tuple, values["nearest"]))})


def _tuples(values: dict) -> dict:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _sentence(found: Discovery) -> str:
    number, known = len(found.new), sum(row.id is not None and row.id not in found.new for row in found.assigned)
    classes = "no new class" if number == 0 else "one new class" if number == 1 else f"{number} new classes"
    return f"{classes.capitalize()} among {len(found.assigned)} images; {known} of them belong to known classes."


def _card(cat: Happycat, c: ClassFound, classes: list[ClassFound]) -> Card:
    identity = c.identity
    return Card(
        id=identity.id,
        label=str(cat.registry_.label(identity)),
        name=identity.name,
        kind="new" if c.new else "found" if identity.stage else "labelled",
        stage=identity.stage,
        images=c.images,
        total=cat.registry_.images(identity),
        confidence=c.confidence,
        coherence=c.coherence,
        nearest=_nearest(cat, identity, [other.identity for other in classes if not other.new]),
        typical=tuple(c.members[:TYPICAL]),
        doubtful=tuple(c.members[: TYPICAL - 1 : -1][:DOUBTFUL]) if len(c.members) > TYPICAL else (),
    )


def _nearest(cat: Happycat, identity: ClassEntry, known: list[ClassEntry]) -> tuple[tuple[int, str, float], ...]:
    """The known classes that resemble a class most, by the cosine of their directions."""
    prototypes, owner = cat.calm_.memory.prototypes, torch.from_numpy(cat.registry_.active().owner)
    place = {other.id: i for i, other in enumerate(cat.registry_)}
    cosines = prototypes[owner == place[identity.id]] @ prototypes.T
    near = [
        (other.id, str(cat.registry_.label(other)), float(cosines[:, owner == place[other.id]].max()))
        for other in known
        if other is not identity
    ]
    return tuple(sorted(near, key=lambda one: -one[2])[:NEAREST])


def map_places(points: Tensor) -> np.ndarray:
    """A place (N, 2) for each image, so that neighbours are alike (t-SNE)."""
    number = len(points)
    if number < 5:
        return np.stack([np.arange(number), np.zeros(number)], 1).astype(float)
    placed = torch.linspace(0, number - 1, min(number, PLACED)).round().long().unique()
    some = points[placed].numpy()
    with threadpool_limits(limits=1):
        found = TSNE(
            init="pca", metric="cosine", perplexity=min(30.0, (len(some) - 1) / 3), random_state=0, n_jobs=1
        ).fit_transform(some)
    near = (points @ points[placed].T).topk(min(3, len(placed)), dim=1).indices.numpy()
    places = found[near].mean(1)
    places[placed.numpy()] = found
    return places


def _thumbnail(pictures: Pictures, i: int) -> str | None:
    """A small square picture as a data: URI; None if the file is gone meanwhile."""
    try:
        small = ImageOps.fit(pictures.read(i), (PIXELS, PIXELS), Image.Resampling.LANCZOS)
    except HappycatError:
        return None
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
