"""Base class of methods without a classifier: classes are the centres of k-means, an image has the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.backbone.tail import TailInput
from happycat.base.config import choice, setting
from happycat.learning.batches import Unlabelled
from happycat.learning.clustering import aligned_centres, kmeans, nearest_centres
from happycat.methods.method import Method, MethodConfig


@dataclass(frozen=True, kw_only=True)
class ClusteredConfig(MethodConfig):
    """Hyperparameters of k-means, and of the probabilities made of its centres."""

    evaluation: str = choice(
        "inductive",
        ("inductive", "transductive"),
        "test images go to the nearest centre of the stage's own (inductive), or k-means runs on them (transductive)",
    )
    restarts: int = setting(10, "restarts of k-means; the best is taken", 1)
    prediction_temperature: float = setting(0.1, "temperature of the softmax over cosines to the centres", 1e-6)


class Clustered(Method):
    """The tail, and a centre for each class in the class memory.

    The paper tests inductively; programs of this family (GCD, MetaGCD) run k-means on the test images themselves. With
    the value `evaluation` = transductive that is done here, too, for the scores of a stage and for nothing else.
    """

    config: ClusteredConfig

    def cluster(self, unlabelled: Unlabelled, num_new: int) -> None:
        """k-means of the stage's images with all classes, old and new; the centres replace those before.

        The ids of the old classes go to the clusters that resemble their centres most. The scores that match
        clusters with classes do not depend on it, those that need stable class ids do.
        """
        features = self.unit_features(unlabelled)
        centres = kmeans(features, self.num_classes + num_new, seed=0, restarts=self.config.restarts)
        self.settle(features, aligned_centres(centres, self.memory.prototypes))

    def settle(self, features: Tensor, centres: Tensor) -> None:
        """Take these unit centres (K, D) for the classes, and count the unit features (N, D) nearest to each."""
        nearest = nearest_centres(features, centres)[1]
        self.memory.replace(centres, nearest.bincount(minlength=len(centres)))

    def logits(self, tokens: TailInput) -> Tensor:
        cosines = normalize(self.tail(tokens), dim=-1) @ self.memory.prototypes.T
        return cosines / self.config.prediction_temperature

    def evaluate_together(self, tests: Sequence[Unlabelled]) -> tuple[Tensor, Tensor]:
        """Class probabilities (N, K) and familiarity (N,) of all test images; familiarity is inductive either way."""
        probabilities, familiarity = super().evaluate_together(tests)
        if self.config.evaluation == "transductive":
            features = torch.cat([self.unit_features(test) for test in tests])
            centres = kmeans(features, self.num_classes, seed=0, restarts=self.config.restarts)
            cosines = features @ aligned_centres(centres, self.memory.prototypes).T
            probabilities = (cosines / self.config.prediction_temperature).softmax(1)
        return probabilities, familiarity
