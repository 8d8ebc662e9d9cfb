"""Separation of a class: how clearly its images are one group, apart from other classes; needs no labels.

A cosine to the class's own direction is biased upwards, because that direction was fitted to these very images.
So an image is compared with the *other* images of its class, and the class with what it would be as two. The
separation is the product of two shares:

1. of the images that are more like the other images of their class than like any other class, by mean cosine;
2. of the largest part, if the class is divided in two as long as both parts are worth the complexity penalty of a
   component, which was learned on held-out labelled classes.

It falls when a class is mixed, but is no estimate of the purity: `benchmarks/quality.py` shows both on real features.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.learning.clustering import kmeans
from happycat.methods.calm.candidates import leave_one_out
from happycat.methods.calm.number import Penalty

LEVELS = 4  # times that a class is divided, at most
MOST = 2000  # images of a class that are looked at


def separation(images: Tensor, others: Tensor, penalty: Penalty) -> float | None:
    """The separation of a class, 0–1; None with fewer than two images, of which nothing can be said.

    `images` (n, d) are unit vectors, `others` (C, d) the mean images of the other classes, not of unit length: the
    product of an image with a mean is its mean cosine to the images of that class.
    """
    if len(images) < 2:
        return None
    if len(images) > MOST:
        images = images[torch.linspace(0, len(images) - 1, MOST).round().long()]
    part = largest_part(images, penalty)
    return nearer_share(images, others) * len(part) / len(images)


def nearer_share(images: Tensor, others: Tensor) -> float:
    """The share of the images that are more like the other ones of their class than like any other class."""
    if len(others) == 0:
        return 1.0
    own = (images @ images.sum(0) - 1) / (len(images) - 1)  # without the image itself
    return float((own > (images @ others.T).amax(1)).double().mean())


def largest_part(images: Tensor, penalty: Penalty, levels: int = LEVELS) -> Tensor:
    """The largest group of a class's images that is not better explained as two groups, (m, d)."""
    if len(images) < 4 or levels == 0 or torch.allclose(images, images[:1]):
        return images
    losses, second = two_parts(images)
    if not second.any() or second.all():
        return images
    halves = images[~second], images[second]
    if any(loss < penalty.of(len(half)) for loss, half in zip(losses, halves, strict=True)):
        return images
    return max((largest_part(half, penalty, levels - 1) for half in halves), key=len)


def two_parts(images: Tensor) -> tuple[list[float], Tensor]:
    """What each of two parts would lose without its own direction, and which images are of the second (n,).

    As in Calm's count of classes: the sum over a part's images of the cosine with its other images less that with the
    other part.
    """
    second = (images @ kmeans(images, 2, seed=0, restarts=3).T).argmax(1) == 1
    losses = []
    for part in (~second, second):
        own, total = images[part], images[part].sum(0)
        apart = own @ normalize(images[~part].sum(0), dim=0)
        losses.append(float((leave_one_out(own @ total, total @ total) - apart).sum()))
    return losses, second
