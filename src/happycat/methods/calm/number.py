"""How many new classes there are: which components are useful, and a calibrated distribution of the number.

New components are added one by one. Without one of them its n images lose a sum l of (leave-one-out) cosines. A class
is missed much; what follows a few odd images has few of them, a variety within a class loses little. So a component is
useful if it is worth its complexity penalty,

    l ≥ a + b n,

and k is the most useful components that there ever are together. Classes that come together are often of about one
size, and then sizes say more: with N the median size of the clearest components, all images in components make n/N
classes. That is taken when there are somewhat more components than useful ones, and hardly depends on how many: whole
classes are the clearest, and what is divided has small parts. The estimate is

    k̂ = k^(1−t) (n/N)^t,

where the trust t is 1 if the clearer components are of one size, and 0 if their sizes differ much. How far k̂ may be off
is seen on held-out classes. With the penalty uncertain by a factor exp(s z), z ~ N(0, 1), and an error e of the number,

    P(K | a, b, s, e) = Σ_z p(z) P(K | k̂(z)),        P(K | k̂) ∝ exp(−½ (log((K + ½) / (k̂ + ½)) / e)²)

Held-out classes do not say exactly which a, b, s and e are right, and new classes may differ from them. So none is
chosen: each counts by how likely it makes the numbers of held-out classes (and 0 where none was), to a small power.

A class of few images is not worth its penalty, however clear it is: with a loss of r an image it needs n (r − b) ≥ a.
So the number is that of the classes that have about 1.5 a / (r − b) images or more, the detection limit, which is said
beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from happycat.base.progress import Advance, nobody
from happycat.methods.calm.selection import Component

PATIENCE = 5  # components more, at least, that are tried after the last useful one
COVERED = 0.9  # probability of the interval
POWER = 0.4  # of the likelihood: episodes share their classes, and new classes are not like them
NODES = np.linspace(-2, 2, 9)  # z
COMPONENTS = np.geomspace(0.2, 4, 9)  # values of a, b, s and e
IMAGES = (0.0, 0.01, 0.02, 0.04, 0.07, 0.11, 0.15)
SPREADS = (0.1, 0.25, 0.5)
ERRORS = (0.05, 0.1, 0.2, 0.35)
CLEAREST, CLEARER = 0.3, 0.5  # shares of the components, by what is lost without them
MORE = 1.3  # times as many components as are useful, when sizes are looked at
ONE_SIZE, MANY_SIZES = 0.2, 0.5  # standard deviations of the logarithms of sizes
LEAST_LOSS = 1 / 3  # of that of the least useful component, of a part of a class
FEWEST = 3  # useful components, of which sizes say anything
SMALLEST = 1.5  # times the images for which a class of the usual loss is just worth its penalty
NUM_VALUES = len(COMPONENTS) * len(IMAGES) * len(SPREADS) * len(ERRORS)

Step = Sequence[Component]  # the components when there are so many of them


class Observation(NamedTuple):
    """The steps of images among which so many classes are new, and how much this counts."""

    steps: Sequence[Step]
    number: int
    weight: float = 1.0


class Penalty(NamedTuple):
    """The complexity penalty a + b n of a component of n images."""

    component: float
    image: float

    def of(self, images: float) -> float:
        return self.component + self.image * images

    def useful(self, step: Step) -> int:
        """How many of the components are worth their penalty."""
        return sum(one.loss >= self.of(one.images) for one in step)


class Count(NamedTuple):
    """An estimate, its interval, and the curve behind it: `curve[i]` for `numbers[i]` classes.

    The curve is a `measure` of each number: its probability, or its silhouette. Classes of fewer than `smallest` images
    are hardly ever noticed, so the number does not count them; None if that is not known.
    """

    number: int
    low: int
    high: int
    numbers: list[int]
    curve: list[float]
    measure: str = "probability"
    smallest: int | None = None


NOTHING_NEW = Count(0, 0, 0, [0], [1.0])


class NumberModel:
    """The distribution of the number of classes; `values` (M, 5) are a, b, s and e, and how much these count."""

    def __init__(self, values: np.ndarray):
        self.values = np.asarray(values, dtype=np.float64)

    @classmethod
    def learned(cls, observations: Sequence[Observation]) -> NumberModel:
        """The model of the numbers of classes that were held out."""
        grid = np.array(list(product(COMPONENTS, IMAGES, SPREADS, ERRORS)))
        model = cls(np.concatenate([grid, np.ones((len(grid), 1))], 1))
        likelihood = np.zeros(len(grid))
        for steps, number, weight in observations:
            likelihood += weight * np.log(model.each(steps, number)[:, number] + 1e-6)
        model.values[:, 4] = np.exp(POWER * (likelihood - likelihood.max()))
        model.values[:, 4] /= model.values[:, 4].sum()
        return model

    @property
    def penalty(self) -> Penalty:
        """The mean of the penalties."""
        component, image = self.values[:, 4] @ self.values[:, :2] / self.values[:, 4].sum()
        return Penalty(float(component), float(image))

    @property
    def least(self) -> Penalty:
        """A penalty so small that hardly anything that may be a class is not worth it."""
        component, image = self.penalty
        return Penalty(component / 3, image / 3)

    def smallest(self, steps: Sequence[Step]) -> int | None:
        """How many images a class must have to be counted, at the loss an image that the useful components have.

        None if no component is useful.
        """
        penalty = self.penalty
        useful = max(steps, key=penalty.useful, default=())
        losses = [one.loss / one.images for one in useful if one.images and one.loss >= penalty.of(one.images)]
        if not losses:
            return None
        gain = float(np.median(losses)) - penalty.image  # of an image; positive, since each is worth its penalty
        return math.ceil(SMALLEST * penalty.component / gain)

    def probabilities(self, steps: Sequence[Step]) -> np.ndarray:
        """The probability of 0, 1, 2, … new classes, given the steps."""
        weights = self.values[:, 4] / self.values[:, 4].sum()
        return weights @ self.each(steps)

    def each(self, steps: Sequence[Step], at_least: int = 0) -> np.ndarray:
        """The distributions (M, L) with each of the values, over 0…L−1 with `at_least` among them."""
        images, losses = _arrays(steps)
        by_size = _by_size(steps)
        penalties, which = np.unique(self.values[:, :2], axis=0, return_inverse=True)
        spreads, spread = np.unique(self.values[:, 2], return_inverse=True)
        scales = np.exp(np.outer(spreads, NODES))
        numbers = np.zeros((len(penalties), *scales.shape), int)
        for i, (component, image) in enumerate(penalties):
            worth = losses / (component + image * images)
            # The largest values that the best, second best, … component of any step has, least first: so many of them
            # as reach a scale are the most components of a step that do.
            best = np.sort(worth, axis=1).max(axis=0, initial=-np.inf)
            numbers[i] = by_size[len(best) - np.searchsorted(best, scales)]
        most = max(int(numbers.max(initial=0)), at_least)
        kernels = {error: _kernel(most, error) for error in np.unique(self.values[:, 3])}
        weights = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
        chosen = numbers[which.ravel(), spread]  # (M, Z)
        return np.stack([weights @ kernels[error][row] for error, row in zip(self.values[:, 3], chosen, strict=True)])


def follow(growing: Iterable[Step], most: int, least: Penalty | None = None, advance: Advance = nobody) -> list[Step]:
    """The steps of a growing number of components, up to `most`, or until no more of them are worth `least`."""
    steps: list[Step] = []
    useful, since = 0, 0
    for step in growing:
        steps.append(step)
        advance(1)
        if least is not None:
            now = least.useful(step)
            useful, since = (now, 0) if now > useful else (useful, since + 1)
        if len(steps) >= most or since >= max(PATIENCE, useful // 3):
            break
    return steps


def count(probabilities: np.ndarray, most: int, smallest: int | None = None) -> Count:
    """The median of a distribution of 0, 1, 2, … cut off behind `most`, and the interval from its 5% to its 95%."""
    kept = probabilities[: most + 1] / probabilities[: most + 1].sum()
    below = kept.cumsum().clip(max=1)
    low, number, high = (int(np.searchsorted(below, q)) for q in ((1 - COVERED) / 2, 0.5, (1 + COVERED) / 2))
    shown = range(max(0, low - 1), min(high + 2, len(kept)))
    return Count(number, low, high, list(shown), kept[list(shown)].tolist(), smallest=smallest)


def _by_size(steps: Sequence[Step]) -> np.ndarray:
    """The estimate k̂ for 0, 1, 2, … useful components, which takes their sizes into account, (steps + 1,).

    Components that lose far less than the least useful one are left out: they are no classes or parts of one, but other
    directions of classes that have one, however many images are nearer to them.
    """
    made = np.arange(len(steps) + 1)
    ordered = [_by_clearness(step) for step in steps[FEWEST - 1 :]]
    for useful in made[FEWEST:]:
        images, losses = ordered[min(round(MORE * useful), len(steps)) - FEWEST]
        parts = losses >= LEAST_LOSS * losses[useful - 1]
        classes = images[parts].sum() / np.median(images[: math.ceil(CLEAREST * len(images))])
        now = ordered[useful - FEWEST][0]
        spread = np.log(now[: math.ceil(CLEARER * len(now))]).std()
        trust = np.clip((MANY_SIZES - spread) / (MANY_SIZES - ONE_SIZE), 0, 1)
        made[useful] = round(useful ** (1 - trust) * classes**trust)
    return made


def _by_clearness(step: Step) -> tuple[np.ndarray, np.ndarray]:
    """The images of the components, at least one each, and their losses, the clearest component first."""
    ordered = sorted(step, key=lambda one: -one.loss)
    return np.array([max(1.0, one.images) for one in ordered]), np.array([one.loss for one in ordered])


def _arrays(steps: Sequence[Step]) -> tuple[np.ndarray, np.ndarray]:
    """The images and the losses of the components, (steps, components); no loss where there is none."""
    widest = max((len(step) for step in steps), default=0)
    images, losses = np.ones((len(steps), widest)), np.zeros((len(steps), widest))
    for i, step in enumerate(steps):
        images[i, : len(step)] = [one.images for one in step]
        losses[i, : len(step)] = [one.loss for one in step]
    return images, losses


def _kernel(most: int, error: float) -> np.ndarray:
    """P(K | k̂) for estimates 0…most (rows)."""
    numbers, estimates = np.arange(2 * most + 12) + 0.5, np.arange(most + 1)[:, None] + 0.5
    kernel = np.exp(-((np.log(numbers / estimates) / error) ** 2) / 2)
    return kernel / kernel.sum(1, keepdims=True)
