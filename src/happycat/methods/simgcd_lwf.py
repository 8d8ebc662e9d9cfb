"""SimGCD with LwF (Li and Hoiem, 2017): the previous model's logits for the old classes are distilled.

Adapted: LwF's cross-entropy on labelled new classes is SimGCD's own loss. The paper gives neither the
temperature nor the weight; the temperature is PyCIL's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from happycat.base.config import setting
from happycat.learning import losses
from happycat.learning.batches import Batch, Unlabelled
from happycat.learning.training import Epoch, Training
from happycat.methods.simgcd import SimGCD, SimGCDConfig


@dataclass(frozen=True, kw_only=True)
class SimGCDLwFConfig(SimGCDConfig):
    """Hyperparameters of SimGCD and of the distillation, chosen on held-out classes (`happycat paper tuning`)."""

    lwf_weight: float = setting(10.0, "weight of distilling the previous model's outputs for the old classes", 0)
    lwf_temperature: float = setting(1.0, "temperature of the softmax that is distilled", 1e-6)


class SimGCDLwF(SimGCD):
    """L = L_SimGCD + λ L_lwf."""

    config: SimGCDLwFConfig

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        config, num_old = self.config, self.num_classes
        before = unlabelled.frozen(copy.deepcopy(self).cosines)

        def lwf(batch: Batch, cosines: Tensor) -> dict[str, Tensor]:
            now, then = cosines[:, :num_old], before(batch)
            scale = config.prediction_temperature * config.lwf_temperature
            return {"lwf": config.lwf_weight * losses.logit_distillation(now / scale, then / scale)}

        yield from self.learn_stage(unlabelled, num_new, training, lwf)
