"""Calm: a von Mises–Fisher mixture in a discriminant space, on a backbone that is not tuned.

Tuning on the labelled classes makes a backbone forget what new ones need. Calm tunes nothing. From the labelled
images it learns a space (probabilistic LDA) in which a class is one direction; a stage fits a mixture whose old
directions stay and whose new ones are found. Every value that it needs is chosen on held-out classes: some labelled
classes lose their labels and are discovered. No test image chooses anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from happycat.backbone.tail import Tail, TailInput, Vectors
from happycat.base import tables
from happycat.base.progress import Advance, nobody
from happycat.base.ranks import ALONE, Ranks
from happycat.learning.batches import Labelled, Unlabelled, Unseen, draw_held_out
from happycat.learning.memory import class_means
from happycat.learning.training import Epoch, Training
from happycat.methods.calm.calibration import (
    MOST_HELD_OUT,
    Calibration,
    Confidence,
    hold_out,
    usual_cosines,
)
from happycat.methods.calm.choosing import EXPONENTS, TEMPERATURES, choose
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.duplicates import NEVER, duplicate_cosine, first_of_copies
from happycat.methods.calm.mixture import Mixture, Search
from happycat.methods.calm.number import NOTHING_NEW, NUM_VALUES, Count, NumberModel, count, follow
from happycat.methods.calm.prediction import PredictionRule, nearest
from happycat.methods.calm.space import Scatter, Space
from happycat.methods.method import Method


class Calm(Method):
    """Classifies by cosines in a discriminant space, where a class is one direction; discovers with a mixture."""

    family = "calm"
    trains = False
    features_only = True
    calibrates = True

    config: CalmConfig
    exponent: Tensor  # of the directions' weights
    temperature: Tensor  # of the mixture
    softmax_temperature: Tensor  # of the probabilities
    usual_cosines: Tensor  # (K,) of the images of each class with the others
    shortfall: Tensor  # by which images of known classes have less than what is usual there, on average
    deviation: Tensor  # by which that varies
    duplicate_cosine: Tensor  # above which two images are copies of one
    number_values: Tensor  # (M, 5) of the model of the number of classes (number.NumberModel)

    def __init__(self, tail: Tail | Vectors, config: CalmConfig):
        super().__init__(tail, config)
        self.space = Space(tail.dim)
        self.register_buffer("exponent", torch.tensor(EXPONENTS[0]))
        self.register_buffer("temperature", torch.tensor(TEMPERATURES[0]))
        self.register_buffer("softmax_temperature", torch.tensor(0.1))
        self.register_buffer("usual_cosines", torch.empty(0))
        self.register_buffer("shortfall", torch.tensor(0.0))
        self.register_buffer("deviation", torch.tensor(0.1))
        self.register_buffer("duplicate_cosine", torch.tensor(NEVER))
        self.register_buffer("number_values", torch.zeros(NUM_VALUES, 5))
        self._class_token = tail.class_token if isinstance(tail, Vectors) else tail.dim
        self._used = tail.dim  # of the features, the first so many
        self._calibrated = False  # from `calibrate` until `fit`

    def calibrate(self, unseen: Unseen, generator: torch.Generator) -> None:
        features = normalize(unseen.features, dim=-1)
        self._choose(self._episodes(features, unseen.labels, generator, unseen.held_out))
        self._calibrated = True

    def fit(self, labelled: Labelled, training: Training, advance: Advance = nobody) -> Iterator[Epoch]:
        """Stage-0: learn the labelled classes; `advance` is told how far the calibration is, and its total."""
        features, labels, ranks = self._views(labelled), labelled.labels, training.ranks
        calibration = self._episodes(features, labels, training.generator, advance=advance, ranks=ranks)
        if not self._calibrated:
            calibration = self._choose(calibration)
        self._calibrated = False
        self._trust(calibration.confidence(float(self.exponent)))
        self._learn(features, labels, calibration.dimensions, ranks)
        yield from ()

    def relearn(self, labelled: Labelled, held_out: Labelled | None = None) -> None:
        """Learn the labelled classes from these images, with the values that were chosen as they are.

        Images that were held out before, if there are any, say how sure predictions are.
        """
        if held_out is not None and len(held_out):
            cosines = self.space(self._views(held_out)[:, 0]) @ self.memory.prototypes.T
            self._trust(Confidence.of(cosines, held_out.labels, self.usual_cosines.expand_as(cosines)))
        self._learn(self._views(labelled), labelled.labels, self.space.dimensions)

    def _learn(self, features: Tensor, labels: Tensor, dimensions: int, ranks: Ranks = ALONE) -> None:
        scatter, unused = Scatter(features[:, :, : self._used], labels, ranks), features.shape[2] - self._used
        projection = scatter.directions(dimensions, self.config.shrinkage).weighted(float(self.exponent))
        self.space.set(pad(scatter.mean, (0, unused)), pad(projection, (0, 0, 0, unused)))
        points, number = self.space(features.mean(1)), int(labels.max()) + 1
        self.memory.replace(*class_means(points, labels, points[:number]))
        self.usual_cosines = usual_cosines(points, labels, number)
        self._set("duplicate_cosine", duplicate_cosine(points, labels))
        self.memory.measure_radius(self.space(features[:, 0]), labels)

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        points = self.points(unlabelled)
        self.learn(points, self.search(points, ranks=training.ranks).best(num_new, float(self.temperature)))
        yield from ()

    def learn(self, points: Tensor, mixture: Mixture) -> None:
        """Append the new classes of a mixture that was found among images at these points."""
        self._take(points, mixture.centres, mixture.counts.round().long())

    def _take(self, points: Tensor, prototypes: Tensor, counts: Tensor) -> None:
        """Append classes with these prototypes (K_new, d), learned from so many of the points (K_new,)."""
        known, number = self.num_classes, len(prototypes)
        self.memory.replace(torch.cat([self.memory.prototypes, prototypes]), torch.cat([self.memory.counts, counts]))
        row = nearest(points, self.memory.prototypes).row
        otherwise = float(self.usual_cosines.mean())
        usual = usual_cosines(points[row >= known], row[row >= known] - known, number, otherwise)
        self.usual_cosines = torch.cat([self.usual_cosines, usual])

    def count(
        self, unlabelled: Unlabelled, generator: torch.Generator, most: int | None = None, advance: Advance = nobody
    ) -> Count:
        """How many new classes there are among the images: from 0 on, to `most` if that is given."""
        possible = len(unlabelled) - 1
        most = possible if most is None else min(most, possible)
        if most < 1:
            return NOTHING_NEW
        return self.estimate(self.search(self.points(unlabelled)), most, advance)

    def estimate(self, search: Search, most: int, advance: Advance = nobody) -> Count:
        """How many new classes there are among the images of a search, from 0 to `most`, which is 1 at least.

        `advance` is told of each component that was tried, and how many can be; all of it when the rest need not be.
        """
        model = self.number_model
        advance(0, total=most)
        steps = follow(search.growing(), most, model.least, advance)
        advance(most - len(steps))
        return count(model.probabilities(steps), most, model.smallest(steps))

    def search(self, points: Tensor, barred: Tensor | None = None, ranks: Ranks = ALONE) -> Search:
        """The search among the images at these points; of copies of an image, one counts.

        `barred` (P, 2) are pairs of an image and an old class that it is not of.
        """
        old = self.memory.prototypes
        cosine, row = nearest(points, old)
        kept = first_of_copies(points, row, float(self.duplicate_cosine))
        familiar = cosine >= (self.usual_cosines - self.shortfall)[row]
        if barred is not None:
            kept[barred[:, 0]] = True  # what was said of an image counts, be it a copy or not
            familiar[barred[:, 0]] = False
            place = kept.cumsum(0) - 1
            barred = torch.stack([place[barred[:, 0]], barred[:, 1]], 1)
        if not kept.all():
            points, familiar = tables.taken(points, kept.nonzero()[:, 0]), familiar[kept]
        return Search(points, old, familiar, barred, ranks)

    @property
    def number_model(self) -> NumberModel:
        """The calibrated model of the number of classes."""
        return NumberModel(self.number_values.double().cpu().numpy())

    def adopt(self, unlabelled: Unlabelled, predicted: Tensor, num_classes: int) -> None:
        """Take the new classes that another method found among the images, up to `num_classes` in all."""
        new = num_classes - self.num_classes
        if new == 0:
            return
        points = self.points(unlabelled)
        anywhere = points.mean(0).expand(new, -1)  # for a class without an image
        self._take(points, *class_means(points, predicted - self.num_classes, anywhere))

    def logits(self, tokens: TailInput) -> Tensor:
        return self._point(tokens) @ self.memory.prototypes.T / self.softmax_temperature

    def rule(self) -> PredictionRule:
        """The prediction rule; each class has one prototype here."""
        owner = torch.arange(self.num_classes, device=self.memory.prototypes.device)
        return PredictionRule(
            self.memory.prototypes, owner, self.num_classes, self.softmax_temperature, self.thresholds
        )

    @property
    def thresholds(self) -> Tensor:
        """The cosine with each class below which an image is rejected, (K,): all but a few images there have more."""
        return self.usual_cosines - self.shortfall - 2 * self.deviation

    @thresholds.setter
    def thresholds(self, values: Tensor) -> None:
        self.usual_cosines = values + self.shortfall + 2 * self.deviation

    def predict(self, tokens: TailInput) -> Tensor:
        return self.rule()(self._point(tokens)).probabilities

    def familiarity(self, tokens: TailInput, probabilities: Tensor) -> Tensor:
        """The cosine with the nearest class, less its threshold; where that is negative, an image is rejected."""
        cosine, row = nearest(self._point(tokens), self.memory.prototypes)
        return cosine - self.thresholds[row]

    def _point(self, tokens: TailInput) -> Tensor:
        """A view of each image in the space, (B, d)."""
        return self.space(normalize(self.tail(tokens), dim=-1))

    @torch.no_grad()
    def points(self, unlabelled: Unlabelled) -> Tensor:
        """The images in the space, (N, d), each the mean of its views."""
        features = unlabelled.views.every(self.tail, self.config.averaged_views)
        parts = (self.space(normalize(some, dim=-1).mean(1)) for some in features.split(tables.ROWS))
        return tables.joined(parts, len(features))

    @torch.no_grad()
    def _views(self, unlabelled: Unlabelled) -> Tensor:
        """Unit features (N, V, D) of the centre view and of some random ones."""
        return normalize(unlabelled.views.every(self.tail, self.config.averaged_views), dim=-1)

    def _episodes(
        self,
        features: Tensor,
        labels: Tensor,
        generator: torch.Generator,
        held_out: Tensor | None = None,
        advance: Advance = nobody,
        ranks: Ranks = ALONE,
    ) -> Calibration:
        """Episodes in which these classes are held out, or others each time."""
        episodes = []
        for _ in range(self.config.episodes):
            drawn = draw_held_out(int(labels.max()) + 1, self.config.held_out_share, generator)[:MOST_HELD_OUT]
            episodes.append(hold_out(features, labels, drawn if held_out is None else held_out, generator))
        return Calibration(
            episodes, self.config.dimensions_of(features.shape[2]), self.config.shrinkage, advance, ranks
        )

    def _choose(self, calibration: Calibration) -> Calibration:
        """Set the values with which held-out classes are discovered best; returns the calibration on what is used."""
        chosen = choose(calibration, self.config, self._class_token, self.tail.dim)
        self._set("exponent", chosen.exponent)
        self._set("temperature", chosen.temperature)
        self.number_values = torch.from_numpy(chosen.number_values).to(self.memory.prototypes)
        self._used = chosen.used
        return chosen.calibration

    def _trust(self, confidence: Confidence) -> None:
        for name, value in confidence._asdict().items():
            self._set(name, value)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        self.usual_cosines = torch.empty_like(state[prefix + "usual_cosines"], device=self.memory.counts.device)
        super()._load_from_state_dict(state, prefix, *args)

    def _set(self, name: str, value: float) -> None:
        setattr(self, name, torch.tensor(value, dtype=torch.float32, device=self.memory.counts.device))
