"""The prototype of a class that is made of given images: its direction, rejection threshold and split tree."""

from __future__ import annotations

import numpy as np

from happycat.base.errors import InputError
from happycat.model.chosen import Chosen
from happycat.model.pool import SplitTree, usual_cosine
from happycat.model.registry import ClassRegistry

PRIOR_IMAGES = 5  # as tight as usual, in the rejection threshold of a class of few images


def usual(registry: ClassRegistry, slack: float) -> float:
    """The cosine of an image with its class that is usual in all classes."""
    return float(registry.pool.thresholds[registry.active().rows].mean()) + slack


def _threshold(registry: ClassRegistry, chosen: Chosen) -> float:
    """The rejection threshold of a class of these images.

    Few images hardly show what is usual there, so some of other classes count, too; but a class that was not there when
    the space was learned is wider in it than those, and then its own images say how wide.
    """
    own = usual_cosine(float(np.linalg.norm(chosen.points.sum(0))), len(chosen))
    elsewhere = usual(registry, chosen.slack)
    if own is None:
        return elsewhere - chosen.slack
    number = len(chosen)
    return min(own, (number * own + PRIOR_IMAGES * elsewhere) / (number + PRIOR_IMAGES)) - chosen.slack


def leaf_of(registry: ClassRegistry, chosen: Chosen) -> SplitTree:
    """A class of these images, as one prototype."""
    total = chosen.points.astype(np.float64).sum(0)
    length = float(np.linalg.norm(total))
    if length < 1e-6:
        raise InputError(f"the {len(chosen)} images have nothing in common, so they cannot be one class")
    return SplitTree.leaf(total / length, len(chosen), _threshold(registry, chosen), length)


def tree_of(registry: ClassRegistry, chosen: Chosen) -> SplitTree:
    """A class of these images, and how it would be split."""
    import torch

    from happycat.model.splitting import tree_of_images

    return tree_of_images(torch.from_numpy(chosen.points), leaf_of(registry, chosen))
