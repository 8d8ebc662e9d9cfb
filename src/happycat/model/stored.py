"""What a model file stores: every array of the present version, its size, and what it is in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from happycat.model.file import ModelFile
from happycat.model.schema import ARRAYS, CHANGED, SAID

MEANINGS = {
    "exponent": "how much directions count that tell classes apart",
    "temperature": "of the mixture that finds new classes",
    "softmax_temperature": "of the probabilities",
    "shortfall": "how much less alike new images of a class are than those it was learned from",
    "deviation": "how much that varies",
    "duplicate_cosine": "from which two images count as copies",
    "number_values": "the calibrated model of the number of classes",
    "space.mean": "the mean of all labelled images' features",
    "space.projection": "the discriminant space, from the scatter of all labelled images",
    "pool.#.vectors": "directions: the sum of each class's images' points, and of the halves it would be split into",
    "pool.#.counts": "how many images each direction is given",
    "pool.#.thresholds": "the cosine with each direction below which an image fits no class",
    "pool.#.children": "which directions are the halves of which",
    "pool.#.sizes": "how many images are in each sum",
    "pool.#.lengths": "the length of each sum",
    "changed.rows": "directions that corrections have changed",
    "changed.vectors": "these directions, as they are now",
    "changed.thresholds": "their thresholds",
    "changed.sizes": "how many images are in their sums",
    "changed.lengths": "the lengths of their sums",
    "said.#": "images that a person spoke of: the first 16 bytes of a SHA-256, the class, the direction",
    "rejected.#": "classes that such images are not of",
}
assert MEANINGS.keys() == {*ARRAYS, *CHANGED, *SAID}


class StoredPart(NamedTuple):
    """A part of a model file: its name, its type and shape, its bytes, and what it is."""

    name: str
    kind: str
    size: int
    meaning: str


def stored_parts(path: Path, file: ModelFile) -> list[StoredPart]:
    """All that a model file stores: the base's arrays as one part, those of the present version, and all the rest."""
    parts: list[StoredPart] = []
    base = list(getattr(file.base.arrays, "entries", {}).values())
    if base:
        size, kinds = sum(array.num_bytes for array in base), ", ".join(sorted({array.dtype for array in base}))
        parts.append(StoredPart(f"{len(base)} tensors", kinds, size, "the weights of the backbone, trained here"))
    met = {array.blob for array in base}
    for name, array in sorted(file.arrays.entries.items()):
        kind = f"{array.dtype} {' × '.join(map(str, array.shape)) or '1'}"
        size = 0 if array.blob in met else array.num_bytes  # what is the same is stored once
        parts.append(StoredPart(name, kind, size, MEANINGS[re.sub(r"\d+", "#", name)]))
        met.add(array.blob)
    rest = path.stat().st_size - sum(part.size for part in parts)
    return [*parts, StoredPart("the rest", "JSON, arrays", rest, "names, counts, folders, and the other versions")]
