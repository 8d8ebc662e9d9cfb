"""Candidate classes: the groups of images that agglomerative clustering passes through, from pairs to the whole.

Ward's method merges the two most similar groups again and again; every group on the way may be a class. An image's
cosine with a group that it is in is that with the *other* images there (leave-one-out): a group of a few odd images
looks tight only because each of them has drawn the mean to itself.

Of very many images, k-means makes small groups first; they are merged as images are. A small group's mean image stands
for its images: the sum of their cosines with a group that they are not in is the same, with their own it is nearly so.
"""

from __future__ import annotations

import torch
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import pdist
from torch import Tensor
from torch.nn.functional import normalize

MOST_POINTS = 2000  # that are merged; memory and time grow with its square
ROUNDS = 10  # of k-means
FEW_POINTS = 200  # of which each is a candidate by itself


class Points:
    """Unit points (N, d), or fewer mean points of small groups of them: `means` (n, d) and `sizes` (n,)."""

    def __init__(self, points: Tensor, most: int = MOST_POINTS):
        self.means, self.sizes = points, torch.ones(len(points)).to(points)
        if len(points) > most:
            nearest = _small_groups(points, most)
            sizes = nearest.bincount(minlength=most).to(points)
            sums = torch.zeros(most, points.shape[1]).to(points).index_add(0, nearest, points)
            self.means, self.sizes = (sums / sizes[:, None])[sizes > 0], sizes[sizes > 0]

    def __len__(self) -> int:
        return len(self.means)


class Candidates:
    """The groups of points that Ward's method passes through: `members` (n, M), `sums` (M, d) and `sizes` (M,).

    Groups of a single image are among them only where there are few: more classes than groups may be asked for.
    """

    def __init__(self, points: Points):
        number, sums = len(points), points.means * points.sizes[:, None]
        start, end = torch.arange(number), torch.arange(number) + 1
        if number > 1:
            merged = linkage(pdist(points.means.double().cpu().numpy()), "ward")
            order = torch.from_numpy(leaves_list(merged).copy()).long()
            start[order], end[order] = torch.arange(number), torch.arange(number) + 1
            first, last = start.tolist(), end.tolist()
            for i, j in merged[:, :2].astype(int).tolist():  # a group's points lie side by side in the tree's order
                first.append(min(first[i], first[j]))
                last.append(max(last[i], last[j]))
            start, end = torch.tensor(first), torch.tensor(last)
        sizes = torch.cat([points.sizes.cpu(), torch.full((len(start) - number,), 2.0)])  # or more
        chosen = torch.ones_like(sizes, dtype=torch.bool) if number <= FEW_POINTS else sizes > 1
        where, start, end = start[:number, None], start[chosen], end[chosen]
        self.members = ((where >= start) & (where < end)).to(sums.device)  # (n, M)
        self.sums = self.members.T.to(sums) @ sums
        self.sizes = self.members.T.to(sums) @ points.sizes
        self.directions = normalize(self.sums, dim=-1)

    def cosines(self, points: Points) -> Tensor:
        """The mean cosine (n, M) of each point's images with each group, without the image itself where it is in it."""
        products, squares = points.means @ self.sums.T, self.sums.square().sum(1)
        others = leave_one_out(products, squares)
        inside = torch.where(self.sizes > 1, others, -torch.ones_like(others))
        return torch.where(self.members, inside, products / squares.clamp_min(1e-12).sqrt())


def leave_one_out(products: Tensor, squares: Tensor) -> Tensor:
    """The cosine x·(s − x) / |s − x| of an image x with its own group, from x·s and s·s of the group's sum s."""
    return (products - 1) / (squares - 2 * products + 1).clamp_min(1e-6).sqrt()


def _small_groups(points: Tensor, number: int) -> Tensor:
    """The place (N,) of each point's group, by k-means on the sphere."""
    import faiss  # only where there are many points: it brings an OpenMP runtime of its own

    data = points.float().cpu().numpy()
    model = faiss.Kmeans(
        data.shape[1], number, niter=ROUNDS, spherical=True, seed=0, min_points_per_centroid=1,
        max_points_per_centroid=64,
    )  # fmt: skip
    model.train(data)
    _, nearest = model.index.search(data, 1)
    return torch.from_numpy(nearest[:, 0]).to(points.device)
