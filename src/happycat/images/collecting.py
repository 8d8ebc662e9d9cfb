"""Collecting image files and their labels from folders, a CSV file or a list of paths.

What cannot be used is left out and listed with the reason; each content counts once.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from happycat.base.disk import file_sha256, replacing
from happycat.base.errors import InputError
from happycat.base.progress import Advance, nobody
from happycat.base.text import defused, shown
from happycat.images.decoding import reason_against
from happycat.images.finding import (
    FOLDER_ADVICE,
    LABELLED_ADVICE,
    Candidate,
    Candidates,
    Skipped,
    class_folders,
    expanded,
    in_one_place,
    listed,
    typed,
)
from happycat.images.pictures import FilePictures, Images, Pictures

AT_ONCE = 256  # files handed to the threads at a time
ADVICE = "give a folder of images, or a CSV file that lists them"


class Gathered(NamedTuple):
    """Readable pictures, sorted by key, and their labels if there are any.

    `skipped` lists what cannot be used, sorted by path; `duplicates` maps a key left out to the one that is kept.
    """

    pictures: Pictures
    labels: list[str] | None
    skipped: list[Skipped]
    duplicates: dict[str, str]


def gather_labelled(
    source: Path, advance: Advance | None = None, *, parts: Sequence[str] = ("",), keep_duplicates: bool = False
) -> Gathered:
    """The pictures of a folder that has a folder per class, or of a CSV file with the columns path and label.

    With `parts`, such as train and test, the class folders lie in these folders of the source, and the pictures come
    part by part. Each content is kept once, in the part that is named first; one content under two labels is left out
    altogether. With `keep_duplicates`, every readable file is kept. `advance` gets the number of files first (its
    `total`), then it is called with 1 after each.
    """
    found, advice = _labelled_files(expanded(source), parts)
    return _checked(found, str(expanded(source)), advice, advance or nobody, keep_duplicates)


def listed_labels(source: Path) -> list[str]:
    """The label of each file that `gather_labelled` would read; the files themselves are not opened."""
    found, advice = _labelled_files(expanded(source), ("",))
    if not found.files:
        raise InputError(_nothing(str(expanded(source)), sorted(set(found.skipped)), advice))
    return [file.label for file in found.files if file.label is not None]


def _labelled_files(source: Path, parts: Sequence[str]) -> tuple[Candidates, str]:
    """The files of class folders or of a CSV file, and what to say if none of them can be used."""
    if os.path.isdir(source):
        return class_folders(source, parts), FOLDER_ADVICE
    if os.path.isfile(source):
        return listed(source, ("path", "label")), LABELLED_ADVICE
    raise InputError(f"there is no folder or file {shown(source)}; {LABELLED_ADVICE}")


def gather(source: Path | Sequence[Path], advance: Advance | None = None) -> Gathered:
    """The pictures of a folder, of a CSV file with a column path, or of the files and folders in a sequence.

    The keys are paths below the folder, paths as in the CSV file, or paths as given in the sequence.
    `advance` gets the number of files first (its `total`), then it is called with 1 after each.
    """
    name, found = _unlabelled_files(source)
    return _checked(found, name, ADVICE, advance or nobody)


def num_files(source: Path | Sequence[Path]) -> int:
    """How many files `gather` would read; none of them is opened."""
    return len(set(_unlabelled_files(source)[1].files))


def _unlabelled_files(source: Path | Sequence[Path]) -> tuple[str, Candidates]:
    """What to call the source, and its files."""
    if isinstance(source, str | Path):
        source = expanded(source)
        return str(source), in_one_place(source)
    paths = [Path(path) for path in source]
    if not paths:
        raise InputError(f"no files are named; {ADVICE}")
    return _in_words(paths), typed(paths)


def skipped_in_words(images: Images) -> str:
    """How many of a data set's files are left out, and the first of them, in one line."""
    path, reason = images.skipped[0]
    files = len(images.train) + len(images.test) + len(images.skipped)
    return f"{len(images.skipped)} of {files} files are left out (first: {shown(f'{path}: {reason}')})"


def write_skipped(path: Path, skipped: Sequence[tuple[str, str]]) -> None:
    """Write the table of what was left out, with the columns path and reason."""
    write_table(path, Skipped._fields, skipped)


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file whose cells no spreadsheet runs as formulas; `listed` reads them as they were."""
    with (
        replacing(path) as temporary,
        open(temporary, "w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        csv.writer(file).writerows([columns, *(map(defused, row) for row in rows)])


def _in_words(paths: Sequence[Path]) -> str:
    """The first of the paths and how many more there are."""
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}"


def _checked(found: Candidates, source: str, advice: str, advance: Advance, keep_duplicates: bool = False) -> Gathered:
    """What is left when every file has been decoded and equal ones have been put together."""
    files = list(dict.fromkeys(found.files))
    skipped = list(found.skipped)
    same: dict[bytes | str, list[Candidate]] = {}
    for file, outcome in zip(files, _examine(found.root, files, advance, keep_duplicates), strict=True):
        if isinstance(outcome, str):
            skipped.append(Skipped(file.key, outcome))
        else:
            same.setdefault(outcome or file.key, []).append(file)
    kept: list[Candidate] = []
    duplicates: dict[str, str] = {}
    for group in same.values():
        labels = {file.label for file in group}
        if len(labels) > 1:
            skipped += [Skipped(file.key, _contradiction(file, group)) for file in group]
            continue
        kept.append(group[0])
        duplicates |= {file.key: group[0].key for file in group[1:]}
    skipped = sorted(set(skipped))
    if not kept:
        raise InputError(_nothing(source, skipped, advice))
    named = [file.label for file in kept if file.label is not None]
    return Gathered(FilePictures(found.root, [file.key for file in kept]), named or None, skipped, duplicates)


def _examine(
    root: Path, files: list[Candidate], advance: Advance, keep_duplicates: bool
) -> Iterator[bytes | str | None]:
    """For each file why it is no picture, or its digest; None where it is not compared with others.

    A few at a time, so that little is held in memory. A file whose length no other has is not read for a digest.
    """
    advance(0, total=len(files))
    lengths = [None if keep_duplicates else _length(root / file.key) for file in files]
    times = Counter(lengths)

    def outcome(place: int) -> bytes | str | None:
        path = root / files[place].key
        if reason := reason_against(path):
            return reason
        return None if keep_duplicates or times[lengths[place]] == 1 else _digest_or_reason(path)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(files), AT_ONCE):
            for result in pool.map(outcome, range(start, min(start + AT_ONCE, len(files)))):
                advance(1)
                yield result


def _length(path: Path) -> int | None:
    """The bytes in the file; None if it cannot be asked."""
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):  # a path may hold what no path can
        return None


def _digest_or_reason(path: Path) -> bytes | str:
    """The SHA-256 of the file, or in a few words why it cannot be read."""
    try:
        return file_sha256(path)
    except OSError as error:
        return error.strerror or str(error)


def _contradiction(file: Candidate, group: list[Candidate]) -> str:
    others = sorted({str(other.label) for other in group if other.label != file.label})
    return shown(f"labelled {file.label} here and {', '.join(others)} there")


def _nothing(source: str, skipped: list[Skipped], advice: str) -> str:
    """One line that says what was looked at and what to do."""
    seen = f"{len(skipped)} left out, first: {skipped[0].path}: {skipped[0].reason}" if skipped else "no files there"
    return shown(f"no image can be used in {source} ({seen}); {advice}")
