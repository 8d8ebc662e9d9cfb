"""Feature extraction with any timm model: CNNs, ConvNeXts, ViTs that pool their patches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from happycat.backbone.frozen import Frozen
from happycat.base.errors import InputError


class PooledBackbone(Frozen):
    """A whole timm model without its classifier: (B, 3, S, S) uint8 views in, pooled features (B, D) out.

    There is no class token and so no tail that could be tuned. In bf16 it runs under autocast: the running
    statistics of a batch norm need more digits.
    """

    def __init__(
        self,
        model: nn.Module,
        name: str,
        mean: Sequence[float],
        std: Sequence[float],
        image_size: int,
        precision: torch.dtype = torch.float32,
    ):
        super().__init__(model, name, mean, std, image_size, precision)
        self.freeze()
        self.dim = self._dim()

    def freeze(self) -> None:
        """Freeze it: no gradient, no batch statistics, and the memory layout in which convolutions are fastest."""
        self.requires_grad_(False).eval()
        self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, views: Tensor) -> Tensor:
        return self.at_once(views)

    def at_once(self, views: Tensor) -> Tensor:
        """All of the views together."""
        if self.precision is not torch.bfloat16:
            return self.outputs(views).float()
        with torch.autocast(self.device.type, dtype=self.precision):
            return self.outputs(views).float()

    def compute(self, pixels: Tensor) -> Tensor:
        maps = self.model.forward_features(pixels.contiguous(memory_format=torch.channels_last))  # type: ignore[operator]
        return self.model.forward_head(maps, pre_logits=True)  # type: ignore[operator]

    @torch.inference_mode()
    def _dim(self) -> int:
        """The length of a feature vector; one black view shows whether the model takes images of this size."""
        side = self.image_size
        try:
            features = self.outputs(torch.zeros(1, 3, side, side, dtype=torch.uint8))
        except (RuntimeError, AssertionError, ValueError, TypeError, IndexError, AttributeError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(f"backbone {self.name} cannot take images of {side} pixels a side: {reason}") from error
        if features.ndim != 2:
            raise InputError(f"backbone {self.name} gives {tuple(features.shape[1:])} an image, not one vector")
        return features.shape[1]
