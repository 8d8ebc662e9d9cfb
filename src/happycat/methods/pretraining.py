"""Pretraining a backbone on the labelled images, before a method that tunes nothing.

`train_from_scratch` trains a whole ViT that has no weights yet, `tune_tail` the last block of one that has. Both use
Stage-0's loss of the parametric methods (`ParametricConfig` holds its values), and both leave the backbone frozen.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from happycat.backbone.tail import Tail
from happycat.base.errors import InputError
from happycat.learning.batches import FreshViews, Labelled, Unseen, draw_held_out
from happycat.learning.training import Epoch, Training
from happycat.methods.method import Method
from happycat.methods.parametric import Parametric, ParametricConfig

# A small ViT from scratch wants Adam, small batches, a higher rate.
SMALL_VIT: dict[str, Any] = {
    "base_optimizer": "adamw",
    "base_rate": 1e-3,
    "base_epochs": 70,
    "weight_decay": 0.05,
    "batch_size": 64,
    "projector_hidden": 256,
    "projector_out": 64,
    "projector_deviation": 0.06,  # the output has a length near 1, as that of a ViT-B with 0.02
}
HELD_OUT = 1 / 3  # of the classes that a copy of the backbone is trained without


def small_vit_config() -> ParametricConfig:
    """The usual values for a small ViT from scratch."""
    return ParametricConfig(**SMALL_VIT)


def train_from_scratch(
    tail: Tail, views: FreshViews, labels: Tensor, method: Method, config: ParametricConfig, training: Training
) -> Iterator[Epoch]:
    """Train the tail, and the trunk that serves labelled images as fresh views, yielding once per epoch.

    A backbone sees the classes that it was trained on better than it will ever see new ones. So a method that
    calibrates on held-out classes is first shown how a copy of the backbone sees classes that it was not trained on.
    """
    if len(views) < 4:
        raise InputError(f"a backbone cannot be trained on {len(views)} pictures; give more")
    config = replace(config, batch_size=min(config.batch_size, len(views) // 2))
    views.trunk.thaw()
    if method.calibrates and int(labels.max()) >= 2:  # with two classes, one would be left to train on
        unseen = yield from _without_some(tail, views, labels, method.config.random_views, config, training)
        method.calibrate(unseen, training.generator)
    yield from tune_tail(tail, Labelled(views, labels), config, training)
    views.trunk.freeze()


def tune_tail(tail: Tail, labelled: Labelled, config: ParametricConfig, training: Training) -> Iterator[Epoch]:
    """Train the tail, and a trunk that is thawed, on labelled images, yielding once per epoch; the tail ends frozen."""
    config = replace(config, batch_size=min(config.batch_size, len(labelled)))
    tail.block.requires_grad_(True)
    yield from Parametric(tail, config).to(labelled.labels.device).fit(labelled, training)
    tail.requires_grad_(False)


def _without_some(
    tail: Tail, views: FreshViews, labels: Tensor, random_views: int, config: ParametricConfig, training: Training
) -> Generator[Epoch, None, Unseen]:
    """Train a copy of the backbone without some of the classes, and embed all of the images with it."""
    num_classes = int(labels.max()) + 1
    held_out = draw_held_out(num_classes, HELD_OUT, training.generator)
    kept = torch.tensor([c for c in range(num_classes) if c not in held_out.tolist()]).to(labels)
    among = torch.isin(labels, kept).nonzero()[:, 0]
    views, tail = views.apart(), copy.deepcopy(tail)
    some = Labelled(views.only(among), torch.searchsorted(kept, labels[among]))
    yield from tune_tail(tail, some, config, training)
    return Unseen(views.every(tail, random_views), labels, held_out)
