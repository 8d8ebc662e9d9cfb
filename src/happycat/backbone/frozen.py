"""Base class of frozen networks: name, image size, pixel normalisation, precision and fingerprints."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from happycat.backbone.fingerprint import fingerprint
from happycat.backbone.int8 import Int8Network, arithmetic
from happycat.base.products import products_for
from happycat.base.threads import network_flops


class Frozen(nn.Module):
    """A frozen network: (B, 3, S, S) uint8 views in.

    It has two fingerprints. `weights_fingerprint` identifies the weights, in whatever precision they run:
    a model file names its backbone by it. `fingerprint` identifies what was computed: it covers the precision, too,
    and what is stored on disk is named by it.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        model: nn.Module,
        name: str,
        mean: Sequence[float],
        std: Sequence[float],
        image_size: int,
        precision: torch.dtype,
    ):
        super().__init__()
        self.name, self.image_size, self.precision = name, image_size, precision
        self.model = model
        self._before: str | None = None  # the fingerprint of the weights before they were cast
        self._int8: Int8Network | None = None  # what computes in their place in int8
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1) * 255, persistent=False)

    @property
    def device(self) -> torch.device:
        return self.mean.device

    def normalised_pixels(self, views: Tensor) -> Tensor:
        return (views.float() - self.mean) / self.std

    def fingerprint(self) -> str:
        """Sixteen hex digits that change when anything that shapes the output changes."""
        how = arithmetic() if self.precision is torch.int8 else str(self.precision)
        return fingerprint([*self._input(), how], self.model.state_dict())

    def weights_fingerprint(self) -> str:
        """Sixteen hex digits of the weights, the image size and the normalisation, the same in any precision."""
        return self._before or fingerprint(self._input(), self.model.state_dict())

    def quantise(self) -> None:
        """Compute the linear layers in int8 from now on."""
        if self._int8 is None:
            self._int8 = Int8Network(self.compute, self.model, self.name, self.image_size)

    def outputs(self, views: Tensor) -> Tensor:
        """What the network makes of the views, all of them together."""
        with products_for(network_flops(self.model)):
            return (self._int8 or self.compute)(self.normalised_pixels(views))

    def compute(self, pixels: Tensor) -> Tensor:
        """What the network makes of normalised pixels, in floating-point numbers."""
        raise NotImplementedError

    def _input(self) -> list:
        return [self.name, self.image_size, self.mean.tolist(), self.std.tolist()]
