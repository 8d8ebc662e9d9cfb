"""Calibration on held-out classes: take the labels off some labelled classes, discover them, keep the best values.

It chooses every value that Calm needs, from the labelled images alone: the whitened space's dimensions and shrinkage,
the mixture's temperature, the complexity penalty of a component; by temperature scaling, the softmax temperature of the
probabilities; and the rejection threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from happycat.base.metrics import clustering_accuracy
from happycat.base.progress import Advance, nobody
from happycat.learning.memory import class_means
from happycat.methods.calm.mixture import Mixture, Search
from happycat.methods.calm.number import Penalty, Step, follow, learn_penalty
from happycat.methods.calm.space import Scatter, Space

VALIDATION_SHARE = 0.2  # of a class's images; none of them is served or labelled
AGAIN = 0.05  # of a known class's images that are served without their labels
GROWTH_MOVES = 3  # after each component more
ENOUGH = 100  # served images of a class to compare values with; the penalty depends on their number and gets all


class Episode(NamedTuple):
    """Labelled images with some classes held out: labelled, served and validation images.

    The images of the held-out classes and a few of the others are served without labels, as in a stage. Class ids are
    renumbered: the classes still labelled first, then the held-out ones.
    """

    scatter: Scatter
    labelled: Tensor  # (n, D)
    labels: Tensor
    served: Tensor
    classes: Tensor  # of the served images
    validation: Tensor
    truth: Tensor  # classes of the validation images
    num_old: int
    num_new: int

    def known(self, dimensions: int, shrinkage: float) -> tuple[Space, Tensor]:
        """The space of what is still labelled, and the directions (num_old, d) of its classes."""
        space = Space(len(self.scatter.mean))
        space.set(*self.scatter.space(dimensions, shrinkage))
        points = space(self.labelled)
        return space, class_means(points, self.labels, points[: self.num_old])[0]


def scatter_of(features: Tensor, labels: Tensor) -> Scatter:
    """The scatter matrices of labelled images, of all their views (N, V, D)."""
    return Scatter(features.flatten(0, 1), labels.repeat_interleave(features.shape[1]))


def enough(classes: Tensor) -> Tensor:
    """The places (n,) of the images to compare values with: at most ENOUGH of a class, evenly spread."""
    chosen = []
    for c in classes.unique():
        members = (classes == c).nonzero()[:, 0]
        chosen.append(members[torch.linspace(0, len(members) - 1, min(ENOUGH, len(members))).long()])
    return torch.cat(chosen).sort().values


def hold_out(features: Tensor, labels: Tensor, held_out: Tensor, generator: torch.Generator) -> Episode:
    """An episode made of labelled features (N, V, D) in which the classes `held_out` lose their labels."""
    num_base, num_new = int(labels.max()) + 1, len(held_out)
    known_classes = torch.tensor([c for c in range(num_base) if c not in held_out.tolist()])
    ids = torch.cat([known_classes, held_out]).argsort().to(labels.device)[labels]  # the held-out ones come last
    chance = torch.rand(len(labels), generator=generator).to(labels.device)
    chance[torch.stack([(labels == c).nonzero()[0, 0] for c in labels.unique()])] = 1  # no class loses all its images
    new = ids >= num_base - num_new
    held_back, known = chance < VALIDATION_SHARE, ~new & (chance >= VALIDATION_SHARE + AGAIN)
    served = ~held_back & ~known
    points = features.mean(1)
    return Episode(
        scatter=scatter_of(features[known], ids[known]),
        labelled=points[known],
        labels=ids[known],
        served=points[served],
        classes=ids[served],
        validation=features[held_back][:, 0],
        truth=ids[held_back],
        num_old=num_base - num_new,
        num_new=num_new,
    )


class Confidence(NamedTuple):
    """The softmax temperature of the probabilities, and the cosine below which an image is of no known class."""

    softmax_temperature: float
    rejection_threshold: float


def fit_temperature(cosines: Tensor, truth: Tensor) -> float:
    """Temperature scaling: the softmax temperature that makes the true classes (N,) likeliest, from cosines (N, K)."""
    grid = torch.logspace(-2, 0, 41).tolist()
    losses = [float(cross_entropy(cosines / t, truth, reduction="sum")) for t in grid]
    return grid[int(np.argmin(losses))] if len(truth) else 0.1


def rejection_threshold(cosines: Tensor) -> float:
    """The cosine with the nearest class that all but a few images of known classes have (mean − 2σ)."""
    nearest = cosines.amax(1) if len(cosines) else cosines.new_zeros(1)
    return float(nearest.mean() - 2 * nearest.std(correction=0))


class Calibration:
    """Scores of values over episodes, and the values fitted to them.

    `search(search, number)` fits a mixture with so many new components; all randomness comes from `seed`.

    `advance` is called for each episode that `accuracy` or `penalty` is done with.
    """

    def __init__(
        self,
        episodes: Sequence[Episode],
        search: Callable[[Search, int], Mixture],
        seed: int,
        advance: Advance = nobody,
    ):
        self.episodes, self.search, self.seed, self.advance = episodes, search, seed, advance

    @property
    def most_dimensions(self) -> int:
        """The most dimensions that the space of an episode can have, by its number of images and of features."""
        one = self.episodes[0]
        return min(one.labelled.shape[1], len(one.labelled) + len(one.served) + len(one.validation) - 1)

    def accuracy(self, dimensions: int, shrinkage: float, temperature: float) -> float:
        """The mean accuracy on the validation images."""
        total = 0.0
        for i in range(len(self.episodes)):
            total += self._accuracy(i, dimensions, shrinkage, temperature)
            self.advance(1)
        return total / len(self.episodes)

    def _accuracy(self, i: int, dimensions: int, shrinkage: float, temperature: float) -> float:
        """The accuracy on an episode's validation images; 0 if there are none."""
        episode = self.episodes[i]
        if not len(episode.validation):
            return 0.0
        space, old = episode.known(dimensions, shrinkage)
        points = space(episode.served[enough(episode.classes)])
        mixture = self.search(self._search(i, points, old, temperature), episode.num_new)
        predicted = (space(episode.validation) @ mixture.centres.T).argmax(1)
        right = clustering_accuracy(episode.truth.cpu().numpy(), predicted.cpu().numpy(), episode.num_old).all
        assert right is not None  # there are validation images
        return right

    def penalty(self, dimensions: int, shrinkage: float, temperature: float) -> Penalty:
        """The complexity penalty: learned with nothing held out, then with all and with half of the held-out images."""
        nothing, held_out = [], []
        for i, episode in enumerate(self.episodes):
            space, old = episode.known(dimensions, shrinkage)
            points, new = space(episode.served), episode.classes >= episode.num_old
            place = torch.arange(len(points), device=points.device)

            def steps(which: Tensor, most: int, i: int = i, points: Tensor = points, old: Tensor = old) -> list[Step]:
                search = self._search(i, points[which], old, temperature)
                return follow(search, GROWTH_MOVES, min(most, len(search.points) - 1))

            if (~new).sum() > 1:
                nothing.append(steps(~new, 4))
            for every in (1, 2):
                most = episode.num_new + max(4, episode.num_new // 2)
                held_out.append((episode.num_new, steps(~new | (place % every == 0), most)))
            self.advance(1)
        return learn_penalty(nothing, held_out)

    def confidence(self, dimensions: int, shrinkage: float) -> Confidence:
        """The softmax temperature and the rejection threshold, from the validation images of the known classes."""
        cosines: list[Tensor] = []
        truth: list[Tensor] = []
        for episode in self.episodes:
            known = episode.truth < episode.num_old
            space, old = episode.known(dimensions, shrinkage)
            cosines.append(space(episode.validation[known]) @ old.T)
            truth.append(episode.truth[known])
        every = torch.cat(cosines)
        return Confidence(fit_temperature(every, torch.cat(truth)), rejection_threshold(every))

    def _search(self, i: int, points: Tensor, old: Tensor, temperature: float) -> Search:
        return Search(points, old, temperature, torch.Generator().manual_seed(self.seed + i))
