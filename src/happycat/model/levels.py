"""Log-structured storage of statements: a version stores what was said since the last one, not all that ever was.

Statements lie in levels. Level l has fewer than 4^(l+1) of them; those of a higher level are older, and of an image the
newest counts. New ones are put into the lowest level that has room for them and for all that lies below it. So a level
is written again only when a quarter of what it has room for is new, and a million statements are in ten levels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

DIGEST = 16  # bytes of an image's SHA-256 that are kept
NOBODY = -1  # in the place of a class or a row
FANOUT = 4  # how many times as many statements the next level has room for
PLAIN, IGNORED, FORGOTTEN = 0, 1, 2
WORDS = DIGEST // 4  # of a digest, in a row of seven: the digest, the class, the row of the pool, and one of the above


class Statement(NamedTuple):
    """What was said of one image. Ids are those of classes as they were then: they may be merged since."""

    cls: int | None = None  # the class that it is of
    ignored: bool = False
    row: int = NOBODY  # of the pool: the smallest part of what counts the image in; none: `NOBODY`
    rejected: frozenset[int] = frozenset()  # classes that it is not of

    @property
    def checked(self) -> bool:
        """Whether a person has said where the image belongs."""
        return self.cls is not None or self.ignored


class Level:
    """Statements by the digests of images; None: what was said before is taken back."""

    def __init__(
        self, statements: Mapping[bytes, Statement | None], arrays: tuple[np.ndarray, np.ndarray] | None = None
    ):
        self._statements, self._arrays = statements, arrays

    def __len__(self) -> int:
        return len(self.statements if self._arrays is None else self._arrays[0])

    @cached_property
    def statements(self) -> Mapping[bytes, Statement | None]:
        return self._statements if self._arrays is None else dict(_unpacked(*self._arrays))

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """A row (n, 7) of each statement, and pairs (m, 2) of a row's place and a class that the image is not of."""
        return self._packed() if self._arrays is None else self._arrays

    def _packed(self) -> tuple[np.ndarray, np.ndarray]:
        rows = [one or Statement() for one in self._statements.values()]
        said = np.zeros((len(rows), WORDS + 3), np.int32)
        said[:, :WORDS] = np.frombuffer(b"".join(self._statements), "<i4").reshape(-1, WORDS)
        said[:, WORDS] = [NOBODY if one.cls is None else one.cls for one in rows]
        said[:, WORDS + 1] = [one.row for one in rows]
        said[:, WORDS + 2] = [
            FORGOTTEN if one is None else IGNORED if one.ignored else PLAIN for one in self._statements.values()
        ]
        rejected = [(i, cls) for i, one in enumerate(rows) for cls in sorted(one.rejected)]
        return said, np.array(rejected, np.int32).reshape(-1, 2)

    @classmethod
    def stored(cls, said: np.ndarray, rejected: np.ndarray, classes: int, rows: int) -> Level:
        """The level with these arrays; a ValueError if they are none of a model of so many classes and rows."""
        _check(said.ndim == 2 and said.shape[1] == WORDS + 3 and said.dtype == np.int32, "statements")
        _check(len(np.unique(said[:, :WORDS], axis=0)) == len(said), "digests")
        given, counted, flags = said[:, WORDS:].T
        _check(_within(given, NOBODY, classes), "classes")
        _check(_within(counted, NOBODY, rows), "rows")
        _check(_within(flags, PLAIN, FORGOTTEN + 1), "flags")
        _check(rejected.ndim == 2 and rejected.shape[1] == 2 and rejected.dtype == np.int32, "rejected classes")
        _check(_within(rejected[:, 0], 0, len(said)) and _within(rejected[:, 1], 0, classes), "rejected classes")
        return cls({}, (said, rejected))


def put(levels: list[Level], new: Mapping[bytes, Statement | None]) -> range:
    """Put new statements into the levels, the lowest first; the levels that are others then are returned."""
    level = 0
    while True:
        if level == len(levels):
            levels.append(Level({}))
        new = {**levels[level].statements, **new}
        levels[level] = Level({})
        if len(new) < FANOUT ** (level + 1):
            break
        level += 1
    if not any(map(len, levels[level + 1 :])):  # nothing older is there that could be taken back
        new = {digest: one for digest, one in new.items() if one is not None}
    levels[level] = Level(new)
    return range(level + 1)


def _unpacked(said: np.ndarray, rejected: np.ndarray) -> Iterator[tuple[bytes, Statement | None]]:
    classes: dict[int, set[int]] = {}
    for place, cls in rejected.tolist():
        classes.setdefault(place, set()).add(cls)
    digests = as_bytes(said[:, :WORDS].astype("<i4").view(np.uint8))
    for place, (digest, (given, row, flag)) in enumerate(zip(digests, said[:, WORDS:].tolist(), strict=True)):
        own = frozenset(classes.get(place, ()))
        statement = Statement(None if given == NOBODY else given, flag == IGNORED, row, own)
        yield digest, None if flag == FORGOTTEN else statement


def as_bytes(digests: np.ndarray) -> list[bytes]:
    """The rows of an array (N, 16) of bytes."""
    content = np.ascontiguousarray(digests, np.uint8).tobytes()
    return [content[i : i + DIGEST] for i in range(0, len(content), DIGEST)]


def _within(values: np.ndarray, low: int, end: int) -> bool:
    return bool(((values >= low) & (values < end)).all())


def _check(good: bool, what: str) -> None:
    if not good:
        raise ValueError(f"{what} that were said of images do not fit")
