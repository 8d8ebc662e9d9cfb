"""Tables with a row for each image, memory-mapped: a large one lies in a temporary file and not in memory.

The system writes its pages out and drops them when memory is short. The file has no name and goes with the table, or
with the process, however that ends: nothing of the images stays behind.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from happycat.base.disk import storage_errors

IN_MEMORY = 2**24  # bytes; a table that is not larger is held in memory
ROWS = 2**14  # that are computed with at once, where something is computed for every row of a table


def empty(shape: tuple[int, ...], like: Tensor, folder: Path | None = None) -> Tensor:
    """A table of that shape whose content is yet to be written, with the type and on the device of another tensor.

    A large one on a CPU is a file in the folder, or where the system has its temporary files; on a GPU it is in its
    memory.
    """
    size = math.prod(shape) * like.element_size()
    if size <= IN_MEMORY or like.device.type != "cpu":
        return like.new_empty(shape)
    place = folder or Path(tempfile.gettempdir())
    with storage_errors(place), tempfile.TemporaryFile(dir=place) as file:
        _reserve(file.fileno(), size)
        content = np.memmap(file, mode="r+", shape=(size,))
    return torch.from_numpy(content).view(like.dtype).view(shape)


def _reserve(file: int, size: int) -> None:
    """Take the room on disk now: a page that finds none later would kill the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)


def joined(parts: Iterable[Tensor], number: int, folder: Path | None = None) -> Tensor:
    """The rows of all parts one below the other, `number` in all, as one table."""
    table, start = None, 0
    for part in parts:
        if table is None:
            table = empty((number, *part.shape[1:]), part, folder)
        table[start : start + len(part)] = part
        start += len(part)
    if table is None:
        raise ValueError("a table needs at least one part, be it without a row")
    return table


def taken(table: Tensor, places: Tensor, function: Callable[[Tensor], Tensor] = lambda rows: rows) -> Tensor:
    """The rows of a table at these places (M,), or a function of them, as a table of their own."""
    return joined((function(table[some]) for some in places.split(ROWS)), len(places))


def copied(table: Tensor) -> Tensor:
    """A copy of a table, to be changed."""
    return joined(table.split(ROWS), len(table))
