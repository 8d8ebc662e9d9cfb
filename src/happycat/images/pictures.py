"""Data set types: pictures that can be read one at a time, and their labels beside them."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

from happycat.base.disk import file_sha256
from happycat.base.errors import InputError
from happycat.images.decoding import DECODING, read_picture

CROP_SHARE = 224 / 256  # the authors resize to 256 and crop 224; other sizes keep the proportion


class Pictures:
    """Pictures with a stable key each. There is no label in here.

    A key names the picture within its data set for ever (its path below the root, or its number in the
    published archive): splits and token stores are written in keys.
    """

    def __init__(self, keys: Sequence[str]):
        self.keys = tuple(keys)

    def __len__(self) -> int:
        return len(self.keys)

    def read(self, i: int, side: int | None = None) -> Image.Image:
        """The i-th picture as RGB; one that is far larger than `side` may be given smaller, as `read_picture` does."""
        raise NotImplementedError

    def stamp(self, i: int) -> tuple[int, int]:
        """Changes when the i-th picture is replaced by another under the same key: a file's size and time."""
        return 0, 0

    def digest(self) -> str:
        """Sixteen hex digits that identify these pictures, in this order: a hash of source, keys and stamps."""
        content = json.dumps([DECODING, self.source, [[key, *self.stamp(i)] for i, key in enumerate(self.keys)]])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def names(self) -> np.ndarray:
        """A number that identifies each picture, in whatever company, (N,) int64: a hash of source, key and stamp."""
        source = self.source
        said = (json.dumps([DECODING, source, key, *self.stamp(i)]).encode() for i, key in enumerate(self.keys))
        return np.frombuffer(b"".join(hashlib.sha256(name).digest()[:8] for name in said), np.int64)

    def content(self, i: int) -> bytes:
        """The first half of the SHA-256 of the i-th picture's content, wherever it lies: 16 bytes."""
        raise NotImplementedError

    def contents(self) -> np.ndarray:
        """The `content` of each picture, (N, 16) uint8."""
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            content = b"".join(pool.map(self.content, range(len(self))))
        return np.frombuffer(content, np.uint8).reshape(-1, 16)

    @property
    def source(self) -> str:
        """The source of the pictures, which distinguishes them from others with the same keys."""
        raise NotImplementedError


class FilePictures(Pictures):
    """Picture files below a root; the key is the path below it, written with forward slashes.

    A file's stamp is read once: what is stored under it must be found again to be deleted, come what may.
    """

    def __init__(self, root: Path, keys: Sequence[str]):
        super().__init__(keys)
        self.root = Path(root)
        self._stamps: dict[int, tuple[int, int]] = {}

    def read(self, i: int, side: int | None = None) -> Image.Image:
        return read_picture(self.root / self.keys[i], side)

    def stamp(self, i: int) -> tuple[int, int]:
        if i not in self._stamps:
            path = self.root / self.keys[i]
            try:
                status = path.stat()
            except OSError as error:
                raise InputError(f"{path} cannot be read ({error.strerror}); is it still there?") from error
            self._stamps[i] = status.st_size, status.st_mtime_ns
        return self._stamps[i]

    def content(self, i: int) -> bytes:
        path = self.root / self.keys[i]
        try:
            return file_sha256(path)[:16]
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); is it still there?") from error

    @property
    def source(self) -> str:
        return str(self.root.resolve())


def array_sha256(array: np.ndarray) -> bytes:
    """The SHA-256 of an array's type, shape and numbers, 32 bytes."""
    return hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()).digest()


class ArrayPictures(Pictures):
    """Pictures held in memory as uint8, (N, H, W) grey or (N, H, W, 3) RGB; the key is the number."""

    def __init__(self, pixels: np.ndarray):
        super().__init__([str(i) for i in range(len(pixels))])
        self.pixels = pixels

    def read(self, i: int, side: int | None = None) -> Image.Image:
        return Image.fromarray(self.pixels[i]).convert("RGB")

    def content(self, i: int) -> bytes:
        return array_sha256(self.pixels[i])[:16]

    @cached_property
    def source(self) -> str:
        return f"{zlib.crc32(np.ascontiguousarray(self.pixels).data):08x}"


class Subset(Pictures):
    """Some of the pictures, in a given order."""

    def __init__(self, pictures: Pictures, keys: list[str]):
        super().__init__(keys)
        self.pictures = pictures
        place = {key: i for i, key in enumerate(pictures.keys)}
        try:
            self.places = [place[key] for key in keys]
        except KeyError as error:
            raise InputError(
                f"the split names image {error}, which the data set does not have; is it another version of it?"
            ) from None

    def read(self, i: int, side: int | None = None) -> Image.Image:
        return self.pictures.read(self.places[i], side)

    def stamp(self, i: int) -> tuple[int, int]:
        return self.pictures.stamp(self.places[i])

    def content(self, i: int) -> bytes:
        return self.pictures.content(self.places[i])

    @property
    def source(self) -> str:
        return self.pictures.source


@dataclass(frozen=True, kw_only=True)
class Published:
    """What is known of a published data set without its files: its protocol and class order, how many images it has.

    `protocol` is what differs from the protocol's defaults, `order` has the labels in the order in which they are met.
    """

    protocol: dict[str, float]
    order: tuple[int, ...]
    train: int
    test: int


@dataclass(frozen=True, kw_only=True)
class Images:
    """A data set: train and test pictures with their labels, and the protocol it is usually run with.

    `classes` are the names; a label is an index into them. `order` is the class order of the published
    protocol (base classes first) where there is one. `mirror` says whether a picture's mirror image still
    belongs to its class (not so for digits and letters). `crop_share` is how much of a side a view covers.
    `method_values` are what the paper's authors changed for this data set, by the family of methods.
    """

    name: str
    classes: tuple[str, ...]
    train: Pictures
    train_labels: np.ndarray
    test: Pictures
    test_labels: np.ndarray
    protocol: dict = field(default_factory=dict)  # what differs from protocol.Protocol's defaults
    method_values: dict[str, dict] = field(default_factory=dict)
    order: tuple[int, ...] | None = None
    mirror: bool = True
    crop_share: float = CROP_SHARE
    skipped: tuple[tuple[str, str], ...] = ()  # files that are left out: path and reason

    def __post_init__(self) -> None:
        for what, pictures, labels in (
            ("train", self.train, self.train_labels),
            ("test", self.test, self.test_labels),
        ):
            if len(pictures) != len(labels):
                raise InputError(f"{self.name}: {len(pictures)} {what} pictures but {len(labels)} labels")
            if len(labels) and not 0 <= labels.min() <= labels.max() < len(self.classes):
                raise InputError(f"{self.name}: {what} labels outside 0…{len(self.classes) - 1}")
