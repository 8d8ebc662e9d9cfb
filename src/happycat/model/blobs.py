"""Content-addressed storage in one file: an index, then blobs, each known by its SHA-256."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from happycat.base.errors import InputError, StorageError
from happycat.base.strict_json import parse_json
from happycat.model.schema import bearable, check_description, sha256

FORMAT = 4  # goes up with every change of what a file holds, so that an older one is refused in one clear line
MAGIC = b"HAPPYCAT %d\n" % FORMAT
HEAD = struct.Struct("<Q32s")  # length and SHA-256 of the index
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TYPES = ("bool", *INTEGERS, "float16", "float32", "float64")


class Place(NamedTuple):
    """Where a blob lies, from the first blob on."""

    offset: int
    length: int


class Record(NamedTuple):
    """A version, or the base: its description, and which blobs are its metadata and its list of arrays."""

    description: dict[str, Any]
    metadata: str
    arrays: str

    def packed(self) -> dict[str, Any]:
        return {"description": self.description, "metadata": self.metadata, "arrays": self.arrays}


@dataclass
class Index:
    """What the file holds: the base, the versions, the blobs; and the first id that no class has ever had.

    `current` is the number of the version that the model is at; those behind it were undone, and can be redone.
    """

    base: Record
    versions: list[Record]
    current: int
    next_id: int = 0
    places: dict[str, Place] = field(default_factory=dict)
    start: int = 0  # of the blobs
    digest: bytes = b""  # of the index itself

    @classmethod
    def read(cls, path: Path) -> Index:
        """The index, checked: nothing that it says lies outside of itself."""
        with opened(path) as file:
            length, digest = read_head(path, file)
            start = len(MAGIC) + HEAD.size + length
            if start > _end(file) or hashlib.sha256(text := file.read(length)).digest() != digest:
                raise StorageError(f"{path} is damaged in its table of contents; nothing in it can be used")
        try:
            content = parse_json(text, "its table of contents")
            places, end = {}, 0
            for blob in content["blobs"]:
                place = Place(_size(blob["offset"]), _size(blob["length"]))
                if place.offset != end:
                    raise ValueError("blobs that do not follow each other")
                if blob["sha256"] in places:
                    raise ValueError("a blob that is there twice")
                places[_sha256(blob["sha256"])], end = place, end + place.length
            base, versions = _record(content["base"]), [_version(version) for version in content["versions"]]
            if not versions or any(one.description["number"] != i for i, one in enumerate(versions, 1)):
                raise ValueError("versions that are not numbered")
            if not 1 <= (current := _size(content["current"])) <= len(versions):
                raise ValueError(f"version {current} of {len(versions)}")
            return cls(base, versions, current, _size(content["next_id"]), places, start, digest)
        except (ValueError, KeyError, TypeError, InputError) as error:
            raise _no_model(path, error) from error

    def packed(self) -> bytes:
        blobs = [{"sha256": name, **place._asdict()} for name, place in self.places.items()]
        versions = [version.packed() for version in self.versions]
        return packed_json(
            {
                "base": self.base.packed(),
                "versions": versions,
                "current": self.current,
                "next_id": self.next_id,
                "blobs": blobs,
            }
        )

    @property
    def present(self) -> Record:
        """The version that the model is at."""
        return self.versions[self.current - 1]

    @property
    def size(self) -> int:
        """Of the whole file."""
        return self.start + sum(place.length for place in self.places.values())

    def fits(self, path: Path) -> bool:
        """Whether the file is as long as the index says."""
        return path.stat().st_size == self.size

    def blob(self, path: Path, name: str) -> bytes:
        """A blob, if it is there and as it was written."""
        place = self.places.get(name, Place(0, 0))
        with opened(path) as file:
            if self.start + place.offset + place.length <= _end(file):  # before anything is allocated
                file.seek(self.start + place.offset)
                data = file.read(place.length)
                if hashlib.sha256(data).hexdigest() == name:
                    return data
        raise StorageError(f"{path} was cut off or changed: a part of it is not what was written")

    def json(self, path: Path, name: str) -> dict[str, Any]:
        """A blob that is a JSON object."""
        try:
            content = parse_json(self.blob(path, name), "a part of it")
        except InputError as error:
            raise _no_model(path, error) from error
        if not isinstance(content, dict):
            raise _no_model(path, "a list where there should be an object")
        return content

    def is_good(self, path: Path, record: Record) -> bool:
        """Whether all that a version needs is there and as it was written."""
        try:
            self.json(path, record.metadata)
            for array in Blobs(path, self, record.arrays).entries.values():
                self.blob(path, array.blob)
        except StorageError:
            return False
        return True

    def last_good(self, path: Path) -> int:
        """The number of the last version that is whole, up to the present; 0 if there is none, or no good base."""
        if not self.is_good(path, self.base):
            return 0
        numbers = range(self.current, 0, -1)
        return next((number for number in numbers if self.is_good(path, self.versions[number - 1])), 0)

    def damage(self, path: Path) -> StorageError:
        """The error that says what of a damaged file can still be used."""
        good = self.last_good(path)
        if good == 0:
            return StorageError(f"{path} is damaged from its first version on; nothing in it can be used")
        return StorageError(
            f"{path} was cut off or changed; its last good version is {good} of {self.current}: "
            f"`happycat doctor {path} --repair` keeps a copy of the file and goes back to it"
        )


class StoredArray(NamedTuple):
    """An array in a file: which blob, and how to read it."""

    blob: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape, start=np.dtype(self.dtype).itemsize)

    def of(self, data: bytes) -> np.ndarray:
        """The array; a ValueError if it has a number that no model has."""
        array = np.frombuffer(data, np.dtype(self.dtype).newbyteorder("<")).astype(self.dtype).reshape(self.shape)
        if not bearable(array):
            raise ValueError("numbers that are not finite, or too large")
        return array


class Blobs(Mapping[str, np.ndarray]):
    """The arrays of a version, by name; each is read and checked when it is used.

    The file may be replaced meanwhile by one with more versions: an array is looked up by what it holds.
    """

    def __init__(self, path: Path, index: Index, manifest: str):
        self._path, self._index = path, index
        self.manifest = manifest
        try:
            content = index.json(path, manifest)
            self.entries = {str(name): _stored_array(index, array) for name, array in content.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise _no_model(path, error) from error

    def __getitem__(self, name: str) -> np.ndarray:
        array = self.entries[name]
        with opened(self._path) as file:
            same = read_head(self._path, file)[1] == self._index.digest
        if not same:
            self._index = Index.read(self._path)
            if array.blob not in self._index.places:
                raise StorageError(f"{self._path} was changed meanwhile and lacks {name}; load the model again")
        try:
            return array.of(self._index.blob(self._path, array.blob))
        except StorageError as error:
            raise self._index.damage(self._path) from error
        except ValueError as error:
            raise _no_model(self._path, f"{name}: {error}") from error

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """The file, to be read."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    with file:
        yield file


def _end(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def read_head(path: Path, file: BinaryIO) -> tuple[int, bytes]:
    """The length and SHA-256 of the index of a file that is a model of this format."""
    head = file.read(len(MAGIC) + HEAD.size)
    if (found := re.match(rb"HAPPYCAT ([0-9]{1,9})\n", head)) is None:
        raise InputError(f"{path} is not a happycat model")
    if (number := int(found[1])) < FORMAT:
        raise InputError(
            f"{path} was made by an earlier happycat (format {number}, this one reads {FORMAT}), whose models cannot "
            "be read; fit the model again"
        )
    if number > FORMAT:
        raise InputError(
            f"{path} was made by a later happycat (format {number}, this one reads {FORMAT}); install a later one"
        )
    if len(head) < len(MAGIC) + HEAD.size:
        raise StorageError(f"{path} is cut off at its beginning; nothing in it can be used")
    length, digest = HEAD.unpack_from(head, len(MAGIC))
    return length, digest


def packed_json(content: Any) -> bytes:
    """JSON in one form only, so that the same content has the same checksum."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _no_model(path: Path, error: object) -> StorageError:
    return StorageError(f"{path} holds something that is not a happycat model ({error})")


def _size(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"{number!r} is no size")
    return number


def _sha256(name: Any) -> str:
    if not sha256(name):
        raise ValueError("a checksum that is none")
    return name


def _record(content: dict[str, Any]) -> Record:
    if not isinstance(content["description"], dict):
        raise ValueError("a version without a description")
    return Record(content["description"], _sha256(content["metadata"]), _sha256(content["arrays"]))


def _version(content: dict[str, Any]) -> Record:
    record = _record(content)
    check_description(record.description)
    return record


def _stored_array(index: Index, content: dict[str, Any]) -> StoredArray:
    array = StoredArray(_sha256(content["blob"]), content["dtype"], tuple(map(_size, content["shape"])))
    if array.dtype not in TYPES:
        raise ValueError(f"an array of type {array.dtype!r}")
    if array.blob in index.places and index.places[array.blob].length != array.num_bytes:
        raise ValueError("an array whose size is not that of its blob")
    return array
