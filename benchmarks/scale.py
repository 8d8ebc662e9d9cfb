"""How do the time and the memory of fit and discover grow with the images and the classes?

    python benchmarks/scale.py fit --images 50000 --classes 1000
    python benchmarks/scale.py discover --images 100000 --classes 1000 --new 200
    python benchmarks/scale.py growth

Vectors of 384 numbers: a class's mean is drawn with variances that fall from direction to direction, an image around it
with variance 1. `discover` fits a model of 25 images a class first, which is not counted; half of the
served images are of new classes, whose number is estimated. `growth` runs several sizes and prints the exponents of
time: a line through the logarithms. Memory (Linux only) is the largest that the whole process had, with the vectors.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from happycat import Happycat

FEATURES = 384
ROWS = 10_000  # images that are made at once
LABELLED = 25  # images a class of a model that only serves to discover
GROWTH = {  # the arguments of the runs, of which one thing grows
    "fit: images": [("fit", n, 200, 0) for n in (10_000, 20_000, 40_000)],
    "fit: classes": [("fit", 20_000, k, 0) for k in (100, 200, 400, 800)],
    "discover: images": [("discover", n, 200, 50) for n in (10_000, 20_000, 40_000, 80_000)],
    "discover: classes": [("discover", 20_000, k, k // 5) for k in (100, 200, 400, 800)],
}


def class_means(number: int, generator: np.random.Generator) -> np.ndarray:
    """Means (number, D), with a variance that falls as 1/j."""
    spread = 3 / np.sqrt(np.arange(1, FEATURES + 1))
    return (generator.standard_normal((number, FEATURES)) * spread * np.sqrt(FEATURES / 8)).astype(np.float32)


def images(means: np.ndarray, ids: np.ndarray, generator: np.random.Generator, file: Path | None = None) -> np.ndarray:
    """An image of each of the classes `ids`, in memory or mapped from a new file."""
    shape = len(ids), FEATURES
    vectors = np.lib.format.open_memmap(file, "w+", np.float32, shape) if file else np.empty(shape, np.float32)
    for start in range(0, len(ids), ROWS):
        some = ids[start : start + ROWS]
        vectors[start : start + ROWS] = means[some] + generator.standard_normal((len(some), FEATURES), np.float32)
    return vectors


def peak() -> float:
    """The largest memory (MB) that this process had so far."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.is_file() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))


def clocks() -> np.ndarray:
    """Seconds by the clock, and of CPU time, which does not depend on what else the machine does."""
    return np.array([time.perf_counter(), time.process_time()])


def fit(number: int, classes: int) -> dict[str, float]:
    generator = np.random.default_rng(0)
    ids = np.arange(number) % classes
    vectors = images(class_means(classes, generator), ids, generator)
    started = clocks()
    cat = Happycat().fit(vectors, ids)
    (seconds, cpu_seconds), memory = clocks() - started, peak()
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "memory_mb": memory,
        "accuracy": 100 * float((cat.predict(vectors) == ids).mean()),
    }


def discover(number: int, classes: int, new: int, file: Path | None = None) -> dict[str, float]:
    """Of images that are in memory, or mapped from a new file."""
    generator = np.random.default_rng(0)
    means = class_means(classes + new, generator)
    known = np.arange(LABELLED * classes) % classes
    started = clocks()
    cat = Happycat().fit(images(means, known, generator), known)
    fitted = clocks() - started
    half = number // 2
    ids = generator.permutation(
        np.concatenate([np.arange(number - half) % classes, classes + np.arange(half) % max(1, new)])
    )
    vectors = images(means, ids, generator, file)
    started = clocks()
    found = cat.discover(vectors, "auto")
    (seconds, cpu_seconds), memory = clocks() - started, peak()
    assert found.count is not None
    fresh = np.arange(classes + new).repeat(5)
    some = np.split(images(means, fresh, generator), range(ROWS // 10, len(fresh), ROWS // 10))
    predicted = np.concatenate([cat.predict_proba(vectors).argmax(1) for vectors in some])
    from happycat.base.metrics import clustering_accuracy

    scores = clustering_accuracy(fresh, predicted, classes)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "memory_mb": memory,
        "fit_cpu_seconds": fitted[1],
        "found": found.count.number,
        "low": found.count.low,
        "high": found.count.high,
        "old": scores.old or 0.0,
        "new": scores.new or 0.0,
    }


def growth() -> None:
    """Each run in a process of its own, so that none has another's memory or warm caches."""
    for label, runs in GROWTH.items():
        sizes, seconds = [], []
        for verb, number, classes, new in runs:
            command = [sys.executable, __file__, verb, "--images", str(number), "--classes", str(classes)]
            command += ["--new", str(new)] if verb == "discover" else []
            figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            sizes.append(number if label.endswith("images") else classes)
            seconds.append(figures["seconds"])
            print(label, number, classes, new, json.dumps(figures), flush=True)
        exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        last = np.log(seconds[-1] / seconds[-2]) / np.log(sizes[-1] / sizes[-2])
        print(f"{label}: exponent {exponent:.2f}, from the last but one to the last {last:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["fit", "discover", "growth"])
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--new", type=int, default=20)
    given = parser.parse_args()
    if given.verb == "growth":
        growth()
        return
    run = fit(given.images, given.classes) if given.verb == "fit" else discover(given.images, given.classes, given.new)
    print(json.dumps({name: round(value, 2) for name, value in run.items()}))


if __name__ == "__main__":
    main()
