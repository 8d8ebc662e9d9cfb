"""Which classes there are, who they are for ever, and what a person says of them.

A class owns one row of the class memory or several. What was merged keeps its rows, under one identity; what was
dropped keeps its row, so that what looks like it is not discovered again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from happycat.base.errors import InputError
from happycat.learning.clustering import kmeans
from happycat.learning.memory import ClassMemory


@dataclass(frozen=True, kw_only=True)
class ClassEntry:
    """A class. The labelled ones come first and have stage 0; the others have that of the stage that found them."""

    id: int
    name: str | None
    stage: int
    images: int  # that it was learned from
    dropped: bool = False  # by a person: what looks like it is not a class
    merged: int | None = None  # by a person: it is part of that class now

    @property
    def label(self) -> str:
        return self.name or f"class {self.id}"

    @property
    def alive(self) -> bool:
        return not self.dropped and self.merged is None


class ClassRegistry:
    """All classes there have ever been; `owners` says whose each row of the memory is.

    `least` is the cosine to a row from which an image is familiar to it. `halves` (R, 2, d) are the directions that
    each row would be split into: images are not kept, so they are found while the images are there.
    """

    def __init__(self):
        self.everyone: list[ClassEntry] = []
        self.owners: list[int] = []
        self.least: list[float] = []
        self.halves: Tensor | None = None

    @classmethod
    def of(cls, about: dict, halves: Tensor) -> ClassRegistry:
        made = cls()
        made.everyone = [ClassEntry(**c) for c in about["classes"]]
        made.owners, made.least, made.halves = list(about["owners"]), list(about["least"]), halves
        return made

    def about(self) -> dict:
        return {"classes": [asdict(c) for c in self.everyone], "owners": self.owners, "least": self.least}

    def __iter__(self):
        """Those that an image can be given."""
        return (c for c in self.everyone if c.alive)

    def __len__(self) -> int:
        return sum(c.alive for c in self.everyone)

    def add(self, name: str | None, stage: int, points: Tensor, direction: Tensor, least: float) -> ClassEntry:
        """Give the next row of the memory an identity; `points` are the images that it was learned from."""
        new = ClassEntry(id=len(self.everyone), name=name, stage=stage, images=len(points))
        self.everyone.append(new)
        self.owners.append(new.id)
        self.least.append(least)
        halves = two_halves(points, direction)[None]
        self.halves = halves if self.halves is None else torch.cat([self.halves, halves])
        return new

    def find(self, which: int | str) -> ClassEntry:
        """The class with that id or name."""
        for c in self.everyone:
            if str(c.id) == str(which) or (c.name is not None and c.name == which):
                if c.merged is not None:
                    raise InputError(f"{c.label} was merged into {self.everyone[c.merged].label}")
                if c.dropped:
                    raise InputError(f"{c.label} was dropped")
                return c
        raise InputError(f"there is no class {which!r}; `happycat show` lists them")

    def place(self) -> tuple[list[ClassEntry], Tensor]:
        """The living classes, and for each row the place of its owner among them; behind the last, if it is dropped."""
        living = list(self)
        place = {c.id: i for i, c in enumerate(living)}
        return living, torch.tensor([place.get(owner, len(living)) for owner in self.owners])

    # What a person says

    def name(self, which: int | str, name: str) -> ClassEntry:
        """Give a class its name."""
        c = self.find(which)
        if not name.strip():
            raise InputError("a name has at least one letter")
        if taken := [other for other in self if other.label == name and other.id != c.id]:
            raise InputError(f"{name!r} is class {taken[0].id} already; `happycat merge` makes one class of two")
        return self._change(c, name=name)

    def merge(self, first: int | str, *others: int | str) -> ClassEntry:
        """Make one class of several; it keeps the identity of the first."""
        into, rest = self.find(first), [self.find(other) for other in others]
        if not rest or len({into.id, *(c.id for c in rest)}) <= len(rest):
            raise InputError("give at least two different classes to merge")
        for c in rest:
            self._change(c, merged=into.id)
            self.owners = [into.id if owner == c.id else owner for owner in self.owners]
        return self._change(into, images=into.images + sum(c.images for c in rest))

    def split(self, which: int | str, memory: ClassMemory) -> tuple[ClassEntry, ClassEntry]:
        """Make two classes of one; the first keeps the identity. What was merged comes apart."""
        c = self.find(which)
        rows = [row for row, owner in enumerate(self.owners) if owner == c.id]
        if len(rows) == 1:
            self._halve(c, rows[0], memory)
            rows.append(len(self.owners) - 1)
        images = int(memory.counts[rows[-1]])
        new = ClassEntry(id=len(self.everyone), name=None, stage=c.stage, images=images)
        self.everyone.append(new)
        self.owners[rows[-1]] = new.id
        return self._change(c, images=max(0, c.images - images)), new

    def _halve(self, c: ClassEntry, row: int, memory: ClassMemory) -> None:
        """Put the two halves of a row in its place; the second becomes the last row."""
        two = self.halves[row].clone()
        if torch.equal(two[0], two[1]):
            raise InputError(f"{c.label} cannot be split: it has too few images, or was split before")
        prototypes, counts = memory.prototypes.clone(), memory.counts.clone()
        prototypes[row], half = two[0], counts[row] // 2
        counts[row] -= half
        memory.replace(torch.cat([prototypes, two[1:]]), torch.cat([counts, half[None]]))
        self.halves = torch.cat([self.halves, two[1].expand(1, 2, -1)])
        self.halves[row] = two[0]
        self.owners.append(c.id)
        self.least.append(self.least[row])

    def drop(self, which: int | str) -> ClassEntry:
        """Give nothing to a class any more, and discover nothing that looks like it."""
        c = self.find(which)
        if len(self) == 1:
            raise InputError(f"{c.label} is the last class")
        return self._change(c, dropped=True)

    def _change(self, c: ClassEntry, **values) -> ClassEntry:
        self.everyone[c.id] = replace(c, **values)
        return self.everyone[c.id]


def two_halves(points: Tensor, direction: Tensor) -> Tensor:
    """Two directions (2, d) that a class would be split into, the larger first; twice its own if it has few images."""
    if len(points) < 4:
        return direction.expand(2, -1).clone()
    two = kmeans(points, 2, seed=0, restarts=3)
    sizes = (points @ two.T).argmax(1).bincount(minlength=2)
    return two if sizes[0] >= sizes[1] else two.flip(0)
