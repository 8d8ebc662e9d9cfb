"""Happy (Ma et al., NeurIPS 2024): hardness-aware prototype sampling and soft entropy regularisation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.base.config import setting
from happycat.learning import losses
from happycat.learning.batches import Batch, Unlabelled
from happycat.learning.clustering import kmeans, least_similar
from happycat.learning.heads import Projector, mean_length
from happycat.learning.training import Epoch, Training
from happycat.methods.parametric import Parametric, ParametricConfig

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True)
class HappyConfig(ParametricConfig):
    """Hyperparameters of Happy. The defaults are the flavour `authors`; `HappyConfig.paper()` is the other."""

    teacher_temperature: float = setting(0.05, "τ_t, teacher temperature (of the sharpened view) in later stages", 1e-6)
    self_training_weight: float = setting(1.0, "weight of self-distillation in later stages", 0)
    entropy_weight: float = setting(1.0, "λ1, weight of the soft entropy regularisation in later stages", 0)
    entropy_constants: bool = setting(True, "add log 2, log K_old, log K_new to the entropy terms")
    new_shares: tuple[float, ...] = setting((), "the true share of new images at each stage, as a prior")
    prototype_weight: float = setting(
        1.0, "weight of the cross-entropy on features sampled around the old prototypes", 0
    )
    hardness: bool = setting(True, "sample harder classes more often")
    hardness_temperature: float = setting(0.1, "τ_h, temperature of the hardness distribution", 1e-6)
    unit_samples: bool = setting(False, "normalise sampled features to unit length")
    distillation_weight: float = setting(
        2.0, "λ2, weight of the distillation, 1 − cos to the previous stage's features", 0
    )
    contrast_weight: float = setting(1.0, "λ3, weight of the self-supervised contrast in later stages", 0)
    cluster_init: bool = setting(True, "initialise new classifier rows with k-means centres")

    @classmethod
    def paper(cls) -> Self:
        return replace(super().paper(), entropy_constants=False, distillation_weight=1.0, unit_samples=True)


class Happy(Parametric):
    """`fit` (in `Parametric`) and `discover` follow the paper's Algorithm 1."""

    config: HappyConfig

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        config, num_old = self.config, self.num_classes
        before = unlabelled.frozen(copy.deepcopy(self.tail))
        self.head.grow(self._initial_rows(unlabelled, num_new, training))
        projector = self.new_projector(training)
        hardness = self._hardness()
        new_share = config.new_shares[training.stage - 1] if config.new_shares else None
        yield from training.run(
            {"method": self, "projector": projector},
            config.schedule(),
            lambda: unlabelled.batches(config.batch_size, training.generator),
            lambda batch, _: self._loss(
                batch, before(batch), num_old, new_share, hardness, projector, training.generator
            ),
        )
        self.remember(unlabelled)

    def _initial_rows(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Tensor:
        """Clustering-guided initialisation (Eq. cluster-guided-init), or random rows without it.

        The centres get the mean length of the random rows that they replace. A cosine does not show it, but a short
        row turns faster: its direction's step goes by 1/length², three times that of a unit row.
        """
        random = self.random_rows(num_new, training)
        if not self.config.cluster_init:
            return random
        centres = kmeans(self.unit_features(unlabelled), self.num_classes + num_new, seed=0)
        return mean_length(random) * least_similar(centres, self.head.weight.detach(), num_new)

    def _hardness(self) -> Tensor:
        if self.config.hardness:
            return self.memory.hardness(self.config.hardness_temperature)
        return self.memory.uniform()

    def _loss(
        self,
        batch: Batch,
        before: Tensor,
        num_old: int,
        new_share: float | None,
        hardness: Tensor,
        projector: Projector,
        generator: torch.Generator,
    ) -> dict[str, Tensor]:
        """L_Happy = L_new + L_old + λ3 L_con (Eq. loss-overall), term by term; a term of weight 0 is left out."""
        config = self.config
        features = batch.through(self.tail)
        cosines = self.head(features)
        terms = {}
        if weight := config.self_training_weight:
            one, other = cosines.chunk(2)
            terms["self-distillation"] = weight * losses.self_distillation(
                one, other, config.prediction_temperature, config.teacher_temperature
            )
        if weight := config.entropy_weight:
            marginal = (cosines / config.prediction_temperature).softmax(1).mean(0)
            groups = losses.group_entropy(marginal, num_old, config.entropy_constants)
            if new_share is not None:
                groups["between"] = losses.prior_between(marginal, num_old, new_share)
            terms.update({f"entropy {name}": weight * value for name, value in groups.items()})
        if weight := config.prototype_weight:
            terms["prototypes"] = weight * self._prototype_loss(len(features), hardness, generator)
        if weight := config.distillation_weight:
            terms["distillation"] = weight * losses.feature_distillation(features, before)
        if weight := config.contrast_weight:
            h, h2 = batch.through(projector, features).chunk(2)
            terms["contrast"] = weight * losses.info_nce(h, h2, config.contrast_temperature)
        return terms

    def _prototype_loss(self, number: int, hardness: Tensor, generator: torch.Generator) -> Tensor:
        """Hardness-aware prototype sampling (Eq. loss-prototype-sampling)."""
        samples, classes = self.memory.sample(number, hardness, generator)
        if self.config.unit_samples:
            samples = normalize(samples, dim=-1)
        return self.classification(samples, classes)
