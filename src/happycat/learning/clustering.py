"""Clustering: k-means with and without anchors, novelty detection, pairwise similarity, silhouette scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import normalize

from happycat.base.errors import InputError
from happycat.base.progress import Advance, nobody
from happycat.base.tables import ROWS, copied

PAIRED = 1000  # images whose pairs are looked at


def kmeans(features: Tensor, num_clusters: int, seed: int, restarts: int = 10) -> Tensor:
    """Unit centres (num_clusters, D) of k-means on features (N, D); of the restarts the tightest is taken.

    The authors' program leaves the restarts to scikit-learn, whose default was 10 before its version 1.4 and is 1
    since. Here it is 10 with every version: the better clustering of the two.
    """
    if len(features) < num_clusters:
        raise InputError(f"{len(features)} images cannot form {num_clusters} classes; give more images")
    centres = _fitted(features, num_clusters, seed, restarts).cluster_centers_
    return normalize(torch.from_numpy(centres).to(features), dim=-1)


def _fitted(features: Tensor, num_clusters: int, seed: int, restarts: int) -> KMeans:
    """scikit-learn's k-means on features (N, D), which it centres in place: it is given a copy, a table of its own."""
    points = copied(features.detach().cpu()).numpy()
    # One thread: with more, scikit-learn adds up the clusters in an order that varies from run to run.
    with threadpool_limits(limits=1):
        return KMeans(num_clusters, n_init=restarts, random_state=seed, copy_x=False).fit(points)


def nearest_centres(features: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The largest product of each of the features (N, D) with one of the centres (K, D), (N,), and with which, (N,)."""
    found = [(some @ centres.T).max(1) for some in features.split(ROWS)]
    return torch.cat([value for value, _ in found]), torch.cat([centre for _, centre in found])


def least_similar(centres: Tensor, old_rows: Tensor, number: int) -> Tensor:
    """The `number` unit centres that resemble the old rows least (Eq. cluster-guided-init), (number, D).

    topk over centres of −max_i cos(c, φ_i^old).
    """
    nearest = (centres @ normalize(old_rows, dim=-1).T).amax(1)
    return centres[(-nearest).topk(number).indices]


def aligned_centres(centres: Tensor, old: Tensor) -> Tensor:
    """The centres (K, D) in the order of the old ones (K_old, D) that they are matched with, then the others.

    The matching is one-to-one and makes the sum of cosines largest.
    """
    rows, columns = linear_sum_assignment((old @ centres.T).cpu().numpy(), maximize=True)
    matched = torch.from_numpy(columns[rows.argsort()]).to(centres.device)
    others = torch.ones(len(centres), dtype=torch.bool, device=centres.device)
    others[matched] = False
    return torch.cat([centres[matched], centres[others]])


def anchored_kmeans(
    features: Tensor, anchors: Tensor, num_new: int, weight: float, seed: int, restarts: int, rounds: int = 100
) -> Tensor:
    """Unit centres (K_old + num_new, D) of k-means on unit features (N, D) that knows of K_old classes.

    An old class starts at its anchor, which counts for `weight` images in its mean; the new ones start from
    k-means++ that takes the anchors for chosen already. The restart whose images are nearest to their centres
    is taken.
    """
    if len(features) < num_new:
        raise InputError(f"{len(features)} images cannot form {num_new} new classes; give more images")
    generator = torch.Generator().manual_seed(seed)
    best, least = None, torch.inf
    for _ in range(restarts):
        centres = _plus_plus(features, anchors, num_new, generator)
        pull = torch.zeros_like(centres)
        pull[: len(anchors)] = weight * anchors
        nearest = None
        for _ in range(rounds):
            cosines, now = nearest_centres(features, centres)
            if nearest is not None and torch.equal(now, nearest):
                break
            nearest = now
            sums = pull.index_add(0, nearest, features)
            empty = sums.norm(dim=1) == 0  # a new class that lost its last image stays where it is
            centres = torch.where(empty[:, None], centres, normalize(sums, dim=-1))
        if (inertia := float((1 - cosines).sum())) < least:
            best, least = centres, inertia
    if best is None:
        raise InputError(f"k-means of {len(features)} images found no centres; give features that are finite numbers")
    return best


def _plus_plus(features: Tensor, anchors: Tensor, num_new: int, generator: torch.Generator) -> Tensor:
    """The anchors and `num_new` of the features, each drawn by its squared distance to the nearest before it."""
    centres = anchors
    for _ in range(num_new):
        far = (2 - 2 * nearest_centres(features, centres)[0]).clamp_min(1e-12).cpu()
        chosen = torch.multinomial(far, 1, generator=generator)
        centres = torch.cat([centres, features[chosen.to(features.device)]])
    return centres


def novel_images(similarity: Tensor) -> Tensor:
    """Which images resemble no known class, (N,) bool, from their similarity to the nearest one, (N,).

    A mixture of two normal distributions is fitted; novel is what more probably belongs to the lower one, and
    lies below the mean of the higher one.
    """
    values = similarity.detach().double().cpu().numpy()[:, None]
    with threadpool_limits(limits=1):
        mixture = GaussianMixture(2, random_state=0).fit(values)
        low = mixture.means_[:, 0].argmin()
        novel = (mixture.predict_proba(values)[:, low] > 0.5) & (values[:, 0] < mixture.means_[1 - low, 0])
    return torch.from_numpy(novel).to(similarity.device)


def same_top_dimensions(features: Tensor, number: int) -> Tensor:
    """Which pairs of features (B, D) have the same `number` largest dimensions, in whatever order: (B, B) bool."""
    top = features.topk(number, dim=1).indices.sort(1).values
    return (top[:, None] == top).all(2)


def mutual_neighbours(features: Tensor, number: int) -> Tensor:
    """Which pairs of features (B, D) are among each other's `number` most similar ones: (B, B) bool.

    Each is its own neighbour, besides.
    """
    unit = normalize(features, dim=-1)
    cosines = unit @ unit.T
    nearest = cosines.fill_diagonal_(-torch.inf).topk(min(number, len(unit) - 1), dim=1).indices
    near = torch.zeros_like(cosines, dtype=torch.bool).scatter_(1, nearest, True)
    return (near & near.T) | torch.eye(len(unit), dtype=torch.bool, device=unit.device)


def pairing(features: Tensor, number: int, least: float = 0.01, most: float = 0.2) -> Callable[[Tensor], Tensor]:
    """The test for pairs of one class in a batch of features: the same `number` largest dimensions (rank statistics).

    Where fewer than `least` or more than `most` of the pairs of these features (N, D) agree in them, they
    say nothing, and mutual nearest neighbours are taken instead (of a third of the batch at most). The first `PAIRED`
    of the features are looked at.
    """
    some = features[:PAIRED]
    pairs = len(some) * (len(some) - 1)
    agreeing = int(same_top_dimensions(some, number).sum()) - len(some)  # none is its own pair
    rank = pairs > 0 and least <= agreeing / pairs <= most
    if rank:
        return lambda batch: same_top_dimensions(batch, number)
    return lambda batch: mutual_neighbours(batch, min(number, len(batch) // 3))


def silhouettes(
    features: Tensor, numbers: Sequence[int], seed: int = 0, restarts: int = 3, advance: Advance = nobody
) -> list[float]:
    """The mean silhouette (Rousseeuw, 1987) of k-means on features (N, D), for each number of clusters."""
    if max(numbers, default=0) >= len(features):
        raise InputError(f"{len(features)} images are too few to estimate how many classes they form; give more")
    points = features.detach().cpu().numpy()
    scores = []
    advance(0, total=len(numbers))
    for number in numbers:
        labels = _fitted(features, number, seed, restarts).labels_
        with threadpool_limits(limits=1):
            scores.append(float(silhouette_score(points, labels)))
        advance(1)
    return scores
