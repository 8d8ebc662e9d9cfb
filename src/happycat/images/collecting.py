"""A person's own pictures, gathered from folders, a CSV file or what was typed; what cannot be read is told."""

from __future__ import annotations

import csv
import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import NamedTuple

from happycat.base.disk import replacing
from happycat.base.errors import InputError
from happycat.images.decoding import picture_or_reason, shown
from happycat.images.pictures import FilePictures

IGNORED = frozenset({"thumbs.db", "desktop.ini", ".ds_store"})  # besides all that begins with a dot
AT_ONCE = 256  # files handed to the threads at a time
ADVICE = "give a folder of images, or a CSV file that lists them"
LABELLED_ADVICE = "give a folder with one folder of images per class, or a CSV file with the columns path and label"


class Skipped(NamedTuple):
    """A file or folder that is left out, its path written like a key, and why."""

    path: str
    reason: str


class Gathered(NamedTuple):
    """Readable pictures, sorted by key, each content once; `duplicates` maps a key left out to the one kept."""

    pictures: FilePictures
    labels: list[str] | None
    skipped: list[Skipped]
    duplicates: dict[str, str]


class Candidate(NamedTuple):
    """A file that may be a picture, and its class if it has one."""

    key: str
    label: str | None = None


class Candidates(NamedTuple):
    """What was found before any file is opened; `root / key` is the file."""

    root: Path
    files: list[Candidate]
    skipped: list[Skipped]


def gather_labelled(source: Path, advance: Callable[[int], None] | None = None) -> Gathered:
    """The pictures of a folder that has a folder per class, or of a CSV file with the columns path and label.

    One content under two labels is left out altogether. `advance` is called with 1 after each file.
    """
    source = _expanded(source)
    if os.path.isdir(source):
        found = _class_folders(source)
    elif os.path.isfile(source):
        found = _listed(source, ("path", "label"))
    else:
        raise InputError(f"there is no folder or file {shown(source)}; {LABELLED_ADVICE}")
    return _checked(found, str(source), LABELLED_ADVICE, advance)


def gather(source: Path | Sequence[Path], advance: Callable[[int], None] | None = None) -> Gathered:
    """The pictures of a folder, of a CSV file with a column path, or of the files and folders in a sequence.

    The keys are paths below the folder, paths as in the CSV file, or paths as given in the sequence.
    `advance` is called with 1 after each file.
    """
    if not isinstance(source, str | Path):
        paths = [Path(path) for path in source]
        if not paths:
            raise InputError(f"no files are named; {ADVICE}")
        return _checked(_typed(paths), _in_words(paths), ADVICE, advance)
    source = _expanded(source)
    if os.path.isdir(source):
        keys, skipped = _walk(source, "", set())
        found = Candidates(source, [Candidate(key) for key in keys], skipped)
    elif os.path.isfile(source) and source.suffix.lower() == ".csv":
        found = _listed(source, ("path",))
    else:
        found = _typed([source])
    return _checked(found, str(source), ADVICE, advance)


def write_skipped(path: Path, skipped: Sequence[Skipped]) -> None:
    """Write the table of what was left out, with the columns path and reason."""
    with (
        replacing(path) as temporary,
        open(temporary, "w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        csv.writer(file).writerows([Skipped._fields, *skipped])


def _expanded(path: Path | str) -> Path:
    """The path with the home folder for a tilde; one that is nobody's home stays."""
    return Path(os.path.expanduser(path))


def _in_words(paths: Sequence[Path]) -> str:
    """The first of the paths and how many more there are."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


def _class_folders(root: Path) -> Candidates:
    """The files below the class folders; a folder that is linked into two classes belongs to both."""
    files, skipped = [], []
    try:
        entries = _entries(root)
    except OSError as error:
        raise InputError(f"{shown(root)} cannot be opened ({error.strerror or error}); {LABELLED_ADVICE}") from error
    for name, is_folder, _ in entries:
        if not is_folder:
            skipped.append(Skipped(name, "not in a class folder"))
            continue
        keys, closed = _walk(root, name, {os.path.realpath(root)})
        files += [Candidate(key, name) for key in keys]
        skipped += closed
    return Candidates(root, files, skipped)


def _typed(paths: Sequence[Path]) -> Candidates:
    """The given files, and the files below the given folders."""
    files, skipped, entered = [], [], set()
    for path in paths:
        if not os.path.lexists(path):
            raise InputError(f"there is no file or folder {shown(path)}; check the path")
        if os.path.isdir(path):
            keys, closed = _walk(Path(""), path.as_posix(), entered)
            files += map(Candidate, keys)
            skipped += closed
        else:
            files.append(Candidate(path.as_posix()))
    return Candidates(Path(""), files, skipped)


def _listed(path: Path, columns: tuple[str, ...]) -> Candidates:
    """The files that the rows of a CSV file name; relative paths begin at its folder."""
    files, skipped = [], []
    for line, values in _rows(path, columns):
        key, label = values[0], values[1].strip() if len(values) > 1 else None
        if not key:
            skipped.append(Skipped("", f"no path in line {line}"))
        elif label == "":
            skipped.append(Skipped(key, "no label"))
        else:
            files.append(Candidate(PurePath(key).as_posix(), label))
    return Candidates(path.parent, files, skipped)


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
                    yield reader.line_num, [row[place] if place < len(row) else "" for place in places]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{shown(path)} cannot be read as a table ({reason}); save it as CSV in UTF-8") from error


def _walk(root: Path, start: str, entered: set[str]) -> tuple[list[str], list[Skipped]]:
    """The keys of the files at any depth of the folder `start`, and the folders that cannot be opened.

    No real folder is entered twice, so links in a circle end; linked ones wait until the others are done.
    """
    keys, closed, waiting = [], [], deque([start])
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
    except OSError:  # a link to itself; as a file it will be told
        return False


def _checked(found: Candidates, source: str, advice: str, advance: Callable[[int], None] | None) -> Gathered:
    """What is left when every file has been decoded and equal ones have been put together."""
    files = sorted(set(found.files))
    skipped = list(found.skipped)
    same: dict[bytes, list[Candidate]] = {}
    for file, outcome in zip(files, _examine(found.root, files, advance), strict=True):
        if isinstance(outcome, str):
            skipped.append(Skipped(file.key, outcome))
        else:
            same.setdefault(outcome, []).append(file)
    kept, duplicates = [], {}
    for group in same.values():
        labels = {file.label for file in group}
        if len(labels) > 1:
            skipped += [Skipped(file.key, _contradiction(file.label, labels)) for file in group]
            continue
        kept.append(group[0])
        duplicates |= {file.key: group[0].key for file in group[1:]}
    skipped = sorted(set(skipped))
    if not kept:
        raise InputError(_nothing(source, skipped, advice))
    pictures = FilePictures(found.root, [file.key for file in kept])
    labels = None if kept[0].label is None else [file.label for file in kept]
    return Gathered(pictures, labels, skipped, duplicates)


def _examine(root: Path, files: list[Candidate], advance: Callable[[int], None] | None) -> Iterator[bytes | str]:
    """For each file its digest or why it is no picture; a few at a time, so that little is held in memory."""
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(files), AT_ONCE):
            for outcome in pool.map(lambda file: _digest_or_reason(root / file.key), files[start : start + AT_ONCE]):
                if advance:
                    advance(1)
                yield outcome


def _digest_or_reason(path: Path) -> bytes | str:
    """The SHA-256 of the file if it is a picture, or in a few words why it is none."""
    outcome = picture_or_reason(path)
    if isinstance(outcome, str):
        return outcome
    del outcome  # the pixels
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        return error.strerror or str(error)
    return digest.digest()


def _contradiction(label: str, labels: set[str]) -> str:
    return f"labelled {label} here and {', '.join(sorted(labels - {label}))} there"


def _nothing(source: str, skipped: list[Skipped], advice: str) -> str:
    """One line that says what was looked at and what to do."""
    seen = f"{len(skipped)} left out, first: {skipped[0].path}: {skipped[0].reason}" if skipped else "no files there"
    return shown(f"no image can be used in {source} ({seen}); {advice}")
