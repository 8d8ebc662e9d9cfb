"""Does the estimate of the number of new classes hold where it is hard? One line a case: truth, estimate, interval.

    python benchmarks/number.py [FEATURES.npz…]

Clouds of vectors: more new classes than known ones, few labelled classes, few labelled images, very different sizes,
small classes, nothing new, copies of images; the digits of the README. Files of features (as of `happycat paper
calm-check`) are divided as folders would be: ten labelled images of half of the classes, an inbox of ten new classes of
15 and an image of each known one, then one of eight more new classes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from happycat import Happycat
from happycat.benchmark.paper.check_data import read_features
from happycat.images.sources import VectorRows
from happycat.methods.calm.number import Count

DIM = 64
SEEDS = 5


class Case(NamedTuple):
    name: str
    labelled: list[int]  # images of each labelled class
    again: int  # more images of each labelled class in the inbox
    new: list[int]  # images of each new class
    copies: int = 1  # of each image of the inbox


CASES = [
    Case("25 new beside 10 known", [30] * 10, 5, [30] * 25),
    Case("11 new beside 2 known", [30] * 2, 5, [30] * 11),
    Case("1 large and 3 small new", [30] * 20, 5, [200, 15, 15, 15]),
    Case("50 new beside 100", [20] * 100, 3, [20] * 50),
    Case("12 labelled images a class", [12] * 20, 3, [40] * 8),
    Case("5 labelled images a class", [5] * 20, 3, [40] * 8),
    Case("2 labelled images a class", [2] * 20, 3, [40] * 8),
    Case("1 labelled image a class", [1] * 20, 3, [40] * 8),
    Case("new classes of 15, labelled of 60", [60] * 20, 5, [15] * 8),
    Case("new classes of 60, labelled of 15", [15] * 20, 5, [60] * 8),
    Case("1 new", [30] * 20, 5, [30]),
    Case("nothing new", [30] * 20, 20, []),
    Case("nothing new, each image ten times", [30] * 20, 10, [], copies=10),
]


def clouds(case: Case, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labelled vectors and labels, and the vectors of an inbox."""
    random = np.random.default_rng(seed)
    means = random.standard_normal((len(case.labelled) + len(case.new), DIM))

    def some(counts: list[int], first: int) -> tuple[np.ndarray, np.ndarray]:
        ids = np.repeat(np.arange(first, first + len(counts)), counts)
        return means[ids] + noise * random.standard_normal((len(ids), DIM)), ids

    vectors, labels = some(case.labelled, 0)
    inbox = np.concatenate([some([case.again] * len(case.labelled), 0)[0], some(case.new, len(case.labelled))[0]])
    inbox = np.repeat(inbox, case.copies, 0) + 1e-3 * random.standard_normal((len(inbox) * case.copies, DIM))
    return vectors, labels, random.permutation(inbox)


def estimate(cat: Happycat, inbox: np.ndarray) -> Count:
    count = cat.discover(inbox, "auto").count
    assert count is not None
    return count


def digits() -> Count:
    from sklearn.datasets import load_digits

    vectors, labels = load_digits(return_X_y=True)
    known = labels < 6
    return estimate(Happycat().fit(vectors[known][:600], labels[known][:600]), vectors[~known][:300])


def inboxes(path: Path, order: int) -> Iterator[tuple[str, int, Count]]:
    """Two inboxes after one another, of a data set's training vectors."""
    images = read_features(path)
    assert isinstance(images.train, VectorRows)
    vectors, labels = images.train.vectors, images.train_labels
    shuffled = np.random.default_rng(order).permutation(len(images.classes))
    base, first, second = np.split(shuffled, [len(shuffled) // 2, len(shuffled) // 2 + 10])

    def rows(classes: np.ndarray, start: int, stop: int) -> np.ndarray:
        return np.concatenate([np.flatnonzero(labels == c)[start:stop] for c in classes])

    known = rows(base, 0, 10)
    cat = Happycat().fit(vectors[known], labels[known])
    yield "first inbox", 10, estimate(cat, vectors[np.concatenate([rows(base, 10, 11), rows(first, 0, 15)])])
    old = np.concatenate([rows(base, 11, 12), rows(first, 15, 16)])
    yield "second inbox", 8, estimate(cat, vectors[np.concatenate([old, rows(second[:8], 0, 15)])])


def show(name: str, truth: int, counts: list[Count]) -> None:
    inside = sum(count.low <= truth <= count.high for count in counts)
    said = ", ".join(f"{count.number} [{count.low}, {count.high}]" for count in counts)
    print(f"{name:<48} {truth:>3}: {said}   {inside} of {len(counts)} inside", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="*", type=Path)
    given = parser.parse_args()
    for noise in (0.5, 1.0):
        for case in CASES:
            counts = []
            for seed in range(SEEDS):
                vectors, labels, inbox = clouds(case, noise, seed)
                counts.append(estimate(Happycat().fit(vectors, labels), inbox))
            show(f"noise {noise}: {case.name}", len(case.new), counts)
    show("digits, as in the README", 4, [digits()])
    for path in given.features:
        both: dict[tuple[str, int], list[Count]] = {}
        for order in range(SEEDS):
            for name, truth, count in inboxes(path, order):
                both.setdefault((name, truth), []).append(count)
        for (name, truth), counts in both.items():
            show(f"{path.stem}: {name}", truth, counts)


if __name__ == "__main__":
    main()
