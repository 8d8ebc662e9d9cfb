"""The tail: a ViT's last transformer block, tuned, for the class token (CLS) only, and the frozen norm behind it."""

from __future__ import annotations

import copy
from typing import cast

import torch
from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn
from torch.nn.functional import linear

from happycat.backbone.trunk import Tokens


class Tail(nn.Module):
    """A ViT's last block and final norm, computed for the class token alone: `Tokens` → (B, D) features.

    Only the class token's output is used, so no key and no value is ever formed. With x̂ the normalised
    tokens, γ and β the affine part of the block's first norm and, per head h, the rows W_q, W_k, W_v:

        q_h     = W_q (γ∘x̂_cls + β) + b_q
        score_n = (γ ∘ W_kᵀ q_h) · x̂_n          what is the same for every token cancels in the softmax
        a       = softmax(score / √d)
        o_h     = W_v (γ ∘ Σ_n a_n x̂_n + β) + b_v                                     because Σ_n a_n = 1

    Then the projection, the residual on the raw class token, the MLP on that one row, the final norm.
    This is exact: values and gradients are those of the whole block. The parameters are timm's own.
    """

    block: Block
    norm: nn.LayerNorm

    def __init__(self, model: VisionTransformer):
        super().__init__()
        self.block = cast(Block, copy.deepcopy(model.blocks[-1]))
        self.norm = cast(nn.LayerNorm, copy.deepcopy(model.norm)).requires_grad_(False)
        self.dim = model.embed_dim

    def forward(self, tokens: Tokens) -> Tensor:
        block = self.block
        cls = tokens.cls.float()
        x = cls + block.ls1(cast(Attention, block.attn).proj(self._attend(tokens.normalised.float())))
        x = x + block.ls2(block.mlp(block.norm2(x)))
        return self.norm(x)

    def _attend(self, x: Tensor) -> Tensor:
        """The heads' outputs for the class token, side by side, (B, D); x is (B, N, D)."""
        attention, norm = cast(Attention, self.block.attn), cast(nn.LayerNorm, self.block.norm1)
        batch, _, dim = x.shape
        heads = attention.num_heads
        w_q, w_k, w_v = attention.qkv.weight.chunk(3)
        b_q, b_v = (None, None)
        if attention.qkv.bias is not None:
            b_q, _, b_v = attention.qkv.bias.chunk(3)
        q = linear(x[:, 0] * norm.weight + norm.bias, w_q, b_q)  # (B, D)
        q = q.view(batch, heads, -1).transpose(0, 1)  # (H, B, d)
        probe = torch.bmm(q, w_k.view(heads, -1, dim)).transpose(0, 1) * norm.weight  # (B, H, D)
        weights = (torch.bmm(probe, x.transpose(1, 2)) * attention.scale).softmax(-1)  # (B, H, N)
        mean = torch.bmm(weights, x) * norm.weight + norm.bias  # (B, H, D)
        out = torch.bmm(mean.transpose(0, 1), w_v.view(heads, -1, dim).transpose(1, 2))  # (H, B, d)
        out = out.transpose(0, 1).reshape(batch, -1)
        return out if b_v is None else out + b_v


TailInput = Tokens | Tensor  # tokens for a `Tail`, features for `Vectors`


class Vectors(nn.Module):
    """Stands for the tail where features are given as they are: (B, D) → (B, D)."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim

    def forward(self, features: Tensor) -> Tensor:
        return features
