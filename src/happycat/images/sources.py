"""Input of the estimator: images as a folder, a CSV file, paths or an array of pictures; or feature vectors.

`accepted` says of what is given whether it can be images or vectors and opens no image; `read` then reads them.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from happycat.base.errors import InputError
from happycat.base.text import shown
from happycat.images.collecting import Gathered, gather, gather_labelled
from happycat.images.pictures import ArrayPictures, Pictures, array_sha256

Source = Any  # a path, a sequence of paths, or whatever holds numbers: lists, NumPy, torch, pandas
Label = str | int | float
LARGEST = 2.0**20  # in a vector that is taken as it is; its square, and that of 1 / LARGEST, are plain float32
ROWS = 2**14  # vectors that are looked at together
LARGEST_LABEL = 2**62  # leaves room for the numbers of discovered classes in 64 bits


class VectorRows(Pictures):
    """Vectors (N, D) of float32 in the place of pictures; the key is the number.

    The first `class_token` numbers of each are a ViT's class token, what follows is of its patch tokens; None: no such
    thing is known.
    """

    def __init__(self, vectors: np.ndarray, class_token: int | None = None):
        super().__init__([str(i) for i in range(len(vectors))])
        self.vectors, self.class_token = vectors, class_token

    def content(self, i: int) -> bytes:
        return array_sha256(self.vectors[i])[:16]

    def contents(self) -> np.ndarray:
        """The `content` of each vector, (N, 16) uint8; hashing one takes less time than handing it to a thread."""
        return np.frombuffer(b"".join(map(self.content, range(len(self)))), np.uint8).reshape(-1, 16)


Accepted = Path | list[Path] | ArrayPictures | VectorRows


def accepted(source: Source) -> Accepted:
    """A folder or file, paths, pictures in memory or vectors; what can be none of these is refused."""
    if isinstance(source, str | os.PathLike):
        path = Path(os.path.expanduser(source))
        if not os.path.lexists(path):
            raise InputError(f"there is no folder or file {shown(path)}; check the path")
        return path
    values = _plain(source)
    if isinstance(values, list):
        if values and all(isinstance(value, str | os.PathLike) for value in values):
            return [Path(value) for value in values]
        values = _array(values)
    return _in_memory(values)


def read(source: Accepted, advance: Callable[[int], None]) -> Gathered:
    """Unlabelled images."""
    if isinstance(source, Pictures):
        return Gathered(source, None, [], {})
    return gather(source, advance)


def read_labelled(
    source: Accepted, labels: Sequence[Label] | None, advance: Callable[[int], None]
) -> tuple[Gathered, list[Label]]:
    """Images and their labels: of a folder of folders or a CSV file; or of anything else with `labels` beside it."""
    if labels is None:
        assert isinstance(source, Path)
        found = gather_labelled(source, advance)
        return found, list(found.labels or [])
    found = read(source, advance)
    if isinstance(source, Pictures):
        return found, list(labels)
    assert isinstance(source, list)
    by_path = dict(zip((path.as_posix() for path in source), labels, strict=True))
    keys = found.pictures.keys
    if strange := [key for key in keys if key not in by_path]:
        raise InputError(f"{shown(strange[0])} lies in a folder; beside labels, give the paths of images")
    if left_out := len(labels) - len(keys):
        first = f" (first: {found.skipped[0].path}: {found.skipped[0].reason})" if found.skipped else ""
        raise InputError(f"{left_out} of {len(labels)} images cannot be read or are there twice{first}; leave them out")
    return found, [by_path[key] for key in keys]


def in_order(source: Accepted, found: Gathered) -> list[tuple[str, int]]:
    """Key and place in `found` of every image, as they are given; also of those whose content is there twice.

    What lies in the folders of a list of paths comes last.
    """
    place = {key: i for i, key in enumerate(found.pictures.keys)}
    place |= {key: place[kept] for key, kept in found.duplicates.items()}
    if not isinstance(source, list):
        return list(place.items())
    asked = [path.as_posix() for path in source]
    keys = [key for key in asked if key in place] + sorted(place.keys() - set(asked))
    return [(key, place[key]) for key in keys]


def checked_labels(source: Accepted, labels: Any) -> list[Label] | None:
    """A label for each image as str, int or float, all of one kind; None where a folder or a CSV file says them."""
    if labels is None:
        if not isinstance(source, Path):
            raise InputError("images that do not lie in folders by class need labels: fit(X, y)")
        return None
    if isinstance(source, Path):
        raise InputError("a folder or a CSV file says the labels itself; give paths or an array beside labels")
    values = _label_values(labels)
    if len(source) != len(values):
        raise InputError(f"{len(source)} images but {len(values)} labels; give one label for each image")
    return values


def _label_values(labels: Any) -> list[Label]:
    values = _plain(labels)
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:  # a column
            values = values[:, 0]
        if values.ndim != 1:
            raise InputError(f"labels are one for each image, (N,), not an array {values.shape}")
        values = values.tolist()
    if missing := [i for i, value in enumerate(values) if _is_missing(value)]:
        places = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
        raise InputError(
            f"{len(missing)} of {len(values)} labels are missing (None or NaN), at {places}; "
            "leave these images out, and give them to discover"
        )
    named = [_label(value) for value in values]
    kinds = {isinstance(label, str) for label in named}
    if len(kinds) > 1:
        raise InputError("some labels are text and some are numbers; make them all of one kind")
    if any(isinstance(label, float) for label in named):
        return [float(label) for label in named]
    return named


def _label(value: Any) -> Label:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_ | numbers.Integral):
        if abs(int(value)) >= LARGEST_LABEL:
            raise InputError(f"the label {value} is beyond ±2⁶²; give smaller numbers, or text")
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise InputError(f"a label is text or a number, not {value!r} ({type(value).__name__})")


def _is_missing(value: Any) -> bool:
    """Whether it is None, NaN, or what pandas has for them (NA, NaT)."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _plain(values: Any) -> np.ndarray | list:
    """A NumPy array of numbers, or a list of whatever else: of torch's, pandas' and Python's containers."""
    if hasattr(values, "detach"):  # a tensor of torch, which need not be imported to know one
        values = values.detach().cpu()
        return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()
    if hasattr(values, "to_numpy"):  # pandas
        values = values.to_numpy()
    if isinstance(values, np.ndarray):
        return values.tolist() if values.dtype.kind in "OUS" and values.ndim else values
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise InputError(f"{type(values).__name__} cannot be used; give a folder, a CSV file, paths, or an array")
    return list(values)


def _array(values: list) -> np.ndarray:
    """The numbers of a list of rows."""
    rows = [_plain(value) if isinstance(value, Iterable) and not isinstance(value, str) else value for value in values]
    lengths = sorted({len(row) if hasattr(row, "__len__") else 0 for row in rows})
    if len(lengths) > 1:
        raise InputError(f"the rows have between {lengths[0]} and {lengths[-1]} numbers; give as many in each")
    try:
        array = np.asarray(rows)
        return array if array.dtype.kind in "biuf" else np.asarray(rows, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InputError(f"the rows are neither paths nor numbers ({error}); give one or the other") from error


def _in_memory(array: np.ndarray) -> ArrayPictures | VectorRows:
    if not array.size:
        raise InputError(f"there is nothing in an array {array.shape}; give at least one image or vector")
    if array.dtype == np.uint8 and (array.ndim == 3 or (array.ndim == 4 and array.shape[-1] == 3)):
        return ArrayPictures(array)
    if array.dtype.kind not in "biuf":
        raise InputError(f"an array of {array.dtype} is neither pictures (uint8) nor vectors (numbers)")
    if array.ndim == 1:
        raise InputError(f"an array ({len(array)},) has one dimension; give vectors as (N, D), a single one as (1, D)")
    if array.ndim == 2:
        return VectorRows(_vectors(array))
    raise InputError(
        f"an array {array.shape} of {array.dtype} is neither pictures, (N, H, W) or (N, H, W, 3) of uint8, "
        "nor vectors, (N, D) of numbers"
    )


def _vectors(array: np.ndarray) -> np.ndarray:
    """The array (N, D) as float32, in which the square of every vector's length can be computed.

    Only a vector's direction counts: one that is far too long or too short for that is scaled by a power of two.
    """
    wide = array.astype(np.float64) if array.dtype.kind != "f" or array.itemsize > 8 else array
    largest = np.concatenate([np.abs(some).max(1) for some in np.split(wide, range(ROWS, len(wide), ROWS))])
    largest = largest.astype(np.float64)
    if not np.isfinite(largest).all():
        rows = np.flatnonzero(~np.isfinite(largest))
        raise InputError(f"{len(rows)} of {len(wide)} vectors have numbers that are not finite (first: row {rows[0]})")
    if len(rows := np.flatnonzero((largest > LARGEST) | ((largest < 1 / LARGEST) & (largest > 0)))):
        wide = wide.astype(np.float64)
        wide[rows] = np.ldexp(wide[rows], -np.frexp(largest[rows])[1][:, None])
    return np.ascontiguousarray(wide, dtype=np.float32)
