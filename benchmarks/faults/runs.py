"""Fault injection on runs: SIGKILL at random moments and before exact file operations, resume, compare to the bit.

    python benchmarks/faults/runs.py --kills 200

The run is a small one (`tests/helpers/runs.py`): tokens are extracted, two stages are trained, everything is saved. It
is killed again and again until it ends, is compared with one that was not, and begins anew. Prints how many kills
there were.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the tests are no package that is installed

import torch

from happycat.backbone import recipe
from tests.helpers.runs import assert_same_run, quick_run

OPERATIONS = ("fsync", "replace", "rename", "unlink", "mkdir")


def kill_before(number: int) -> None:
    """Kill this process before it does so many file operations."""
    left = [number]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return called

    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))


def killed(out: Path, chance: random.Random) -> str:
    """Run it, or go on with it, in a process of its own that is killed; where, or that it came to its end."""
    where = chance.choice(("at a moment", "before an operation"))
    child = os.fork()
    if child == 0:
        if where == "before an operation":
            kill_before(chance.randint(1, 60))
        quick_run(out, resume=True)
        os._exit(0)
    if where == "at a moment":
        time.sleep(chance.uniform(0.0, 2.0))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if status not in (0, signal.SIGKILL):
        raise SystemExit(f"{out}: the run that went on ended with status {status}")
    return where if status else "at its end"


def faults(root: Path, reference: Path, kills: int, seed: int) -> Counter[str]:
    """Kill runs so many times; each ends as the reference, or this does not."""
    chance, done = random.Random(seed), Counter[str]()
    for number in range(kills):
        out = root / str(number)
        while done.total() < kills and (where := killed(out, chance)) != "at its end":
            done[where] += 1
        quick_run(out, resume=True)
        assert_same_run(reference, out)
        shutil.rmtree(out)
        print(f"{done.total()} kills, {number + 1} runs the same to the bit", flush=True)
        if done.total() >= kills:
            break
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reference", type=Path, help="a run that was not interrupted [made here]")
    given = parser.parse_args()
    torch.set_num_threads(1)  # the bits of a sum depend on it
    with tempfile.TemporaryDirectory() as folder:
        reference = given.reference or Path(folder) / "reference"
        if given.reference is None:
            recipe.SHARD = 8  # more shards, more moments between them; the last bits of features depend on it
            quick_run(reference)
        found = faults(Path(folder), reference, given.kills, given.seed)
    print(", ".join(f"{number} kills {where}" for where, number in sorted(found.items())))


if __name__ == "__main__":
    main()
