"""Separation of a class: how clearly its images are one group, apart from other classes; needs no labels.

A cosine to the class's own direction is biased upwards, because that direction was fitted to these very images.
So an image is compared with the *other* images of its class, and the class with what it would be as two. The
separation is the product of two shares:

1. of the images that are more like the other images of their class than like any other class, by mean cosine;
2. of the largest part, if the class is divided in two as long as that explains its images better by more than the
   complexity penalty, which was learned on held-out labelled classes.

It falls when a class is mixed, but is no estimate of the purity: `benchmarks/quality.py` shows both on real features.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.learning.clustering import kmeans
from happycat.methods.calm.number import Penalty, Step

LEVELS = 4  # times that a class is divided, at most
MOST = 2000  # images of a class that are looked at
ROUNDS = 20  # of EM


def separation(images: Tensor, others: Tensor, temperature: float, penalty: Penalty) -> float | None:
    """The separation of a class, 0–1; None with fewer than two images, of which nothing can be said.

    `images` (n, d) are unit vectors, `others` (C, d) the mean images of the other classes, not of unit length: the
    product of an image with a mean is its mean cosine to the images of that class.
    """
    if len(images) < 2:
        return None
    if len(images) > MOST:
        images = images[torch.linspace(0, len(images) - 1, MOST).round().long()]
    part = largest_part(images, temperature, penalty)
    return nearer_share(images, others) * len(part) / len(images)


def nearer_share(images: Tensor, others: Tensor) -> float:
    """The share of the images that are more like the other ones of their class than like any other class."""
    if len(others) == 0:
        return 1.0
    own = (images @ images.sum(0) - 1) / (len(images) - 1)  # without the image itself
    return float((own > (images @ others.T).amax(1)).double().mean())


def largest_part(images: Tensor, temperature: float, penalty: Penalty, levels: int = LEVELS) -> Tensor:
    """The largest group of a class's images that is not better explained as two groups, (m, d)."""
    if len(images) < 4 or levels == 0 or torch.allclose(images, images[:1]):
        return images
    gain, second = two_parts(images, temperature)
    if gain < penalty.of(Step(gain, len(images) / 2, ())) or second.all() or not second.any():
        return images
    parts = [largest_part(images[chosen], temperature, penalty, levels - 1) for chosen in (~second, second)]
    return max(parts, key=len)


def two_parts(images: Tensor, temperature: float) -> tuple[float, Tensor]:
    """What two components gain over one in log-likelihood, and which images are of the second (n,).

    The log-density of an image x is log Σ_k π_k exp(x·c_k/τ), as in Calm's mixture.
    """
    one = images @ normalize(images.sum(0), dim=0) / temperature
    centres, shares = kmeans(images, 2, seed=0, restarts=3), torch.full((2,), 0.5)
    for _ in range(ROUNDS):
        share = (images @ centres.T / temperature + shares.log()).softmax(1)
        shares = (share.sum(0) + 1) / (len(images) + 2)  # the prior of one image, so that none becomes 0
        centres = normalize(share.T @ images, dim=-1)
    logits = images @ centres.T / temperature + shares.log()
    return float((logits.logsumexp(1) - one).sum()), logits.argmax(1) == 1
