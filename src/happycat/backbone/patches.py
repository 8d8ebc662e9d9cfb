"""Class token and patch tokens as one feature: the whole image, beside the mean of its parts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from happycat.backbone.frozen import Frozen
from happycat.backbone.tail import Tail, Vectors
from happycat.backbone.trunk import Tokens, Trunk


class ClassAndPatches(nn.Module):
    """A ViT's class token behind its tail, and the mean of its patch tokens before it: `Tokens` → (B, 2D) features.

    Each half is of unit length. The class token says what an image shows; the patches keep what tells fine-grained
    classes apart. Their mean is taken of what enters the last block, which the trunk computes anyway.
    """

    def __init__(self, tail: Tail, first_patch: int):
        super().__init__()
        self.tail, self.first_patch, self.dim = tail, first_patch, 2 * tail.dim

    def forward(self, tokens: Tokens) -> Tensor:
        patches = tokens.normalised.float()[:, self.first_patch :].mean(1)
        return torch.cat([normalize(self.tail(tokens), dim=-1), normalize(patches, dim=-1)], -1)


FeatureTail = Tail | Vectors | ClassAndPatches  # makes features of what a frozen network says


def vectors_of(tail: FeatureTail) -> Vectors:
    """What stands for the tail in a method that is given its features."""
    return Vectors(tail.dim, tail.tail.dim if isinstance(tail, ClassAndPatches) else None)


def feature_tail(trunk: Frozen, tail: Tail | Vectors, patches: bool) -> FeatureTail:
    """The tail that features are made with; with `patches`, of a ViT with a class token, they have its patches, too."""
    if patches and isinstance(trunk, Trunk) and isinstance(tail, Tail):
        return ClassAndPatches(tail, trunk.num_prefix_tokens)
    return tail
