"""Calibration on held-out classes: take the labels off some labelled classes, discover them, keep the best values.

It chooses every value that Calm needs, from the labelled images alone: how much the space favours directions that tell
classes apart, the mixture's temperature, the model of the number of classes; by temperature scaling, the softmax
temperature of the probabilities; and the rejection threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from happycat.base import tables
from happycat.base.metrics import clustering_accuracy
from happycat.base.progress import Advance, nobody
from happycat.base.ranks import ALONE, Ranks
from happycat.learning.memory import class_means
from happycat.methods.calm.candidates import leave_one_out
from happycat.methods.calm.mixture import Search
from happycat.methods.calm.number import PATIENCE, NumberModel, Observation, Step, follow
from happycat.methods.calm.prediction import nearest
from happycat.methods.calm.space import Directions, Scatter, Space

VALIDATION_SHARE = 0.2  # of a class's images; none of them is served or labelled
AGAIN = 0.15  # of a known class's images that are served without their labels
MOST_HELD_OUT = 40  # classes of an episode
ENOUGH = 200  # images of a held-out class, at most
MOST_NEW = 2000  # served images of held-out classes, at most
MOST_AGAIN = 1000  # served images of known classes, at most
MOST_JUDGED = 2000  # validation images of an episode whose probabilities are calibrated
SMALL = 10  # images of a class; how many classes there are of fewer is hard to say
PRIOR_IMAGES, PRIOR_DEVIATION = 3, 0.1  # of cosines with the nearest class
PRIOR_MEMBERS = 5  # images of a class, of the cosine that is usual in all classes
PARTS_WEIGHT = 0.3  # of all runs of an episode with a part of the images, in learning the model of the number


class Episode:
    """Labelled images with some classes held out: labelled, served and validation images.

    The images of the held-out classes and a few of the others are served without labels, as in a stage. Class ids are
    renumbered: the classes still labelled first, then the held-out ones.
    """

    def __init__(
        self,
        known: tuple[Tensor, Tensor],  # features (n, V, D) and labels
        served: tuple[Tensor, Tensor],  # points (n, D) and classes
        validation: tuple[Tensor, Tensor],
        more: Tensor,  # points of held-out classes among the validation images
        num_new: int,
    ):
        self._features, self.labels = known
        self.labelled = self._features.mean(1)
        (self.served, self.classes), (self.validation, self.truth) = served, validation
        self.more, self.num_old, self.num_new = more, int(self.labels.max()) + 1, num_new
        self._directions: dict[tuple[int, float], Directions] = {}

    def leading(self, number: int) -> Episode:
        """The same episode with the first `number` of the features alone."""
        served, validation = (self.served[:, :number], self.classes), (self.validation[:, :number], self.truth)
        known = self._features[:, :, :number], self.labels
        return Episode(known, served, validation, self.more[:, :number], self.num_new)

    @cached_property
    def scatter(self) -> Scatter:
        """Of what is still labelled; computed when it is asked for, by the process that has this episode."""
        return Scatter(self._features, self.labels)

    def known(self, dimensions: int, shrinkage: float, exponent: float) -> tuple[Space, Tensor]:
        """The space of what is still labelled, and the directions (num_old, d) of its classes."""
        if (key := (dimensions, shrinkage)) not in self._directions:
            self._directions[key] = self.scatter.directions(dimensions, shrinkage)
        space = Space(len(self.scatter.mean))
        space.set(self.scatter.mean, self._directions[key].weighted(exponent))
        points = space(self.labelled)
        return space, class_means(points, self.labels, points[: self.num_old])[0]


def _some(which: Tensor, most: int) -> Tensor:
    """At most so many of the places that are True (N,), evenly spread."""
    places = which.nonzero()[:, 0]
    chosen = torch.zeros_like(which)
    chosen[places[torch.linspace(0, len(places) - 1, min(most, len(places))).long()]] = True
    return chosen


def hold_out(features: Tensor, labels: Tensor, held_out: Tensor, generator: torch.Generator) -> Episode:
    """An episode made of labelled features (N, V, D) in which the classes `held_out` lose their labels."""
    num_base, num_new = int(labels.max()) + 1, len(held_out)
    known_classes = torch.tensor([c for c in range(num_base) if c not in held_out.tolist()])
    ids = torch.cat([known_classes, held_out]).argsort().to(labels.device)[labels]  # the held-out ones come last
    chance = torch.rand(len(labels), generator=generator).to(labels.device)
    chance[torch.stack([(labels == c).nonzero()[0, 0] for c in labels.unique()])] = 1  # no class loses all its images
    new = ids >= num_base - num_new
    held_back, known = chance < VALIDATION_SHARE, ~new & (chance >= VALIDATION_SHARE + AGAIN)
    served = _some(~held_back & ~known & ~new, MOST_AGAIN)
    for c in range(num_base - num_new, num_base):
        served |= _some(~held_back & (ids == c), min(ENOUGH, MOST_NEW // num_new))
    points = features.mean(1)
    return Episode(
        known=(features[known], ids[known]),
        served=(points[served], ids[served]),
        validation=(features[held_back][:, 0], ids[held_back]),
        more=points[held_back & new],
        num_new=num_new,
    )


class Confidence(NamedTuple):
    """How sure a prediction is: the softmax temperature of the probabilities, and what cosines known images have.

    The cosine of a known image with its class is less than what is usual there by `shortfall` on average, and varies by
    `deviation`.
    """

    softmax_temperature: float
    shortfall: float
    deviation: float

    @classmethod
    def of(cls, cosines: Tensor, truth: Tensor, usual: Tensor) -> Confidence:
        """From cosines (N, K) of images that were not learned from, their classes (N,) and `usual_cosines` (N, K)."""
        shortfalls = (usual - cosines).gather(1, cosines.argmax(1, keepdim=True)) if len(cosines) else cosines[:, :1]
        shortfall = float(shortfalls.mean()) if len(shortfalls) else 0.0
        return cls(fit_temperature(cosines, truth), shortfall, deviation(shortfalls))


def fit_temperature(cosines: Tensor, truth: Tensor) -> float:
    """Temperature scaling: the softmax temperature that makes the true classes (N,) likeliest, from cosines (N, K)."""
    grid = torch.logspace(-2, 0, 41).tolist()
    losses = [float(cross_entropy(cosines / t, truth, reduction="sum")) for t in grid]
    return grid[int(np.argmin(losses))] if len(truth) else 0.1


def deviation(cosines: Tensor) -> float:
    """The standard deviation of cosines.

    A few images hardly show how much cosines vary, so it has a prior: some images more, of a usual deviation.
    """
    squares = (cosines - cosines.mean()).square().sum() if len(cosines) else 0.0
    return float(((squares + PRIOR_IMAGES * PRIOR_DEVIATION**2) / (len(cosines) + PRIOR_IMAGES)) ** 0.5)


def usual_cosines(points: Tensor, classes: Tensor, number: int, otherwise: float = 1.0) -> Tensor:
    """The mean cosine of each class's images with the mean of the *other* images there (leave-one-out), (number,).

    Unit points (N, d) of classes (N,). It differs much from class to class: some are of one look, some of many. A few
    images hardly show it, so there are some more of the mean over all classes, or of `otherwise` if no class has two.
    """
    sums = torch.zeros(number, points.shape[1]).to(points).index_add(0, classes, points)
    counts = classes.bincount(minlength=number)
    several = counts[classes] > 1
    members = classes[several]
    places = several.nonzero()[:, 0].split(tables.ROWS)
    products = torch.cat([(points[some] * sums[classes[some]]).sum(1) for some in places])
    cosines = leave_one_out(products, sums.square().sum(1)[members])
    mean = float(cosines.mean()) if len(cosines) else otherwise
    totals = torch.zeros(number).to(points).index_add(0, members, cosines)
    weight = torch.where(counts > 1, counts, 0)
    return (totals + PRIOR_MEMBERS * mean) / (weight + PRIOR_MEMBERS)


class Calibration:
    """Scores of values over episodes, and the values fitted to them. An episode is computed by one of the `ranks`.

    `advance` is called for each episode that `accuracies` (with each temperature) or `number_model` is done with.
    """

    def __init__(
        self,
        episodes: Sequence[Episode],
        dimensions: int,
        shrinkage: float,
        advance: Advance = nobody,
        ranks: Ranks = ALONE,
    ):
        self.episodes, self.shrinkage, self.advance, self.ranks = episodes, shrinkage, advance, ranks
        images, features = episodes[0].labelled.shape
        self.dimensions = max(1, min(dimensions, features, images - 1))  # of the space

    def leading(self, number: int, dimensions: int) -> Calibration:
        """The same with the first `number` of the features alone, and a space of so many dimensions."""
        episodes = [episode.leading(number) for episode in self.episodes]
        return Calibration(episodes, dimensions, self.shrinkage, self.advance, self.ranks)

    def accuracies(self, exponent: float, temperatures: Sequence[float]) -> list[float]:
        """The mean accuracy on the served and the validation images with each of the temperatures."""
        found = self.ranks.each(self.episodes, lambda episode: self._accuracies(episode, exponent, temperatures))
        total = np.zeros(len(temperatures))
        for accuracies in found:
            total += accuracies
        return (total / len(self.episodes)).tolist()

    def _accuracies(self, episode: Episode, exponent: float, temperatures: Sequence[float]) -> list[float]:
        space, old = episode.known(self.dimensions, self.shrinkage, exponent)
        served = space(episode.served)
        search, points = Search(served, old), torch.cat([served, space(episode.validation)])
        truth, right = torch.cat([episode.classes, episode.truth]).cpu().numpy(), []
        for temperature in temperatures:
            found = search.best(episode.num_new, temperature).centres
            predicted = nearest(points, torch.cat([old, found])).row
            score = clustering_accuracy(truth, predicted.cpu().numpy(), episode.num_old).all
            assert score is not None  # there are served images
            right.append(score)
            self.advance(1)
        return right

    def number_model(self, exponent: float) -> NumberModel:
        """Learned with nothing held out, then with all the images of held-out classes, half of them, a quarter, …

        New classes may be smaller than labelled ones; most will be about as large. The last part makes small ones.
        """
        seen = self.ranks.each(self.episodes, lambda episode: self._observed(episode, exponent))
        return NumberModel.learned([observation for observations in seen for observation in observations])

    def _observed(self, episode: Episode, exponent: float) -> list[Observation]:
        space, old = episode.known(self.dimensions, self.shrinkage, exponent)
        points = space(torch.cat([episode.served, episode.more]))  # as many of a class as were labelled
        new = torch.ones(len(points), dtype=torch.bool, device=points.device)
        new[: len(episode.served)] = episode.classes >= episode.num_old
        place, each = torch.arange(len(points), device=points.device), float(new.sum()) / episode.num_new
        seen = []

        def steps(which: Tensor, most: int) -> list[Step]:
            return follow(Search(points[which], old).growing(), most)

        if (~new).sum() > 1:
            seen.append(Observation(steps(~new, PATIENCE), 0))
        most = 2 * episode.num_new + PATIENCE
        parts = [part for part in (2, 4, 8) if each / part >= SMALL]
        for part in (1, *parts):
            weight = min(1.0, each / SMALL) if part == 1 else PARTS_WEIGHT / len(parts)
            seen.append(Observation(steps(~new | (place % part == 0), most), episode.num_new, weight))
        self.advance(1)
        return seen

    def confidence(self, exponent: float) -> Confidence:
        """From the validation images of the known classes."""

        def judged(episode: Episode) -> tuple[Tensor, Tensor, Tensor]:
            known = _some(episode.truth < episode.num_old, MOST_JUDGED)
            space, old = episode.known(self.dimensions, self.shrinkage, exponent)
            cosines = space(episode.validation[known]) @ old.T
            own = usual_cosines(space(episode.labelled), episode.labels, episode.num_old)
            return cosines, episode.truth[known], own.expand_as(cosines)

        found = zip(*self.ranks.each(self.episodes, judged), strict=True)
        return Confidence.of(*(torch.cat(parts) for parts in found))
