"""Classes made of images that a person gives: a new class, the parts of a class by examples, taught classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from happycat.base.errors import InputError
from happycat.model.chosen import Chosen
from happycat.model.entry import ClassEntry
from happycat.model.membership import move
from happycat.model.naming import Name, same_name
from happycat.model.prototype import tree_of
from happycat.model.registry import ClassRegistry
from happycat.model.statements import Statement
from happycat.model.sums import said_before, settle

JOINED = 0.5  # share of the images of a taught class that a discovered one was given, if they may be the same
ROUNDS = 5  # of k-means from examples


class Taught(NamedTuple):
    """What teaching changed: classes that are new, those that got more images, discovered ones that have a name now."""

    added: list[ClassEntry]
    extended: list[ClassEntry]
    joined: list[ClassEntry]


def new_class(registry: ClassRegistry, chosen: Chosen, stage: int, name: Name | None = None) -> ClassEntry:
    """Make a class of the images."""
    if not len(chosen):
        raise InputError("a class needs at least one image")
    entry = registry.add(name, stage, tree_of(registry, chosen), taught=True)
    said = []
    for before, given in zip(said_before(registry, chosen), chosen.given, strict=True):
        said.append(Statement(cls=entry.id, rejected=before.rejected | ({given} if given is not None else set())))
    settle(registry, chosen, [entry] * len(chosen), said, counted_in=True)
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
    move(registry, chosen.some(groups[0]), f"#{entry.id}")
    made = [entry]
    for number, group in enumerate(groups[1:], 1):
        members = np.flatnonzero(part == number).tolist()
        counts = registry.counts
        new = registry.add(None, stage, tree_of(registry, chosen.some(members)), taught=True)
        registry.counts = counts
        before = said_before(registry, chosen.some(members))
        said = [
            Statement(cls=new.id, rejected=one.rejected | {entry.id}) if i in group else one
            for i, one in zip(members, before, strict=True)
        ]
        settle(registry, chosen.some(members), [new] * len(members), said, counted_in=True)
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
            taught.added.append(new_class(registry, some, stage, name))
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
