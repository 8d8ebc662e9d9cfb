"""Writing a model file: what is stored of its parts, each blob once, and the whole file in the place of the old one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from happycat.base import disk
from happycat.base.errors import InputError, StorageError
from happycat.model.blobs import HEAD, MAGIC, TYPES, Blobs, Index, Place, StoredArray, packed_json
from happycat.model.schema import bearable


class Part(NamedTuple):
    """A part of a model file: arrays, and metadata for JSON."""

    metadata: dict[str, Any]
    arrays: Mapping[str, np.ndarray]


class Updated(Mapping[str, np.ndarray]):
    """The arrays of a version that was read, some of them replaced and some added; the others need not be read."""

    def __init__(self, stored: Blobs, new: Mapping[str, np.ndarray]):
        self.stored, self.new = stored, new

    def __getitem__(self, name: str) -> np.ndarray:
        return self.new[name] if name in self.new else self.stored[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.stored, *self.new]))

    def __len__(self) -> int:
        return len({*self.stored, *self.new})


class Pieces:
    """New blobs that are to be written, by their SHA-256."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def add(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.data[name] = data
        return name

    def add_arrays(self, arrays: Mapping[str, np.ndarray], stored: Mapping[str, StoredArray] | None = None) -> str:
        """Add arrays, and the list of them and of those that are `stored` already."""
        manifest = {name: array._asdict() for name, array in (stored or {}).items()}
        for name, array in arrays.items():
            if array.dtype.name not in TYPES:
                raise InputError(f"the array {name} is of type {array.dtype.name}, which is not stored")
            if not bearable(array):
                raise InputError(f"{name} has numbers that are not finite, or too large; such a model is not stored")
            little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
            manifest[name] = StoredArray(self.add(little.tobytes()), array.dtype.name, array.shape)._asdict()
        return self.add(packed_json(manifest))


def stored(part: Part, pieces: Pieces) -> tuple[str, str]:
    """Give the pieces what is to be stored of a part; the SHA-256 of its metadata and of its list of arrays."""
    try:
        metadata = pieces.add(packed_json(part.metadata))
    except ValueError as error:
        raise InputError(f"a model with numbers that are not finite is not stored ({error})") from error
    if isinstance(part.arrays, Blobs):
        return metadata, part.arrays.manifest
    if isinstance(part.arrays, Updated):
        return metadata, pieces.add_arrays(part.arrays.new, part.arrays.stored.entries)
    return metadata, pieces.add_arrays(part.arrays)


def write(path: Path, index: Index, pieces: Pieces, before: Index | None = None) -> None:
    """Write an index and its blobs: those of `before` that it still needs, from the file, then the new ones."""
    path = path.resolve()
    old: dict[str, Place] = {}
    if before is not None:
        needed, end = _needed(path, index, before), path.stat().st_size - before.start
        old = {name: p for name, p in before.places.items() if name in needed and p.offset + p.length <= end}
    new = {name: data for name, data in pieces.data.items() if name not in old}
    index.places, end = {}, 0
    for name, length in (*((n, p.length) for n, p in old.items()), *((n, len(d)) for n, d in new.items())):
        index.places[name], end = Place(end, length), end + length
    text = index.packed()
    with disk.replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(MAGIC + HEAD.pack(len(text), hashlib.sha256(text).digest()) + text)
        if before is not None and old:
            with open(path, "rb") as source:
                for place in old.values():
                    _copy(source, before.start + place.offset, place.length, file)
        file.writelines(new.values())


def _needed(path: Path, index: Index, before: Index) -> set[str]:
    """The blobs in the file that any version of the index refers to."""
    needed: set[str] = set()
    for record in (index.base, *index.versions):
        needed |= {record.metadata, record.arrays}
        if record.arrays in before.places:
            try:
                needed |= {array.blob for array in Blobs(path, before, record.arrays).entries.values()}
            except StorageError:  # which arrays it had cannot be known: an earlier, damaged version
                return set(before.places)
    return needed


def _copy(source: BinaryIO, offset: int, length: int, target: BinaryIO) -> None:
    source.seek(offset)
    while length > 0 and (block := source.read(min(1 << 20, length))):
        target.write(block)
        length -= len(block)
