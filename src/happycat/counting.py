"""How many new classes there are: what each component more gains, and what it has to.

With k components besides the old ones, a mixture explains the images of a stage with the log-likelihood L(k). A
component that is a class gains much; one that follows a few odd images, or a variety within a class, gains less. So
each has a price, and the estimate is the k with the largest worth

    V(k) = L(k) − L(0) − Σ_{i≤k} (a + b n_i),        n_i: images per new component, with i of them.

What odd images gain does not depend on how many images a class has, what a variety gains grows with them: hence the
two parts. Both are learned by hiding labelled classes: a where nothing is hidden, b where something is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from happycat.mixture import Mixture

PATIENCE = 5  # components more, at least, that are tried after the best number
COVERED = 0.8  # of the episodes whose number lies within the interval
FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)


class Step(NamedTuple):
    """What the k-th component gained in log-likelihood, and the images per new component with k of them."""

    gain: float
    images: float


class Price(NamedTuple):
    """What a component costs, a + b n. The interval is what 1/factor and factor times the price would give."""

    component: float
    image: float
    factor: float

    def worth(self, steps: Sequence[Step], scale: float = 1.0) -> np.ndarray:
        """V(0), V(1), …, at `scale` times the price."""
        return np.cumsum([0.0, *(s.gain - scale * (self.component + self.image * s.images) for s in steps)])

    def number(self, steps: Sequence[Step], scale: float = 1.0) -> int:
        return int(self.worth(steps, scale).argmax())

    def interval(self, steps: Sequence[Step]) -> tuple[int, int]:
        return self.number(steps, self.factor), self.number(steps, 1 / self.factor)


class Count(NamedTuple):
    """An estimate, its interval, and the curve whose highest point it is: `curve[i]` for `numbers[i]` classes."""

    number: int
    low: int
    high: int
    numbers: list[int]
    curve: list[float]


def follow(mixtures: Iterable[Mixture], num_old: int, most: int, price: Price | None = None) -> list[Step]:
    """The steps of growing mixtures, up to `most` new components or until none is worth its price any more."""
    steps = []
    for before, after in pairwise(mixtures):
        new = len(after.centres) - num_old
        gain = float(after.log_density.sum() - before.log_density.sum())
        steps.append(Step(gain, float(after.counts[num_old:].sum()) / new))
        if new >= most or (price and _settled(steps, price)):
            return steps
    return steps


def _settled(steps: list[Step], price: Price) -> bool:
    most = price.interval(steps)[1]
    return len(steps) - most >= max(PATIENCE, most // 2)


def count(steps: Sequence[Step], price: Price) -> Count:
    low, high = price.interval(steps)
    curve = price.worth(steps).tolist()
    return Count(price.number(steps), low, high, list(range(len(curve))), curve)


def learn_price(nothing: Sequence[Sequence[Step]], hidden: Sequence[tuple[int, Sequence[Step]]]) -> Price:
    """The price that fits episodes where nothing is hidden, and episodes with so many hidden classes.

    a is the least with which nothing is found where nothing is; b, the middle of those with which the numbers are
    nearest to the truth; the factor, the least with which most intervals hold the truth.
    """
    component = max((_most_per_component(steps) for steps in nothing), default=0.0)
    images = np.geomspace(1e-3, 1e2, 101)

    def error(image: float) -> int:
        return sum(abs(Price(component, image, 1).number(steps) - number) for number, steps in hidden)

    errors = np.array([error(image) for image in images])
    best = np.flatnonzero(errors == errors.min())
    price = Price(component, float(images[best[len(best) // 2]]), FACTORS[-1])
    for factor in FACTORS:
        wider = price._replace(factor=factor)
        inside = [low <= number <= high for number, steps in hidden for low, high in [wider.interval(steps)]]
        if np.mean(inside) >= COVERED:
            return wider
    return price


def _most_per_component(steps: Sequence[Step]) -> float:
    gained = np.cumsum([step.gain for step in steps])
    return float((gained / np.arange(1, len(steps) + 1)).max())
