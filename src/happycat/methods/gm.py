"""Grow and Merge (Zhang et al., NeurIPS 2022), with sampled features in place of stored images.

A plastic copy of the tail discovers (grow), then it is averaged with the frozen one and the classifier is
brought to both (merge). No program of it is public: the values are ours, from its published description; the
weight of distilling features is FRoST's, because with a weight of 1 the old classes are lost.
Adapted as in the paper: features sampled from the class memory replace the stored images. And instead of a
threshold that needs the share of new images, a mixture of two normal distributions on each image's
similarity to the nearest known prototype tells old images from new ones.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from happycat.base.config import setting
from happycat.learning import losses
from happycat.learning.batches import Batch, Unlabelled
from happycat.learning.clustering import PAIRED, novel_images, pairing
from happycat.learning.heads import CosineClassifier
from happycat.learning.memory import class_means
from happycat.learning.training import Epoch, Training, ramp_up
from happycat.methods.parametric import Parametric, ParametricConfig


@dataclass(frozen=True, kw_only=True)
class GMConfig(ParametricConfig):
    """Hyperparameters of Grow and Merge's stages.

    The paper gives no weights; that of the distillation while merging was chosen on held-out classes (`happycat paper
    tuning`).
    """

    grow_share: float = setting(2 / 3, "share of a stage's epochs that grow; the others merge", 0.01, 0.99)
    top_dimensions: int = setting(5, "largest feature dimensions that two images of a class share", 1)
    consistency_weight: float = setting(
        25.0, "ω, weight of the squared difference of two views' new-class probabilities", 0
    )
    ramp_epochs: int = setting(10, "epochs over which ω grows", 1)
    contrast_weight: float = setting(1.0, "weight of the self-supervised contrast while growing", 0)
    grow_distillation_weight: float = setting(
        10.0, "weight of the distillation, 1 − cos to the static branch, while growing", 0
    )
    static_share: float = setting(0.5, "α, share of the static branch in the merged one", 0, 1)
    prototype_weight: float = setting(
        1.0, "weight of the cross-entropy on features sampled around the old prototypes", 0
    )
    lwf_weight: float = setting(1.0, "weight of distilling the outputs for the old classes while merging", 0)
    lwf_temperature: float = setting(2.0, "temperature of the softmax that is distilled", 1e-6)
    distillation_weight: float = setting(
        30.0, "weight of the distillation, 1 − cos to the merged branch, while merging", 0
    )

    def phases(self) -> tuple[int, int]:
        """How many epochs grow, and how many merge: at least one each."""
        grow = min(max(1, round(self.epochs * self.grow_share)), max(1, self.epochs - 1))
        return grow, max(1, self.epochs - grow)


class GM(Parametric):
    """Grow on the images that resemble no known class; average both branches; unify the classifier."""

    config: GMConfig

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        grow_epochs, merge_epochs = self.config.phases()
        num_old, previous = self.num_classes, copy.deepcopy(self)
        features = self.features(unlabelled)
        novel = novel_images(self.memory.similarity(features))
        finder = CosineClassifier(self.tail.dim).to(features.device)
        finder.grow(self.random_rows(num_new, training))

        yield from self._grow(unlabelled, novel, features, finder, previous.tail, training, grow_epochs, merge_epochs)
        with torch.no_grad():
            found = num_old + finder.classify(self.features(unlabelled))
            self._merge_branches(previous.tail)
            merged = self.unit_features(unlabelled)
            self.head.grow(class_means(merged, torch.where(novel, found - num_old, -1), finder.weight.detach())[0])

        yield from self._merge(unlabelled, novel, found, previous, training, merge_epochs)
        found = torch.where(novel, found, -1)
        self.memory.learn(self.features(unlabelled), found, self.head.weight.detach()[num_old:])

    def _grow(
        self,
        unlabelled: Unlabelled,
        novel: Tensor,
        features: Tensor,
        finder: CosineClassifier,
        static: nn.Module,
        training: Training,
        epochs: int,
        later: int,
    ) -> Iterator[Epoch]:
        """Discover with the plastic branch: pairs that agree, two views that agree, contrast, distillation."""
        config = self.config
        projector = self.new_projector(training)
        alike = pairing(features[novel.nonzero()[:PAIRED, 0]], config.top_dimensions)
        before = unlabelled.frozen(static)

        def loss(batch: Batch, epoch: int) -> dict[str, Tensor]:
            features, chosen = batch.through(self.tail), novel[batch.images]
            h, h2 = batch.through(projector, features).chunk(2)
            terms = {
                "contrast": config.contrast_weight * losses.info_nce(h, h2, config.contrast_temperature),
                "distillation": config.grow_distillation_weight * losses.feature_distillation(features, before(batch)),
            }
            if chosen.sum() > 1:
                first, second = (view[chosen] for view in features.chunk(2))
                p, p2 = ((finder(view) / config.prediction_temperature).softmax(1) for view in (first, second))
                terms["pairs"] = losses.pair_agreement(p, p2, alike(first.detach()))
                terms["consistency"] = config.consistency_weight * ramp_up(epoch, config.ramp_epochs) * mse_loss(p, p2)
            return terms

        yield from training.run(
            {"tail": self.tail, "finder": finder, "projector": projector},
            config.schedule(epochs),
            lambda: unlabelled.batches(config.batch_size, training.generator),
            loss,
            later,
        )

    def _merge_branches(self, static: nn.Module) -> None:
        """Branch unification: θ ← α θ_static + (1 − α) θ_grown."""
        for grown, kept in zip(self.tail.parameters(), static.parameters(), strict=True):
            grown.lerp_(kept, self.config.static_share)

    def _merge(
        self,
        unlabelled: Unlabelled,
        novel: Tensor,
        found: Tensor,
        previous: GM,
        training: Training,
        epochs: int,
    ) -> Iterator[Epoch]:
        """Category unification: one classifier for the classes found and those remembered."""
        config, num_old = self.config, previous.num_classes
        then, merged = unlabelled.frozen(previous.cosines), unlabelled.frozen(copy.deepcopy(self.tail))
        scale = config.prediction_temperature * config.lwf_temperature

        def loss(batch: Batch, _: int) -> dict[str, Tensor]:
            features = batch.through(self.tail)
            new, labels = novel[batch.images].repeat(2), found[batch.images].repeat(2)
            samples, classes = self.memory.sample(len(features), self.memory.uniform(), training.generator)
            terms = {
                "prototypes": config.prototype_weight * self.classification(samples, classes),
                "distillation": config.distillation_weight * losses.feature_distillation(features, merged(batch)),
            }
            if new.any():
                terms["pseudo-labels"] = self.classification(features[new], labels[new])
            if not new.all():
                cosines = self.head(features[~new])[:, :num_old]
                terms["lwf"] = config.lwf_weight * losses.logit_distillation(cosines / scale, then(batch)[~new] / scale)
            return terms

        yield from training.run(
            {"method": self},
            config.schedule(epochs),
            lambda: unlabelled.batches(config.batch_size, training.generator),
            loss,
        )
