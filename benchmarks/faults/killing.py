"""Killing a process: after some of its CPU time, or before an exact file operation."""

from __future__ import annotations

import os
import resource
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

OPERATIONS = ("fsync", "replace", "rename", "unlink", "mkdir")


class Cost(NamedTuple):
    """What something takes: seconds of CPU time, and file operations."""

    seconds: float
    operations: int


def kill_after(seconds: float) -> None:
    """Have the system end this process when it has used so much CPU time from now on.

    SIGPROF, which nobody handles here, ends a process as SIGKILL does: at once, between any two instructions. So the
    moments are spread over what the process does, however busy the machine is.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def kill_before(number: int) -> None:
    """Kill this process before it does so many file operations."""
    done = iter(range(1, number))

    def count() -> None:
        if next(done, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    _notice(count)


def cost(act: Callable[[], object], folder: Path) -> Cost:
    """Do something in a process of its own, not killed, and see what it takes; `folder` is for a file of a moment."""
    note = folder / "operations"

    def counted() -> None:
        note.write_text("")
        with open(note, "a", encoding="utf-8") as file:
            _notice(lambda: file.write("."))
            act()

    with _cpu_time() as seconds:
        if is_killed(counted):
            raise SystemExit("it was killed by somebody else")
    found = Cost(seconds[0], len(note.read_text()))
    note.unlink()
    return found


def is_killed(act: Callable[[], object], deadly: Callable[[], None] = lambda: None) -> bool:
    """Do something in a process of its own in which `deadly` is called before; whether it was killed.

    It may come to its end before it is killed; to end in any other way is an error.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            deadly()
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if status not in (0, signal.SIGKILL, signal.SIGPROF):
        raise SystemExit(f"a process ended with status {status}")
    return status != 0


def _notice(call: Callable[[], object]) -> None:
    """Have `call` called before every file operation of this process."""

    def noticed(operation: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            call()
            return operation(*args, **kwargs)

        return called

    for name in OPERATIONS:
        setattr(os, name, noticed(getattr(os, name)))


@contextmanager
def _cpu_time() -> Iterator[list[float]]:
    """A list that has the CPU time of the processes that ended within the block."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    found, before = [0.0], used()
    yield found
    found[0] = used() - before
