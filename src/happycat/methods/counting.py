"""The number of new classes in a stage: known beforehand, by silhouette as in the paper, or by Calm's estimate.

A `ClassCounter` serves any method. Before each stage it says how many new classes there are; after each it takes notice
of those that the method has found. What it remembers is its `state_dict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from happycat.backbone.tail import Vectors
from happycat.base.errors import InputError
from happycat.base.progress import SILENT, Advance, Progress
from happycat.learning.batches import Labelled, Unlabelled
from happycat.learning.clustering import silhouettes
from happycat.learning.training import Training
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from happycat.methods.calm.number import Count
from happycat.methods.method import Method


class Features(Protocol):
    """Features of the backbone as it is before any stage tunes it, of random views and the centre view."""

    def vectors(self) -> Vectors:
        """What stands for the tail in a method that is given the features."""

    def labelled_features(self, random_views: int) -> Labelled:
        """The features of the labelled images."""

    def features(self, stage: int, random_views: int) -> Unlabelled:
        """The features of a stage's images."""


class ClassCounter(Protocol):
    """Gives the number of new classes of a stage, known or estimated."""

    estimates: bool  # whether the number is an estimate

    @property
    def ready(self) -> bool:
        """Whether it knows the labelled classes, as far as it has to."""

    def learn(self, generator: torch.Generator, progress: Progress = SILENT) -> None:
        """After Stage-0: learn what it needs of the labelled images."""

    def count(
        self, stage: int, unlabelled: Unlabelled, generator: torch.Generator, progress: Progress = SILENT
    ) -> Count:
        """Before a stage: how many new classes it has."""

    def follow(self, stage: int, unlabelled: Unlabelled) -> None:
        """After a stage: take notice of the classes that the method has found."""

    def state_dict(self) -> dict[str, Tensor]:
        """What it remembers, besides the method's memory."""

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Remember what an earlier `state_dict` held."""


class Stateless:
    """Base class of counters without a state of their own."""

    ready = True

    def learn(self, generator: torch.Generator, progress: Progress = SILENT) -> None:
        """Learn nothing."""

    def follow(self, stage: int, unlabelled: Unlabelled) -> None:
        """Do nothing: the method's memory says which classes there are."""

    def state_dict(self) -> dict[str, Tensor]:
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Remember nothing."""


class KnownNumber(Stateless):
    """The numbers are given: `numbers[t − 1]` new classes in stage t."""

    estimates = False

    def __init__(self, numbers: Sequence[int]):
        self.numbers = numbers

    def count(
        self, stage: int, unlabelled: Unlabelled, generator: torch.Generator, progress: Progress = SILENT
    ) -> Count:
        number = self.numbers[stage - 1]
        return Count(number, number, number, [], [])


class Silhouette(Stateless):
    """The paper's estimate: the number of clusters with the largest silhouette, in the method's own features.

    At least one class is new; at most `most`, or half as many as are known and at least two.
    """

    estimates = True

    def __init__(self, method: Method, most: int | None):
        self.method, self.most = method, most

    def count(
        self, stage: int, unlabelled: Unlabelled, generator: torch.Generator, progress: Progress = SILENT
    ) -> Count:
        known = self.method.num_classes
        most = min(self.most or max(2, known // 2), len(unlabelled) - known - 1)
        if most < 1:
            raise InputError(
                f"stage {stage} has {len(unlabelled)} images, too few for a silhouette with {known} known classes; "
                f"give more images or the number of new classes"
            )
        features, numbers = self.method.unit_features(unlabelled), list(range(1, most + 1))
        scores = silhouettes(features, [known + number for number in numbers], advance=_counting(stage, progress))
        number = numbers[int(np.argmax(scores))]
        return Count(number, number, number, numbers, scores, "silhouette")


class OwnEstimate(Stateless):
    """The estimate of Calm itself, when it is the method."""

    estimates = True

    def __init__(self, method: Calm, most: int | None):
        self.method, self.most = method, most

    def count(
        self, stage: int, unlabelled: Unlabelled, generator: torch.Generator, progress: Progress = SILENT
    ) -> Count:
        return self.method.count(unlabelled, generator, self.most, _counting(stage, progress))


class CalmEstimate:
    """The estimate of a Calm that runs beside another method, on the features of the untuned backbone."""

    estimates = True

    def __init__(self, method: Method, calm: Calm, source: Features, most: int | None):
        self.method, self.calm, self.source, self.most = method, calm, source, most

    @property
    def ready(self) -> bool:
        return self.calm.num_classes > 0

    def learn(self, generator: torch.Generator, progress: Progress = SILENT) -> None:
        labelled = self.source.labelled_features(self.calm.config.random_views)
        advance = progress.step("Stage-0: calibrating the count")
        list(self.calm.fit(labelled, Training(generator), advance))

    def count(
        self, stage: int, unlabelled: Unlabelled, generator: torch.Generator, progress: Progress = SILENT
    ) -> Count:
        features = self._features(stage)
        return self.calm.count(features, generator, self.most, _counting(stage, progress))

    def follow(self, stage: int, unlabelled: Unlabelled) -> None:
        predicted, _ = self.method.classify(unlabelled)
        self.calm.adopt(self._features(stage), predicted, self.method.num_classes)

    def _features(self, stage: int) -> Unlabelled:
        return self.source.features(stage, self.calm.config.random_views)

    def state_dict(self) -> dict[str, Tensor]:
        return self.calm.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.calm.load_state_dict(state)


def _counting(stage: int, progress: Progress) -> Advance:
    """Begin to show how many of the numbers of a stage have been tried."""
    return progress.step(f"Stage {stage}: counting")


def make_counter(
    name: str, method: Method, numbers: Sequence[int], source: Features, most: int | None = None
) -> ClassCounter:
    """The counter of that name for a method; `numbers` are the true ones, `most` is an upper bound of an estimate."""
    if name == "known":
        return KnownNumber(numbers)
    if name == "silhouette":
        return Silhouette(method, most)
    if isinstance(method, Calm):
        return OwnEstimate(method, most)
    calm = Calm(source.vectors(), CalmConfig()).to(method.memory.prototypes.device)
    return CalmEstimate(method, calm, source, most)
