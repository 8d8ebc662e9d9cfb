"""The trunk, the frozen part of a timm ViT: everything before the last block; and its fingerprint."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

CACHED_TOKENS = 1600  # twice as many cost a CPU with 32 MB of cache a tenth of its speed


class Tokens(NamedTuple):
    """What the trunk says of a batch of views.

    `normalised` (B, N, D) are the tokens that enter the last block, layer-normalised without the affine part,
    the class token first; `cls` (B, D) is the class token as it was, for the residual.
    """

    normalised: Tensor
    cls: Tensor

    def to(self, device: torch.device) -> Tokens:
        return Tokens(self.normalised.to(device), self.cls.to(device))


class Trunk(nn.Module):
    """A ViT without its last block: (B, 3, S, S) uint8 views in, `Tokens` out."""

    def __init__(self, model: VisionTransformer, name: str, mean, std, precision: torch.dtype = torch.float32):
        super().__init__()
        self.name = name
        self.image_size = model.patch_embed.img_size[0]
        self.dim = model.embed_dim
        self.num_tokens = model.patch_embed.num_patches + model.num_prefix_tokens
        self.epsilon = model.blocks[-1].norm1.eps
        self.precision = precision
        self.model = model
        model.blocks, model.norm, model.head = model.blocks[:-1], nn.Identity(), nn.Identity()
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1) * 255, persistent=False)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1) * 255, persistent=False)
        self.freeze()

    def freeze(self) -> None:
        """No gradient from now on, and the numbers in the trunk's precision."""
        self.requires_grad_(False).eval()
        self.model.to(self.precision)

    def thaw(self) -> None:
        """Let Stage-0 train it, in full precision (backbones from scratch only)."""
        self.model.float()
        self.requires_grad_(True)

    def forward(self, views: Tensor) -> Tokens:
        parts = [self.at_once(part) for part in views.split(self.views_at_once(len(views)))]
        return Tokens(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def views_at_once(self, number: int) -> int:
        """How many of so many views go through together: on a CPU, as many as leave the activations in the cache."""
        return max(1, CACHED_TOKENS // self.num_tokens) if self.mean.device.type == "cpu" else number

    def at_once(self, views: Tensor) -> Tokens:
        """All of the views together."""
        x = (views.float() - self.mean) / self.std
        x = self.model.forward_features(x.to(next(self.model.parameters()).dtype)).float()
        return Tokens(nn.functional.layer_norm(x, (self.dim,), eps=self.epsilon), x[:, 0])

    def fingerprint(self) -> str:
        """Sixteen hex digits that change when anything that shapes the tokens changes."""
        about = [self.name, self.image_size, self.mean.tolist(), self.std.tolist(), str(self.precision)]
        digest = hashlib.sha256(json.dumps(about).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.contiguous().cpu().view(torch.uint8).numpy())
        return digest.hexdigest()[:16]
