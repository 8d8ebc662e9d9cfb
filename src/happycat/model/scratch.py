"""Training a backbone from scratch on labelled pictures, for want of a pretrained one."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from happycat.backbone.extraction import FeatureExtractor
from happycat.base.errors import InputError
from happycat.base.progress import Advance
from happycat.images.pictures import Pictures
from happycat.learning.batches import FreshViews, Labelled
from happycat.learning.training import Training
from happycat.methods.calm.method import Calm, CalmConfig

# A small ViT from scratch wants Adam, small batches, a higher rate.
FROM_SCRATCH: dict[str, Any] = {
    "base_optimizer": "adamw",
    "base_rate": 1e-3,
    "base_epochs": 70,
    "weight_decay": 0.05,
    "batch_size": 64,
    "projector_hidden": 256,
    "projector_out": 64,
}


def train_from_scratch(
    extractor: FeatureExtractor, pictures: Pictures, labels: Tensor, training: Training, advance: Advance
) -> Calm:
    """Train the extractor's backbone on labelled pictures, then freeze it; returns what Calm learned."""
    if len(pictures) < 4:
        raise InputError(f"a backbone cannot be trained on {len(pictures)} pictures; give more")
    values = {**FROM_SCRATCH, "batch_size": min(FROM_SCRATCH["batch_size"], len(pictures) // 2)}
    trunk, tail, device = extractor.trunk, extractor.tail, extractor.device
    trunk.thaw()
    tail.block.requires_grad_(True)
    labelled = Labelled(FreshViews(trunk, pictures, extractor.plan, extractor.workers), labels.to(device))
    calm = Calm(tail, CalmConfig(**values)).to(device)
    for _ in calm.fit(labelled, training):
        advance(1)
    trunk.freeze()
    tail.requires_grad_(False)
    return calm
