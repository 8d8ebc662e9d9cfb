"""The prototypes of all classes, an append-only pool, with the halves that each would be split into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from happycat.base.errors import InputError, StorageError

COLUMNS = {"vectors": np.float32, "counts": np.int64, "thresholds": np.float32, "children": np.int64}


class SplitTree(NamedTuple):
    """A class and how it would be split, found while its images are there: images are not kept.

    Node 0 is the class itself; the children of a node are the two nodes it would be split into, or −1.
    """

    vectors: np.ndarray  # (m, d) float32, prototypes
    counts: np.ndarray  # (m,) int64, images that the prediction rule gives to the node
    thresholds: np.ndarray  # (m,) float32, cosine below which an image is rejected
    children: np.ndarray  # (m, 2) int64, nodes of this tree

    @classmethod
    def leaf(cls, vector: np.ndarray, count: int, threshold: float) -> SplitTree:
        """The tree of a class that cannot be split."""
        return cls(
            np.asarray(vector, np.float32)[None],
            np.array([count], np.int64),
            np.array([threshold], np.float32),
            np.full((1, 2), -1, np.int64),
        )


class Pool:
    """Rows of `vectors` (M, d), `counts` (M,), `thresholds` (M,) and `children` (M, 2), the last two rows or −1.

    A row never changes. The rows of one fit or discovery are a chunk; its arrays are stored once and are read from
    `stored` when they are needed.
    """

    def __init__(self, stored: Mapping[str, np.ndarray] | None = None, chunks: int = 0):
        self._stored: Mapping[str, np.ndarray] = stored if stored is not None else {}
        self._num_stored = chunks
        self._new: list[tuple[int, list[SplitTree]]] = []  # (stage, its trees with rows of the pool as children)
        self._columns: dict[str, np.ndarray] = {}
        self._dim: int | None = None
        self._size = sum(len(self._piece(k, "counts")) for k in range(chunks))

    def __len__(self) -> int:
        return self._size

    @property
    def num_chunks(self) -> int:
        return self._num_stored + len(self._new)

    @property
    def vectors(self) -> np.ndarray:
        return self._column("vectors")

    @property
    def counts(self) -> np.ndarray:
        return self._column("counts")

    @property
    def thresholds(self) -> np.ndarray:
        return self._column("thresholds")

    @property
    def children(self) -> np.ndarray:
        return self._column("children")

    def add(self, tree: SplitTree, stage: int) -> int:
        """Append a tree to the chunk of its stage; the row of its node 0 is returned."""
        if self._dim is None and self._size:
            self._dim = self.vectors.shape[1]
        checked = _checked(tree, self._size, self._dim)
        self._dim = checked.vectors.shape[1]
        if not self._new or self._new[-1][0] != stage:
            self._new.append((stage, []))
        self._new[-1][1].append(checked)
        row, self._size = self._size, self._size + len(checked.counts)
        self._columns.clear()
        return row

    def labelled_counts(self) -> np.ndarray:
        """How many images each class of the first chunk has, that of fit, as it was before any split."""
        counts, children = self._piece(0, "counts"), self._piece(0, "children")
        return np.delete(counts, children[children >= 0])

    def arrays(self) -> dict[str, np.ndarray]:
        """All chunks, by the names under which they are stored."""
        return {f"pool.{k}.{name}": self._piece(k, name) for k in range(self.num_chunks) for name in COLUMNS}

    def _piece(self, chunk: int, name: str) -> np.ndarray:
        if chunk >= self._num_stored:
            trees = self._new[chunk - self._num_stored][1]
            return np.concatenate([getattr(tree, name) for tree in trees])
        found = self._stored.get(f"pool.{chunk}.{name}")
        if found is None or found.dtype != COLUMNS[name] or found.ndim != (2 if name in ("vectors", "children") else 1):
            raise StorageError(
                f"the model's prototypes cannot be used: {name} of chunk {chunk} is missing or malformed"
            )
        return found

    def _column(self, name: str) -> np.ndarray:
        if name not in self._columns:
            pieces = [self._piece(k, name) for k in range(self.num_chunks)]
            width = {"vectors": (0, 0), "children": (0, 2)}.get(name, (0,))
            column = np.concatenate(pieces) if pieces else np.empty(width, COLUMNS[name])
            if len(column) != self._size or (name == "children" and not _are_rows(column, self._size)):
                raise StorageError(f"the model's prototypes cannot be used: their {name} do not fit each other")
            column.setflags(write=False)
            self._columns[name] = column
        return self._columns[name]


def _are_rows(children: np.ndarray, size: int) -> bool:
    """Whether children (M, 2) are pairs of later rows, or −1 twice: so there is no circle."""
    if children.shape != (size, 2):
        return False
    none = (children == -1).all(1)
    later = (children > np.arange(size)[:, None]).all(1) & (children < size).all(1) & (children[:, 0] != children[:, 1])
    return bool((none | later).all())


def _checked(tree: SplitTree, first: int, dim: int | None) -> SplitTree:
    """The tree with the pool's types, and rows of the pool, from `first` on, as children."""
    vectors, counts, thresholds, children = (
        np.array(value, dtype) for value, dtype in zip(tree, COLUMNS.values(), strict=True)
    )
    size = len(counts)
    if size == 0 or vectors.ndim != 2 or len(vectors) != size or counts.shape != (size,) or thresholds.shape != (size,):
        raise InputError(
            f"a split tree of {len(vectors)} vectors, {size} counts, {thresholds.size} thresholds is malformed"
        )
    if dim is not None and vectors.shape[1] != dim:
        raise InputError(f"a class of {vectors.shape[1]} dimensions does not fit a registry of {dim}")
    if not np.isfinite(vectors).all() or np.isnan(thresholds).any() or (counts < 0).any():
        raise InputError("a split tree has numbers that are not finite, or counts below 0")
    if not _are_rows(children, size):
        raise InputError("the children of a split tree are not pairs of later nodes")
    return SplitTree(vectors, counts, thresholds, np.where(children < 0, -1, children + first))
