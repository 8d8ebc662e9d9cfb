"""How much longer does small work take on a busy machine?

    python benchmarks/busy.py                # the demo's first training, a few epochs of it
    python benchmarks/busy.py --threads 2    # with so many threads, whatever is free

The training is run alone and beside one busy process for each core, in turns; the median times and their ratio are
printed. A process that shares its core with another gets half of it: on one thread the ratio is about 2. Processor time
should not grow at all; where threads wait for each other, it does.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from happycat.base.threads import cores


def train(epochs: int) -> None:
    """Stage-0 of the demo, with so many epochs; prints its seconds and those of the processor, without setting up."""
    from happycat.base.progress import SILENT
    from happycat.benchmark.config import LoopConfig
    from happycat.benchmark.setup import Request, prepare
    from happycat.cli.running import DEMO

    with tempfile.TemporaryDirectory(prefix="happycat-busy-") as folder:
        values, loop = {**DEMO, "base_epochs": epochs}, LoopConfig(until=0)
        request = Request(dataset="digits", method_values=values, out=Path(folder) / "run", loop=loop)
        ready = prepare(request, SILENT)
        started, used = time.perf_counter(), time.process_time()
        with ready.record:
            ready.run()
        print(time.perf_counter() - started, time.process_time() - used)


BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:  # ends with us, however we end
    pass
"""


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that use all of a core."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="set OMP_NUM_THREADS to that [what happycat chooses]")
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        return train(given.epochs)
    environment = {**os.environ, **({"OMP_NUM_THREADS": str(given.threads)} if given.threads else {})}
    command = [sys.executable, __file__, "--train", "--epochs", str(given.epochs)]
    seconds: dict[int, list[list[float]]] = {0: [], cores(): []}
    for _ in range(given.repeats):
        for others, times in seconds.items():
            with busy(others):
                done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            times.append([float(number) for number in done.stdout.split()])
    for kind, name in enumerate(("time", "processor time")):
        alone, beside = (statistics.median(time[kind] for time in times) for times in seconds.values())
        ratio = beside / alone
        print(f"{name}: alone {alone:.1f} s, beside {cores()} busy processes {beside:.1f} s: ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
