"""GCD (Vaze et al., CVPR 2022): contrastive learning of the features, then k-means.

Adapted: after Stage-0 there is no label, so the supervised contrast is gone, and so are the labelled images
that its semi-supervised k-means holds on to. Plain k-means on the stage's images takes its place; `anchored`
clusters with what is remembered of the old classes instead, which is more than the paper's baseline knows.
In the flavour `authors` the contrast is on the projector's output itself, as in Happy's program, in the flavour
`paper` on cosines to 65,536 prototypes behind it, as in the paper's text and GCD's own program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from happycat.backbone.tail import Tail
from happycat.base.config import setting
from happycat.learning import losses
from happycat.learning.batches import Batch, Labelled, Unlabelled
from happycat.learning.clustering import anchored_kmeans
from happycat.learning.memory import class_means
from happycat.learning.training import Epoch, Training
from happycat.methods.clustered import Clustered, ClusteredConfig
from happycat.methods.method import TrainedConfig


@dataclass(frozen=True, kw_only=True)
class VanillaGCDConfig(ClusteredConfig, TrainedConfig):
    """Hyperparameters of contrastive learning and of the clustering."""

    anchored: bool = setting(False, "k-means with anchors: the old classes' centres are held near where they were")
    anchor_images: float = setting(25.0, "number of images that an anchor counts for", 0)


class VanillaGCD(Clustered):
    """Stage-0: λ0 SupCon + (1−λ0) InfoNCE. Stages: InfoNCE alone. Then k-means."""

    config: VanillaGCDConfig

    family = "contrastive"

    def __init__(self, tail: Tail, config: VanillaGCDConfig):
        super().__init__(tail, config)
        self.projector = config.projector(tail.dim, torch.Generator().manual_seed(0))

    def fit(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        labels = labelled.labels
        fresh = self.config.projector(self.tail.dim, training.generator)
        self.projector.load_state_dict(fresh.state_dict())
        yield from training.run(
            {"method": self, **labelled.views.trained()},
            self.config.base_schedule(),
            lambda: labelled.batches(self.config.batch_size, training.generator),
            lambda batch, _: self.supervised_loss(batch, labels[batch.images]),
        )
        self.learn_labelled(labelled)

    def supervised_loss(self, batch: Batch, labels: Tensor) -> dict[str, Tensor]:
        """The last two terms of L_initial (Eq. init-overall-loss)."""
        config = self.config
        h, h2 = batch.through(lambda tokens: self.projector(self.tail(tokens))).chunk(2)
        return {
            "supervised contrast": config.supervised_share
            * losses.supervised_contrast(h, h2, labels, config.supervised_contrast_temperature),
            "contrast": (1 - config.supervised_share) * losses.info_nce(h, h2, config.contrast_temperature),
        }

    def learn_labelled(self, labelled: Labelled) -> None:
        """Set the centres of the labelled classes to their mean features."""
        features, labels = self.unit_features(labelled), labelled.labels
        self.memory.replace(*class_means(features, labels, features[: int(labels.max()) + 1]))

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        yield from training.run(
            {"method": self},
            self.config.schedule(),
            lambda: unlabelled.batches(self.config.batch_size, training.generator),
            lambda batch, _: self.stage_loss(batch),
        )
        if self.config.anchored:
            features = self.unit_features(unlabelled)
            self.settle(features, self._anchored(features, num_new))
        else:
            self.cluster(unlabelled, num_new)

    def _anchored(self, features: Tensor, num_new: int) -> Tensor:
        config = self.config
        return anchored_kmeans(features, self.memory.prototypes, num_new, config.anchor_images, 0, config.restarts)

    def stage_loss(self, batch: Batch) -> dict[str, Tensor]:
        """InfoNCE of the batch's two views."""
        h, h2 = batch.through(lambda tokens: self.projector(self.tail(tokens))).chunk(2)
        return {"contrast": losses.info_nce(h, h2, self.config.contrast_temperature)}
