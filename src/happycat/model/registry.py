"""The class registry: all classes there have been, each with a permanent id, and what a person corrected.

A class owns rows of the pool of prototypes. Corrections of classes change the table only, never a prototype. What was
merged keeps its rows, its id and its name inside the class that took it in, so it can come back; what was dropped
keeps its rows, so that what looks like it is not discovered again. What was said of images is in `statements`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from happycat.base.errors import InputError, StorageError
from happycat.model.counts import ImageCounts
from happycat.model.entry import ClassEntry
from happycat.model.naming import Name, Numbering, checked_name
from happycat.model.pool import Pool, SplitTree
from happycat.model.schema import CLASSES, check_keys
from happycat.model.statements import Statements
from happycat.model.table import ClassTable, check_table

__all__ = ["ClassEntry", "ClassRegistry", "Pool", "SplitTree"]


class ClassRegistry(ClassTable):
    """All classes there have ever been, and what a person says of them."""

    def __init__(self) -> None:
        super().__init__()
        self.statements = Statements()
        self.apart: set[tuple[int, int]] = set()  # ids of classes that a person said are not the same
        self.counts: ImageCounts | None = None  # None: no batch of images was predicted with these classes

    # Stored

    def metadata(self) -> dict[str, Any]:
        """The table of classes, for JSON."""
        return {
            "classes": [entry.packed() for entry in self.entries],
            "next_id": len(self.entries),
            "chunks": self.pool.num_chunks,
            "numbering": self._numbering and list(self._numbering),
            "counts": self.counts and self.counts.packed(),
            "apart": sorted(self.apart),
        }

    def arrays(self) -> dict[str, np.ndarray]:
        """The pool, chunk by chunk, and what was said of images."""
        return {**self.pool.arrays(), **self.statements.arrays()}

    def new_arrays(self) -> dict[str, np.ndarray]:
        """Those of the arrays that a correction may have made or changed."""
        return {**self.pool.new_arrays(), **self.statements.new_arrays()}

    @classmethod
    def of(cls, metadata: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ClassRegistry:
        """The registry that `metadata()` and `arrays()` were taken of; an array is read when it is needed.

        Ids up to `metadata["next_id"]` that are not in the table belonged to versions that were undone.
        """
        registry = cls()
        try:
            check_keys(metadata, CLASSES, None, "the table of classes")
            registry.entries = [ClassEntry.unpacked(i, packed) for i, packed in enumerate(metadata["classes"])]
            registry.pool = Pool(arrays, metadata["chunks"])
            numbering = metadata["numbering"]
            registry._numbering = None if numbering is None else Numbering(*numbering)
            for i in range(len(registry.entries), metadata["next_id"]):
                registry.entries.append(ClassEntry(id=i, name=None, stage=0, rows=(), dropped=True))
            registry.statements = Statements.stored(arrays, len(registry.entries), len(registry.pool))
            registry.apart = {(one, two) for one, two in metadata["apart"]}
            check_table(registry.entries, len(registry.pool), registry.apart)
            if (counts := metadata["counts"]) is not None:
                registry.counts = ImageCounts.unpacked(counts, [entry.id for entry in registry])
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"the model's table of classes cannot be used ({error!r}); it was changed") from error
        return registry

    # Classes come

    def count(self, places: Sequence[int], stage: int) -> None:
        """Take the images of a batch as counted: the position of each one's class among the living ones, or −1."""
        counts = np.bincount(np.asarray(places, np.int64) + 1, minlength=len(self) + 1)[1:].tolist()
        by_id = {entry.id: images for entry, images in zip(self, counts, strict=True)}
        self.counts = ImageCounts(stage=stage, total=len(places), by_id=by_id)

    def add(self, name: Name | None, stage: int, tree: SplitTree, **flags: bool) -> ClassEntry:
        """A new class with the next id; a discovered one has no name yet."""
        if name is not None:
            name = self._free(checked_name(name), None)
        entry = ClassEntry(id=len(self.entries), name=name, stage=stage, rows=(self.pool.add(tree, stage),), **flags)
        self.counts = None  # its images are not counted yet
        self.entries.append(entry)
        if stage == 0 and name is not None and not flags:
            labelled = [one.name for one in self.entries if one.stage == 0 and one.name is not None]
            self._numbering = Numbering.of(labelled)
        return entry

    def forget(self, entry: ClassEntry) -> None:
        """Let a class be as if it had never been; its id is never given again."""
        self.counts = self.counts and self.counts.without(entry.id)
        self._change(entry, rows=(), dropped=True)

    # What a person says

    def name(self, which: int | str, name: Name) -> ClassEntry:
        """Give a class its name."""
        entry = self.find(which)
        name = name.strip() if isinstance(name, str) and name.strip() else name
        return self._change(entry, name=self._free(checked_name(name), entry))

    def merge(self, first: int | str, *others: int | str) -> ClassEntry:
        """Make one class of several; it keeps the id and name of the first, the others keep theirs inside it."""
        into, rest = self.find(first), [self.find(other) for other in others]
        if not rest or len({into.id, *(entry.id for entry in rest)}) <= len(rest):
            raise InputError("merging needs at least two different classes")
        for one, two in combinations([into, *rest], 2):
            if self.held_apart(one, two):
                raise InputError(
                    f"{self.called(one)} and {self.called(two)} are held apart: a person said that they are not the "
                    "same; go back before that to merge them"
                )
        number = 1 + max((entry.merge for entry in self.entries if entry.merge is not None), default=-1)
        for entry in rest:
            self._change(entry, merged_into=into.id, merge=number)
        self.counts = self.counts and self.counts.merged(into.id, [entry.id for entry in rest])
        return into

    def hold_apart(self, one: int | str, two: int | str) -> None:
        """Say that two classes are not the same: they are never merged."""
        first, second = self.find(one), self.find(two)
        if first.id == second.id:
            raise InputError(f"{self.called(first)} cannot be held apart from itself; split it")
        self.apart.add((min(first.id, second.id), max(first.id, second.id)))

    def held_apart(self, one: ClassEntry, two: ClassEntry) -> bool:
        """Whether a person said that the classes, or any that were merged into them, are not the same."""
        return self.root(two).id in self.held_apart_from(one)

    def held_apart_from(self, entry: ClassEntry) -> set[int]:
        """The ids of the classes that a person said are not the same as this one."""
        own, found = self.root(entry).id, set()
        for pair in self.apart:
            ids = {self.root(self.entries[number]).id for number in pair}
            if len(ids) == 2 and own in ids:
                found |= ids - {own}
        return found

    def split(self, which: int | str) -> tuple[ClassEntry, ...]:
        """Take a class apart: undo the last merge into it, or else make two of it; the class itself comes first.

        What was merged comes back with its id and name. A half becomes a new class without a name.
        """
        entry = self.find(which)
        whole = self.learned_from(entry)
        parts = self._unmerged(entry) or self._halved(entry)
        if self.counts:
            shares = {part.id: self.learned_from(part) / max(whole, 1) for part in parts}
            self.counts = self.counts.divided(entry.id, shares)
        return parts

    def _unmerged(self, entry: ClassEntry) -> tuple[ClassEntry, ...]:
        """The class and what comes back of its last merge; empty if nothing was merged into it."""
        merged = [other for other in self.entries if other.merged_into == entry.id]
        if not merged:
            return ()
        last = max(other.merge or 0 for other in merged)
        back = [other for other in merged if (other.merge or 0) == last]
        return entry, *(self._change(other, merged_into=None, merge=None) for other in back)

    def _halved(self, entry: ClassEntry) -> tuple[ClassEntry, ...]:
        kept, gone = self._halves(entry)
        if kept[0] not in entry.rows:
            self.pool.hand_down(entry.rows[0])
        new = ClassEntry(id=len(self.entries), name=None, stage=entry.stage, rows=gone)
        self.entries.append(new)
        return self._change(entry, rows=kept), new

    def _halves(self, entry: ClassEntry) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if len(entry.rows) > 1:
            return entry.rows[:-1], entry.rows[-1:]
        one, two = self.pool.children[entry.rows[0]].tolist()
        if one < 0:
            raise InputError(
                f"{self.called(entry)} cannot be split: its {self.learned_from(entry)} images were too few, or too "
                "deep in an earlier split, to find two halves in; "
                + (
                    "move some of them to another class, or split it by examples of its parts"
                    if entry.taught
                    else "go back before they were discovered and ask for more classes"
                )
            )
        return (one,), (two,)

    def drop(self, which: int | str) -> ClassEntry:
        """Give nothing to a class and what was merged into it any more, and discover nothing that looks like it."""
        entry = self.find(which)
        if len(self) == 1:
            raise InputError(f"{self.called(entry)} is the last class; a model needs at least one")
        self.counts = self.counts and self.counts.without(entry.id)
        return self._change(entry, dropped=True)

    def _change(self, entry: ClassEntry, **values: Any) -> ClassEntry:
        self.entries[entry.id] = replace(entry, **values)
        return self.entries[entry.id]
