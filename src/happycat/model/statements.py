"""Constraints on images: what a person said of an image, known by its content and kept through every later discovery.

An image is of a class, or it is not of some classes, or it is to be left alone. Of the image itself only the first half
of a SHA-256 is kept, by which it is known again, and which prototype counts it in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from happycat.model.levels import DIGEST, NOBODY, Level, Statement, as_bytes, put

__all__ = ["DIGEST", "NOBODY", "Statement", "Statements", "as_bytes"]

SAID, REJECTED = "said", "rejected"  # arrays of a level


class Statements:
    """What was said of images, by the digests of their content."""

    def __init__(self, levels: Iterable[Level] = ()) -> None:
        self._levels = list(levels)
        self._said_since: dict[bytes, Statement | None] = {}  # that is in no level yet; None: taken back
        self._changed: set[int] = set()  # levels that are not as they were stored

    @cached_property
    def _by_digest(self) -> dict[bytes, Statement]:
        found: dict[bytes, Statement | None] = {}
        for level in reversed(self._levels):
            found.update(level.statements)
        return {digest: statement for digest, statement in found.items() if statement is not None}

    def __len__(self) -> int:
        return len(self._by_digest)

    def __iter__(self) -> Iterator[tuple[bytes, Statement]]:
        return iter(self._by_digest.items())

    def get(self, digest: bytes) -> Statement | None:
        return self._by_digest.get(digest)

    def set(self, digest: bytes, statement: Statement) -> None:
        self._by_digest[digest] = self._said_since[digest] = statement

    def forget(self, digest: bytes) -> None:
        if self._by_digest.pop(digest, None) is not None:
            self._said_since[digest] = None

    def of(self, digests: np.ndarray) -> dict[int, Statement]:
        """The statements on images with these digests (N, 16), by the images' places."""
        if not self._by_digest:
            return {}
        known = ((i, self._by_digest.get(digest)) for i, digest in enumerate(as_bytes(digests)))
        return {i: statement for i, statement in known if statement is not None}

    def arrays(self) -> dict[str, np.ndarray]:
        """All statements as arrays, two a level."""
        self._put()
        return self._arrays(range(len(self._levels)))

    def new_arrays(self) -> dict[str, np.ndarray]:
        """Those of the arrays that are not as they were stored."""
        self._put()
        return self._arrays(sorted(self._changed))

    def _put(self) -> None:
        if self._said_since:
            self._changed.update(put(self._levels, self._said_since))
            self._said_since = {}

    def _arrays(self, levels: Iterable[int]) -> dict[str, np.ndarray]:
        names = [(f"{SAID}.{level}", f"{REJECTED}.{level}", self._levels[level].arrays) for level in levels]
        return {
            name: array for said, rejected, both in names for name, array in zip((said, rejected), both, strict=True)
        }

    @classmethod
    def stored(cls, arrays: Mapping[str, np.ndarray], classes: int, rows: int) -> Statements:
        """The statements that `arrays()` were made of; a ValueError or KeyError if they are none of this model."""
        levels: list[Level] = []
        while (name := f"{SAID}.{len(levels)}") in arrays:
            levels.append(Level.stored(arrays[name], arrays[f"{REJECTED}.{len(levels)}"], classes, rows))
        return cls(levels)
