"""Fault injection on runs: they are killed at random moments and before exact file operations, resumed, and compared.

    python benchmarks/faults/runs.py --kills 200

The run is a small one (`tests/helpers/runs.py`): tokens are extracted, two stages are trained, everything is saved. It
is killed again and again until it ends, is compared to the bit with one that was not, and begins anew. Prints how many
kills there were, and what they hit.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the tests are no package that is installed

import torch
from killing import is_killed, kill_after, kill_before

from happycat.backbone import recipe
from happycat.backbone.housekeeping import stores_below
from happycat.base.disk import PARTIAL
from tests.helpers.runs import assert_same_run, quick_run


def killed(out: Path, chance: random.Random) -> str | None:
    """Run it, or go on with it, in a process of its own that is killed; how and in the midst of what, if it was."""
    moment, place = chance.uniform(0.001, 1.0), chance.randint(1, 60)
    how = chance.choice(("at a moment", "before an operation"))

    def deadly() -> None:
        if how == "at a moment":
            kill_after(moment)
        else:
            kill_before(place)

    return f"{under_way(out)}, {how}" if is_killed(lambda: quick_run(out, resume=True), deadly) else None


def under_way(out: Path) -> str:
    """What a run that was killed was doing, by what it has left."""
    stores = list(stores_below(out))
    if list(out.rglob(f".*{PARTIAL}")):
        return "saving"
    if any(store.recorded() < store.recipe.num_pictures for store in stores):
        return "extraction"
    return "training" if stores else "set-up"


def faults(root: Path, reference: Path, kills: int, seed: int) -> Counter[str]:
    """Kill runs so many times; each ends as the reference, or this does not."""
    chance, done = random.Random(seed), Counter[str]()
    for number in range(kills):
        out = root / str(number)
        while done.total() < kills and (where := killed(out, chance)):
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
    for where, number in sorted(found.items()):
        print(f"{where}: {number} kills")


if __name__ == "__main__":
    main()
