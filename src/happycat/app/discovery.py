"""Work in the background (a discovery, teaching): its progress, questions on the way, its end, and cancelling it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from happycat.base.errors import HappycatError, InputError, InUseError
from happycat.base.progress import Advance, Progress


class Cancelled(BaseException):
    """The person cancelled the work; like KeyboardInterrupt, no handler of errors takes it for one."""


class Watched(Progress):
    """Progress that can be read from other threads, and that ends the work when it was cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.title, self.done, self.said = "starting", 0, ""
        self.total: int | None = None
        self.question: str | None = None
        self._answer, self._answered = False, threading.Event()

    def _check(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled

    def step(self, title: str, total: int | None = None) -> Advance:
        self._check()
        self.title, self.done, self.total = title, 0, total

        def advance(steps: int, total: int | None = None, loss: float | None = None) -> None:
            self._check()
            self.done += steps
            if total is not None:
                self.total = total

        return advance

    def message(self, text: str) -> None:
        self._check()
        self.said = text

    def ask(self, question: str) -> bool:
        """Ask the person, and wait for the answer: yes or no."""
        self._answered.clear()
        self.question = question
        while not self._answered.wait(0.05):
            self._check()
        return self._answer

    def answer(self, yes: bool) -> None:
        """Answer the question that was asked."""
        if self.question is None:
            raise InputError("nothing was asked, or it is answered already")
        self.question, self._answer = None, yes
        self._answered.set()


class Job:
    """At most one piece of work at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._watched, self._number, self._end, self._error = Watched(), 0, "", ""
        self.what, self.result = "", ""

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[Watched], str | None], what: str = "discovery") -> None:
        """Begin the work in a thread; it gets a progress and may return a sentence for the person."""
        if self.running:
            raise InUseError(f"a {self.what} is under way already; wait until it is done, or cancel it")
        self._watched, self._end, self._error = Watched(), "", ""
        self.what, self.result = what, ""
        self._number += 1
        self._thread = threading.Thread(target=self._run, args=(work,), name="discovery", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Watched], str | None]) -> None:
        try:
            self._watched.said = work(self._watched) or ""
            end, error = "done", ""
        except Cancelled:
            end, error = "cancelled", ""
        except HappycatError as problem:
            end, error = "failed", str(problem)
        except Exception as problem:  # the person is told; the app goes on
            end, error = "failed", f"the {self.what} failed: {problem!r}"
        self._end, self._error = end, error

    def _state(self) -> str:
        if self.running:
            return "cancelling" if self._watched.cancelled.is_set() else "running"
        return self._end

    def answer(self, yes: Any) -> None:
        """Answer what the work has asked."""
        if type(yes) is not bool:
            raise InputError("the answer is true or false")
        self._watched.answer(yes)

    def cancel(self, wait: float | None = None) -> None:
        """Let the work end at its next step; wait so many seconds for that."""
        self._watched.cancelled.set()
        if wait is not None and self._thread is not None:
            self._thread.join(wait)

    def progress(self) -> dict[str, Any] | None:
        """How far the last piece of work is, or how it ended; None if there was none."""
        if not self._number:
            return None
        watched = self._watched
        return {
            "number": self._number,
            "what": self.what,
            "result": self.result,
            "question": watched.question if self.running else None,
            "state": self._state(),
            "error": self._error,
            "step": watched.title,
            "done": watched.done,
            "total": watched.total,
            "message": watched.said,
        }
