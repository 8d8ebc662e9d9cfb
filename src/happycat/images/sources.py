"""Images as a person gives them: a folder, a CSV file, paths, an array of pictures; or vectors that describe them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from happycat.base.errors import InputError
from happycat.images.collecting import Gathered, gather, gather_labelled
from happycat.images.pictures import ArrayPictures, Pictures

Source = str | Path | Sequence | np.ndarray


class VectorRows(Pictures):
    """Vectors (N, D) in the place of pictures; the key is the number."""

    def __init__(self, vectors: np.ndarray):
        super().__init__([str(i) for i in range(len(vectors))])
        self.vectors = vectors


def given(source: Source, advance: Callable[[int], None]) -> Gathered:
    """Unlabelled images."""
    if isinstance(source, np.ndarray) and source.dtype.kind not in "OUS":
        return Gathered(_in_memory(source), None, [], {})
    if isinstance(source, str | Path):
        return gather(Path(source), advance)
    return gather([Path(path) for path in source], advance)


def given_labelled(source: Source, labels: Sequence | None, advance: Callable[[int], None]) -> Gathered:
    """Labelled images: a folder of folders or a CSV file; or anything else with a label for each image."""
    if labels is None:
        if not isinstance(source, str | Path):
            raise InputError("images that do not lie in folders by class need labels: fit(X, y)")
        return gather_labelled(Path(source), advance)
    if isinstance(source, str | Path):
        raise InputError("a folder or a CSV file says the labels itself; give paths or an array beside labels")
    if len(source) != len(labels):
        raise InputError(f"{len(source)} images but {len(labels)} labels")
    found, names = given(source, advance), [str(label) for label in labels]
    if left_out := len(names) - len(found.pictures):
        raise InputError(f"{left_out} of {len(names)} images cannot be read or are there twice; leave them out")
    if isinstance(source, np.ndarray) and source.dtype.kind not in "OUS":
        return found._replace(labels=names)
    by_path = {Path(path).as_posix(): name for path, name in zip(source, names, strict=True)}
    return found._replace(labels=[by_path[key] for key in found.pictures.keys])


def _in_memory(array: np.ndarray) -> Pictures:
    if array.dtype == np.uint8 and (array.ndim == 3 or (array.ndim == 4 and array.shape[-1] == 3)) and len(array):
        return ArrayPictures(array)
    if array.ndim == 2 and np.issubdtype(array.dtype, np.floating) and array.size:
        if not np.isfinite(array).all():
            raise InputError("some of the vectors' numbers are not finite")
        return VectorRows(array)
    raise InputError(
        f"an array {array.shape} of {array.dtype} is neither pictures, (N, H, W) or (N, H, W, 3) of uint8, "
        "nor vectors, (N, D) of floats"
    )
