"""An open model for the tabs of a browser: one action at a time, each answered with what it changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from happycat.app.difference import difference
from happycat.app.discovery import Job
from happycat.app.state import images_of, review_id, state_of, version_tag
from happycat.app.summaries import Summaries
from happycat.app.verbs import VERBS
from happycat.base.errors import InputError, InUseError
from happycat.model import file as model_file

if TYPE_CHECKING:
    from happycat.model.editor import Editor
    from happycat.model.review import Review

RANKED, QUESTIONS = 2000, 12  # at most so many candidates of a class, so many questions at a time


class StaleError(InputError):
    """The tab shows an earlier version than the model has now."""


class Desk:
    """The editor of a model, its discovery that is under way, and the lock that both are used under."""

    def __init__(self, editor: Editor):
        self.editor = editor
        self.job = Job()
        self.summaries = Summaries()
        self._lock = threading.Lock()
        self._state: dict[str, Any] | None = None
        self._asked: dict[str, Any] = {}  # questions that were given out

    @property
    def review(self) -> Review | None:
        return self.editor.review

    def state(self) -> dict[str, Any]:
        """The model as it is now, made once for each version."""
        with self._lock:
            return self._fresh()

    def _fresh(self) -> dict[str, Any]:
        if self.editor.refresh() or self._state is None or self._state["tag"] != version_tag(self.editor):
            self._state = state_of(self.editor, self.summaries)
        return self._state

    def pulse(self) -> dict[str, Any]:
        """Which version there is, and how far a discovery is: what a tab asks again and again."""
        if self.job.running:  # it holds the model file, and its computation should not be disturbed
            return {"tag": self._state and self._state["tag"], "discovery": self.job.progress()}
        with self._lock:
            self.editor.refresh()
            return {"tag": version_tag(self.editor), "discovery": self.job.progress()}

    def tag(self) -> str:
        """Which version there is."""
        with self._lock:
            self.editor.refresh()
            return version_tag(self.editor)

    @contextmanager
    def alone(self, tag: Any = None) -> Iterator[None]:
        """Nothing else is done meanwhile; with a `tag`, only if the model is at that version."""
        with self._lock:
            self._check_current(version_tag(self.editor) if tag is None else tag)
            yield

    def images(self, wanted: str) -> dict[str, Any]:
        """The images of the discovery with that id."""
        with self._lock:
            if self.review is None or review_id(self.review) != wanted:
                raise StaleError("these images are of another discovery")
            return images_of(self.review)

    def act(self, verb: str, values: dict[str, Any]) -> dict[str, Any]:
        """Do what a person says; it is a version on disk when this returns what changed of the state."""
        if verb not in VERBS and verb != "answer":
            raise InputError(f"there is no action {verb!r}")
        with self._lock:
            self._check_current(values.get("tag"))
            before = self._fresh()
            if verb == "answer":
                self._answer(values)
            else:
                VERBS[verb](self.editor, values)
            return difference(before, self._fresh())

    def _check_current(self, tag: Any) -> None:
        if self.job.running:
            raise InUseError(f"a {self.job.what} is under way; wait until it is done, or cancel it")
        with model_file.locked(self.editor.path):  # a command that takes minutes is not waited for: who it is, is said
            self.editor.refresh()
        if tag != version_tag(self.editor):
            raise StaleError("the model was changed elsewhere meanwhile; look at it again")

    def candidates(self, image: int) -> list[dict[str, Any]]:
        """The classes that an image may be of, the likeliest first."""
        with self._lock:
            if self.review is None or not 0 <= image < len(self.review.keys):
                raise InputError(f"there is no image {image}")
            found = self.editor.candidates(image)
        return [{"id": number, "label": str(label), "probability": round(p, 4)} for number, label, p in found]

    def ranked(self, which: int) -> list[int]:
        """Images that may be of a class, the likeliest first."""
        with self._lock:
            return [int(i) for i in self.editor.ranked(which, RANKED)]

    def twins(self) -> dict[int, int]:
        """New classes that are perhaps the same; made without the lock, as the questions are."""
        return self.editor.twins() if self.review else {}

    def questions(self) -> list[dict[str, Any]]:
        """Questions to the person, those that would change most first.

        They may take seconds, and are made without the lock: an action gives the editor a new model, not another state
        to the one that is being looked at.
        """
        asked = self.editor.questions(QUESTIONS)
        self._asked = {f"{one.kind} {one.classes} {one.images}": one for one in asked}
        return [
            {"key": key, "kind": one.kind, "classes": list(one.classes), "images": list(one.images), "text": one.text}
            for key, one in self._asked.items()
        ]

    def _answer(self, values: dict[str, Any]) -> None:
        question, yes = self._asked.get(str(values.get("key"))), values.get("yes")
        if question is None or type(yes) is not bool:
            raise InputError("that question was not asked; ask for the questions again")
        self.editor.answer(question, yes)
