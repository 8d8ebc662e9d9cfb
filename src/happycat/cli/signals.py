"""Signals that end a command: Ctrl-C (SIGINT), SIGTERM, SIGHUP. One line, and the exit code that a shell expects."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from happycat.base.text import shown

CAUGHT = ("SIGTERM", "SIGHUP")


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which end a command as Ctrl-C does."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


@contextmanager
def catching_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise `Terminated`; one that somebody handles or ignores (nohup) is left to them."""
    numbers = [number for name in CAUGHT if (number := getattr(signal, name, None)) is not None]
    in_main = threading.current_thread() is threading.main_thread()
    ours = [number for number in numbers if in_main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _terminate)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _terminate(number: int, _: FrameType | None) -> None:
    raise Terminated(number)


def exit_code(stop: KeyboardInterrupt) -> int:
    """130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (stop.number if isinstance(stop, Terminated) else signal.SIGINT)


def exit_after(stop: KeyboardInterrupt, advice: str = "") -> typer.Exit:
    """Say in one line that the command was interrupted, and what to do; the exit to raise."""
    by = f" by {signal.Signals(stop.number).name}" if isinstance(stop, Terminated) else ""
    print(shown(f"happycat: interrupted{by}{'; ' if advice else ''}{advice}"), file=sys.stderr)
    return typer.Exit(exit_code(stop))
