"""Calm: the backbone stays as it is; classes are directions in a whitened space, found in closed form.

Tuning on the labelled classes makes a backbone forget what new ones need. Calm tunes nothing. From the labelled
images it learns a space (principal components, whitened by the within-class covariance) in which a class is one
direction; a stage fits a mixture whose old directions stay and whose new ones are found. Its three values are
chosen by hiding some labelled classes and discovering them. Nothing is left to set by hand, and no test image
chooses anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from happycat.config import setting
from happycat.memory import class_means
from happycat.methods.method import Method
from happycat.methods.parametric import Parametric, ParametricConfig
from happycat.metrics import clustering_accuracy
from happycat.mixture import fit_mixture
from happycat.serving import Labelled, Unlabelled
from happycat.tail import Tail
from happycat.training import Epoch, Training
from happycat.trunk import Tokens
from happycat.whitening import Scatter, Space

SHARES = (1 / 3, 1 / 2, 2 / 3, 5 / 6)  # of the features' dimensions
SHRINKAGES = (0.1, 0.3, 0.5)
TEMPERATURES = (0.05, 0.07, 0.1)


@dataclass(frozen=True, kw_only=True)
class CalmConfig(ParametricConfig):
    """Values of None are chosen by hiding labelled classes. The others train a backbone that starts from nothing."""

    dimensions: int | None = setting(None, "of the whitened space [chosen by hiding]", 1)
    shrinkage: float | None = setting(None, "of the within-class covariance towards a sphere [chosen by hiding]", 0, 1)
    mixture_temperature: float | None = setting(None, "τ of the mixture [chosen by hiding]", 1e-6)
    restarts: int = setting(2, "of the mixture; the likeliest is taken", 1)
    moves: int = setting(20, "times that a component may move elsewhere, each restart", 0)
    episodes: int = setting(5, "times that classes are hidden", 1)
    hidden_share: float = setting(0.2, "of the labelled classes that are hidden", 0.01, 0.9)


class Episode(NamedTuple):
    """Labelled images with some classes hidden: what is still labelled, what is served, what judges."""

    scatter: Scatter
    labelled: Tensor  # (n, D)
    labels: Tensor
    served: Tensor
    judges: Tensor
    truth: Tensor
    num_old: int
    num_new: int


class Calm(Method):
    """A whitened space, and a direction in it for each class."""

    family = "calm"
    trains = False

    def __init__(self, tail: Tail, config: CalmConfig):
        super().__init__(tail, config)
        self.space = Space(tail.dim)
        self.register_buffer("temperature", torch.tensor(0.07))  # of the mixture
        self.register_buffer("sharpness", torch.tensor(0.1))  # of the probabilities

    def fit(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        if labelled.views.trained():  # a backbone that starts from nothing has to learn to see
            yield from Parametric(self.tail, self.config).to(labelled.labels.device).fit(labelled, training)
        features, labels = self._views(labelled), labelled.labels
        dimensions, shrinkage, temperature = self._calibrate(features, labels, training.generator)
        self.space.set(*_scatter(features, labels).space(dimensions, shrinkage))
        self.temperature = torch.tensor(temperature, device=labels.device)
        points = self.space(features.mean(1))
        self.memory.replace(*class_means(points, labels, points[: int(labels.max()) + 1]))

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        points = self.space(self._views(unlabelled).mean(1))
        mixture = self._mixture(points, self.memory.prototypes, num_new, float(self.temperature), training.generator)
        counts = mixture.counts[self.num_classes :].round().long()
        self.memory.replace(mixture.centres, torch.cat([self.memory.counts, counts]))
        yield from ()

    def logits(self, tokens: Tokens) -> Tensor:
        points = self.space(normalize(self.tail(tokens), dim=-1))
        return points @ self.memory.prototypes.T / self.sharpness

    @torch.no_grad()
    def _views(self, unlabelled: Unlabelled) -> Tensor:
        """Unit features (N, V, D) of the centre view and of some random ones."""
        return normalize(unlabelled.views.every(self.tail), dim=-1)

    def _mixture(self, points: Tensor, old: Tensor, num_new: int, temperature: float, generator: torch.Generator):
        return fit_mixture(points, old, num_new, temperature, generator, self.config.restarts, self.config.moves)

    # Calibration by hiding

    def _calibrate(self, features: Tensor, labels: Tensor, generator: torch.Generator) -> tuple[int, float, float]:
        """Dimensions, shrinkage and temperature with which hidden classes are discovered best."""
        config = self.config
        most = min(features.shape[-1], len(labels) - 1)
        dimensions = [config.dimensions] if config.dimensions else sorted({max(1, round(most * s)) for s in SHARES})
        shrinkages = SHRINKAGES if config.shrinkage is None else [config.shrinkage]
        temperatures = TEMPERATURES if config.mixture_temperature is None else [config.mixture_temperature]
        episodes = [self._hide(features, labels, generator) for _ in range(config.episodes)]
        middle = temperatures[len(temperatures) // 2]
        seed = int(torch.randint(2**31, (), generator=generator))
        chosen = max(product(dimensions, shrinkages), key=lambda pair: self._worth(episodes, *pair, middle, seed))
        temperature = max(temperatures, key=lambda t: self._worth(episodes, *chosen, t, seed))
        self.sharpness = torch.tensor(_sharpness(episodes, *chosen), device=labels.device)
        return (*chosen, temperature)

    def _hide(self, features: Tensor, labels: Tensor, generator: torch.Generator) -> Episode:
        """Some classes lose their labels; a fifth of each class judges, a few images of the others are served again."""
        num_base = int(labels.max()) + 1
        num_new = min(max(1, round(num_base * self.config.hidden_share)), num_base - 1)
        ids = torch.randperm(num_base, generator=generator).argsort().to(labels.device)[labels]  # hidden come last
        chance = torch.rand(len(labels), generator=generator).to(labels.device)
        hidden = ids >= num_base - num_new
        judging, known = chance < 0.2, ~hidden & (chance >= 0.25)
        served = ~judging & ~known
        points = features.mean(1)
        return Episode(
            scatter=_scatter(features[known], ids[known]),
            labelled=points[known],
            labels=ids[known],
            served=points[served],
            judges=features[judging][:, 0],
            truth=ids[judging],
            num_old=num_base - num_new,
            num_new=num_new,
        )

    def _worth(
        self, episodes: list[Episode], dimensions: int, shrinkage: float, temperature: float, seed: int
    ) -> float:
        """The mean accuracy over the judging images of all episodes."""
        total = 0.0
        for i, episode in enumerate(episodes):
            space, old = _known(episode, dimensions, shrinkage)
            generator = torch.Generator().manual_seed(seed + i)
            mixture = self._mixture(space(episode.served), old, episode.num_new, temperature, generator)
            predicted = (space(episode.judges) @ mixture.centres.T).argmax(1)
            total += clustering_accuracy(episode.truth.cpu().numpy(), predicted.cpu().numpy(), episode.num_old).all
        return total / len(episodes)


def _scatter(features: Tensor, labels: Tensor) -> Scatter:
    """Of all views (N, V, D) of labelled images."""
    return Scatter(features.flatten(0, 1), labels.repeat_interleave(features.shape[1]))


def _known(episode: Episode, dimensions: int, shrinkage: float) -> tuple[Space, Tensor]:
    """The space of what an episode leaves labelled, and the directions (num_old, d) of its classes."""
    space = Space(len(episode.scatter.mean))
    space.set(*episode.scatter.space(dimensions, shrinkage))
    points = space(episode.labelled)
    return space, class_means(points, episode.labels, points[: episode.num_old])[0]


def _sharpness(episodes: list[Episode], dimensions: int, shrinkage: float) -> float:
    """The temperature that gives the labelled classes' judging images their likeliest probabilities."""
    grid = torch.logspace(-2, 0, 41).tolist()
    losses = torch.zeros(len(grid))
    for episode in episodes:
        space, old = _known(episode, dimensions, shrinkage)
        known = episode.truth < episode.num_old
        cosines = space(episode.judges[known]) @ old.T
        losses += torch.stack([cross_entropy(cosines / t, episode.truth[known]).cpu() for t in grid])
    return grid[int(losses.argmin())]
