"""The prototypes of all classes, an append-only pool, with the halves that each would be split into.

A prototype is the direction of a sum of unit points, one of each image that it counts in. When a person moves an image,
its point is taken from one sum and added to another, which is exact: these rows are stored again beside the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from happycat.base.errors import InputError, StorageError

COLUMNS = {
    "vectors": np.float32,
    "counts": np.int64,
    "thresholds": np.float32,
    "children": np.int64,
    "sizes": np.int64,
    "lengths": np.float32,
}
MOST_IMAGES = 2**40
CHANGING = ("vectors", "thresholds", "sizes", "lengths")  # what a moved image changes


class SplitTree(NamedTuple):
    """A class and how it would be split, found while its images are there: images are not kept.

    Node 0 is the class itself; the children of a node are the two nodes it would be split into, or −1.
    """

    vectors: np.ndarray  # (m, d) float32, prototypes
    counts: np.ndarray  # (m,) int64, images that the prediction rule gives to the node
    thresholds: np.ndarray  # (m,) float32, cosine below which an image is rejected
    children: np.ndarray  # (m, 2) int64, nodes of this tree
    sizes: np.ndarray | None = None  # (m,) int64, images in the sum whose direction the prototype is [as `counts`]
    lengths: np.ndarray | None = None  # (m,) float32, of that sum [as if the images were all alike]

    @classmethod
    def leaf(
        cls, vector: np.ndarray, count: int, threshold: float, length: float | None = None, size: int | None = None
    ) -> SplitTree:
        """The tree of a class that cannot be split."""
        return cls(
            np.asarray(vector, np.float32)[None],
            np.array([count], np.int64),
            np.array([threshold], np.float32),
            np.full((1, 2), -1, np.int64),
            np.array([count if size is None else size], np.int64),
            np.array([count if length is None else length], np.float32),
        )


class Pool:
    """Rows of `vectors` (M, d), `counts` (M,), `thresholds` (M,) and so on; `children` (M, 2) are two rows or −1.

    The rows of one fit or discovery are a chunk; its arrays are stored once and are read from `stored` when they are
    needed. Rows that moved images have changed are stored beside them.
    """

    def __init__(self, stored: Mapping[str, np.ndarray] | None = None, chunks: int = 0):
        self._stored: Mapping[str, np.ndarray] = stored if stored is not None else {}
        self._num_stored = chunks
        self._new: list[tuple[int, list[SplitTree]]] = []  # (stage, its trees with rows of the pool as children)
        self._columns: dict[str, np.ndarray] = {}
        self._dim: int | None = None
        self._first = np.cumsum([0, *(len(self._piece(k, "counts")) for k in range(chunks))]).tolist()  # row of a chunk
        self._size: int = self._first[-1]
        self._changed: dict[int, dict[str, Any]] = self._stored_changes()

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

    @property
    def sizes(self) -> np.ndarray:
        return self._column("sizes")

    @property
    def lengths(self) -> np.ndarray:
        return self._column("lengths")

    def sum(self, row: int) -> np.ndarray:
        """The sum (d,) of the points that a prototype counts in."""
        return self.vectors[row].astype(np.float64) * float(self.lengths[row])

    def shift(self, row: int, change: np.ndarray, images: int) -> None:
        """Add the points of so many images to a prototype's sum, `change` (d,); take them off if that is negative.

        The rejection threshold moves with the mean leave-one-out cosine. A prototype that has lost all its images
        keeps its direction.
        """
        total, before = self.sum(row) + change, (float(self.lengths[row]), int(self.sizes[row]))
        size, length = max(0, before[1] + images), float(np.linalg.norm(total))
        gone = size == 0 or length < 1e-6
        now, then = usual_cosine(length, size), usual_cosine(*before)
        moved = 0.0 if now is None or then is None else now - then
        self._changed[row] = {
            "vectors": self.vectors[row] if gone else (total / length).astype(np.float32),
            "thresholds": np.float32(self.thresholds[row] + moved),
            "sizes": size,
            "lengths": np.float32(0 if gone else length),
        }
        self._columns.clear()

    def hand_down(self, row: int) -> None:
        """Give what moved images have changed in a prototype's sum to the nearer of the two that it is split into."""
        if row not in self._changed:
            return
        vector, length, size = (self._as_found(row, name) for name in ("vectors", "lengths", "sizes"))
        change = self.sum(row) - vector.astype(np.float64) * float(length)
        nearer = max(self.children[row].tolist(), key=lambda half: float(self.vectors[half] @ change))
        self.shift(nearer, change, int(self.sizes[row] - size))

    def _as_found(self, row: int, name: str) -> np.ndarray:
        """A row of a column as it was before any image was moved."""
        for chunk in range(self.num_chunks):
            piece = self._piece(chunk, name)
            if row < len(piece):
                return piece[row]
            row -= len(piece)
        raise IndexError(row)

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
        """All chunks, and the rows that were changed, by the names under which they are stored."""
        chunks = {f"pool.{k}.{name}": self._piece(k, name) for k in range(self._num_stored) for name in COLUMNS}
        return {**chunks, **self.new_arrays()}

    def new_arrays(self) -> dict[str, np.ndarray]:
        """The chunks that are not stored yet, and all rows that were changed."""
        new = range(self._num_stored, self.num_chunks)
        chunks = {f"pool.{k}.{name}": self._piece(k, name) for k in new for name in COLUMNS}
        if not self._changed:
            return chunks
        rows = sorted(self._changed)
        changed = {"changed.rows": np.array(rows, np.int64)}
        for name in CHANGING:
            changed[f"changed.{name}"] = np.array([self._changed[row][name] for row in rows], COLUMNS[name])
        return {**chunks, **changed}

    def _stored_changes(self) -> dict[int, dict[str, Any]]:
        if "changed.rows" not in self._stored:
            return {}
        rows, columns = self._stored["changed.rows"], [self._stored[f"changed.{name}"] for name in CHANGING]
        named = zip(CHANGING, columns, strict=True)
        fits = all(len(column) == len(rows) and column.dtype == COLUMNS[name] for name, column in named)
        rows_fit = rows.dtype == np.int64 and ((rows >= 0) & (rows < self._size)).all() and (np.diff(rows) > 0).all()
        if not fits or not rows_fit or not all(map(_usable, CHANGING, columns)):
            raise StorageError("the model's prototypes cannot be used: those that were changed do not fit the others")
        return {
            row: dict(zip(CHANGING, values, strict=True)) for row, *values in zip(rows.tolist(), *columns, strict=True)
        }

    def _piece(self, chunk: int, name: str) -> np.ndarray:
        if chunk >= self._num_stored:
            trees = self._new[chunk - self._num_stored][1]
            return np.concatenate([getattr(tree, name) for tree in trees])
        found = self._stored.get(f"pool.{chunk}.{name}")
        wide = 2 if name in ("vectors", "children") else 1
        good = found is not None and found.dtype == COLUMNS[name] and found.ndim == wide and _usable(name, found)
        if found is None or not good or (name == "children" and not _are_rows(found, self._first[chunk])):
            raise StorageError(
                f"the model's prototypes cannot be used: {name} of chunk {chunk} is missing or malformed"
            )
        return found

    def _column(self, name: str) -> np.ndarray:
        if name not in self._columns:
            pieces = [self._piece(k, name) for k in range(self.num_chunks)]
            width = {"vectors": (0, 0), "children": (0, 2)}.get(name, (0,))
            column = np.concatenate(pieces) if pieces else np.empty(width, COLUMNS[name])
            if len(column) != self._size:
                raise StorageError(f"the model's prototypes cannot be used: their {name} do not fit each other")
            if name in CHANGING and self._changed:
                column = np.array(column)
                column[list(self._changed)] = [values[name] for values in self._changed.values()]
            column.setflags(write=False)
            self._columns[name] = column
        return self._columns[name]


def usual_cosine(length: float, size: int) -> float | None:
    """The leave-one-out cosine of unit points, at their mean cosine with their sum, from the sum's length.

    With n points x whose sum s has the length l, x·s is l²/n on average, and at that value

        x·(s − x) / |s − x| = (l²/n − 1) / √(l² − 2 l²/n + 1)
    """
    if size < 2:
        return None
    mean = length * length / size
    rest = length * length - 2 * mean + 1
    return (mean - 1) / rest**0.5 if rest > 1e-12 else 0.0


def _are_rows(children: np.ndarray, first: int) -> bool:
    """Whether children (m, 2) of rows from `first` on are pairs of later ones, or −1 twice; none is of two parents.

    So there is no circle, and each row is met once on the way down.
    """
    if children.shape != (size := len(children), 2):
        return False
    halves = children[(children != -1).any(1)] - first
    later = (halves > np.flatnonzero((children != -1).any(1))[:, None]).all() and (halves < size).all()
    return bool(later) and len(np.unique(halves)) == halves.size


def _usable(name: str, column: np.ndarray) -> bool:
    """Whether the numbers of a column can be those of prototypes."""
    if name in ("counts", "sizes"):
        return bool(((column >= 0) & (column <= MOST_IMAGES)).all())
    return name != "lengths" or bool((column >= 0).all())


def _checked(tree: SplitTree, first: int, dim: int | None) -> SplitTree:
    """The tree with the pool's types, and rows of the pool, from `first` on, as children."""
    given = tree._replace(
        sizes=tree.counts if tree.sizes is None else tree.sizes,
        lengths=tree.counts if tree.lengths is None else tree.lengths,
    )
    vectors, counts, thresholds, children, sizes, lengths = (
        np.array(value, dtype) for value, dtype in zip(given, COLUMNS.values(), strict=True)
    )
    size = len(counts)
    if (
        size == 0
        or sizes.shape != (size,)
        or lengths.shape != (size,)
        or vectors.ndim != 2
        or len(vectors) != size
        or counts.shape != (size,)
        or thresholds.shape != (size,)
    ):
        raise InputError(
            f"a split tree of {len(vectors)} vectors, {size} counts, {thresholds.size} thresholds is malformed"
        )
    if dim is not None and vectors.shape[1] != dim:
        raise InputError(f"a class of {vectors.shape[1]} dimensions does not fit a registry of {dim}")
    if not (np.isfinite(vectors).all() and np.isfinite(lengths).all()) or np.isnan(thresholds).any():
        raise InputError("a split tree has numbers that are not finite")
    if not all(map(_usable, ("counts", "sizes", "lengths"), (counts, sizes, lengths))):
        raise InputError("a split tree has counts or lengths below 0")
    if len(children) != size or not _are_rows(children, 0):
        raise InputError("the children of a split tree are not pairs of later nodes")
    return SplitTree(vectors, counts, thresholds, np.where(children < 0, -1, children + first), sizes, lengths)
