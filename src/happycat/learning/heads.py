"""Heads: the cosine classifier that grows with the classes, and the projector (MLP) for contrastive learning."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from happycat.base.tables import ROWS


class CosineClassifier(nn.Module):
    """Cosines between features (B, D) and the rows φ of `weight` (K, D): (B, K). No bias, lengths do not count."""

    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(0, dim))

    @property
    def num_classes(self) -> int:
        return len(self.weight)

    def grow(self, rows: Tensor) -> None:
        """Add classes with these rows, (K_new, D)."""
        self.weight = nn.Parameter(torch.cat([self.weight.detach(), rows.to(self.weight)]))

    def forward(self, features: Tensor) -> Tensor:
        return linear(normalize(features, dim=-1), normalize(self.weight, dim=-1))

    @torch.no_grad()
    def classify(self, features: Tensor) -> Tensor:
        """The class of each of the features (N, D), (N,): that of the largest cosine."""
        return torch.cat([self(some).argmax(1) for some in features.split(ROWS)])

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        self.weight = nn.Parameter(torch.empty_like(state[prefix + "weight"], device=self.weight.device))
        super()._load_from_state_dict(state, prefix, *args)


def random_rows(number: int, dim: int, generator: torch.Generator, unit: bool) -> Tensor:
    """Fresh classifier rows as a linear layer starts them, U(−1/√D, 1/√D); of unit length if asked."""
    rows = (torch.rand(number, dim, generator=generator) * 2 - 1) / dim**0.5
    return normalize(rows, dim=-1) if unit else rows


def mean_length(rows: Tensor) -> Tensor:
    """The mean of the lengths of rows (K, D), a scalar."""
    return rows.norm(dim=-1).mean()


class Projector(nn.Module):
    """A three-layer MLP to unit vectors; with `prototypes`, a cosine layer of that many outputs behind it.

    The weights of every layer start from N(0, deviation²) cut at ±2, whatever the layer's width, and the biases at 0,
    as in the authors' program (timm's `trunc_normal_` with 0.02). Narrow layers want more: with 0.02 their output is
    so small that the first steps of SGD make it the bias alone, the same for every image, and the contrast learns
    nothing.
    """

    def __init__(
        self, dim: int, hidden: int, out: int, prototypes: int, generator: torch.Generator, deviation: float = 0.02
    ):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, out)
        )
        for layer in self.mlp:
            if isinstance(layer, nn.Linear):
                nn.init.trunc_normal_(layer.weight, std=deviation, generator=generator)
                nn.init.zeros_(layer.bias)
        self.prototypes = None
        if prototypes:
            self.prototypes = CosineClassifier(out)
            self.prototypes.grow(random_rows(prototypes, out, generator, unit=True))

    def forward(self, features: Tensor) -> Tensor:
        h = self.mlp(features)
        return normalize(h if self.prototypes is None else self.prototypes(h), dim=-1)
