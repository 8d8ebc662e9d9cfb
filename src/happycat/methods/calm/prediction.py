"""Cosine classifier with rejection: the one rule that gives an image its class, or none (open-set prediction)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

DROPPED = -1  # owner of a prototype whose class was given up


class Prediction(NamedTuple):
    """Probabilities (N, C) of the classes, whose rows sum to 1, and which images fit none of them, (N,) bool."""

    probabilities: Tensor
    rejected: Tensor


class PredictionRule(nn.Module):
    """Nearest-prototype classifier with rejection; `owner` (R,) is the class of each prototype, or `DROPPED`.

    With p the softmax over the prototypes that have a class, of their cosines with x divided by the temperature τ:

        P(c | x)   = Σ_{r: owner(r) = c} p_r(x)
        x rejected ⇔ cos(x, μ_r) < threshold_r, or owner(r) = DROPPED, where μ_r is the nearest prototype of all

    At least one prototype has a class. No shape depends on the values, so the rule can be exported.
    """

    prototypes: Tensor
    temperature: Tensor
    thresholds: Tensor
    members: Tensor
    dropped: Tensor

    def __init__(self, prototypes: Tensor, owner: Tensor, num_classes: int, temperature: Tensor, thresholds: Tensor):
        super().__init__()
        self.register_buffer("prototypes", prototypes)
        self.register_buffer("temperature", temperature)
        self.register_buffer("thresholds", thresholds)
        self.register_buffer("dropped", owner == DROPPED)
        # (R, C): one where a prototype belongs to the class, in no column if it is dropped
        self.register_buffer("members", one_hot(owner + 1, num_classes + 1)[:, 1:].to(prototypes))

    @property
    def num_classes(self) -> int:
        return self.members.shape[1]

    def forward(self, points: Tensor) -> Prediction:
        """Class probabilities of the unit points (N, d), and whether each is rejected."""
        cosines = points @ self.prototypes.T
        nearest, row = cosines.max(1)
        rejected = (nearest < self.thresholds[row]) | self.dropped[row]
        logits = (cosines / self.temperature).masked_fill(self.dropped, -torch.inf)
        return Prediction(logits.softmax(1) @ self.members, rejected)

    def assigned(self, points: Tensor) -> Tensor:
        """The class of each of the unit points (N, d), or −1 where it is rejected, (N,)."""
        probabilities, rejected = self(points)
        return probabilities.argmax(1).masked_fill(rejected, -1)
