"""How many new classes there are: the penalised likelihood of a mixture that grows one component at a time.

With k components besides the old ones, a mixture explains the images of a stage with the log-likelihood L(k). A
component that is a class gains much; one that follows a few odd images, or a variety within a class, gains less. So
each pays a complexity penalty, and the estimate is the k with the largest penalised likelihood

    V(k) = L(k) − L(0) − Σ_{i≤k} (a + b n_i),        n_i: images per new component, with i of them,

less those of the k components whose removal would cost less likelihood than their penalty. (A search that goes up by
one component at a time follows odd images now and then before it finds the last class.)

What odd images gain does not depend on how many images a class has, what a variety gains grows with them: hence the
two parts. Both are learned on held-out classes: a where nothing is held out, b where something is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from happycat.base.progress import Advance, nobody
from happycat.methods.calm.mixture import Search

PATIENCE = 5  # components more, at least, that are tried after the best number
NEARLY = 0.1  # of the held-out classes: an error larger by so many is as good as the least
COVERED = 0.8  # of the episodes whose number lies within the interval
FACTORS = (1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)


class Step(NamedTuple):
    """The log-likelihood gained by the k-th component; with k of them: images each, and the loss if one is removed."""

    gain: float
    images: float
    losses: tuple[float, ...]


class Penalty(NamedTuple):
    """The complexity penalty of a component, a + b n. The interval is what 1/factor and factor times it would give."""

    component: float
    image: float
    factor: float

    def of(self, step: Step, scale: float = 1.0) -> float:
        return scale * (self.component + self.image * step.images)

    def score(self, steps: Sequence[Step], scale: float = 1.0) -> np.ndarray:
        """The penalised likelihoods V(0), V(1), …, at `scale` times the penalty."""
        return np.cumsum([0.0, *(step.gain - self.of(step, scale) for step in steps)])

    def kept(self, steps: Sequence[Step], scale: float = 1.0) -> list[int]:
        """How many of 0, 1, … components are kept: their removal would cost more likelihood than their penalty."""
        return [0, *(sum(loss >= self.of(step, scale) for loss in step.losses) for step in steps)]

    def number(self, steps: Sequence[Step], scale: float = 1.0) -> int:
        return self.kept(steps, scale)[int(self.score(steps, scale).argmax())]

    def interval(self, steps: Sequence[Step]) -> tuple[int, int]:
        return self.number(steps, self.factor), self.number(steps, 1 / self.factor)


class Count(NamedTuple):
    """An estimate, its interval, and the curve whose highest point it is: `curve[i]` for `numbers[i]` classes."""

    number: int
    low: int
    high: int
    numbers: list[int]
    curve: list[float]


NOTHING_NEW = Count(0, 0, 0, [0], [0.0])


def most_new_classes(num_known: int, num_images: int, limit: int | None = None) -> int:
    """The most new classes to look for: `limit`, or as many as are known and at least ten; fewer than images."""
    return min(limit or max(10, num_known), num_images - 1)


def follow(
    search: Search, moves: int, most: int, penalty: Penalty | None = None, advance: Advance = nobody
) -> list[Step]:
    """The steps of a growing mixture, up to `most` new components or until more of them gain too little."""
    steps: list[Step] = []
    for before, after in pairwise(search.growing(moves)):
        gain = float(after.log_density.sum() - before.log_density.sum())
        found = after.counts[search.num_old :]
        steps.append(Step(gain, float(found.mean()), tuple(search.losses(after).tolist())))
        advance(1)
        if len(steps) >= most or (penalty and _settled(steps, penalty)):
            break
    return steps


def _settled(steps: list[Step], penalty: Penalty) -> bool:
    best = int(penalty.score(steps, 1 / penalty.factor).argmax())
    return len(steps) - best >= max(PATIENCE, best // 2)


def count(steps: Sequence[Step], penalty: Penalty) -> Count:
    """The estimate; the curve has, for each number of classes, the best score of the mixtures that keep so many."""
    (low, high), number = penalty.interval(steps), penalty.number(steps)
    best: dict[int, float] = {}
    for kept, score in zip(penalty.kept(steps), penalty.score(steps).tolist(), strict=True):
        best[kept] = max(score, best.get(kept, -np.inf))
    numbers = sorted(best)
    return Count(number, min(low, number), max(high, number), numbers, [best[n] for n in numbers])


def learn_penalty(nothing: Sequence[Sequence[Step]], held_out: Sequence[tuple[int, Sequence[Step]]]) -> Penalty:
    """The penalty that fits episodes where nothing is held out, and episodes with so many held-out classes.

    a is the least with which nothing is found where nothing is. b makes the penalty the geometric mean of the smallest
    and the largest near-optimal one: near-optimal are those whose errors in the number of classes are about the least
    (where classes are small many are, and the smallest would find too many large ones). The factor is the least with
    which most intervals hold the truth.
    """
    component = max((_most_per_component(steps) for steps in nothing), default=0.0)
    images = np.geomspace(1e-3, 1e2, 101)

    def error(image: float) -> int:
        return sum(abs(Penalty(component, image, 1).number(steps) - number) for number, steps in held_out)

    errors = np.array([error(image) for image in images])
    fair = images[errors <= errors.min() + NEARLY * sum(number for number, _ in held_out)]
    size = max(1.0, np.mean([steps[min(number, len(steps)) - 1].images for number, steps in held_out]))
    middle = np.sqrt(np.prod(component + fair[[0, -1]] * size))
    penalty = Penalty(component, float((middle - component) / size), FACTORS[-1])
    for factor in FACTORS:
        wider = penalty._replace(factor=factor)
        inside = [low <= number <= high for number, steps in held_out for low, high in [wider.interval(steps)]]
        if np.mean(inside) >= COVERED:
            return wider
    return penalty


def _most_per_component(steps: Sequence[Step]) -> float:
    gained = np.cumsum([step.gain for step in steps])
    return float((gained / np.arange(1, len(steps) + 1)).max())
