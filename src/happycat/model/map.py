"""The map of a discovery: a place in the plane for each image, neighbours beside each other (t-SNE)."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits
from torch import Tensor

PLACED = 2000  # images whose places on the map are computed; others lie among their neighbours


def map_places(points: Tensor) -> np.ndarray:
    """A place (N, 2) for each image, so that neighbours are alike (t-SNE)."""
    number = len(points)
    if number < 5:
        return np.stack([np.arange(number), np.zeros(number)], 1).astype(float)
    placed = torch.linspace(0, number - 1, min(number, PLACED)).round().long().unique()
    some = points[placed].numpy()
    with threadpool_limits(limits=1):
        found = TSNE(
            init="pca", metric="cosine", perplexity=min(30.0, (len(some) - 1) / 3), random_state=0, n_jobs=1
        ).fit_transform(some)
    near = (points @ points[placed].T).topk(min(3, len(placed)), dim=1).indices.numpy()
    places = found[near].mean(1)
    places[placed.numpy()] = found
    return places
