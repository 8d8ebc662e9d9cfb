"""Candidate classes: groups of images that may be a class, and the images that each would explain.

Ward's method (agglomerative clustering) merges the two most similar groups again and again; every group on the way may
be a class. Of very many images a tree would be too large, and those that the old classes explain are in the way: there
the candidates are the nearest neighbours of k-means centres among the others, at several sizes, found again for the
mean of the neighbours they had (mean shift).

An image's cosine with a group that it is in is that with the *other* images there (leave-one-out): a group of a few
odd images looks tight only because each of them has drawn the mean to itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform
from torch import Tensor
from torch.nn.functional import normalize

from happycat.base import tables
from happycat.methods.calm.duplicates import first_of_copies
from happycat.methods.calm.prediction import chunks

MOST_MERGED = 4000  # images of a tree; memory and time grow with its square
ROUNDS, PER_CENTRE = 4, 10  # of k-means, whose centres only are where neighbourhoods start; images of each at most
SIZES = (20, 60, 180)  # of neighbourhoods
SHIFTS = 2  # of a neighbourhood to that of its mean, at each size
BLOCK = 2**12  # points that are compared with all directions at once
SAME = 0.98  # cosine of the directions of two neighbourhoods of which one is enough


class Groups(NamedTuple):
    """Which images (N) are in which groups (M), and the sums of their points, (M, d)."""

    members: csr_array  # (M, N)
    sums: Tensor

    @classmethod
    def of(cls, members: csr_array, points: Tensor) -> Groups:
        of_images, sums, first = csr_array(members.T), np.zeros((members.shape[0], points.shape[1])), 0
        for some in points.split(tables.ROWS):
            sums += of_images[first : first + len(some)].T @ some.double().cpu().numpy()
            first += len(some)
        return cls(members, torch.from_numpy(sums).to(points))

    @property
    def directions(self) -> Tensor:
        """The groups' mean directions (M, d)."""
        return normalize(self.sums, dim=-1)


class Explained(NamedTuple):
    """The images whose cosine with a group is larger than that with what they have: a row for each pair.

    The rows are in the order of the groups; those of group g are from `start[g]` to `start[g + 1]`.
    """

    start: np.ndarray
    image: np.ndarray
    cosine: np.ndarray


def find_groups(points: Tensor, familiar: Tensor) -> Groups:
    """Candidates among unit points (N, d); of very many, only among those that are not familiar, (N,) bool."""
    places = torch.arange(len(points), device=points.device)
    if len(points) > MOST_MERGED and not familiar.all():
        places = places[~familiar]
    some = points if len(places) == len(points) else tables.taken(points, places)
    members = _tree(some) if len(some) <= MOST_MERGED else _neighbourhoods(some, MOST_MERGED)
    image = places.cpu().numpy()[members.indices]
    return Groups.of(csr_array((members.data, image, members.indptr), (members.shape[0], len(points))), points)


def explained(groups: Groups, points: Tensor, have: Tensor) -> Explained:
    """What each group explains of the unit points (N, d) that have a cosine (N,) already.

    Some images with all groups at a time: of very many images, a few groups with all would be a slow, thin product.
    """
    squares, groups_of = groups.sums.square().sum(1), csr_array(groups.members.T)
    group, cosine, numbers, first = [], [], [np.zeros(1, np.int64)], 0
    for some in chunks(points, len(squares)):
        part = slice(first, first + len(some))
        products, own = some @ groups.sums.T, groups_of[part].tocoo()
        image, member = (torch.from_numpy(places).long().to(points.device) for places in (own.row, own.col))
        within = leave_one_out(products[image, member], squares[member])
        values = products.div_(squares.clamp_min(1e-12).sqrt())
        values[image, member] = within
        more = values > have[part, None]
        group.append(more.nonzero()[:, 1].int().cpu().numpy())
        cosine.append(values[more].cpu().numpy())
        numbers.append(more.sum(1).cpu().numpy())
        first += len(some)
    joined = (np.concatenate(cosine), np.concatenate(group), np.concatenate(numbers).cumsum())
    by_group = csr_array(joined, (len(points), len(squares))).tocsc()
    return Explained(by_group.indptr, by_group.indices, by_group.data)


def leave_one_out(products: Tensor, squares: Tensor) -> Tensor:
    """The cosine x·(s − x) / |s − x| of an image x with its own group, from x·s and s·s of the group's sum s."""
    return (products - 1) / (squares - 2 * products + 1).clamp_min(1e-6).sqrt()


def _tree(points: Tensor) -> csr_array:
    """The groups of several points (M, N) that Ward's method passes through."""
    number = len(points)
    if number < 2:
        return csr_array((0, number), dtype=np.float64)
    exact = points.double()
    squares = (2 - 2 * exact @ exact.T).clamp_min(0).fill_diagonal_(0)
    merged = linkage(squareform(squares.sqrt().cpu().numpy(), checks=False), "ward")
    order = leaves_list(merged)  # a group's points lie side by side in it
    start, end = np.empty(2 * number - 1, int), np.empty(2 * number - 1, int)
    start[order], end[order] = np.arange(number), np.arange(number) + 1
    for group, (i, j) in enumerate(merged[:, :2].astype(int).tolist(), number):
        start[group], end[group] = min(start[i], start[j]), max(end[i], end[j])
    image = np.concatenate([order[i:j] for i, j in zip(start[number:], end[number:], strict=True)])
    first = np.concatenate([[0], (end - start)[number:].cumsum()])
    return csr_array((np.ones(len(image)), image, first), (number - 1, number))


def _neighbourhoods(points: Tensor, number: int) -> csr_array:
    """The nearest points (M, N) of centres that k-means finds, moved on to the mean of their neighbours."""
    directions, found = _centres(points, number), []
    for size in SIZES:
        for _ in range(SHIFTS):
            near = _neighbours(directions, points, size)
            directions = torch.cat([normalize(points[some].sum(1), dim=-1) for some in chunks(near, 180 * 256)])
        different = first_of_copies(directions, torch.zeros(len(directions), dtype=torch.long).to(near), SAME)
        directions = directions[different]
        found.append(near[different].cpu().numpy())
    sizes = np.concatenate([np.full(len(groups), groups.shape[1]) for groups in found])
    image = np.concatenate([groups.ravel() for groups in found])
    return csr_array((np.ones(len(image)), image, np.concatenate([[0], sizes.cumsum()])), (len(sizes), len(points)))


def _neighbours(directions: Tensor, points: Tensor, number: int) -> Tensor:
    """The `number` points (N, d) with the largest cosines with each direction (M, d), as their places (M, number).

    All directions with some points at a time: a few directions with all of very many points would be a thin product.
    """
    values, places, first = directions.new_empty(len(directions), 0), directions.new_empty(len(directions), 0).long(), 0
    for some in points.split(BLOCK):
        had = values.shape[1]
        values, which = torch.cat([values, directions @ some.T], 1).topk(min(number, had + len(some)), 1)
        before = places.gather(1, which.clamp_max(had - 1)) if had else which
        places, first = torch.where(which < had, before, which + (first - had)), first + len(some)
    return places


def _centres(points: Tensor, number: int) -> Tensor:
    """The centres (number, d) of k-means on the sphere."""
    import faiss  # only where there are many points: it brings an OpenMP runtime of its own

    data = points.float().cpu().numpy()
    model = faiss.Kmeans(
        data.shape[1], number, niter=ROUNDS, spherical=True, seed=0, min_points_per_centroid=1,
        max_points_per_centroid=PER_CENTRE,
    )  # fmt: skip
    model.train(data)
    return torch.from_numpy(model.centroids).to(points)
