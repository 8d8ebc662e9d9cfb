"""Constraints on images: what a person said of an image, known by its content and kept through every later discovery.

An image is of a class, or it is not of some classes, or it is to be left alone. Of the image itself only the first half
of a SHA-256 is kept, by which it is known again, and which prototype counts it in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

DIGEST = 16  # bytes of an image's SHA-256 that are kept
NOBODY = -1  # in the place of a class or a row
ARRAYS = ("said.digests", "said.classes", "said.ignored", "said.rows", "said.rejected")


class Statement(NamedTuple):
    """What was said of one image. Ids are those of classes as they were then: they may be merged since."""

    cls: int | None = None  # the class that it is of
    ignored: bool = False
    row: int = NOBODY  # of the pool, whose sum counts the image in; none: `NOBODY`
    rejected: frozenset[int] = frozenset()  # classes that it is not of

    @property
    def checked(self) -> bool:
        """Whether a person has said where the image belongs."""
        return self.cls is not None or self.ignored


class Statements:
    """What was said of images, by the digests of their content."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, Statement] = {}
        self.ever = False  # whether there ever was one

    def __len__(self) -> int:
        return len(self._by_digest)

    def __iter__(self) -> Iterator[tuple[bytes, Statement]]:
        return iter(self._by_digest.items())

    def get(self, digest: bytes) -> Statement | None:
        return self._by_digest.get(digest)

    def set(self, digest: bytes, statement: Statement) -> None:
        self._by_digest[digest] = statement
        self.ever = True

    def forget(self, digest: bytes) -> None:
        self._by_digest.pop(digest, None)

    def of(self, digests: np.ndarray) -> dict[int, Statement]:
        """The statements on images with these digests (N, 16), by the images' places."""
        if not self._by_digest:
            return {}
        known = ((i, self._by_digest.get(digest)) for i, digest in enumerate(as_bytes(digests)))
        return {i: statement for i, statement in known if statement is not None}

    def arrays(self) -> dict[str, np.ndarray]:
        """All statements as arrays, one row each; rejected classes as pairs of a row and a class."""
        rows = list(self._by_digest.values())
        digests = np.frombuffer(b"".join(self._by_digest), np.uint8).reshape(-1, DIGEST)
        classes = np.array([NOBODY if one.cls is None else one.cls for one in rows], np.int64)
        rejected = [(i, cls) for i, one in enumerate(rows) for cls in sorted(one.rejected)]
        columns = (
            digests,
            classes,
            np.array([one.ignored for one in rows], bool),
            np.array([one.row for one in rows], np.int64),
            np.array(rejected, np.int64).reshape(-1, 2),
        )
        return dict(zip(ARRAYS, columns, strict=True))

    @classmethod
    def stored(cls, arrays: Mapping[str, np.ndarray], classes: int, rows: int) -> Statements:
        """The statements that `arrays()` were made of; a ValueError or KeyError if they are none of this model."""
        statements = cls()
        if ARRAYS[0] not in arrays:
            return statements
        statements.ever = True
        digests, classed, ignored, counted, pairs = (arrays[name] for name in ARRAYS)
        number = len(digests)
        _check(digests.shape == (number, DIGEST) and digests.dtype == np.uint8, "digests")
        _check(classed.shape == (number,) and bool(((classed >= NOBODY) & (classed < classes)).all()), "classes")
        _check(ignored.shape == (number,) and ignored.dtype == bool, "ignored images")
        _check(counted.shape == (number,) and bool(((counted >= NOBODY) & (counted < rows)).all()), "rows")
        _check(pairs.ndim == 2 and pairs.shape[1] == 2, "rejected classes")
        _check(bool(((pairs >= 0) & (pairs < [number, classes])).all()), "rejected classes")
        rejected: dict[int, set[int]] = {}
        for i, one in pairs.tolist():
            rejected.setdefault(i, set()).add(one)
        columns = zip(as_bytes(digests), classed.tolist(), ignored.tolist(), counted.tolist(), strict=True)
        for i, (digest, given, alone, row) in enumerate(columns):
            own = frozenset(rejected.get(i, ()))
            statements.set(digest, Statement(None if given == NOBODY else given, alone, row, own))
        _check(len(statements) == number, "digests")
        return statements


def as_bytes(digests: np.ndarray) -> list[bytes]:
    """The rows of an array (N, 16) of bytes."""
    content = np.ascontiguousarray(digests, np.uint8).tobytes()
    return [content[i : i + DIGEST] for i in range(0, len(content), DIGEST)]


def _check(good: bool, what: str) -> None:
    if not good:
        raise ValueError(f"{what} that were said of images do not fit")
