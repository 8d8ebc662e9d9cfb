"""The trunk, the frozen part of a timm ViT: everything before the last block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from happycat.backbone.frozen import Frozen
from happycat.base.products import are_faster_for
from happycat.base.threads import network_flops

PAGE = 4096  # bytes of a page of memory
UNFUSED_TOKENS = {torch.float32: 200, torch.bfloat16: 600}  # up to so many a view, oneDNN beats torch's fused attention
CACHED_TOKENS = 1600  # twice as many cost a CPU with 32 MB of cache a tenth of its speed


class Rows:
    """Tokens (B, N, D) where they lie, a view here and a view there: read a piece at a time, never copied as a whole.

    It has what the tail asks of a tensor of tokens.
    """

    requires_grad = False

    def __init__(self, views: Sequence[Tensor]):
        """`views` are B tensors (N, D)."""
        self._views = views

    @property
    def shape(self) -> torch.Size:
        return torch.Size([len(self._views), *self._views[0].shape])

    @property
    def device(self) -> torch.device:
        return self._views[0].device

    def __len__(self) -> int:
        return len(self._views)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self._views[part])

    def first(self) -> Tensor:
        """The first token of each view, (B, D)."""
        return torch.stack([view[0] for view in self._views])

    def float(self) -> Tensor:
        """All of them in fp32."""
        rows = torch.empty(self.shape, device=self.device)
        for row, view in zip(rows, self._views, strict=True):
            row.copy_(view)
        return rows

    def to(self, device: torch.device) -> Tensor | Rows:
        """The tokens on the device; where they are on it, they stay where they lie."""
        return self if device == self.device else torch.stack(list(self._views)).to(device)

    def touch(self) -> None:
        """Read a number of each page of memory: what is mapped comes from the disk now, and not when it is used."""
        for view in self._views:
            view.flatten()[:: PAGE // view.element_size()].sum()


class Tokens(NamedTuple):
    """The trunk's output for a batch of views.

    `normalised` (B, N, D) are the tokens that enter the last block, layer-normalised without the affine part,
    the class token first; `cls` (B, D) is the class token as it was, for the residual.
    """

    normalised: Tensor | Rows
    cls: Tensor

    def to(self, device: torch.device) -> Tokens:
        return Tokens(self.normalised.to(device), self.cls.to(device))

    def rounded(self) -> Tokens:
        """The tokens as a store on disk gives them back: in bf16."""
        return Tokens(self.normalised.float().to(torch.bfloat16), self.cls.float())


class Trunk(Frozen):
    """A ViT without its last block: (B, 3, S, S) uint8 views in, `Tokens` out."""

    model: VisionTransformer

    def __init__(
        self,
        model: VisionTransformer,
        name: str,
        mean: Sequence[float],
        std: Sequence[float],
        precision: torch.dtype = torch.float32,
    ):
        super().__init__(model, name, mean, std, cast("tuple[int, int]", model.patch_embed.img_size)[0], precision)
        self.dim = model.embed_dim
        self.num_prefix_tokens = model.num_prefix_tokens  # the class token and registers; patches follow
        self.num_tokens = model.patch_embed.num_patches + self.num_prefix_tokens
        self.epsilon = cast(nn.LayerNorm, model.blocks[-1].norm1).eps
        model.blocks, model.norm, model.head = model.blocks[:-1], nn.Identity(), nn.Identity()
        self.freeze()

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    def freeze(self) -> None:
        """Freeze it: no gradient from now on, and the weights in the trunk's precision."""
        self.requires_grad_(False).eval()
        if self.precision is torch.int8:
            self.quantise()
            return
        if self.precision != self._dtype == torch.float32:
            self._before = self.weights_fingerprint()
        self.model.to(self.precision)

    def thaw(self) -> None:
        """Unfreeze it for Stage-0, in full precision (backbones from scratch only)."""
        self.model.float()
        self.requires_grad_(True)
        self._before = None

    def forward(self, views: Tensor) -> Tokens:
        parts = [self.at_once(part) for part in views.split(self.views_at_once(len(views)))]
        return Tokens(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def views_at_once(self, number: int) -> int:
        """How many of so many views go through together: on a CPU, as many as leave the activations in the cache."""
        return max(1, CACHED_TOKENS // self.num_tokens) if self.device.type == "cpu" else number

    def at_once(self, views: Tensor) -> Tokens:
        """All of the views together."""
        x = self.outputs(views).float()
        return Tokens(nn.functional.layer_norm(x, (self.dim,), eps=self.epsilon), x[:, 0])

    def compute(self, pixels: Tensor) -> Tensor:
        unfused = (
            self.device.type == "cpu"
            and self.num_tokens <= UNFUSED_TOKENS.get(self.precision, 0)
            and are_faster_for(network_flops(self.model))
        )
        for block in cast("Sequence[nn.Module]", self.model.blocks):
            if hasattr(block.attn, "fused_attn"):
                block.attn.fused_attn = not unfused
        return self.model.forward_features(pixels.to(self._dtype))
