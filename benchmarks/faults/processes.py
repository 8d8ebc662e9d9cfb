"""Fault injection on helpers of a run: ranks and DataLoader workers are killed; one line, then the run goes on (Linux).

    python benchmarks/faults/processes.py --kills 10

A small run (`tests/helpers/runs.py`) is started by two processes; or by one that has worker processes read its images,
on a backbone with weights, because one from scratch has no workers. One of the processes that it started is killed: a
rank at a random moment, a worker, which lives for a blink, when a random number of others have been seen. The run must
end with one line that says so, and `--resume` must go on. With workers it ends the same to the bit as one that was not
killed; with two processes it gives the same predictions. Prints how many kills there were of each kind.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the tests are no package that is installed

import timm
from safetensors.torch import save_file

from tests.cli.test_processes import BENCH, ENVIRONMENT, PYTHON, TWO, same_run
from tests.helpers.runs import assert_same_run

BACKBONE, WEIGHTS = "test_vit", "weights.safetensors"  # random ones, in the folder of the runs
KINDS = {
    "rank": [*TWO, "--workers", "0"],
    "worker": ["--workers", "2", "--backbone", BACKBONE, "--image-size", "32", "--weights", WEIGHTS],
}
STARTED = 8  # workers that are started before the one that is killed, at most
LIMIT = 600  # seconds that a run may take at most: one that hangs is an error


def command(kind: str, out: Path, resume: bool) -> list[str]:
    return [*PYTHON, "happycat", *BENCH, *KINDS[kind], "--out", str(out), *(["--resume"] if resume else [])]


def whole(kind: str, out: Path, resume: bool) -> None:
    """Start or go on, to the end."""
    subprocess.run(command(kind, out, resume), cwd=out.parent, env=ENVIRONMENT, check=True, capture_output=True)


def helpers(parent: int, kind: str) -> list[int]:
    """The processes that a run has started: other ranks, or workers."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if entry.name.isdigit() and int(fields[1]) == parent:
                is_rank = b"LOCAL_RANK=1" in (entry / "environ").read_bytes().split(b"\0")
                command_line = (entry / "cmdline").read_bytes()
                if is_rank if kind == "rank" else b"resource_tracker" not in command_line:
                    found.append(int(entry.name))
        except (OSError, IndexError):  # it has just ended
            continue
    return found


def killed(kind: str, out: Path, moment: float, before: int) -> bool | None:
    """Start or go on; whether a helper was killed, None if the run came to its end before that.

    The helper is the first that there is when so many seconds have passed since the start, and so many others have been
    seen before it.
    """
    resume = (out / "run.json").exists()
    words = {"env": ENVIRONMENT, "stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command(kind, out, resume), cwd=out.parent, **words) as started:
        begun, hit, seen = time.monotonic(), False, set[int]()
        while started.poll() is None and not hit:
            passed = time.monotonic() - begun
            if passed > LIMIT:
                raise SystemExit(f"a run hangs: {started.pid}")
            there = helpers(started.pid, kind)
            others, seen = len(seen), seen.union(there)
            if passed >= moment and (out / "run.json").exists() and there and others >= before:
                try:
                    os.kill(there[0], signal.SIGKILL)
                    hit = True
                except ProcessLookupError:
                    continue
            time.sleep(0.01)
        said = started.communicate(timeout=LIMIT)[1]
    lines = [line for line in said.splitlines() if line.startswith("happycat:")]
    if started.returncode == 0:
        return None if not hit else False  # it was killed when it was not needed any more
    if len(lines) != 1 or "Traceback" in said:
        raise SystemExit(f"after a kill of a {kind} the run ended with {started.returncode}:\n{said[-3000:]}")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10, help="of each kind")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance, done = random.Random(given.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        save_file(timm.create_model(BACKBONE, num_classes=0).state_dict(), Path(folder) / WEIGHTS)
        for kind in KINDS:
            reference, out = Path(folder) / f"{kind}-reference", Path(folder) / kind
            begun = time.monotonic()
            whole(kind, reference, False)
            seconds = time.monotonic() - begun
            while done[kind] < given.kills:
                moment, before = (chance.uniform(0, seconds), 0) if kind == "rank" else (0, chance.randrange(STARTED))
                end = killed(kind, out, moment, before)
                done[kind] += end is True
                done[f"{kind}, not needed any more"] += end is False
                if end is not True:
                    (assert_same_run if kind == "worker" else same_run)(reference, out)
                    print(f"{done[kind]} kills of a {kind}, a run that ends the same", flush=True)
                    shutil.rmtree(out)
            if out.exists():
                whole(kind, out, True)
                (assert_same_run if kind == "worker" else same_run)(reference, out)
    for kind, number in done.items():
        print(f"{kind}: {number} kills")


if __name__ == "__main__":
    main()
