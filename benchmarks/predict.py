"""How much of the rate of a bare matrix product does prediction reach, and how much memory does it take?

    OMP_NUM_THREADS=1 python benchmarks/predict.py --images 100000 --classes 10000

Random vectors, and a model whose classes are random directions: nothing is fitted, only time and memory count. Two
bare products stand beside the verbs, in chunks as prediction takes them: of the vectors as they are with as many
others, and of their points in the model's space, which has fewer dimensions, with the prototypes. Each is measured in
turn, `--repeats` times; medians are printed. Memory (Linux only) is the peak above what the images and the model take.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat import Happycat
from happycat.backbone.tail import Vectors
from happycat.methods.calm.config import DIMENSIONS, CalmConfig
from happycat.methods.calm.method import Calm
from happycat.methods.calm.prediction import chunks
from happycat.model.from_method import prototype_registry
from happycat.model.storage import VECTORS, State

VECTORS_PRODUCT, POINTS_PRODUCT = "product of the vectors", "product of the points"
VERBS = ("predict", "assign", "predict_proba")


class Cost(NamedTuple):
    seconds: float
    memory: float  # MB


def random_model(classes: int, features: int, merged: int, dropped: int) -> Happycat:
    """A model of vectors with so many classes; some have been merged in pairs and some dropped."""
    generator = torch.Generator().manual_seed(0)
    calm = Calm(Vectors(features), CalmConfig())
    dimensions = round(DIMENSIONS * features)
    calm.space.set(torch.zeros(features), torch.randn(features, dimensions, generator=generator))
    prototypes = normalize(torch.randn(classes, dimensions, generator=generator), dim=-1)
    calm.memory.replace(prototypes, torch.full((classes,), 10))
    calm.softmax_temperature.fill_(0.05)
    calm.thresholds = torch.full((classes,), -1.0)
    cat = Happycat()
    registry = prototype_registry(calm, [f"kind {c}" for c in range(classes)], [0] * classes)
    cat._take(State(calm, registry, 0, 1.0, 0), VECTORS)
    cat._extractor = cat._base = cat._tag = None
    for c in range(merged):
        cat.merge(2 * c, 2 * c + 1)
    for c in range(dropped):
        cat.drop(classes - 1 - c)
    return cat


def jobs(cat: Happycat, images: np.ndarray) -> dict[str, Callable[[], object]]:
    """What is measured, by its name."""
    vectors, points, prototypes = torch.from_numpy(images), placed(cat, images), cat.rule().prototypes
    return {
        VECTORS_PRODUCT: lambda: product(vectors, vectors[: len(prototypes)].clone()),
        POINTS_PRODUCT: lambda: product(points, prototypes),
        **{name: partial(getattr(cat, name), images) for name in VERBS},
    }


def product(points: Tensor, prototypes: Tensor) -> None:
    for some in chunks(points, len(prototypes)):
        some @ prototypes.T


def placed(cat: Happycat, images: np.ndarray) -> Tensor:
    """Vectors as points in the model's space."""
    return cat.calm_.space(normalize(torch.from_numpy(images), dim=-1))


def cost(job: Callable[[], object]) -> Cost:
    """The time of a job, and by how much it raises the peak memory, its answer included."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from now on
    before, started = memory("VmRSS"), time.perf_counter()
    answer = job()
    taken = time.perf_counter() - started
    del answer
    return Cost(taken, memory("VmHWM") - before)


def memory(name: str) -> float:
    """A line of this process's status in MB."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith(f"{name}:"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--features", type=int, default=384, help="numbers of a vector")
    parser.add_argument("--merged", type=int, default=0, help="pairs of classes that were merged")
    parser.add_argument("--dropped", type=int, default=0, help="classes that were dropped")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--without", nargs="*", choices=VERBS, default=[], help="verbs that are not measured")
    given = parser.parse_args()
    cat = random_model(given.classes, given.features, given.merged, given.dropped)
    images = np.random.default_rng(0).standard_normal((given.images, given.features), dtype=np.float32)
    every = {name: job for name, job in jobs(cat, images).items() if name not in given.without}
    rounds = [{name: cost(job) for name, job in every.items()} for _ in range(given.repeats)]
    taken = {name: median(one[name].seconds for one in rounds) for name in every}
    print(f"{given.images} images, {given.classes} classes, vectors of {given.features}", end=", ")
    print(f"{cat.calm_.space.dimensions} dimensions; {torch.get_num_threads()} threads, {given.repeats} repeats\n")
    print("| | s | rate of the vectors' product | of the points' | peak memory, MB |\n|---|---:|---:|---:|---:|")
    for name, time_taken in taken.items():
        shares = [f"{taken[bare] / time_taken:.0%}" for bare in (VECTORS_PRODUCT, POINTS_PRODUCT)]
        most = max(one[name].memory for one in rounds)
        print(f"| {name} | {time_taken:.2f} | {' | '.join(shares)} | {most:.0f} |")


if __name__ == "__main__":
    main()
