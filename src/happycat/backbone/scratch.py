"""Small ViTs to be trained from scratch, for pictures of a few pixels."""

from __future__ import annotations

from typing import Any, cast

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from happycat.base.errors import InputError

SCRATCH = {"scratch_vit": {"patch_size": 4, "embed_dim": 64, "depth": 4, "num_heads": 4, "img_size": 16}}


def scratch_model(name: str, image_size: int | None, generator: torch.Generator) -> VisionTransformer:
    """A small ViT with fresh weights drawn from `generator`."""
    shape: dict[str, Any] = dict(SCRATCH[name])
    shape["img_size"] = image_size or shape["img_size"]
    if shape["img_size"] % shape["patch_size"]:
        raise InputError(f"image size {shape['img_size']} is not a multiple of {name}'s patch of {shape['patch_size']}")
    model = VisionTransformer(num_classes=0, weight_init="skip", **shape)
    initialise(model, generator)
    for tensor in (cast(Tensor, model.cls_token), cast(Tensor, model.pos_embed)):
        nn.init.trunc_normal_(tensor, std=0.02, generator=generator)
    return model


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every layer's weights from a truncated N(0, 1/(3·fan_in)), 0.02² at 768 inputs; biases are 0."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d):
            std = (3 * part.weight[0].numel()) ** -0.5
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
