"""Fault injection with a full disk: each command on a disk of any size that is too small for it (Linux, root).

    python benchmarks/faults/full_disk.py --places 12
    python benchmarks/faults/full_disk.py --places 12 --only export --only bench     # the others are done once each

Commands and actions of the app on a few digits, and a small run with stored tokens, work on a tmpfs. What each takes
at most is measured; then it is done with less: with no page free, with one, two, three, and with ever larger parts of
what it needs. It must end with one line and exit code 2, or well; nothing may be lost or torn; and when there is room
again, the same command must end as if nothing had happened, to the bit. Prints how often each ended how.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))  # the tests are no package that is installed

import torch
from models import MODEL, STEPS, State, command, write_digits

from happycat.methods import pretraining
from tests.cli.test_processes import BENCH
from tests.helpers.runs import assert_same_run

PAGE, SIZE = 4096, 1 << 29
BALLAST = "ballast"
SHOP = ("fit", "discover", "name", "move", "merge", "teach", "undo", "app: name", "app: move")
MORE = {
    "report": command("report", "shop.cat", "-o", "page.html"),
    "export-labels": command("export-labels", "shop.cat", "-o", "labels.csv"),
    "export": command("export", "shop.cat", "shop.onnx"),
    "propose": command("discover", "shop.cat", "inbox", "--new", "2", "--propose", "-o", "proposal"),
    "accept": command("accept", "shop.cat", "proposal"),
}
ACTS = {**{name: STEPS[name] for name in SHOP}, **MORE}


class Ended(NamedTuple):
    """How a process ended: its exit code, and what it said on stderr."""

    code: int
    said: str


class Small:
    """A file system in memory whose free space is set by a file that takes the rest."""

    def __init__(self, root: Path):
        self.root = root

    def used(self) -> int:
        found = os.statvfs(self.root)
        return (found.f_blocks - found.f_bfree) * found.f_bsize

    def leave(self, free: int | None) -> None:
        """Have so many bytes free; None frees all."""
        ballast = self.root / BALLAST
        ballast.unlink(missing_ok=True)
        if free is not None:
            with open(ballast, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(1, SIZE - self.used() - free))

    def most(self, act: Callable[[], object]) -> int:
        """The bytes that something takes at the same time, at most."""
        before, most, done = self.used(), [0], threading.Event()

        def watch() -> None:
            while not done.is_set():
                most[0] = max(most[0], self.used() - before)
                time.sleep(0.0005)

        watcher = threading.Thread(target=watch)
        watcher.start()
        act()
        done.set()
        watcher.join()
        return most[0]


@contextmanager
def small_disk() -> Iterator[Small]:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], check=True)
        try:
            yield Small(Path(folder))
        finally:
            os.chdir("/")
            subprocess.run(["umount", folder], check=True)


def ended(act: Callable[[], None], said: Path) -> Ended:
    """Do something in a process of its own; what it says goes to a file on another disk."""
    child = os.fork()
    if child == 0:
        code = 1
        file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 2)
        try:
            act()
            code = 0
        except RuntimeError as error:  # what a command has said
            os.write(2, str(error).encode())
            code = 2 if "Traceback" not in str(error) else 1
        except BaseException as error:
            os.write(2, repr(error).encode())
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), said.read_text("utf-8", "replace"))


def check_refusal(name: str, free: int, end: Ended) -> None:
    """An action of the app that is refused is an assertion of the visit with its answer, 400."""
    lines = [line for line in end.said.splitlines() if line.startswith("happycat:")]
    clear = end.code == 2 and len(lines) == 1 if not name.startswith("app") else '"error":"' in end.said
    if not clear or "pace" not in end.said or "Traceback" in end.said:
        raise SystemExit(f"{name} with {free} bytes free ended with {end.code}:\n{end.said}")


def sizes(most: int, places: int) -> list[int]:
    """How many bytes are to be free: none, a few pages, and ever larger parts of what is needed."""
    parts = {most * i // places // PAGE * PAGE for i in range(places)}
    return sorted({0, PAGE, 2 * PAGE, 3 * PAGE} | parts)


def shop(disk: Small, other: Path, places: int, only: list[str]) -> Counter[str]:
    """The commands on a model, or `only` some of them; `other` is a folder on a disk with room."""
    folder, before, done = disk.root / "shop", other / "before", Counter[str]()
    folder.mkdir()
    os.chdir(folder)
    write_digits(folder)
    for name, act in ACTS.items():
        if only and name not in only:
            expect(ended(act, other / "said"))
            continue
        shutil.copytree(folder, before)
        most = disk.most(lambda act=act: expect(ended(act, other / "said")))
        after, was = State(folder), State(before)
        most = max(most, (folder / MODEL).stat().st_size + 8 * PAGE)  # a moment may be missed
        print(f"{name}: {most} bytes at most", flush=True)
        for free in sizes(most, places):
            begin(before, folder)
            disk.leave(free)
            end = ended(act, other / "said")
            if end.code:
                check_refusal(name, free, end)
            left = State(folder)
            if not (left.has_model_of(was) or left.has_model_of(after)):
                raise SystemExit(f"{name} with {free} bytes free: the model is not what it was or should be")
            disk.leave(None)
            finished = left.has_model_of(after) and not was.has_model_of(after)
            if end.code and not finished:
                expect(ended(act, other / "said"))
            elif end.code:
                expect(ended(command("cache", "--remove"), other / "said"))
            found = State(folder).difference(after)
            if wrong := [one for one in found if not (finished and is_leftover(one))]:
                raise SystemExit(f"{name} with {free} bytes free and once more: {', '.join(wrong)} is not the same")
            how = ", its version is there" if finished else ""
            done[f"{name}, refused{how}" if end.code else f"{name}, done"] += 1
        begin(before, folder)
        expect(ended(act, other / "said"))
        shutil.rmtree(before)
    return done


def is_leftover(name: str) -> bool:
    return Path(name).name in (".shop.cat.lock", "CACHEDIR.TAG", ".page.html.partial", "page.html", "proposal.cat")


def begin(before: Path, folder: Path) -> None:
    os.chdir("/")
    shutil.rmtree(folder)
    shutil.copytree(before, folder)
    os.chdir(folder)


def expect(end: Ended) -> None:
    if end.code:
        raise SystemExit(f"it should have ended well:\n{end.said}")


def run(disk: Small, other: Path, places: int) -> Counter[str]:
    """A run with stored tokens, which is resumed when there is room."""
    out, done = disk.root / "run", Counter[str]()
    act = command(*BENCH, "--out", str(out), "--workers", "0")
    again = command(*BENCH, "--out", str(out), "--workers", "0", "--resume")
    most = disk.most(lambda: expect(ended(act, other / "said")))
    reference = shutil.copytree(out, other / "reference")
    print(f"bench: {most} bytes at most", flush=True)
    for free in sizes(most, places):
        shutil.rmtree(out, ignore_errors=True)
        disk.leave(free)
        end = ended(act, other / "said")
        if end.code:
            check_refusal("bench", free, end)
        disk.leave(None)
        expect(ended(again, other / "said"))
        assert_same_run(reference, out)
        done[f"bench, {'refused' if end.code else 'done'}"] += 1
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, default=12, help="parts of what a command needs")
    parser.add_argument("--only", action="append", default=[], choices=[*ACTS, "bench"], help="repeat for several")
    given = parser.parse_args()
    torch.set_num_threads(1)  # the bits of a sum depend on it
    pretraining.SMALL_VIT["base_epochs"] = 1
    with tempfile.TemporaryDirectory() as other, small_disk() as disk:
        found = shop(disk, Path(other), given.places, given.only)
        if not given.only or "bench" in given.only:
            found += run(disk, Path(other), given.places)
    for what, number in sorted(found.items()):
        print(f"{what}: {number}")
    print(f"{found.total()} full disks")


if __name__ == "__main__":
    main()
