"""What is each part of Calm worth? The check on feature vectors, with one part at a time replaced or left out.

    python benchmarks/ablation.py FEATURES.npz [--new-images 25 --old-images 5 --orders 3]

Features and protocol are those of `happycat paper calm-check`. Calm itself has no switch for any of this: the parts are
replaced from outside. Averages over the stages and the class orders; the error of the number of classes is relative.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from happycat import Happycat
from happycat.benchmark.paper.check import check_order
from happycat.benchmark.paper.check_data import CheckConfig, read_features, splits
from happycat.benchmark.paper.check_report import summary
from happycat.methods.calm import calibration, candidates, mixture, number, selection, space
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.mixture import Mixture, Search
from happycat.methods.calm.space import Scatter

FIGURES = ("known_all", "known_old", "known_new", "known_last", "estimated_all", "relative_error")


def configured(**values: float) -> AbstractContextManager[object]:
    return patch("happycat.model.fitting.CalmConfig", partial(CalmConfig, **values))


def own_variances(self: Scatter, dimensions: int, shrinkage: float) -> tuple[Tensor, Tensor]:
    """The variances within and between the labelled classes, in directions that were found with these classes."""
    every = torch.ones_like(self.place, dtype=torch.bool)
    points = space._long(self.images[:, :dimensions] @ self._turned(every, dimensions, shrinkage))
    means, rest = self._parts(points, self.place)
    within = rest.square().sum(0) / max(1, len(rest) - len(means))
    between = means.square().mean(0) - within * (1 / self.place.bincount()).mean()
    return within, torch.maximum(between, space.SMALLEST_RATIO * within)


def with_itself(products: Tensor, squares: Tensor) -> Tensor:
    """The cosine of an image with its group, the image itself included."""
    return products / squares.clamp_min(1e-12).sqrt()


def one_round(self: Search, found: Tensor, temperature: float, shares: tuple[float, float]) -> Mixture:
    return maximise(self, found, temperature, shares, 1)


maximise = Search.maximise
PARTS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "Calm": ExitStack,
    "not whitened": lambda: configured(shrinkage=1.0),
    "all directions count the same": lambda: configured(exponent=0.0),
    "variances of the labelled classes themselves": lambda: patch.object(Scatter, "_variances", own_variances),
    "cosines with the image itself": lambda: patch.object(candidates, "leave_one_out", with_itself),
    "no exchanges": lambda: patch.object(selection, "SWEEPS", 0),
    "one selection": lambda: patch.object(mixture, "SELECTIONS", 1),
    "one round of EM": lambda: patch.object(Search, "maximise", one_round),
    "sizes of classes not looked at": lambda: patch.object(number, "_by_size", lambda steps: np.arange(len(steps) + 1)),
    "no parts of held-out classes": lambda: patch.object(calibration, "PARTS_WEIGHT", 0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("--new-images", type=int, default=25)
    parser.add_argument("--old-images", type=int, default=5)
    parser.add_argument("--orders", type=int, default=3)
    given = parser.parse_args()
    images = read_features(given.features)
    config = CheckConfig(orders=given.orders, new_images=given.new_images, old_images=given.old_images)
    print(
        f"| {images.name}, {config.orders} class orders | All | Old | New | last All | K estimated: All | error of K |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, change in PARTS.items():
        with change():
            runs = [summary(check_order(Happycat, images, split, i)) for i, split in enumerate(splits(images, config))]
        means = [fmean(run[figure] or 0.0 for run in runs) for figure in FIGURES]
        print(f"| {name} | " + " | ".join(f"{mean:.1f}" for mean in means) + "% |", flush=True)


if __name__ == "__main__":
    main()
