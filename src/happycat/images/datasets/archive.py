"""Unpacked archives of published data sets: finding, reading and checking their files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from happycat.base.errors import InputError
from happycat.base.text import shown

Made = TypeVar("Made")

SUFFIXES = frozenset(
    {
        *(".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm"),
        *(".png", ".pnm", ".ppm", ".tga", ".tif", ".tiff", ".webp"),
    }
)


def unpacked(root: Path | str, folder: str, marker: str, advice: str) -> Path:
    """The data set's own folder: `root/folder`, or `root` itself if that is where `marker` lies."""
    root = Path(root).expanduser()
    for place in (root / folder, root):
        if (place / marker).exists():
            return place
    raise InputError(f"{folder}: {shown(root / folder / marker)} is missing; {advice}")


def rows(path: Path, columns: int) -> list[list[str]]:
    """The lines of a text table, split at white space into `columns` fields (the last may hold blanks)."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise InputError(f"{shown(path)} is missing; unpack the archive again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{shown(path)} cannot be read as text ({error}); unpack the archive again") from error
    table = [line.strip().split(maxsplit=columns - 1) for line in lines if line.strip()]
    for fields in table:
        if len(fields) != columns:
            raise InputError(f"{shown(path)}: {' '.join(fields)!r} is not {columns} fields; unpack the archive again")
    return table


def numbers(words: Iterable[str], path: Path) -> np.ndarray:
    """The words as int64, (N,); `path` is where they were read."""
    try:
        return np.array([int(word) for word in words], dtype=np.int64)
    except ValueError as error:
        raise InputError(f"{shown(path)}: {error}; unpack the archive again") from None


def labels(names: Sequence[str], classes: Sequence[str], path: Path) -> np.ndarray:
    """The index of each name in `classes` as int64, (N,); `path` is where the names were read."""
    index = {name: label for label, name in enumerate(classes)}
    for name in names:
        if name not in index:
            raise InputError(
                f"{shown(path)}: {name!r} is not one of the {len(index)} classes; unpack the archive again"
            )
    return np.array([index[name] for name in names], dtype=np.int64)


def check_count(what: str, found: int, expected: int) -> None:
    """Raises if an archive does not have the published number of classes."""
    if found != expected:
        raise InputError(f"{what} has {found} classes, expected {expected}; unpack the archive again")


def check_present(root: Path, keys: Sequence[str]) -> None:
    """Raises if pictures that an annotation file lists are not on disk."""
    missing = [key for key in keys if not (root / key).is_file()]
    if missing:
        raise InputError(
            f"{len(missing)} of {len(keys)} listed images are missing below {shown(root)} "
            f"(first: {shown(missing[0])}); unpack the archive again"
        )


def picture_keys(root: Path, folder: Path) -> list[str]:
    """The picture files at any depth of `folder`, as sorted keys below `root`; hidden ones are left out."""
    keys = []
    for place, subfolders, names in os.walk(folder):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        below = Path(place).relative_to(root)
        keys += [
            (below / name).as_posix()
            for name in names
            if not name.startswith(".") and Path(name).suffix.lower() in SUFFIXES
        ]
    return sorted(keys)


def subfolders(folder: Path) -> list[str]:
    """The names of the visible folders directly in `folder`, sorted."""
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and entry.name[0] != ".")


def distinct(names: Sequence[str], ids: Sequence[str]) -> tuple[str, ...]:
    """The names, with the id behind those that occur more than once."""
    times = Counter(names)
    return tuple(name if times[name] == 1 else f"{name} ({id})" for name, id in zip(names, ids, strict=True))


def from_torchvision(
    dataset: Callable[..., Made], what: str, root: Path | str, download: bool, **options: bool
) -> Made:
    """The torchvision data set, its many errors turned into one line each."""
    try:
        return dataset(str(Path(root).expanduser()), download=download, **options)
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        reason = shown(" ".join(str(error).split())) or type(error).__name__
        if download:
            raise InputError(f"{what} could not be downloaded to {shown(root)} ({reason}); try again later") from error
        raise InputError(f"{what} is missing or damaged below {shown(root)}; the option download fetches it") from error
