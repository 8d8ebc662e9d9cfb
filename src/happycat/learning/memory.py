"""Class memory for prototype replay: a prototype and a count of each class, one radius, and sampling of features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from happycat.base.tables import ROWS, taken


def _unit(features: Tensor) -> Tensor:
    return normalize(features, dim=-1)


def places_of_classes(labels: Tensor, number: int) -> tuple[Tensor, ...]:
    """The places of the images of each class 0…number−1, in order; a label outside of these counts for none."""
    inside = (labels >= 0) & (labels < number)
    order = torch.where(inside, labels, number).argsort(stable=True)
    counts = labels[inside].bincount(minlength=number).tolist()
    return order[: sum(counts)].split(counts)


def class_means(features: Tensor, labels: Tensor, fallback: Tensor, unit: bool = False) -> tuple[Tensor, Tensor]:
    """Unit means (K, D) of the features (N, D) of classes 0…K−1, and how many there are of each, (K,).

    A class without any takes its row of `fallback` (K, D); a label outside 0…K−1 counts for none. With `unit`, the
    features are made so first.
    """
    places = places_of_classes(labels, len(fallback))
    members = (taken(features, some, _unit) if unit else taken(features, some) for some in places)
    rows = [its.mean(0) if len(its) else fallback[c] for c, its in enumerate(members)]
    return normalize(torch.stack(rows), dim=-1), torch.tensor([len(some) for some in places]).to(labels)


class ClassMemory(nn.Module):
    """Prototypes μ (K, D) of unit length, one radius r, and how many images each class was learned from.

    This is all that is remembered of the images: its size grows with the classes, never with the images.
    """

    prototypes: Tensor  # (K, D)
    counts: Tensor  # (K,)
    radius: Tensor  # ()

    def __init__(self, dim: int):
        super().__init__()
        self.register_buffer("prototypes", torch.empty(0, dim))
        self.register_buffer("counts", torch.empty(0, dtype=torch.int64))
        self.register_buffer("radius", torch.zeros(()))

    @property
    def num_classes(self) -> int:
        return len(self.prototypes)

    def learn(self, features: Tensor, labels: Tensor, fallback: Tensor) -> None:
        """Append the classes num_classes … num_classes+len(fallback)−1 (Eq. class-wise-gaussian).

        `features` (N, D) are made unit; μ_c is the unit mean of class c's. A class without an image takes
        its row of `fallback`.
        """
        rows, counts = class_means(features, labels - self.num_classes, fallback, unit=True)
        self.prototypes = torch.cat([self.prototypes, rows])
        self.counts = torch.cat([self.counts, counts])

    def replace(self, prototypes: Tensor, counts: Tensor) -> None:
        """Replace the prototypes by these (K, D) and the counts by these (K,)."""
        self.prototypes, self.counts = prototypes, counts

    def similarity(self, features: Tensor) -> Tensor:
        """The cosine of each of the features (N, D) with the nearest prototype, (N,)."""
        return torch.cat([(_unit(some) @ self.prototypes.T).amax(1) for some in features.split(ROWS)])

    def measure_radius(self, features: Tensor, labels: Tensor) -> None:
        """Set r from Stage-0: r² = mean over the classes of Tr(Σ_c)/D, of unit features."""
        places = places_of_classes(labels, int(labels.max()) + 1)
        spreads = [taken(features, some, _unit).var(0, unbiased=False).mean() for some in places if len(some)]
        self.radius = torch.stack(spreads).mean().sqrt()

    def hardness(self, temperature: float) -> Tensor:
        """The distribution to draw classes from, (K,) (Eq. hardness-def).

        h_i = mean over j≠i of cos(μ_i, μ_j); p_hardness = softmax(h/τ_h). One class has probability 1.
        """
        cosines = normalize(self.prototypes, dim=-1) @ normalize(self.prototypes, dim=-1).T
        h = (cosines.sum(1) - cosines.diagonal()) / max(1, self.num_classes - 1)
        return (h / temperature).softmax(0)

    def uniform(self) -> Tensor:
        """The distribution that draws every class as often, (K,)."""
        return torch.full((self.num_classes,), 1 / self.num_classes)

    def sample(self, number: int, distribution: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """`number` features z ~ N(μ_c, r² I), (number, D), and their classes c ~ distribution."""
        # Drawn on the CPU, from the one generator, whatever the device: the same numbers everywhere.
        classes = torch.multinomial(distribution.cpu(), number, replacement=True, generator=generator)
        noise = torch.randn(number, self.prototypes.shape[1], generator=generator)
        classes = classes.to(self.prototypes.device)
        return self.prototypes[classes] + self.radius * noise.to(self.prototypes), classes

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *args: Any) -> None:
        for name in ("prototypes", "counts"):
            setattr(self, name, torch.empty_like(state[prefix + name], device=self.radius.device))
        super()._load_from_state_dict(state, prefix, *args)
