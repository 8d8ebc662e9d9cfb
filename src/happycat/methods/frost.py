"""FRoST (Roy et al., ECCV 2022): an auxiliary head clusters the new classes and teaches the joint one.

Forgetting is countered by features sampled from what is remembered of the old classes, and by distilling
features. Adapted to stages that mix old and new images, where FRoST takes the old ones out by their labels:
a mixture of two normal distributions on each image's similarity to the nearest known prototype tells them
apart. Also changed for a stage of 30 epochs: cosine heads without bias; a weight of the pseudo-labels that was chosen
on held-out classes, ramped up; distillation as 1 − cos; and where hardly any or very many pairs of images agree in
their five largest feature dimensions (features here have signs, FRoST's have not), pairs are mutual nearest neighbours.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from happycat.base.config import setting
from happycat.learning import losses
from happycat.learning.batches import Batch, Unlabelled
from happycat.learning.clustering import PAIRED, novel_images, pairing
from happycat.learning.heads import CosineClassifier
from happycat.learning.training import Epoch, Training, ramp_up
from happycat.methods.parametric import Parametric, ParametricConfig


@dataclass(frozen=True, kw_only=True)
class FrostConfig(ParametricConfig):
    """Hyperparameters of FRoST's stages."""

    top_dimensions: int = setting(5, "largest feature dimensions that two images of a class share", 1)
    consistency_weight: float = setting(
        25.0, "ω, weight of the squared difference of two views' new-class probabilities", 0
    )
    ramp_epochs: int = setting(15, "epochs over which ω and the pseudo-labels' weight grow", 1)
    pseudo_label_weight: float = setting(
        0.3, "weight of the joint head's cross-entropy with the auxiliary head's pseudo-labels", 0
    )
    prototype_weight: float = setting(
        1.0, "weight of the cross-entropy on features sampled around the old prototypes", 0
    )
    distillation_weight: float = setting(
        10.0, "weight of the distillation, 1 − cos to the previous stage's features", 0
    )
    split: bool = setting(True, "cluster only the images that resemble no known class")


class Frost(Parametric):
    """L = L_bce + ω L_mse + L_pl + L_proto + L_kd; the auxiliary head is thrown away at the stage's end."""

    config: FrostConfig

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        config, num_old = self.config, self.num_classes
        features = self.features(unlabelled)
        novel = self._novel(features)
        alike = pairing(features[novel.nonzero()[:PAIRED, 0]], config.top_dimensions)
        before = unlabelled.frozen(copy.deepcopy(self.tail))
        self.head.grow(self.random_rows(num_new, training))
        finder = CosineClassifier(self.tail.dim).to(features.device)
        finder.grow(self.random_rows(num_new, training))

        def loss(batch: Batch, epoch: int) -> dict[str, Tensor]:
            features, chosen = batch.through(self.tail), novel[batch.images]
            samples, classes = self.memory.sample(len(features), self.memory.uniform(), training.generator)
            terms = {
                "prototypes": config.prototype_weight * self.classification(samples, classes),
                "distillation": config.distillation_weight * losses.feature_distillation(features, before(batch)),
            }
            if chosen.sum() > 1:
                first, second = (view[chosen] for view in features.chunk(2))
                ramp = ramp_up(epoch, config.ramp_epochs)
                p, p2 = ((finder(view) / config.prediction_temperature).softmax(1) for view in (first, second))
                terms |= {
                    "pairs": losses.pair_agreement(p, p2, alike(first.detach())),
                    "consistency": config.consistency_weight * ramp * mse_loss(p, p2),
                    "pseudo-labels": config.pseudo_label_weight
                    * ramp
                    * self.classification(torch.cat([first, second]), num_old + torch.cat([p.argmax(1), p2.argmax(1)])),
                }
            return terms

        yield from training.run(
            {"method": self, "finder": finder},
            config.schedule(),
            lambda: unlabelled.batches(config.batch_size, training.generator),
            loss,
        )
        features = self.features(unlabelled)
        found = torch.where(novel, num_old + finder.classify(features), -1)
        self.memory.learn(features, found, self.head.weight.detach()[num_old:])

    def _novel(self, features: Tensor) -> Tensor:
        if not self.config.split:
            return torch.ones(len(features), dtype=torch.bool, device=features.device)
        return novel_images(self.memory.similarity(features))
