"""Hyperparameters of Calm."""

from __future__ import annotations

from dataclasses import dataclass

from happycat.base.config import setting
from happycat.methods.method import MethodConfig

DIMENSIONS = 2 / 3  # of those that the features have


@dataclass(frozen=True, kw_only=True)
class CalmConfig(MethodConfig):
    """Hyperparameters of Calm; those that are None are chosen by calibration on held-out classes."""

    dimensions: int | None = setting(None, "dimensions of the space, at most [two thirds of the features']", 1)
    shrinkage: float = setting(0.3, "shrinkage of the within-class covariance towards a sphere", 0, 1)
    exponent: float | None = setting(
        None,
        "how much directions count, in the search, that tell classes apart; 0: all the same "
        "[chosen on held-out classes]",
        0,
    )
    mixture_temperature: float | None = setting(
        None, "τ, temperature of the mixture [chosen on held-out classes]", 1e-6
    )
    episodes: int = setting(5, "episodes of the calibration, each with other held-out classes", 1)
    held_out_share: float = setting(0.2, "share of the labelled classes that an episode holds out", 0.01, 0.9)
    averaged_views: int = setting(2, "random views whose features are averaged with the centre view's", 0)
    patches: bool | None = setting(
        None, "mean of a ViT's patch tokens beside its class token [chosen on held-out classes]"
    )

    def dimensions_of(self, features: int) -> int:
        """The dimensions of a space of so many features."""
        return self.dimensions or round(DIMENSIONS * features)

    @property
    def random_views(self) -> int:
        return self.averaged_views

    @property
    def with_patches(self) -> bool:
        return self.patches is not False
