"""Exact updates of prototypes: an image that a person moves is taken from one sum of points and added to another.

A prototype is the direction of a sum of unit points. So the model is at once what it would be had the image been there
from the start. What was said of the image is remembered with the prototype that counts it in; more exactly, with the
smallest part of it that the image would fall into if the class were split. So the image goes with its part then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from happycat.model.chosen import Chosen
from happycat.model.entry import ClassEntry
from happycat.model.registry import ClassRegistry
from happycat.model.statements import NOBODY, Statement


def settle(
    registry: ClassRegistry,
    chosen: Chosen,
    targets: Sequence[ClassEntry | None],
    said: Sequence[Statement],
    counted_in: bool = False,
) -> None:
    """Count each image in with its class, or with none, and nowhere else; remember what was said of it.

    With `counted_in` the prototype of the class counts the images in already.
    """
    owner_of, rows = owners(registry), counting_rows(registry, chosen)
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
        elif not counted_in and owner_of.get(row) == target.id:
            place = row
        else:
            place = max(owned[target.id], key=lambda r: float(vectors[r] @ point))
        if place != row:
            if row != NOBODY:
                add(row, point, -1)
            if place != NOBODY and not counted_in:
                add(place, point, 1)
        registry.statements.set(digest, statement._replace(row=_smallest_part(registry, place, point)))
    for row, moved in change.items():
        registry.pool.shift(row, moved, number[row])


def counting_rows(registry: ClassRegistry, chosen: Chosen) -> list[int]:
    """The row of the pool that counts each image in now, or −1; of a class that was split, the nearer half's."""
    used, found = rows_in_use(registry), []
    for digest, point, row in zip(chosen.digests, chosen.points, chosen.counted.tolist(), strict=True):
        statement = registry.statements.get(digest)
        row = row if statement is None else statement.row
        while row != NOBODY and row not in used:
            row = _nearer_half(registry, row, point)
        found.append(used.get(row, NOBODY))
    return found


def rows_in_use(registry: ClassRegistry) -> dict[int, int]:
    """For each row that belongs to a class, and for each part that it would be split into, the row."""
    children, found = registry.pool.children.tolist(), {}
    for entry in registry.entries:
        for row in entry.rows:
            parts = [row]
            while parts:
                part = parts.pop()
                found[part] = row
                parts += [half for half in children[part] if half >= 0]
    return found


def _smallest_part(registry: ClassRegistry, row: int, point: np.ndarray) -> int:
    """The last part that a point falls into when a row is split, and its halves again; none of no row."""
    while row != NOBODY and registry.pool.children[row, 0] >= 0:
        row = _nearer_half(registry, row, point)
    return row


def _nearer_half(registry: ClassRegistry, row: int, point: np.ndarray) -> int:
    pool = registry.pool
    return max(pool.children[row].tolist(), key=lambda half: float(pool.vectors[half] @ point))


def owners(registry: ClassRegistry) -> dict[int, int]:
    """The id of the class that each row belongs to, through all merges."""
    return {row: registry.root(entry).id for entry in registry.entries for row in entry.rows}


def said_classes(registry: ClassRegistry, said: Mapping[int, Statement]) -> dict[int, int]:
    """The ids of the classes that images were said to be of, by the images' places.

    Of a class that was merged since it is the whole, of one that was split the part that counts the image in.
    """
    of_class = {i: statement for i, statement in said.items() if statement.cls is not None}
    if not of_class:
        return {}
    used, owner_of = rows_in_use(registry), owners(registry)
    return {
        i: owner_of[used[one.row]] if one.row in used else registry.root(registry.entries[one.cls or 0]).id
        for i, one in of_class.items()
    }


def said_before(registry: ClassRegistry, chosen: Chosen) -> list[Statement]:
    """What was said of the images so far; where nothing was, what their discovery counts them in with."""
    known = zip(chosen.digests, chosen.counted.tolist(), strict=True)
    return [registry.statements.get(digest) or Statement(row=row) for digest, row in known]
