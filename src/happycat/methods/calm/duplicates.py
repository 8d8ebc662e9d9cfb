"""Near-duplicates, as of one photograph saved twice: copies of an image are no class, so each image counts once."""

from __future__ import annotations

import torch
from torch import Tensor

from happycat.methods.calm.prediction import chunks

NEARER = 5  # times as near as the nearest images of a class
USUAL = 0.99  # of the images, whose nearest one of the same class is not nearer than that
MOST = 5000  # labelled images that are looked at
NEVER = 2.0  # a cosine that no two images have


def duplicate_cosine(points: Tensor, labels: Tensor) -> float:
    """The cosine above which two images are taken for copies, from unit points (N, d) of labelled images.

    The distance 1 − cos of copies is a fifth, at most, of what the nearest images of a class hardly ever fall below.
    Where labelled images are copies of each other, that says nothing, and no image is taken for a copy.
    """
    nearest = []
    for members in points[labels.argsort(stable=True)].split(labels.bincount().tolist()):
        some = members[:: max(1, len(points) // MOST)]
        if len(some) > 1:
            nearest.append((some @ some.T).fill_diagonal_(-1).amax(1))
    if not nearest:
        return NEVER
    usual = float(torch.cat(nearest).quantile(USUAL))
    return 1 - (1 - usual) / NEARER if usual < 1 - 1e-4 else NEVER


def first_of_copies(points: Tensor, nearest: Tensor, least: float) -> Tensor:
    """Which of the unit points (N, d) are no copy of an earlier one, (N,) bool.

    Copies have the same nearest class (N,): only such points are compared with each other.
    """
    kept = torch.ones(len(points), dtype=torch.bool, device=points.device)
    order = nearest.argsort(stable=True)
    for places in order.split(nearest.bincount().tolist()):
        start = 0
        for some in chunks(points[places], len(places)):
            later = torch.arange(start, start + len(some), device=points.device)[:, None]
            alike = some @ points[places].T > least
            copy = (alike & (torch.arange(len(places), device=points.device) < later)).any(1)
            kept[places[start : start + len(some)]] = ~copy
            start += len(some)
    return kept
