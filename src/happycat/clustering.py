"""k-means, and what is made of its centres."""

from __future__ import annotations

import torch
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import normalize

from happycat.errors import InputError


def kmeans(features: Tensor, num_clusters: int, seed: int, restarts: int = 10) -> Tensor:
    """Unit centres (num_clusters, D) of k-means on features (N, D)."""
    if len(features) < num_clusters:
        raise InputError(f"{len(features)} images cannot form {num_clusters} classes; give more images")
    # One thread: with more, scikit-learn adds up the clusters in an order that varies from run to run.
    with threadpool_limits(limits=1):
        model = KMeans(num_clusters, n_init=restarts, random_state=seed).fit(features.cpu().numpy())
    return normalize(torch.from_numpy(model.cluster_centers_).to(features), dim=-1)


def least_similar(centres: Tensor, old_rows: Tensor, number: int) -> Tensor:
    """The `number` unit centres that resemble the old rows least (Eq. cluster-guided-init), (number, D).

    topk over centres of −max_i cos(c, φ_i^old).
    """
    nearest = (centres @ normalize(old_rows, dim=-1).T).amax(1)
    return centres[(-nearest).topk(number).indices]
