"""Calm: the backbone stays as it is; classes are directions in a whitened space, found in closed form.

Tuning on the labelled classes makes a backbone forget what new ones need. Calm tunes nothing. From the labelled
images it learns a space (principal components, whitened by the within-class covariance) in which a class is one
direction; a stage fits a mixture whose old directions stay and whose new ones are found. All it needs to know is
chosen by hiding some labelled classes and discovering them. Nothing is left to set by hand, and no test image
chooses anything.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.backbone.tail import Tail
from happycat.backbone.trunk import Tokens
from happycat.base.config import setting
from happycat.learning.batches import Labelled, Unlabelled
from happycat.learning.memory import class_means
from happycat.learning.training import Epoch, Training
from happycat.methods.calm.calibration import (
    GROWTH_MOVES,
    Calibration,
    draw_held_out,
    fit_temperature,
    hide,
    rejection_threshold,
    scatter_of,
)
from happycat.methods.calm.mixture import Mixture, Search
from happycat.methods.calm.number import Count, Penalty, count, follow
from happycat.methods.calm.prediction import PredictionRule
from happycat.methods.calm.space import Space
from happycat.methods.method import Method
from happycat.methods.parametric import Parametric, ParametricConfig

# The first is the usual one: taken if no other is better.
SHARES = (2 / 3, 5 / 6, 1 / 2, 1 / 3)  # of the features' dimensions
SHRINKAGES = (0.3, 0.1, 0.5)
TEMPERATURES = (0.07, 0.05, 0.1)

UNSEEN = 1 / 3  # of the classes that a backbone from nothing is first trained without


@dataclass(frozen=True, kw_only=True)
class CalmConfig(ParametricConfig):
    """Values of None are chosen by hiding labelled classes. The others train a backbone that starts from nothing."""

    dimensions: int | None = setting(None, "of the whitened space, at most [chosen by hiding]", 1)
    shrinkage: float | None = setting(None, "of the within-class covariance towards a sphere [chosen by hiding]", 0, 1)
    mixture_temperature: float | None = setting(None, "τ of the mixture [chosen by hiding]", 1e-6)
    restarts: int = setting(2, "of the mixture; the likeliest is taken", 1)
    moves: int = setting(20, "times that a component may move elsewhere, each restart", 0)
    episodes: int = setting(5, "times that classes are hidden", 1)
    hidden_share: float = setting(0.2, "of the labelled classes that are hidden", 0.01, 0.9)
    averaged: bool = setting(True, "describe an image by the mean of its views instead of its centre view")
    tuned: bool = setting(False, "tune the tail on the labelled images first, as the trained methods do")


class Calm(Method):
    """A whitened space, and a direction in it for each class."""

    family = "calm"
    trains = False

    def __init__(self, tail: Tail, config: CalmConfig):
        super().__init__(tail, config)
        self.space = Space(tail.dim)
        self.register_buffer("shrinkage", torch.tensor(0.3))  # of the space
        self.register_buffer("temperature", torch.tensor(0.07))  # of the mixture
        self.register_buffer("sharpness", torch.tensor(0.1))  # of the probabilities
        self.register_buffer("familiar", torch.tensor(-1.0))  # cosine below which an image is of no known class
        self.register_buffer("price", torch.zeros(3))  # of a component (counting.Penalty)

    def fit(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        labels, dimensions = labelled.labels, None
        if labelled.views.trained():  # a backbone that starts from nothing has to learn to see
            dimensions = yield from self._see_others(labelled, training)
        if labelled.views.trained() or self.config.tuned:
            yield from Parametric(self.tail, self.config).to(labels.device).fit(labelled, training)
        features = self._views(labelled)
        calibration = self._hidden(features, labels, training.generator)
        dimensions = dimensions or self._calibrate(calibration)
        sure = calibration.confidence(dimensions, float(self.shrinkage))
        self._set("sharpness", sure.sharpness)
        self._set("familiar", sure.familiar)
        self._learn(features, labels, dimensions)

    def _see_others(self, labelled: Labelled, training: Training) -> Generator[Epoch, None, int | None]:
        """Calibrate with a copy of the backbone that is trained without the hidden classes.

        One that was trained with them would see them better than it will ever see new ones.
        """
        labels, num_base = labelled.labels, int(labelled.labels.max()) + 1
        if num_base < 3:
            return None
        hidden = draw_held_out(num_base, UNSEEN, training.generator)
        kept = torch.tensor([c for c in range(num_base) if c not in hidden.tolist()]).to(labels)
        among = torch.isin(labels, kept).nonzero()[:, 0]
        views, tail = labelled.views.apart(), copy.deepcopy(self.tail)
        some = Labelled(views.only(among), torch.searchsorted(kept, labels[among]))
        yield from Parametric(tail, self.config).to(labels.device).fit(some, training)
        features = normalize(views.every(tail), dim=-1)
        return self._calibrate(self._hidden(features, labels, training.generator, hidden))

    def relearn(self, labelled: Labelled, held_out: Labelled | None = None) -> None:
        """Learn the labelled classes from these images, with what was chosen by hiding as it is.

        Images that were held out before, if there are any, say how sure to be.
        """
        if held_out is not None and len(held_out):
            cosines = self.space(self._views(held_out)[:, 0]) @ self.memory.prototypes.T
            self._set("sharpness", fit_temperature(cosines, held_out.labels))
            self._set("familiar", rejection_threshold(cosines))
        self._learn(self._views(labelled), labelled.labels, self.space.dimensions)

    def _learn(self, features: Tensor, labels: Tensor, dimensions: int) -> None:
        self.space.set(*scatter_of(features, labels).space(dimensions, float(self.shrinkage)))
        points = self.space(features.mean(1))
        self.memory.replace(*class_means(points, labels, points[: int(labels.max()) + 1]))

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        search = Search(self.points(unlabelled), self.memory.prototypes, float(self.temperature), training.generator)
        mixture = self._search(search, num_new)
        counts = mixture.counts[self.num_classes :].round().long()
        self.memory.replace(mixture.centres, torch.cat([self.memory.counts, counts]))
        yield from ()

    def count(self, unlabelled: Unlabelled, most: int, generator: torch.Generator) -> Count:
        """How many new classes there are among the images: between 0 and `most`."""
        search = Search(self.points(unlabelled), self.memory.prototypes, float(self.temperature), generator)
        price = Penalty(*self.price.tolist())
        return count(follow(search, GROWTH_MOVES, most, price), price)

    def adopt(self, unlabelled: Unlabelled, predicted: Tensor, num_classes: int) -> None:
        """Take the new classes that another method found among the images, up to `num_classes` in all."""
        points, new = self.points(unlabelled), num_classes - self.num_classes
        if new == 0:
            return
        anywhere = points.mean(0).expand(new, -1)  # for a class without an image
        means, counts = class_means(points, predicted - self.num_classes, anywhere)
        self.memory.replace(torch.cat([self.memory.prototypes, means]), torch.cat([self.memory.counts, counts]))

    def logits(self, tokens: Tokens) -> Tensor:
        points = self.space(normalize(self.tail(tokens), dim=-1))
        return points @ self.memory.prototypes.T / self.sharpness

    def rule(self) -> PredictionRule:
        """The rule of prediction, with the one prototype that each class has here."""
        owner = torch.arange(self.num_classes, device=self.memory.prototypes.device)
        thresholds = self.familiar.expand(self.num_classes)
        return PredictionRule(self.memory.prototypes, owner, self.num_classes, self.sharpness, thresholds)

    def predict(self, tokens: Tokens) -> Tensor:
        return self.rule()(self.space(normalize(self.tail(tokens), dim=-1))).probabilities

    def points(self, unlabelled: Unlabelled) -> Tensor:
        """The images in the whitened space, (N, d), each the mean of its views."""
        return self.space(self._views(unlabelled).mean(1))

    @torch.no_grad()
    def _views(self, unlabelled: Unlabelled) -> Tensor:
        """Unit features (N, V, D) of the centre view and of some random ones."""
        views = unlabelled.views.every(self.tail)
        return normalize(views if self.config.averaged else views[:, :1], dim=-1)

    def _search(self, search: Search, num_new: int) -> Mixture:
        return search.best(num_new, self.config.restarts, self.config.moves)

    def _hidden(
        self, features: Tensor, labels: Tensor, generator: torch.Generator, hidden: Tensor | None = None
    ) -> Calibration:
        """Episodes in which these classes are hidden, or others each time."""
        episodes = []
        for _ in range(self.config.episodes):
            chosen = draw_held_out(int(labels.max()) + 1, self.config.hidden_share, generator)
            episodes.append(hide(features, labels, chosen if hidden is None else hidden, generator))
        return Calibration(episodes, self._search, int(torch.randint(2**31, (), generator=generator)))

    def _calibrate(self, calibration: Calibration) -> int:
        """Set what hidden classes are discovered best with; the number of dimensions is returned."""
        config, most = self.config, calibration.most_dimensions
        wanted = [config.dimensions] if config.dimensions else [round(most * share) for share in SHARES]
        dimensions = list(dict.fromkeys(max(1, min(number, most)) for number in wanted))
        shrinkages = SHRINKAGES if config.shrinkage is None else [config.shrinkage]
        temperatures = TEMPERATURES if config.mixture_temperature is None else [config.mixture_temperature]
        dimension = max(dimensions, key=lambda d: calibration.worth(d, shrinkages[0], temperatures[0]))
        shrinkage = max(shrinkages, key=lambda s: calibration.worth(dimension, s, temperatures[0]))
        temperature = max(temperatures, key=lambda t: calibration.worth(dimension, shrinkage, t))
        self._set("shrinkage", shrinkage)
        self._set("temperature", temperature)
        self._set("price", calibration.price(dimension, shrinkage, temperature))
        return dimension

    def _set(self, name: str, value) -> None:
        setattr(self, name, torch.tensor(value, dtype=torch.float32, device=self.memory.counts.device))
