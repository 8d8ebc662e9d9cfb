"""How many new classes there are: what each component more gains, and what it has to.

With k components besides the old ones, a mixture explains the images of a stage with the log-likelihood L(k). A
component that is a class gains much; one that follows a few odd images, or a variety within a class, gains less. So
each has a price, and the estimate is the k with the largest worth

    V(k) = L(k) − L(0) − Σ_{i≤k} (a + b n_i),        n_i: images per new component, with i of them.

less those of the k components that the images would not miss for that price. (A search that goes up by one component
at a time follows odd images now and then before it finds the last class.)

What odd images gain does not depend on how many images a class has, what a variety gains grows with them: hence the
two parts. Both are learned by hiding labelled classes: a where nothing is hidden, b where something is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from happycat.methods.calm.mixture import Search

PATIENCE = 5  # components more, at least, that are tried after the best number
NEARLY = 0.1  # of the hidden classes: numbers that are wrong by so few more are as good
COVERED = 0.8  # of the episodes whose number lies within the interval
FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)


class Step(NamedTuple):
    """What the k-th component gained in log-likelihood; with k of them: images each, and what each is missed by."""

    gain: float
    images: float
    losses: tuple[float, ...]


class Penalty(NamedTuple):
    """What a component costs, a + b n. The interval is what 1/factor and factor times the price would give."""

    component: float
    image: float
    factor: float

    def of(self, step: Step, scale: float = 1.0) -> float:
        return scale * (self.component + self.image * step.images)

    def worth(self, steps: Sequence[Step], scale: float = 1.0) -> np.ndarray:
        """V(0), V(1), …, at `scale` times the price."""
        return np.cumsum([0.0, *(step.gain - self.of(step, scale) for step in steps)])

    def kept(self, steps: Sequence[Step], scale: float = 1.0) -> list[int]:
        """How many of 0, 1, … components would be missed."""
        return [0, *(sum(loss >= self.of(step, scale) for loss in step.losses) for step in steps)]

    def number(self, steps: Sequence[Step], scale: float = 1.0) -> int:
        return self.kept(steps, scale)[int(self.worth(steps, scale).argmax())]

    def interval(self, steps: Sequence[Step]) -> tuple[int, int]:
        return self.number(steps, self.factor), self.number(steps, 1 / self.factor)


class Count(NamedTuple):
    """An estimate, its interval, and the curve whose highest point it is: `curve[i]` for `numbers[i]` classes."""

    number: int
    low: int
    high: int
    numbers: list[int]
    curve: list[float]


def follow(search: Search, moves: int, most: int, price: Penalty | None = None) -> list[Step]:
    """The steps of a growing mixture, up to `most` new components or until none is worth its price any more."""
    steps = []
    for before, after in pairwise(search.growing(moves)):
        gain = float(after.log_density.sum() - before.log_density.sum())
        found = after.counts[search.num_old :]
        steps.append(Step(gain, float(found.mean()), tuple(search.losses(after).tolist())))
        if len(steps) >= most or (price and _settled(steps, price)):
            return steps


def _settled(steps: list[Step], price: Penalty) -> bool:
    best = int(price.worth(steps, 1 / price.factor).argmax())
    return len(steps) - best >= max(PATIENCE, best // 2)


def count(steps: Sequence[Step], price: Penalty) -> Count:
    """The estimate; a number of classes is worth what the best of the mixtures is that come down to it."""
    (low, high), number = price.interval(steps), price.number(steps)
    best: dict[int, float] = {}
    for kept, worth in zip(price.kept(steps), price.worth(steps).tolist(), strict=True):
        best[kept] = max(worth, best.get(kept, -np.inf))
    numbers = sorted(best)
    return Count(number, min(low, number), max(high, number), numbers, [best[n] for n in numbers])


def learn_penalty(nothing: Sequence[Sequence[Step]], hidden: Sequence[tuple[int, Sequence[Step]]]) -> Penalty:
    """The price that fits episodes where nothing is hidden, and episodes with so many hidden classes.

    a is the least with which nothing is found where nothing is; b, that of the middle of the prices with which the
    numbers are about as near to the truth as they can be (where classes are small many are, and the least of them
    would find too many large ones); the factor, the least with which most intervals hold the truth.
    """
    component = max((_most_per_component(steps) for steps in nothing), default=0.0)
    images = np.geomspace(1e-3, 1e2, 101)

    def error(image: float) -> int:
        return sum(abs(Penalty(component, image, 1).number(steps) - number) for number, steps in hidden)

    errors = np.array([error(image) for image in images])
    fair = images[errors <= errors.min() + NEARLY * sum(number for number, _ in hidden)]
    size = max(1.0, np.mean([steps[min(number, len(steps)) - 1].images for number, steps in hidden]))
    middle = np.sqrt(np.prod(component + fair[[0, -1]] * size))
    price = Penalty(component, float((middle - component) / size), FACTORS[-1])
    for factor in FACTORS:
        wider = price._replace(factor=factor)
        inside = [low <= number <= high for number, steps in hidden for low, high in [wider.interval(steps)]]
        if np.mean(inside) >= COVERED:
            return wider
    return price


def _most_per_component(steps: Sequence[Step]) -> float:
    gained = np.cumsum([step.gain for step in steps])
    return float((gained / np.arange(1, len(steps) + 1)).max())
