"""Sorting images into folders by class: copies or links."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from happycat.base.disk import storage_errors

if TYPE_CHECKING:
    from happycat.model.results import Assignment


class Way(NamedTuple):
    """How an image is put into a folder, and whether what lies there is that image already."""

    put: Callable[[Path, Path], object]
    is_there: Callable[[Path, Path], bool]


class Sorted(NamedTuple):
    """How many images were put into their folders, and how many were there already."""

    put: int
    there: int


def sort_into(target: Path, rows: Sequence[Assignment], way: Way) -> Sorted:
    """Put each image into the folder of its class; nothing is overwritten, and what is there is not put there again."""
    put = 0
    for row in rows:
        folder, source = target / _file_name(str(row.label)), Path(row.image)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            place = _free_place(folder, source, way)
            if place is not None:
                way.put(source, place)
                put += 1
    return Sorted(put, len(rows) - put)


def _free_place(folder: Path, source: Path, way: Way) -> Path | None:
    """A path in the folder that nothing has yet, named after the image; None if the image is there."""
    place, number = folder / source.name, 1
    while os.path.lexists(place):
        if way.is_there(source, place):
            return None
        number += 1
        place = folder / f"{source.stem}-{number}{source.suffix}"
    return place


def _copy(source: Path, place: Path) -> None:
    """Copy under another name first: a copy that is cut short would be taken for another image the next time."""
    partial = place.with_name(f".{place.name}.partial")
    try:
        shutil.copy2(source, partial)
        os.replace(partial, place)
    finally:
        partial.unlink(missing_ok=True)


def _is_copy(source: Path, place: Path) -> bool:
    return place.is_file() and not place.is_symlink() and filecmp.cmp(source, place, shallow=False)


def _link(source: Path, place: Path) -> None:
    os.symlink(source.resolve(), place)


def _is_link(source: Path, place: Path) -> bool:
    return place.is_symlink() and place.resolve() == source.resolve()


COPIES = Way(_copy, _is_copy)
LINKS = Way(_link, _is_link)


def _file_name(label: str) -> str:
    """A class's name as that of a folder."""
    cleaned = "".join("_" if c in '/\\:*?"<>|' or ord(c) < 32 else c for c in label).strip(". ")
    return cleaned or "_"
