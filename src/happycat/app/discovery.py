"""A discovery in the background: its progress, its end, and cancelling it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from happycat.base.errors import HappycatError, InUseError
from happycat.base.progress import Advance, Progress


class Cancelled(BaseException):
    """The person cancelled the work; like KeyboardInterrupt, no handler of errors takes it for one."""


class Watched(Progress):
    """Progress that can be read from other threads, and that ends the work when it was cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.title, self.done, self.said = "starting", 0, ""
        self.total: int | None = None

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


class DiscoveryJob:
    """At most one discovery at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._watched, self._number, self._end, self._error = Watched(), 0, "", ""

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[Progress], str | None]) -> None:
        """Begin the work in a thread; it gets a progress and may return a sentence for the person."""
        if self.running:
            raise InUseError("a discovery is under way already; wait until it is done, or cancel it")
        self._watched, self._end, self._error = Watched(), "", ""
        self._number += 1
        self._thread = threading.Thread(target=self._run, args=(work,), name="discovery", daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Progress], str | None]) -> None:
        try:
            self._watched.said = work(self._watched) or ""
            end, error = "done", ""
        except Cancelled:
            end, error = "cancelled", ""
        except HappycatError as problem:
            end, error = "failed", str(problem)
        except Exception as problem:  # the person is told; the app goes on
            end, error = "failed", f"the discovery failed: {problem!r}"
        self._end, self._error = end, error

    def _state(self) -> str:
        if self.running:
            return "cancelling" if self._watched.cancelled.is_set() else "running"
        return self._end

    def cancel(self, wait: float | None = None) -> None:
        """Let the work end at its next step; wait so many seconds for that."""
        self._watched.cancelled.set()
        if wait is not None and self._thread is not None:
            self._thread.join(wait)

    def progress(self) -> dict[str, Any] | None:
        """How far the last discovery is, or how it ended; None if there was none."""
        if not self._number:
            return None
        watched = self._watched
        return {
            "number": self._number,
            "state": self._state(),
            "error": self._error,
            "step": watched.title,
            "done": watched.done,
            "total": watched.total,
            "message": watched.said,
        }
