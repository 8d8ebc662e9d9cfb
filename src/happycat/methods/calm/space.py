"""Discriminant space (probabilistic LDA): directions in which classes differ, weighted by how much *new* ones will.

The model of a feature is x = m + y + e with a class's own y ~ N(0, B) and an image's own e ~ N(0, W). B and W are
learned from labelled images and made diagonal together. In the directions where the labelled classes lie farthest apart
they also happen to be narrow: a class that was not seen is two to three times as wide there. So the variances w and b
of each direction are measured on classes that had no part in finding it (cross-fitting over the classes).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import scipy.linalg
import torch
from sklearn.isotonic import IsotonicRegression
from torch import Tensor, nn
from torch.nn.functional import normalize

from happycat.base.ranks import ALONE, Ranks

FOLDS = 5
LEAST_CLASSES = 10  # to measure variances on classes that had no part in finding a direction
SMALLEST_RATIO = 1e-3


class Directions(NamedTuple):
    """A projection (D, d) to unit variance within a class, and the variance b (d,) between classes there."""

    projection: Tensor
    between: Tensor

    def weighted(self, exponent: float) -> Tensor:
        """The projection with weights (b / (1 + b))^exponent, the share of a direction that tells classes apart."""
        return self.projection * (self.between / (1 + self.between)) ** exponent


class Scatter:
    """Labelled features (N, V, D) of V views an image, with labels (N,), in the basis of their principal directions.

    `basis` (D, D) has the direction of the largest variance first. Several processes (`ranks`) add up what each has
    computed of its share of the images: sums, counts and scatter matrices.
    """

    def __init__(self, features: Tensor, labels: Tensor, ranks: Ranks = ALONE):
        self.ranks, own = ranks, ranks.share(len(features))
        classes, place = labels.unique(return_inverse=True)
        self.num_classes, self.counts, self.place = len(classes), place.bincount(), place[own]
        rows, number = features[own].flatten(0, 1), len(features) * features.shape[1]
        self.mean = ranks.sum(rows.sum(0)) / number
        centred = rows - self.mean
        _, basis = eigenvectors(ranks.sum(centred.T @ centred) / number)
        self.basis = basis.flip(1)
        self.views = ((features[own] - self.mean) @ self.basis).transpose(0, 1)  # (V, n, D) of this process's images
        self.images = self.views.mean(0)

    def directions(self, dimensions: int, shrinkage: float) -> Directions:
        """Directions among the first principal ones, those first in which classes differ most."""
        turned = self._turned(torch.ones_like(self.counts, dtype=torch.bool), dimensions, shrinkage)
        within, between = self._variances(dimensions, shrinkage)
        return Directions(self.basis[:, :dimensions] @ turned * within.rsqrt(), between / within)

    def _turned(self, chosen: Tensor, dimensions: int, shrinkage: float) -> Tensor:
        """The matrix (d, d) that makes W the unit matrix and B diagonal, from the images of the chosen classes (K,).

        W is shrunk towards a sphere: (1−s) S + s tr(S)/d I. B is that of whitened images of unit length.
        """
        which = chosen[self.place]
        views, place = self.views[:, which, :dimensions], self.place[which]
        _, rest = self._parts(views.flatten(0, 1), place.repeat(len(views)), len(views))
        scatter = self.ranks.sum(rest.T @ rest)
        sphere = scatter.trace() / dimensions * torch.eye(dimensions).to(scatter)
        values, vectors = eigenvectors((1 - shrinkage) * scatter + shrinkage * sphere)
        least = 1e-12 * float(values[-1]) + 1e-20  # with one image a class all are 0, and points must not overflow
        whiten = (vectors * values.clamp_min(least).rsqrt()) @ vectors.T
        means, rest = self._parts(_long(self.images[which, :dimensions] @ whiten), place)
        means, counts = means[chosen], self.counts[chosen]
        number = int(counts.sum())
        noise = self.ranks.sum(rest.square().sum()) / max(1, number - len(means)) / dimensions
        sphere = torch.eye(dimensions).to(means)
        spread = means.T @ means / len(means) - noise * (1 / counts).mean() * sphere
        _, turn = eigenvectors(spread)
        return whiten @ turn.flip(1) * noise.clamp_min(1e-12).rsqrt()

    def _parts(self, points: Tensor, place: Tensor, views: int = 1) -> tuple[Tensor, Tensor]:
        """The means (K, d) of the classes at `place` (n,), and what is left of the points (n, d) without them.

        The points are those of some classes, all of their images, in so many views.
        """
        sums = torch.zeros(self.num_classes, points.shape[1]).to(points).index_add(0, place, points)
        means = self.ranks.sum(sums) / (self.counts * views)[:, None]
        return means, points - means[place]

    def _variances(self, dimensions: int, shrinkage: float) -> tuple[Tensor, Tensor]:
        """The variances w and b (d,) within and between classes that had no part in finding the directions.

        With too few classes for that, all directions count the same.
        """
        same = torch.ones(dimensions).to(self.mean)
        if self.num_classes < LEAST_CLASSES or int((self.counts > 1).sum()) < self.num_classes / 2:
            return same, same
        within, between = torch.zeros_like(same), torch.zeros_like(same)
        for fold in range(FOLDS):
            held_out = torch.arange(self.num_classes, device=same.device) % FOLDS == fold
            turned, which = self._turned(~held_out, dimensions, shrinkage), held_out[self.place]
            means, rest = self._parts(_long(self.images[which, :dimensions] @ turned), self.place[which])
            number = self.counts[held_out]
            variance = self.ranks.sum(rest.square().sum(0)) / max(1, int(number.sum()) - len(number))
            within += variance / FOLDS
            between += (means[held_out].square().mean(0) - variance * (1 / number).mean()) / FOLDS
        rank = self.num_classes - self.num_classes // FOLDS - 1  # behind it, the directions are those of no class
        tail = within[rank:].mean().expand(max(0, dimensions - rank)) if rank < dimensions else within[:0]
        smooth = torch.cat([_decreasing(within[:rank]), tail]).clamp_min(1e-6)
        return smooth, torch.maximum(_decreasing(between), SMALLEST_RATIO * smooth)


def eigenvectors(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (d,), the smallest first, and eigenvectors (d, d) of a symmetric matrix.

    In float32 torch's solver does not converge on some matrices with very many eigenvalues that are 0, as features give
    that are 0 for all images, or that are many more than the images. In float64 it mostly does; where it does not,
    another solver (LAPACK's evr) does.
    """
    for exact in (matrix, matrix.double()):
        try:
            values, vectors = torch.linalg.eigh(exact)
            return values.to(matrix.dtype), vectors.to(matrix.dtype)
        except torch.linalg.LinAlgError:
            continue
    values, vectors = map(torch.from_numpy, scipy.linalg.eigh(matrix.double().cpu().numpy(), driver="evr"))
    return values.to(matrix), vectors.to(matrix)


def _long(points: Tensor) -> Tensor:
    """The points (N, d) at the length √d, which most of a standard normal have."""
    return normalize(points, dim=-1) * points.shape[1] ** 0.5


def _decreasing(values: Tensor) -> Tensor:
    """The decreasing sequence that is nearest to the values."""
    fitted = IsotonicRegression(increasing=False).fit_transform(range(len(values)), values.double().cpu().numpy())
    return torch.from_numpy(fitted).to(values)


class Space(nn.Module):
    """Features (…, D) to unit vectors (…, d) of a discriminant space."""

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
