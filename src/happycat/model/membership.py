"""Corrections of images: of which class they are, of which not, or that they are none."""

from __future__ import annotations

import numpy as np

from happycat.base.errors import InputError
from happycat.model.chosen import Chosen
from happycat.model.entry import ClassEntry
from happycat.model.pool import usual_cosine
from happycat.model.prototype import leaf_of, usual
from happycat.model.registry import ClassRegistry
from happycat.model.statements import Statement
from happycat.model.sums import counting_rows, owners, said_before, settle

ALIKE = 2  # images at least, of which what looks like them is left alone, too
TIGHT = 0.75  # of the cosine that is usual in a class, for images to look like each other


def move(registry: ClassRegistry, chosen: Chosen, to: int | str) -> ClassEntry:
    """Say that the images are of a class, and so not of the one that they were given."""
    entry = registry.find(to)
    said = []
    for before, given in zip(said_before(registry, chosen), chosen.given, strict=True):
        others = before.rejected | ({given} if given not in (None, entry.id) else set())
        said.append(Statement(cls=entry.id, rejected=_without(registry, others, entry)))
    settle(registry, chosen, [entry] * len(chosen), said)
    return entry


def confirm(registry: ClassRegistry, chosen: Chosen) -> None:
    """Say that the images are of the classes that they are given."""
    entries = [_given(registry, given) for given in chosen.given]
    said = [
        Statement(cls=entry.id, rejected=_without(registry, before.rejected, entry))
        for before, entry in zip(said_before(registry, chosen), entries, strict=True)
    ]
    settle(registry, chosen, entries, said)


def reject(registry: ClassRegistry, chosen: Chosen) -> None:
    """Say that the images are not of the classes that they are given."""
    places = counting_rows(registry, chosen)
    owner_of, targets, said = owners(registry), [], []
    for before, given, row in zip(said_before(registry, chosen), chosen.given, places, strict=True):
        entry = _given(registry, given)
        owner = owner_of.get(row)
        targets.append(None if owner is None or owner == entry.id else registry.entries[owner])
        said.append(Statement(rejected=before.rejected | {entry.id}))
    settle(registry, chosen, targets, said)


def ignore(registry: ClassRegistry, chosen: Chosen, stage: int) -> None:
    """Say that the images are to be left alone, and what looks like them, if they look like each other."""
    said = [Statement(ignored=True, rejected=one.rejected) for one in said_before(registry, chosen)]
    targets: list[ClassEntry | None] = [None] * len(chosen)
    counts = registry.counts
    for places in _kinds(chosen.points, np.arange(len(chosen)), TIGHT * usual(registry, chosen.slack)):
        entry = registry.add(None, stage, leaf_of(registry, chosen.some(places)), dropped=True, ignored=True)
        for i in places:
            targets[i] = entry
    registry.counts = counts
    settle(registry, chosen, targets, said, counted_in=True)


def _kinds(points: np.ndarray, places: np.ndarray, tight: float) -> list[list[int]]:
    """Groups of images, of at least two, that look like each other; those that look like no other are in none."""
    if len(places) < ALIKE:
        return []
    tightness = usual_cosine(float(np.linalg.norm(points[places].sum(0))), len(places))
    if tightness is not None and tightness >= tight:
        return [places.tolist()]
    import torch

    from happycat.model.splitting import two_means

    own = torch.from_numpy(points[places])
    half = (own @ two_means(own).T).argmax(1).numpy()
    if half.all() or not half.any():
        return []
    return [kind for side in (0, 1) for kind in _kinds(points, places[half == side], tight)]


def unignore(registry: ClassRegistry, chosen: Chosen) -> None:
    """Take back that the images are to be left alone; the model decides on them again."""
    before = said_before(registry, chosen)
    if not all(one.ignored for one in before):
        raise InputError(f"{sum(not one.ignored for one in before)} of {len(chosen)} images are not ignored")
    settle(registry, chosen, [None] * len(chosen), [Statement(rejected=one.rejected) for one in before])
    for digest, one in zip(chosen.digests, before, strict=True):
        if not one.rejected:
            registry.statements.forget(digest)
    for entry in list(registry.entries):
        if entry.ignored and entry.rows and not registry.pool.sizes[list(entry.rows)].sum():
            registry.forget(entry)


def _given(registry: ClassRegistry, given: int | None) -> ClassEntry:
    if given is None:
        raise InputError("an image that fits no class can neither be confirmed nor rejected; move it to its class")
    return registry.entries[given]


def _without(registry: ClassRegistry, rejected: frozenset[int] | set[int], entry: ClassEntry) -> frozenset[int]:
    """The rejected classes but the one that the image is of after all."""
    return frozenset(one for one in rejected if registry.root(registry.entries[one]).id != entry.id)
