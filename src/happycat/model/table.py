"""The table of classes: who is there, what each is called, which rows of the pool are whose, and finding a class."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from happycat.base.errors import InputError
from happycat.base.text import shown
from happycat.model.entry import ClassEntry
from happycat.model.naming import Name, Numbering, Reference, as_number, same_name
from happycat.model.pool import Pool

DEEPEST = 1000  # merges of merged classes


class Active(NamedTuple):
    """The rows of the pool that images are compared with, (R,), and whose each is.

    An owner is a position in the list of living classes, −1 for rows of dropped classes.
    """

    rows: np.ndarray
    owner: np.ndarray


class ClassTable:
    """All classes there have ever been; the index of an entry is its id. Iteration gives the living ones."""

    def __init__(self) -> None:
        self.entries: list[ClassEntry] = []
        self.pool = Pool()
        self._numbering: Numbering | None = None

    def __iter__(self) -> Iterator[ClassEntry]:
        return (entry for entry in self.entries if entry.alive)

    def __len__(self) -> int:
        return sum(entry.alive for entry in self.entries)

    def root(self, entry: ClassEntry) -> ClassEntry:
        """The class that the entry is part of, through all merges; itself if it was not merged."""
        while entry.merged_into is not None:
            entry = self.entries[entry.merged_into]
        return entry

    def owned(self, entry: ClassEntry) -> list[int]:
        """The rows of a class and of what was merged into it."""
        parts = (other for other in self.entries if self.root(other).id == entry.id)
        return [row for part in parts for row in part.rows]

    def learned_from(self, entry: ClassEntry) -> int:
        """How many images the class and what was merged into it had when they were found; of a half, it would have."""
        rows, parts = list(entry.rows), {entry.id}
        while parts:
            merged = [other for other in self.entries if other.merged_into in parts]
            rows += [row for part in merged for row in part.rows]
            parts = {part.id for part in merged}
        return int(self.pool.counts[rows].sum())

    def label(self, entry: ClassEntry) -> Name:
        """The class's name; without one "class ID", or a number of its own where labelled names are numbers."""
        if entry.name is not None:
            return entry.name
        return f"class {entry.id}" if self._numbering is None else self._numbering.number(entry.id)

    @property
    def unknown(self) -> str | int:
        """What images are called that fit no class."""
        return "unknown" if self._numbering is None else self._numbering.unknown

    def active(self) -> Active:
        """The rows that images are compared with, in the order of the ids of the classes that they came with."""
        place = {entry.id: i for i, entry in enumerate(self)}
        pairs = [(row, place.get(self.root(entry).id, -1)) for entry in self.entries for row in entry.rows]
        both = np.array(pairs, np.int64).reshape(-1, 2)
        return Active(both[:, 0].copy(), both[:, 1].copy())

    def find(self, which: int | str) -> ClassEntry:
        """The living class with that id or name: `#14` or `id:14` is an id, `name:14` a name, another word either."""
        matches = self._matches(Reference.of(which))
        if not matches:
            raise InputError(f"there is no class {_quoted(which)}; {self._hint(which)}")
        if len(matches) > 1:
            number, other = matches[0], matches[-1]
            called = "" if number.name is None else f" ({shown(number.name)})"
            raise InputError(
                f"'{shown(which)}' is both the number of class {number.id}{called} and the name of class "
                f"{other.id}; write #{number.id} or name:{shown(which)}"
            )
        (entry,) = matches
        if entry.ignored:
            raise InputError(
                f"{self.called(entry)} is no class: a person said that its {self.learned_from(entry)} images are to be "
                "left alone; take that back to have them looked at again"
            )
        if self.root(entry).dropped:
            raise InputError(f"{self.called(entry)} was dropped; only going back to an earlier version brings it back")
        if entry.merged_into is not None:
            into = self.entries[entry.merged_into]
            raise InputError(f"{self.called(entry)} was merged into {self.called(into)}; split that to have it back")
        return entry

    def _matches(self, wanted: Reference) -> list[ClassEntry]:
        """The class with that id, if there is one, then the one with that name; dropped classes have no name."""
        number = wanted.id
        by_id = [self.entries[number]] if number is not None and 0 <= number < len(self.entries) else []
        by_id = [entry for entry in by_id if entry.rows]
        by_name: list[ClassEntry] = []
        if wanted.name is not None:
            named = [entry for entry in self.entries if entry.rows and same_name(self._own(entry), wanted.name)]
            by_name = [entry for entry in named if not self.root(entry).dropped] or ([] if by_id else named[-1:])
        return list({entry.id: entry for entry in (*by_id, *by_name)}.values())

    def _own(self, entry: ClassEntry) -> Name | None:
        """What a class can be found by besides its id."""
        return entry.name if self._numbering is None else self.label(entry)

    def _hint(self, which: int | str) -> str:
        near = difflib.get_close_matches(str(which), [str(self.label(entry)) for entry in self], 1)
        if near:
            return f"is '{shown(near[0])}' meant?"
        some = [f"{entry.id} ({shown(self.label(entry))})" for entry in self]
        return f"there are {', '.join(some[:5])}{', …' if len(some) > 5 else ''}"

    def called(self, entry: ClassEntry) -> str:
        """The class's label as it can be printed."""
        return shown(self.label(entry))

    def typed(self, word: str) -> Name:
        """A name that was typed: a number where the labelled names are numbers, if it is one."""
        number = as_number(word) if self._numbering else None
        return word if number is None else number

    def _free(self, name: Name, entry: ClassEntry | None) -> Name:
        """The name, if no other class has it; dropped classes have none any more."""
        for other in self.entries:
            if (entry is None or other.id != entry.id) and same_name(other.name, name):
                root = self.root(other)
                if root.dropped:
                    continue
                if root.id != other.id:
                    raise InputError(
                        f"'{shown(name)}' is class {other.id}, which is part of {self.called(root)} "
                        f"(class {root.id}); split that first, or take another name"
                    )
                raise InputError(f"'{shown(name)}' is class {other.id} already; merge the two, or take another name")
        if entry is not None and self._numbering and self._numbering.reserves(name, entry.id):
            raise InputError(
                f"{shown(name)} is a number that happycat gives: discovered classes have {self._numbering.first} and "
                f"those above it, images that fit no class {self._numbering.unknown}; take another name"
            )
        return name


def _quoted(which: int | str) -> str:
    return f"'{shown(which)}'" if isinstance(which, str) else str(which)


def check_table(entries: Sequence[ClassEntry], rows: int, apart: Iterable[tuple[int, int]]) -> None:
    """A ValueError if classes cannot be those of a model whose pool has so many rows."""
    owned = [row for entry in entries for row in entry.rows]
    if len(set(owned)) < len(owned) or not all(0 <= row < rows for row in owned):
        raise ValueError("rows that are not there, or of two classes")
    if not any(entry.alive for entry in entries) or not all(entry.rows or entry.dropped for entry in entries):
        raise ValueError("no class, or one without a prototype")
    if not all(0 <= one < two < len(entries) for one, two in apart):
        raise ValueError("classes held apart that are not there")
    roots = _roots(entries)
    taken = [entry.name for entry in entries if entry.name is not None and not roots[entry.id].dropped]
    numbers = [name for name in taken if not isinstance(name, str)]
    spelled = {as_number(name) for name in taken if isinstance(name, str)}
    if len(set(map(str, taken))) < len(taken) or len(set(numbers)) < len(numbers) or spelled & set(numbers):
        raise ValueError("two classes of one name")


def _roots(entries: Sequence[ClassEntry]) -> dict[int, ClassEntry]:
    """The class that each is part of, through all merges; a ValueError if that leads nowhere or in a circle."""
    roots: dict[int, ClassEntry] = {}
    for entry in entries:
        chain = [entry]
        while chain[-1].id not in roots and (into := chain[-1].merged_into) is not None:
            if not 0 <= into < len(entries) or len(chain) > DEEPEST:
                raise ValueError(f"class {entry.id} is part of {into}")
            chain.append(entries[into])
        root = roots.get(chain[-1].id, chain[-1])
        roots |= {one.id: root for one in chain}
    return roots
