"""Summaries of classes that do not wait for the classes' separation, which is computed when it is asked for, and kept.

The separation of a class is a clustering of its images: of a thousand classes it takes minutes, everything else of a
summary takes no time. It is kept as long as the class has the same images; that other classes changed is neglected.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from happycat.base.errors import InputError
from happycat.model.summary import Classes
from happycat.report.classes import ClassSummary

if TYPE_CHECKING:
    from happycat.model.editor import Editor
    from happycat.model.results import Assignment

Key = tuple[int, int]  # a class's id, and a hash of its images


class _Deferred(Classes):
    """Classes whose separation is looked up in `known` by `summary`, and computed by `separate` only."""

    known: dict[Key, float | None]

    def key(self, place: int) -> Key:
        return self.entries[place].id, hash(tuple(sorted(self.members[place])))

    def separation(self, place: int) -> float | None:
        return self.known.get(self.key(place))

    def separate(self, place: int) -> float | None:
        """The separation of a class; it is known from now on."""
        key = self.key(place)
        if key not in self.known:
            self.known[key] = super().separation(place)
        return self.known[key]


class Summaries:
    """The classes' summaries as of the last version; `separation` may be asked for from another thread."""

    def __init__(self) -> None:
        self._known: dict[Key, float | None] = {}
        self._classes: _Deferred | None = None
        self._lock = threading.Lock()

    def of(self, editor: Editor, rows: list[Assignment]) -> list[ClassSummary]:
        """Each class, those that were just discovered first, then the dropped ones; separation where it is known."""
        assert editor.review is not None  # the rows are its images
        classes = _Deferred(editor.cat, rows, torch.from_numpy(editor.review.points), editor.review.stage)
        classes.known = self._known
        self._classes = classes
        return classes.summaries()

    def separation(self, which: int) -> float | None:
        """The separation of a class of the last version, one at a time."""
        classes = self._classes
        places = {entry.id: place for place, entry in enumerate(classes.entries)} if classes else {}
        if classes is None or which not in places:
            raise InputError(f"there is no class {which} with images")
        with self._lock:
            return classes.separate(places[which])
