"""SimGCD (Wen et al., ICCV 2023): one classifier over all classes, self-distillation, mean-entropy maximisation.

Adapted to stages without labels and without old images: the supervised terms that SimGCD keeps on labelled
images are gone after Stage-0, and what is left has weight 1. The old classes' rows are copied, the new ones'
start at random. Only the counts of the class memory are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from happycat.base.config import setting
from happycat.learning import losses
from happycat.learning.batches import Batch, Unlabelled
from happycat.learning.training import Epoch, Training
from happycat.methods.parametric import Parametric, ParametricConfig


@dataclass(frozen=True, kw_only=True)
class SimGCDConfig(ParametricConfig):
    """Hyperparameters of SimGCD's stages.

    The paper does not give its entropy weight: it was chosen on held-out classes (`happycat paper tuning`).
    """

    teacher_temperature: float = setting(0.05, "τ_t, teacher temperature (of the sharpened view) in later stages", 1e-6)
    entropy_weight: float = setting(4.0, "ε, weight of the mean-entropy term over all classes", 0)
    contrast_weight: float = setting(1.0, "weight of the self-supervised contrast in later stages", 0)


class SimGCD(Parametric):
    """L = self-distillation − ε H(p̄) + InfoNCE."""

    config: SimGCDConfig

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        yield from self.learn_stage(unlabelled, num_new, training)

    def learn_stage(
        self,
        unlabelled: Unlabelled,
        num_new: int,
        training: Training,
        also: Callable[[Batch, Tensor], dict[str, Tensor]] = lambda batch, cosines: {},
    ) -> Iterator[Epoch]:
        """One stage; `also(batch, cosines)` gives further terms of the loss."""
        self.head.grow(self.random_rows(num_new, training))
        projector = self.new_projector(training)

        def loss(batch: Batch, _: int) -> dict[str, Tensor]:
            features = batch.through(self.tail)
            cosines = self.head(features)
            h = batch.through(projector, features)
            return {**self._loss(cosines, h), **also(batch, cosines)}

        yield from training.run(
            {"method": self, "projector": projector},
            self.config.schedule(),
            lambda: unlabelled.batches(self.config.batch_size, training.generator),
            loss,
        )
        self.remember(unlabelled)

    def _loss(self, cosines: Tensor, h: Tensor) -> dict[str, Tensor]:
        config = self.config
        marginal = (cosines / config.prediction_temperature).softmax(1).mean(0)
        (one, other), (h, h2) = cosines.chunk(2), h.chunk(2)
        return {
            "self-distillation": losses.self_distillation(
                one, other, config.prediction_temperature, config.teacher_temperature
            ),
            "entropy": config.entropy_weight * losses.negative_entropy(marginal, constant=True),
            "contrast": config.contrast_weight * losses.info_nce(h, h2, config.contrast_temperature),
        }
