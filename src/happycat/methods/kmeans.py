"""k-means on the frozen backbone's features: no learning, no notion of old and new.

Adapted: each stage's clusters are fitted on its own unlabelled images and the test images go to the nearest
centre (unless `evaluation` is transductive: then the test images are clustered for their scores). Stage-0 is
clustered, too; the labels only name the clusters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from happycat.learning.batches import Labelled, Unlabelled
from happycat.learning.clustering import aligned_centres, kmeans
from happycat.learning.memory import class_means
from happycat.learning.training import Epoch, Training
from happycat.methods.clustered import Clustered, ClusteredConfig


@dataclass(frozen=True, kw_only=True)
class KMeansConfig(ClusteredConfig):
    """Hyperparameters of k-means alone."""

    @property
    def with_patches(self) -> bool:
        """The class token alone, as in the paper."""
        return False


class KMeans(Clustered):
    """Cluster the features anew at each stage."""

    config: KMeansConfig

    family = "kmeans"
    trains = False
    features_only = True

    def fit(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        features = self.unit_features(labelled)
        num_base = int(labelled.labels.max()) + 1
        centres = kmeans(features, num_base, seed=0, restarts=self.config.restarts)
        named, _ = class_means(features, labelled.labels, centres)
        self.settle(features, aligned_centres(centres, named))
        yield from ()

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        self.cluster(unlabelled, num_new)
        yield from ()
