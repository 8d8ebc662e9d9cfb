"""Progress reporting for long computations: steps with a number of parts, and messages; silent by default."""

from __future__ import annotations

from collections.abc import Callable

Advance = Callable[..., None]  # advance(steps, total=None, loss=None)


def nobody(steps: int, total: int | None = None, loss: float | None = None) -> None:
    """An `Advance` that shows nothing."""


class Progress:
    """Receives the progress of a computation and ignores it; the command line's subclass shows progress bars.

    A computation is a sequence of steps: `step` begins one and ends the one before.
    """

    def step(self, title: str, total: int | None = None) -> Advance:
        """Begin a step of so many parts; call what it returns with the number of parts that are done."""
        return nobody

    def message(self, text: str) -> None:
        """Show a message of one line."""

    def close(self) -> None:
        """End the step that is under way."""

    def __deepcopy__(self, memo: dict) -> Progress:
        """Itself: copies of an estimator report to the same progress."""
        return self


SILENT = Progress()


def duration(seconds: float) -> str:
    """A time in words, as exact as an estimate is.

    >>> duration(40.2), duration(3700)
    ('40 s', '1 h 2 min')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
