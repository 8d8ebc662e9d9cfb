"""Corrections of images: of which class they are, of which not, or that they are none; with exact updates of sums.

A prototype is the direction of a sum of unit points. An image that a person moves is taken from the sum that counts it
in and added to that of its class, so the model is at once what it would be had the image been there from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from happycat.base.errors import InputError
from happycat.base.text import shown
from happycat.model.entry import ClassEntry
from happycat.model.naming import Name, same_name
from happycat.model.pool import SplitTree, usual_cosine
from happycat.model.registry import ClassRegistry
from happycat.model.statements import NOBODY, Statement

PRIOR_IMAGES = 5  # as tight as usual, in the rejection threshold of a class of few images
ALIKE = 2  # images at least, of which what looks like them is left alone, too
TIGHT = 0.75  # of the cosine that is usual in a class, for images to look like each other
JOINED = 0.5  # share of the images of a taught class that a discovered one was given, if they may be the same
ROUNDS = 5  # of k-means from examples

Tree = Callable[[np.ndarray, float], SplitTree]  # of the points (n, d) of a class and its rejection threshold


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The images that a person speaks of: their digests, points, and what the model makes of them."""

    digests: Sequence[bytes]
    points: np.ndarray  # (n, d), those that prototypes are made of
    counted: np.ndarray  # (n,) the row of the pool that their discovery counted each in, or −1
    given: Sequence[int | None]  # the ids of the classes that they are given now; None: no class fits
    slack: float  # by which the cosine of an image may be less than what is usual in its class

    def __len__(self) -> int:
        return len(self.digests)

    def some(self, places: Sequence[int]) -> Chosen:
        """Some of the images, by their places among these."""
        return Chosen(
            digests=[self.digests[i] for i in places],
            points=self.points[list(places)],
            counted=self.counted[list(places)],
            given=[self.given[i] for i in places],
            slack=self.slack,
        )


class Taught(NamedTuple):
    """What teaching changed: classes that are new, those that got more images, discovered ones that have a name now."""

    added: list[ClassEntry]
    extended: list[ClassEntry]
    joined: list[ClassEntry]


def move(registry: ClassRegistry, chosen: Chosen, to: int | str) -> ClassEntry:
    """Say that the images are of a class, and so not of the one that they were given."""
    entry = registry.find(to)
    said = []
    for before, given in zip(_before(registry, chosen), chosen.given, strict=True):
        others = before.rejected | ({given} if given not in (None, entry.id) else set())
        said.append(Statement(cls=entry.id, rejected=_without(registry, others, entry)))
    _settle(registry, chosen, [entry] * len(chosen), said)
    return entry


def confirm(registry: ClassRegistry, chosen: Chosen) -> None:
    """Say that the images are of the classes that they are given."""
    entries = [_given(registry, given) for given in chosen.given]
    said = [
        Statement(cls=entry.id, rejected=_without(registry, before.rejected, entry))
        for before, entry in zip(_before(registry, chosen), entries, strict=True)
    ]
    _settle(registry, chosen, entries, said)


def reject(registry: ClassRegistry, chosen: Chosen) -> None:
    """Say that the images are not of the classes that they are given."""
    places = _places(registry, chosen)
    owners, targets, said = _owners(registry), [], []
    for before, given, row in zip(_before(registry, chosen), chosen.given, places, strict=True):
        entry = _given(registry, given)
        owner = owners.get(row)
        targets.append(None if owner is None or owner == entry.id else registry.entries[owner])
        said.append(Statement(rejected=before.rejected | {entry.id}))
    _settle(registry, chosen, targets, said)


def ignore(registry: ClassRegistry, chosen: Chosen, stage: int) -> None:
    """Say that the images are to be left alone, and what looks like them, if they look like each other."""
    said = [Statement(ignored=True, rejected=one.rejected) for one in _before(registry, chosen)]
    targets: list[ClassEntry | None] = [None] * len(chosen)
    counts = registry.counts
    for places in _kinds(chosen.points, np.arange(len(chosen)), TIGHT * _usual(registry, chosen.slack)):
        entry = registry.add(None, stage, _leaf(registry, chosen.some(places)), dropped=True, ignored=True)
        for i in places:
            targets[i] = entry
    registry.counts = counts
    _settle(registry, chosen, targets, said, counted_in=True)


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
    before = _before(registry, chosen)
    if not all(one.ignored for one in before):
        raise InputError(f"{sum(not one.ignored for one in before)} of {len(chosen)} images are not ignored")
    _settle(registry, chosen, [None] * len(chosen), [Statement(rejected=one.rejected) for one in before])
    for digest, one in zip(chosen.digests, before, strict=True):
        if not one.rejected:
            registry.statements.forget(digest)
    for entry in list(registry.entries):
        if entry.ignored and entry.rows and not registry.pool.sizes[list(entry.rows)].sum():
            registry.forget(entry)


def new_class(
    registry: ClassRegistry, chosen: Chosen, stage: int, name: Name | None = None, tree: Tree | None = None
) -> ClassEntry:
    """Make a class of the images."""
    if not len(chosen):
        raise InputError("a class needs at least one image")
    threshold = _threshold(registry, chosen)
    entry = registry.add(name, stage, tree(chosen.points, threshold) if tree else _leaf(registry, chosen), taught=True)
    said = []
    for before, given in zip(_before(registry, chosen), chosen.given, strict=True):
        said.append(Statement(cls=entry.id, rejected=before.rejected | ({given} if given is not None else set())))
    _settle(registry, chosen, [entry] * len(chosen), said, counted_in=True)
    return entry


def split_by(
    registry: ClassRegistry,
    chosen: Chosen,
    which: int | str,
    groups: Sequence[Sequence[int]],
    stage: int,
    part: np.ndarray | None = None,
) -> tuple[ClassEntry, ...]:
    """Split a class by examples of each part, places among the chosen: all its images; the first part keeps the id.

    The other images go to the part whose mean they are nearest to, found by k-means that starts from the examples; or
    `part` (n,) says to which, and then images of other classes may be among the chosen, too.
    """
    entry = registry.find(which)
    flat = [i for group in groups for i in group]
    if len(groups) < 2 or not all(groups) or len(set(flat)) < len(flat):
        raise InputError("a split needs examples of at least two parts, each image in one of them")
    part = _parts(chosen.points, groups) if part is None else part
    confirm_places = chosen.some(groups[0])
    move(registry, confirm_places, entry.id)
    made = [entry]
    for number, group in enumerate(groups[1:], 1):
        members = np.flatnonzero(part == number).tolist()
        counts = registry.counts
        new = registry.add(None, stage, _leaf(registry, chosen.some(members)), taught=True)
        registry.counts = counts
        before = _before(registry, chosen.some(members))
        said = [
            Statement(cls=new.id, rejected=one.rejected | {entry.id}) if i in group else one
            for i, one in zip(members, before, strict=True)
        ]
        _settle(registry, chosen.some(members), [new] * len(members), said, counted_in=True)
        made.append(new)
    registry.counts = None
    return tuple(made)


def split_off(
    registry: ClassRegistry, chosen: Chosen, which: int | str, examples: Sequence[int], stage: int
) -> tuple[ClassEntry, ...]:
    """Split a class by examples of what becomes the new one; the image least like them is an example of the class."""
    mean = chosen.points[list(examples)].sum(0)
    others = [i for i in range(len(chosen)) if i not in set(examples)]
    if not others:
        raise InputError("the examples are all images of the class, which leaves nothing of it; name it instead")
    farthest = min(others, key=lambda i: float(chosen.points[i] @ mean))
    return split_by(registry, chosen, which, [[farthest], list(examples)], stage)


def teach(
    registry: ClassRegistry,
    chosen: Chosen,
    labels: Sequence[Name],
    stage: int,
    join: Callable[[Name, ClassEntry, int], bool],
    tree: Tree | None = None,
) -> Taught:
    """Learn labelled images, of classes that are known or of new ones.

    A discovered class without a name that was given at least half of the images of a new name may be the same:
    `join(name, class, images)` says whether it is.
    """
    taught = Taught([], [], [])
    for name in sorted(set(labels), key=str):
        some = chosen.some([i for i, label in enumerate(labels) if same_name(label, name)])
        known = [entry for entry in registry if same_name(entry.name, name)]
        twin = None if known else _twin(registry, some)
        if known:
            taught.extended.append(move(registry, some, f"#{known[0].id}"))
        elif twin is not None and join(name, twin, list(some.given).count(twin.id)):
            registry.name(f"#{twin.id}", name)
            taught.joined.append(move(registry, some, f"#{twin.id}"))
        else:
            taught.added.append(new_class(registry, some, stage, name, tree))
    return taught


def _twin(registry: ClassRegistry, chosen: Chosen) -> ClassEntry | None:
    """The class without a name that at least half of the images are given."""
    given = [one for one in chosen.given if one is not None]
    best = max(set(given), key=given.count, default=None)
    if best is None or given.count(best) < JOINED * len(chosen) or registry.entries[best].name is not None:
        return None
    return registry.entries[best]


def _parts(points: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """Which part each of the points (n, d) belongs to, (n,); those of the examples are given."""
    part = np.full(len(points), -1)
    for number, group in enumerate(groups):
        part[list(group)] = number
    fixed, known = part >= 0, part.copy()
    for _ in range(ROUNDS):
        sums = np.stack([points[part == number].sum(0) for number in range(len(groups))])
        means = sums / np.linalg.norm(sums, axis=1, keepdims=True).clip(1e-12)
        part = np.where(fixed, known, (points @ means.T).argmax(1))
    return part


def _settle(
    registry: ClassRegistry,
    chosen: Chosen,
    targets: Sequence[ClassEntry | None],
    said: Sequence[Statement],
    counted_in: bool = False,
) -> None:
    """Count each image in with its class, or with none, and nowhere else; remember what was said of it.

    With `counted_in` the prototype of the class counts the images in already.
    """
    owners, rows = _owners(registry), _places(registry, chosen)
    owned = {entry.id: registry.owned(entry) for entry in {one.id: one for one in targets if one}.values()}
    change: dict[int, np.ndarray] = {}
    number: dict[int, int] = {}

    def add(row: int, point: np.ndarray, sign: int) -> None:
        change[row] = change.get(row, 0) + sign * point.astype(np.float64)
        number[row] = number.get(row, 0) + sign

    vectors = registry.pool.vectors
    for digest, point, row, target, statement in zip(chosen.digests, chosen.points, rows, targets, said, strict=True):
        if target is None:
            place = NOBODY
        elif not counted_in and owners.get(row) == target.id:
            place = row
        else:
            place = max(owned[target.id], key=lambda r: float(vectors[r] @ point))
        if place != row:
            if row != NOBODY:
                add(row, point, -1)
            if place != NOBODY and not counted_in:
                add(place, point, 1)
        registry.statements.set(digest, statement._replace(row=place))
    for row, moved in change.items():
        registry.pool.shift(row, moved, number[row])


def _places(registry: ClassRegistry, chosen: Chosen) -> list[int]:
    """The row of the pool that counts each image in now, or −1; of a class that was split, the nearer half's."""
    there = {row for entry in registry.entries for row in entry.rows}
    found = []
    for digest, point, row in zip(chosen.digests, chosen.points, chosen.counted.tolist(), strict=True):
        statement = registry.statements.get(digest)
        row = row if statement is None else statement.row
        while row != NOBODY and row not in there:
            halves = registry.pool.children[row].tolist()
            row = max(halves, key=lambda half: float(registry.pool.vectors[half] @ point))
        found.append(row)
    return found


def _owners(registry: ClassRegistry) -> dict[int, int]:
    """The id of the class that each row belongs to, through all merges."""
    return {row: registry.root(entry).id for entry in registry.entries for row in entry.rows}


def _before(registry: ClassRegistry, chosen: Chosen) -> list[Statement]:
    """What was said of the images so far; where nothing was, what their discovery counts them in with."""
    known = zip(chosen.digests, chosen.counted.tolist(), strict=True)
    return [registry.statements.get(digest) or Statement(row=row) for digest, row in known]


def _given(registry: ClassRegistry, given: int | None) -> ClassEntry:
    if given is None:
        raise InputError("an image that fits no class can neither be confirmed nor rejected; move it to its class")
    return registry.entries[given]


def _without(registry: ClassRegistry, rejected: frozenset[int] | set[int], entry: ClassEntry) -> frozenset[int]:
    """The rejected classes but the one that the image is of after all."""
    return frozenset(one for one in rejected if registry.root(registry.entries[one]).id != entry.id)


def _usual(registry: ClassRegistry, slack: float) -> float:
    """The cosine of an image with its class that is usual in all classes."""
    return float(registry.pool.thresholds[registry.active().rows].mean()) + slack


def _threshold(registry: ClassRegistry, chosen: Chosen) -> float:
    """The rejection threshold of a class of these images.

    Few images hardly show what is usual there, so some of other classes count, too; but a class that was not there when
    the space was learned is wider in it than those, and then its own images say how wide.
    """
    own = usual_cosine(float(np.linalg.norm(chosen.points.sum(0))), len(chosen))
    usual = _usual(registry, chosen.slack)
    if own is None:
        return usual - chosen.slack
    number = len(chosen)
    return min(own, (number * own + PRIOR_IMAGES * usual) / (number + PRIOR_IMAGES)) - chosen.slack


def _leaf(registry: ClassRegistry, chosen: Chosen) -> SplitTree:
    """A class of these images, as one prototype."""
    total = chosen.points.astype(np.float64).sum(0)
    length = float(np.linalg.norm(total))
    if length < 1e-6:
        raise InputError(f"the {len(chosen)} images have nothing in common, so they cannot be one class")
    return SplitTree.leaf(total / length, len(chosen), _threshold(registry, chosen), length)


def in_words(images: int) -> str:
    """How many images, in words."""
    return "1 image" if images == 1 else f"{images:,} images"


def called(registry: ClassRegistry, entry: ClassEntry) -> str:
    return shown(str(registry.label(entry)))
