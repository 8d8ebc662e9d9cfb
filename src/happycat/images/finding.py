"""Finding image files in folders, in a CSV file or among given paths, before any of them is opened."""

from __future__ import annotations

import csv
import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from happycat.base.errors import InputError
from happycat.base.text import as_given, shown

IGNORED = frozenset({"thumbs.db", "desktop.ini", ".ds_store"})  # besides all that begins with a dot
FOLDER_ADVICE = "give a folder with one folder of images per class"
LABELLED_ADVICE = f"{FOLDER_ADVICE}, or a CSV file with the columns path and label"


class Skipped(NamedTuple):
    """A file or folder that is left out, its path written like a key, and why."""

    path: str
    reason: str


class Candidate(NamedTuple):
    """A file that may be a picture, and its class if it has one."""

    key: str
    label: str | None = None


class Candidates(NamedTuple):
    """What was found before any file is opened; `root / key` is the file. Of equal contents the first is kept."""

    root: Path
    files: list[Candidate]
    skipped: list[Skipped]


def expanded(path: Path | str) -> Path:
    """The path with the home folder for a tilde; one that is nobody's home stays."""
    return Path(os.path.expanduser(path))


def class_folders(root: Path, parts: Sequence[str]) -> Candidates:
    """The files below the class folders of each part; a folder that is linked into two classes belongs to both."""
    files: list[Candidate] = []
    skipped: list[Skipped] = []
    for part in parts:
        try:
            entries = _entries(root / part)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{shown(root / part)} cannot be opened ({reason}); {FOLDER_ADVICE}") from error
        found: list[Candidate] = []
        for name, is_folder, _ in entries:
            key = (PurePath(part) / name).as_posix()
            if not is_folder:
                skipped.append(Skipped(key, "not in a class folder"))
                continue
            keys, closed = _walk(root, key, {os.path.realpath(root), os.path.realpath(root / part)})
            found += [Candidate(key, name) for key in keys]
            skipped += closed if keys or closed else [Skipped(key, "class folder without files")]
        files += sorted(found)
    return Candidates(root, files, skipped)


def in_one_place(source: Path) -> Candidates:
    """The files of a folder, of a CSV file, or the one file."""
    if os.path.isdir(source):
        keys, skipped = _walk(source, "", set())
        return Candidates(source, sorted(map(Candidate, keys)), skipped)
    if os.path.isfile(source) and source.suffix.lower() == ".csv":
        return listed(source, ("path",))
    return typed([source])


def typed(paths: Sequence[Path]) -> Candidates:
    """The given files, and the files below the given folders; some may not exist, but not all."""
    if not any(map(os.path.lexists, paths)):
        if len(paths) == 1:
            raise InputError(f"there is no file or folder {shown(paths[0])}; check the path")
        raise InputError(f"none of the {len(paths)} paths exists (first: {shown(paths[0])}); check them")
    files: list[Candidate] = []
    skipped: list[Skipped] = []
    entered: set[str] = set()
    for path in paths:
        if os.path.isdir(path):
            keys, closed = _walk(Path(""), path.as_posix(), entered)
            files += map(Candidate, keys)
            skipped += closed
        else:
            files.append(Candidate(path.as_posix()))
    return Candidates(Path(""), sorted(files), skipped)


def listed(path: Path, columns: tuple[str, ...]) -> Candidates:
    """The files that the rows of a CSV file name; relative paths begin at its folder."""
    files: list[Candidate] = []
    skipped: list[Skipped] = []
    for line, values in _rows(path, columns):
        key, label = values[0], values[1].strip() if len(values) > 1 else None
        if not key:
            skipped.append(Skipped("", f"no path in line {line}"))
        elif label == "":
            skipped.append(Skipped(key, "no label"))
        else:
            files.append(Candidate(PurePath(key).as_posix(), label))
    return Candidates(path.parent, sorted(files), skipped)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, list[str]]]:
    """The line number and the wanted columns of each row, in the order wanted; what is missing is empty."""
    wanted = " and ".join(columns)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            names = [name.strip().lower() for name in next(reader, [])]
            if not names:
                raise InputError(f"{shown(path)} is empty; its first line should name the columns {wanted}")
            for column in columns:
                if column not in names:
                    found = shown(", ".join(names))[:80]
                    raise InputError(
                        f"{shown(path)} has no column {column} (found: {found}); "
                        f"its first line should name {wanted}, separated by commas"
                    )
            places = [names.index(column) for column in columns]
            for row in reader:
                if row:
                    yield reader.line_num, [as_given(row[place]) if place < len(row) else "" for place in places]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = shown(getattr(error, "strerror", None) or str(error))
        raise InputError(f"{shown(path)} cannot be read as a table ({reason}); save it as CSV in UTF-8") from error


def _walk(root: Path, start: str, entered: set[str]) -> tuple[list[str], list[Skipped]]:
    """The keys of the files at any depth of the folder `start`, and the folders that cannot be opened.

    No real folder is entered twice, so links in a circle end; linked ones wait until the others are done.
    """
    keys: list[str] = []
    closed: list[Skipped] = []
    waiting = deque([start])
    while waiting:
        folder = waiting.popleft()
        real = os.path.realpath(root / folder)
        if real in entered:
            continue
        entered.add(real)
        try:
            entries = _entries(root / folder)
        except OSError as error:
            closed.append(Skipped(folder or ".", error.strerror or str(error)))
            continue
        for name, is_folder, is_link in entries:
            key = (PurePath(folder) / name).as_posix()
            if not is_folder:
                keys.append(key)
            elif is_link:
                waiting.append(key)
            else:
                waiting.appendleft(key)
    return keys, closed


def _entries(folder: Path) -> list[tuple[str, bool, bool]]:
    """The visible names in the folder, sorted, whether each is a folder and whether a link."""
    with os.scandir(folder) as entries:
        return sorted(
            (entry.name, _is_folder(entry), entry.is_symlink())
            for entry in entries
            if not entry.name.startswith(".") and entry.name.lower() not in IGNORED
        )


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself; it is reported as a file that cannot be read
        return False
