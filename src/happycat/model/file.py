"""The model file: a base and every version the model has had, each array stored once, all with checksums.

    HAPPYCAT 4\n
    length (8 bytes, little-endian) · SHA-256 (32 bytes) · index, JSON
    blobs

The index lists the blobs by their SHA-256 in the order in which they lie there, and the versions, each with what made
it, when, and the blobs that are its metadata (JSON) and its list of arrays (JSON: name, type, shape, blob). So what
two versions share is there once, and a correction adds some kilobytes. The model is at one of the versions; those
behind it were undone, and stay until something else is done instead. A file is data: nothing in it is executed. It is
replaced as a whole or not at all.
"""

from __future__ import annotations

import datetime
import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from happycat.base import disk
from happycat.base.errors import InputError, StorageError
from happycat.base.version import __version__
from happycat.model.blobs import MAGIC, Blobs, Index, Record, packed_json
from happycat.model.schema import check_description
from happycat.model.writing import Part, Pieces, Updated, stored, write

__all__ = [
    "MAGIC",
    "ModelFile",
    "Part",
    "Updated",
    "VersionTag",
    "append",
    "create",
    "damaged_versions",
    "go_to",
    "history",
    "locked",
    "read",
    "redo",
    "repair",
    "tag_before",
    "undo",
    "undone",
]


class VersionTag(NamedTuple):
    """Which version of which model: its number, and a checksum of what it holds and of the base."""

    number: int
    sha256: str


@dataclass(frozen=True)
class ModelFile:
    """The present version of a model file. Arrays are read, and checked, when they are used."""

    base: Part
    metadata: dict[str, Any]
    arrays: Blobs
    number: int
    tag: VersionTag


def create(path: str | Path, base: Part, version: Part, what: str, more: Mapping[str, Any] | None = None) -> VersionTag:
    """A new file with one version; hold `locked` meanwhile.

    `what` says what made it, `more` is added to what `history` returns.
    """
    path = Path(path)
    if path.exists():
        raise InputError(f"{path} is there already; give another name, or delete it")
    pieces = Pieces()
    index = Index(
        base=Record({}, *stored(base, pieces)),
        versions=[Record(_described(1, what, more), *stored(version, pieces))],
        current=1,
        next_id=version.metadata.get("next_id", 0),
    )
    write(path, index, pieces)
    return _tag(index)


def append(
    path: str | Path, version: Part, expected: VersionTag, what: str, more: Mapping[str, Any] | None = None
) -> VersionTag:
    """Add a version, if the present one of the file is `expected`; hold `locked` meanwhile. What was undone goes.

    Arrays that are in the file already are not stored again; those that were `read` from it need not even be read.
    """
    path = Path(path)
    index = _sound(path)
    if _tag(index) != VersionTag(*expected):
        raise InputError(
            f"{path} holds another model, or was changed since this one was loaded (it is at version "
            f"{index.current}); load it again, or save under another name"
        )
    _check_present(path, index)
    pieces = Pieces()
    number = index.current + 1
    record = Record(_described(number, what, more), *stored(version, pieces))
    next_id = max(index.next_id, version.metadata.get("next_id", 0))
    grown = Index(index.base, [*index.versions[: index.current], record], number, next_id)
    write(path, grown, pieces, index)
    return _tag(grown)


def read(path: str | Path) -> ModelFile:
    """The base and the present version; of other versions nothing is read.

    `metadata["next_id"]` is that of the file: no id is given twice, not even that of a version that was undone.
    """
    path = Path(path)
    index = _sound(path)
    try:
        base = Part(index.json(path, index.base.metadata), Blobs(path, index, index.base.arrays))
        metadata, arrays = index.json(path, index.present.metadata), Blobs(path, index, index.present.arrays)
    except StorageError as error:
        raise index.damage(path) from error
    if type(metadata.get("next_id")) is int:  # what else it may be is refused where classes are read
        metadata["next_id"] = max(index.next_id, metadata["next_id"])
    return ModelFile(base, metadata, arrays, index.current, _tag(index))


def history(path: str | Path) -> list[dict[str, Any]]:
    """What each version up to the present says of itself: its number, what, when, happycat's version, and more."""
    index = _sound(Path(path))
    return [dict(record.description) for record in index.versions[: index.current]]


def undone(path: str | Path) -> list[dict[str, Any]]:
    """What the versions behind the present one say of themselves: those that `redo` brings back, the next one first."""
    index = _sound(Path(path))
    return [dict(record.description) for record in index.versions[index.current :]]


def undo(path: str | Path) -> int:
    """Go back to the version before, whose number is returned; a damaged file is refused. Hold `locked` meanwhile."""
    path = Path(path)
    index = _sound(path)
    _check_present(path, index)
    if index.current == 1:
        raise InputError(f"{path} has no earlier version")
    return _go(path, index, index.current - 1)


def repair(path: str | Path) -> Path | None:
    """Bring a damaged file to its last good version; the copy that is kept of it as it was, None if it is whole.

    No good version is dropped: one behind a damaged one can still be gone to. Hold `locked` meanwhile.
    """
    path = Path(path)
    _there(path)
    index = Index.read(path)
    good = index.last_good(path)
    if good == index.current and index.fits(path):
        return None
    if good < 1:
        raise index.damage(path)
    copy, versions = _keep_damaged(path), list(index.versions)
    while not index.is_good(path, versions[-1]):
        versions.pop()
    write(path, Index(index.base, versions, good, index.next_id), Pieces(), index)
    return copy


def damaged_versions(path: str | Path) -> list[int]:
    """The numbers of all versions, before and behind the present one, that are not as they were written."""
    path = Path(path)
    index = _sound(path)
    good = index.is_good(path, index.base)
    return [i for i, record in enumerate(index.versions, 1) if not (good and index.is_good(path, record))]


def redo(path: str | Path) -> int:
    """Bring back the version that was undone last, whose number is returned. Hold `locked` meanwhile."""
    path = Path(path)
    index = _sound(path)
    if index.current == len(index.versions):
        raise InputError(f"nothing of {path} was undone since its last change")
    return _go(path, index, index.current + 1)


def go_to(path: str | Path, number: int) -> int:
    """Go back or forth to that version. Hold `locked` meanwhile."""
    path = Path(path)
    index = _sound(path)
    if not 1 <= number <= len(index.versions):
        raise InputError(f"{path} has the versions 1 to {len(index.versions)}, not {number}")
    return _go(path, index, number)


def _go(path: Path, index: Index, number: int) -> int:
    if not index.is_good(path, index.versions[number - 1]):
        raise StorageError(
            f"version {number} of {path} is damaged, so there is no going to it; version {index.current} is good"
        )
    write(path, Index(index.base, index.versions, number, index.next_id), Pieces(), index)
    return number


@contextmanager
def locked(path: str | Path, wait: bool = False, new: bool = False) -> Iterator[None]:
    """Nobody else changes the file, or makes it if it is `new`, meanwhile; who does is said at once, or waited for."""
    path = Path(path)
    real = path.resolve()
    if new:
        disk.make_folder(real.parent)
    else:
        _there(path)
    with disk.locked(real.with_name(f".{real.name}.lock"), str(path), wait):
        yield


def _described(number: int, what: str, more: Mapping[str, Any] | None) -> dict[str, Any]:
    when = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    described = {**(more or {}), "number": number, "what": what, "when": when, "happycat": __version__}
    try:
        packed_json(described)
        check_description(described)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"what is said of a version cannot be stored ({error}); say something else") from error
    return described


def tag_before(path: str | Path) -> VersionTag | None:
    """The tag of the version before the present one; None if that is the first."""
    index = _sound(Path(path))
    return _tag(index, index.current - 1) if index.current > 1 else None


def _tag(index: Index, number: int | None = None) -> VersionTag:
    number = number or index.current
    content = packed_json([index.base.packed(), index.versions[number - 1].packed()])
    return VersionTag(number, hashlib.sha256(content).hexdigest())


def _there(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"there is no model {path}; make one with `happycat fit FOLDER -o {path}`")


def _sound(path: Path) -> Index:
    _there(path)
    index = Index.read(path)
    if not index.fits(path):
        raise index.damage(path)
    return index


def _check_present(path: Path, index: Index) -> None:
    if not (index.is_good(path, index.base) and index.is_good(path, index.present)):
        raise index.damage(path)


def _keep_damaged(path: Path) -> Path:
    copy, number = path.with_name(f"{path.name}.damaged"), 1
    while copy.exists():
        number += 1
        copy = path.with_name(f"{path.name}.damaged-{number}")
    with disk.replacing(copy, like=path) as temporary:
        shutil.copyfile(path, temporary)
    return copy
