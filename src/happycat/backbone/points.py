"""Append-only files with checksummed checkpoints: what lies before one survives a kill and is verified when read."""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from torch import Tensor

from happycat.backbone.fingerprint import tensor_bytes
from happycat.base.disk import storage_errors, sync

POINT_SECONDS = 10  # how much extraction a kill can cost at most
POINTS = "points.jsonl"


def recorded(folder: Path) -> int:
    """How many pictures are on disk, without a look at their checksums."""
    return sum(point["pictures"] for point in _points(folder))


def verified(folder: Path, sizes: Mapping[str, int]) -> int:
    """How many pictures are safely in the files, up to the last point whose checksums hold; the files are cut there.

    `sizes` gives the bytes a picture takes in each of the files. What lies behind the last point is what a kill
    left; a point that does not hold is damage, and is said.
    """
    good: list[dict] = []
    with storage_errors(folder):
        for name in sizes:
            (folder / name).touch()
        files = {name: open(folder / name, "r+b") for name in sizes}  # noqa: SIM115
        try:
            for point in _points(folder):
                if any(_checksum(files[name], point["pictures"] * size) != point[name] for name, size in sizes.items()):
                    warnings.warn(f"{folder} is damaged; what it lost is computed again", stacklevel=2)
                    break
                good.append(point)
            done = sum(point["pictures"] for point in good)
            for name, size in sizes.items():
                files[name].truncate(done * size)
        finally:
            for file in files.values():
                file.close()
        (folder / POINTS).write_text("".join(json.dumps(point) + "\n" for point in good))
    return done


class Appender:
    """Appends tensors to the files of a folder and, every few seconds, a point up to which all is on disk."""

    def __init__(self, folder: Path, names: Mapping[str, int]):
        self.folder, self.names = folder, names

    def __enter__(self) -> Appender:
        with storage_errors(self.folder):
            self.files = {name: open(self.folder / name, "ab") for name in self.names}  # noqa: SIM115
        self._restart()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.point()
        finally:
            for file in self.files.values():
                file.close()

    def _restart(self) -> None:
        self.state = 0, {name: hashlib.sha256() for name in self.files}
        self.since = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self.since > POINT_SECONDS

    def append(self, pictures: int, tensors: Mapping[str, Tensor]) -> None:
        """Append what was computed of so many pictures."""
        number, digests = self.state[0], {name: digest.copy() for name, digest in self.state[1].items()}
        for name, tensor in tensors.items():
            data = tensor_bytes(tensor)
            with storage_errors(self.folder):
                self.files[name].write(data)
            digests[name].update(data)
        # Only now, and at once: Ctrl-C may come anywhere above, and a point must not cover what is half written.
        self.state = number + pictures, digests

    def point(self) -> None:
        """Flush to disk what was appended, and write a checkpoint."""
        number, digests = self.state
        if not number:
            self.since = time.monotonic()
            return
        with storage_errors(self.folder):
            for file in self.files.values():
                file.flush()
                os.fsync(file.fileno())
            line = {"pictures": number, **{name: digest.hexdigest() for name, digest in digests.items()}}
            with open(self.folder / POINTS, "a") as points:
                points.write(json.dumps(line) + "\n")
            sync(self.folder / POINTS)
        self._restart()


def _points(folder: Path) -> Iterator[dict]:
    """The points up to the first line that was torn by a kill."""
    path = folder / POINTS
    for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
        try:
            point = json.loads(line)
        except ValueError:
            return
        if not isinstance(point, dict) or not isinstance(point.get("pictures"), int):
            return
        yield point


def _checksum(file: BinaryIO, size: int) -> str | None:
    """SHA-256 of the next `size` bytes; None if there are fewer."""
    digest, left = hashlib.sha256(), size
    while left:
        data = file.read(min(left, 1 << 24))
        if not data:
            return None
        digest.update(data)
        left -= len(data)
    return digest.hexdigest()
