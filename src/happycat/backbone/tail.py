"""The tail: a ViT's last transformer block, tuned, for the class token (CLS) only, and the frozen norm behind it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, cast

import torch
from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from happycat.backbone.trunk import Rows, Tokens


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
        x = cls + block.ls1(cast(Attention, block.attn).proj(self._attend(tokens.normalised)))
        x = x + block.ls2(block.mlp(block.norm2(x)))
        return self.norm(x)

    def _attend(self, x: Tensor | Rows) -> Tensor:
        """The heads' outputs for the class token, side by side, (B, D); x is (B, N, D)."""
        attention, norm = cast(Attention, self.block.attn), cast(nn.LayerNorm, self.block.norm1)
        batch, _, dim = x.shape
        heads = attention.num_heads
        # The norm's affine part, folded into the weights: W(γ∘x̂ + β) + b = (W∘γ) x̂ + (Wβ + b)
        w_q, w_k, w_v = (attention.qkv.weight * norm.weight).chunk(3)
        bias = attention.qkv.weight @ norm.bias
        b_q, _, b_v = (bias if attention.qkv.bias is None else bias + attention.qkv.bias).chunk(3)
        first = x.first() if isinstance(x, Rows) else x[:, 0]
        q = linear(first.float(), w_q, b_q) * attention.scale  # (B, D)
        q = q.view(batch, heads, -1).transpose(0, 1)  # (H, B, d)
        probe = torch.bmm(q, w_k.view(heads, -1, dim)).transpose(0, 1)  # (B, H, D)
        mean = attentive_mean(probe, x)  # (B, H, D)
        mean = mean.transpose(0, 1).contiguous()  # (H, B, D): oneDNN would copy it number by number, going backward
        out = torch.bmm(mean, w_v.view(heads, -1, dim).transpose(1, 2))  # (H, B, d)
        return out.transpose(0, 1).reshape(batch, -1) + b_v


def attentive_mean(probe: Tensor, x: Tensor | Rows) -> Tensor:
    """softmax(probe · xᵀ) x, the tokens' mean by attention: probes (B, H, D) and tokens (B, N, D) to (B, H, D)."""
    if isinstance(x, Rows) or (probe.requires_grad and not x.requires_grad):
        return _FrozenTokensMean.apply(probe, x)
    x = x.float()
    return torch.bmm(torch.bmm(probe, x.transpose(1, 2)).softmax(-1), x)


CHUNK = 2**19  # numbers in a thread's piece of the tokens: 2 MB in fp32, which stay in a CPU's cache


class _FrozenTokensMean(torch.autograd.Function):
    """`attentive_mean` of tokens without gradient, in pieces.

    Tokens are most of the memory that a step reads. Here they are read where and as they are stored, twice, and
    only a piece at a time is turned into fp32.
    """

    @staticmethod
    def forward(ctx: Any, probe: Tensor, x: Tensor | Rows) -> Tensor:
        weights = probe.new_empty(*probe.shape[:2], x.shape[1])
        mean = probe.new_empty(probe.shape)
        for piece in _pieces(x):
            some = x[piece].float()
            torch.softmax(torch.bmm(probe[piece], some.transpose(1, 2)), -1, out=weights[piece])
            torch.bmm(weights[piece], some, out=mean[piece])
        ctx.weights, ctx.x = weights, x  # neither goes in or out as a tensor with a gradient
        return mean

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        weights, x = ctx.weights, ctx.x
        to_probe = torch.empty_like(gradient)
        for piece in _pieces(x):
            some, w = x[piece].float(), weights[piece]
            g = torch.bmm(gradient[piece], some.transpose(1, 2))
            torch.bmm(w * (g - (w * g).sum(-1, keepdim=True)), some, out=to_probe[piece])
        return to_probe, None


def _pieces(x: Tensor | Rows) -> Iterator[slice]:
    """The rows of x (B, N, D) in pieces of about `CHUNK` numbers for each thread; on a GPU, all at once."""
    step = max(1, CHUNK * torch.get_num_threads() // x.shape[1:].numel()) if x.device.type == "cpu" else len(x)
    return (slice(start, start + step) for start in range(0, len(x), step))


TailInput = Tokens | Tensor  # tokens for a `Tail`, features for `Vectors`


class Vectors(nn.Module):
    """Stands for the tail where features are given as they are: (B, D) → (B, D).

    The first `class_token` of the numbers are those of a ViT's class token, what follows is of its patches; where there
    is nothing but the one or the other, they are all.
    """

    def __init__(self, dim: int, class_token: int | None = None):
        super().__init__()
        self.dim, self.class_token = dim, class_token or dim

    def forward(self, features: Tensor) -> Tensor:
        return features
