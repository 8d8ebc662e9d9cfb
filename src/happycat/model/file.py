"""A model in one file: a base, then every version it has had, each with its checksum.

    HAPPYCAT 1\n
    length (8 bytes, little-endian) · SHA-256 (32 bytes) · a safetensors file      the backbone, if it is its own
    length · SHA-256 · a safetensors file                                           version 1
    …                                                                               version 2, …

Each part's metadata holds a JSON text, `about`. A file is data: nothing in it is ever executed. It is replaced as a
whole or not at all; what is behind a part that is cut off or changed is not read.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from happycat.base.disk import locked, replacing
from happycat.base.errors import InputError, StorageError

MAGIC = b"HAPPYCAT 1\n"
HEAD = struct.Struct("<Q32s")


class Part(NamedTuple):
    """Tensors, and what they are in words."""

    about: dict
    tensors: dict[str, Tensor]

    def packed(self) -> bytes:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        return _framed(save(tensors, {"about": json.dumps(self.about)}))


class Parts(NamedTuple):
    """The parts of a file as they lie there, base first, and how many bytes behind them are not sound."""

    payloads: list[bytes]
    damaged: int

    @property
    def num_versions(self) -> int:
        return len(self.payloads) - 1


def create(path: Path, base: Part, version: Part) -> None:
    """A new file with one version."""
    path = Path(path)
    if path.exists():
        raise InputError(f"{path} is there already; give another name, or delete it")
    _write(path, [base.packed(), version.packed()])


def append(path: Path, version: Part) -> int:
    """Add a version; its number is returned."""
    parts = _sound(path)
    _write(path, [*map(_framed, parts.payloads), version.packed()])
    return parts.num_versions + 1


def go_back(path: Path) -> int:
    """Drop the last version, or what of it is not sound; the number of the one that is the last then is returned."""
    parts = read_parts(path)
    kept = parts.payloads if parts.damaged else parts.payloads[:-1]
    if len(kept) < 2:
        raise InputError(f"{path} has no earlier version")
    _write(path, [_framed(payload) for payload in kept])
    return len(kept) - 1


def read(path: Path) -> tuple[Part, Part, int]:
    """The base, the last version, and its number."""
    parts = _sound(path)
    return _unpacked(path, parts.payloads[0]), _unpacked(path, parts.payloads[-1]), parts.num_versions


def abouts(path: Path) -> list[dict]:
    """What each version says of itself."""
    return [_unpacked(path, payload).about for payload in _sound(path).payloads[1:]]


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Nobody else changes the file meanwhile."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no model {path}; make one with `happycat fit FOLDER -o {path}`")
    with locked(path.with_name(f".{path.name}.lock")):
        yield


def read_parts(path: Path) -> Parts:
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no model {path}; make one with `happycat fit FOLDER -o {path}`")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    if not data.startswith(MAGIC):
        kind = "is of another version of happycat" if data.startswith(b"HAPPYCAT") else "is not a happycat model"
        raise InputError(f"{path} {kind}")
    payloads, place = [], len(MAGIC)
    while place < len(data):
        payload = _payload_at(data, place)
        if payload is None:
            break
        payloads.append(payload)
        place += HEAD.size + len(payload)
    return Parts(payloads, len(data) - place)


def _payload_at(data: bytes, place: int) -> bytes | None:
    """The part that begins there, if it is whole and as it was written."""
    if place + HEAD.size > len(data):
        return None
    length, digest = HEAD.unpack_from(data, place)
    payload = data[place + HEAD.size : place + HEAD.size + length]
    return payload if len(payload) == length and hashlib.sha256(payload).digest() == digest else None


def _sound(path: Path) -> Parts:
    parts = read_parts(path)
    if not parts.damaged and parts.num_versions > 0:
        return parts
    if parts.num_versions < 1:
        raise StorageError(f"{path} is damaged from its first version on; nothing in it can be used")
    raise StorageError(
        f"{path} was cut off or changed; its last good version is {parts.num_versions}: "
        f"`happycat undo {path}` goes back to it"
    )


def _unpacked(path: Path, payload: bytes) -> Part:
    try:
        length = struct.unpack_from("<Q", payload)[0]
        about = json.loads(json.loads(payload[8 : 8 + length])["__metadata__"]["about"])
        return Part(about, load(payload))
    except (SafetensorError, ValueError, KeyError, TypeError, struct.error) as error:
        raise StorageError(f"{path} holds something that is not a happycat model ({error})") from error


def _framed(payload: bytes) -> bytes:
    return HEAD.pack(len(payload), hashlib.sha256(payload).digest()) + payload


def _write(path: Path, parts: list[bytes]) -> None:
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(MAGIC)
        file.writelines(parts)
