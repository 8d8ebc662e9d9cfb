"""Within-class whitening: a space in which a class is a direction, from principal components of labelled features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize


class Scatter:
    """Covariances of labelled features (N, D) with labels (N,), which a space is made of: the costly part, done once.

    `basis` (D, D) are the principal directions, largest variance first; `within` (D, D) is the pooled
    within-class covariance in that basis.
    """

    def __init__(self, features: Tensor, labels: Tensor):
        self.mean = features.mean(0)
        centred = features - self.mean
        _, basis = torch.linalg.eigh(centred.T @ centred / len(centred))
        self.basis = basis.flip(1)
        classes, place = labels.unique(return_inverse=True)
        sums = torch.zeros(len(classes), features.shape[1], device=features.device).index_add(0, place, centred)
        rest = (centred - (sums / place.bincount()[:, None])[place]) @ self.basis
        self.within = rest.T @ rest / max(1, len(rest) - len(classes))

    def space(self, dimensions: int, shrinkage: float) -> tuple[Tensor, Tensor]:
        """The mean (D,) and the projection (D, d) onto the first d directions, whitened.

        With S the within-class covariance there: ((1−s) S + s tr(S)/d I)^(−1/2).
        """
        within = self.within[:dimensions, :dimensions]
        scale = within.trace() / dimensions
        shrunk = (1 - shrinkage) * within + shrinkage * scale * torch.eye(dimensions, device=within.device)
        values, vectors = torch.linalg.eigh(shrunk)
        whiten = (vectors * values.clamp_min(1e-12).rsqrt()) @ vectors.T
        return self.mean, self.basis[:, :dimensions] @ whiten


class Space(nn.Module):
    """Features (…, D) to unit vectors (…, d) of a whitened space."""

    mean: Tensor  # (D,)
    projection: Tensor  # (D, d)

    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("projection", torch.empty(dim, 0))

    @property
    def dimensions(self) -> int:
        return self.projection.shape[1]

    def set(self, mean: Tensor, projection: Tensor) -> None:
        self.mean, self.projection = mean, projection

    def forward(self, features: Tensor) -> Tensor:
        return normalize((features - self.mean) @ self.projection, dim=-1)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        self.projection = torch.empty_like(state[prefix + "projection"], device=self.mean.device)
        super()._load_from_state_dict(state, prefix, *args)
