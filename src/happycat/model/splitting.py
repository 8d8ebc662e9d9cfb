"""Hierarchical (bisecting) k-means of each class: how it would be split, found while its images are there.

Images are not kept, so the halves of a class, their halves and so on are prepared at fit and at discovery. The number
of images of a half is what the rule of prediction gives it once its class is split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.methods.calm.calibration import deviation
from happycat.methods.calm.prediction import PredictionRule, chunks, joined
from happycat.model.registry import SplitTree

LEVELS = 3  # of splits below a class
FEWEST = 4  # images that are split
SMALLEST = 2  # images of a half: nothing is kept of a single image
ROUNDS = 20  # of k-means
BLOCK = 256  # classes whose halves' cosines are held at a time


def split_trees(
    rule: PredictionRule, points: Tensor, members: Sequence[Tensor], first: int, learned: Tensor | None = None
) -> list[SplitTree]:
    """The tree of each class whose one prototype is row `first` + i of the rule.

    `points` (N, d) are all images of the stage, `members[i]` the places of those of the class; `learned` (N, d) are the
    points that prototypes are made of, if they are others. The rejection threshold of a half is that of its own images,
    if that is lower than that of the class.
    """
    if not members:
        return []
    learned = points if learned is None else learned
    trees = []
    for row, places in enumerate(members, first):
        tree, prototype = _Tree(points, learned), rule.prototypes[row]
        tree.add(prototype, float(rule.thresholds[row]), len(places), float((learned[places] @ prototype).sum()))
        tree.grow(0, places, LEVELS)
        trees.append(tree)
    return _Competition(rule, points, first).counted(trees)


def tree_of_images(points: Tensor, leaf: SplitTree) -> SplitTree:
    """The tree of a class that a person made of images at `points` (n, d), and `leaf` is without a split.

    They are its images because she said so: a half has those that are nearer to it, whatever the rule gives them.
    """
    tree = _Tree(points, points)
    tree.add(torch.from_numpy(leaf.vectors[0]), float(leaf.thresholds[0]), len(points), float(points.sum(0).norm()))
    tree.grow(0, torch.arange(len(points)), LEVELS)
    return tree.packed(np.array(tree.sizes))


@dataclass
class _Tree:
    """Directions with their rejection thresholds; a node has two children or none (−1), the larger half first."""

    points: Tensor
    learned: Tensor
    vectors: list[Tensor] = field(default_factory=list)
    thresholds: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # images in the sum whose direction a vector is
    lengths: list[float] = field(default_factory=list)  # of that sum
    children: list[tuple[int, int]] = field(default_factory=list)

    def add(self, vector: Tensor, threshold: float, size: int, length: float) -> int:
        self.vectors.append(vector)
        self.thresholds.append(threshold)
        self.sizes.append(size)
        self.lengths.append(max(0.0, length))
        self.children.append((-1, -1))
        return len(self.vectors) - 1

    def grow(self, node: int, places: Tensor, levels: int) -> None:
        """Split a node, whose images are at `places`, and its halves in turn."""
        own = self.points[places]
        if not levels or len(own) < FEWEST or (own == own[0]).all():
            return
        vectors = two_means(own)
        half = (own @ vectors.T).argmax(1)
        sizes = half.bincount(minlength=2)
        if sizes.min() < SMALLEST:
            return
        halves = []
        for i in (0, 1) if sizes[0] >= sizes[1] else (1, 0):
            cosines = own[half == i] @ vectors[i]
            own_threshold = float(cosines.mean()) - 2 * deviation(cosines)
            some = places[half == i]
            length = float((self.learned[some] @ vectors[i]).sum())
            child = self.add(vectors[i], min(self.thresholds[0], own_threshold), len(some), length)
            halves.append((child, some))
        self.children[node] = halves[0][0], halves[1][0]
        for child, some in halves:
            self.grow(child, some, levels - 1)

    def packed(self, counts: np.ndarray) -> SplitTree:
        """The tree whose nodes are given so many images."""
        vectors, thresholds = torch.stack(self.vectors).numpy(), np.array(self.thresholds, np.float32)
        children, sizes, lengths = np.array(self.children, np.int64), np.array(self.sizes), np.array(self.lengths)
        return SplitTree(vectors, counts, thresholds, children, sizes, lengths)

    def splits(self, node: int = 0, beside: tuple[int, ...] = ()) -> Iterator[list[int]]:
        """The two children of each split, then what the rest of the class was split into before."""
        one, two = self.children[node]
        if one >= 0:
            yield [one, two, *beside]
            yield from self.splits(one, (two, *beside))
            yield from self.splits(two, (one, *beside))


def two_means(points: Tensor) -> Tensor:
    """Unit centres (2, d) of k-means on unit points (N, d) that are not all alike, from both sides of their mean."""
    centred = points - points.mean(0)
    axis = torch.linalg.svd(centred, full_matrices=False).Vh[0]
    right = centred @ axis > 0
    for _ in range(ROUNDS):
        centres = normalize(torch.stack([points[~right].sum(0), points[right].sum(0)]), dim=-1)
        now = points @ (centres[1] - centres[0]) > 0
        if torch.equal(now, right) or now.all() or not now.any():
            break
        right = now
    return centres


class _Competition:
    """For each image the two best classes and the two nearest prototypes: enough to leave any one of them out."""

    def __init__(self, rule: PredictionRule, points: Tensor, first: int):
        self.rule, self.points, self.first, self.temperature = rule, points, first, float(rule.temperature)
        pieces = (self._best(some) for some in chunks(points, len(rule.prototypes)))
        self.scores, self.classes, self.cosines, self.rows = joined(pieces, len(points))

    def _best(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        cosines = points @ self.rule.prototypes.T
        return *self.rule.summed(self._score(cosines)).topk(2, 1), *cosines.topk(2, 1)

    def _score(self, cosines: Tensor) -> Tensor:
        """What a softmax would divide by its sum; in double precision, where no cosine is too small to count."""
        return ((cosines.double() - 1) / self.temperature).exp()

    def counted(self, trees: Sequence[_Tree]) -> list[SplitTree]:
        """The trees with the images that the rule gives to each node, once it is split from its class."""
        given = self.rule.decide(self.points).assigned
        whole = given[given >= 0].bincount(minlength=self.rule.num_classes).tolist()
        done = []
        for start in range(0, len(trees), BLOCK):
            block = trees[start : start + BLOCK]
            for row, (tree, places) in enumerate(zip(block, self._within_reach(block, start), strict=True), start):
                own = int(self.rule.owner[self.first + row])
                done.append(self._counted(tree, self.first + row, own, places, whole[own]))
        return done

    def _within_reach(self, trees: Sequence[_Tree], start: int) -> list[Tensor]:
        """The places of the images, for each tree, that one of its nodes may win: no other class has a higher score."""
        most = max(len(tree.vectors) for tree in trees)
        vectors = torch.stack([torch.stack((tree.vectors + tree.vectors[:1] * most)[:most]) for tree in trees])
        own = self.rule.owner[self.first + start :][: len(trees)]
        first, second = 1 + self.temperature * self.scores.log().T - 1e-6  # as cosines; what rounding may take off
        found = []
        for places in chunks(torch.arange(len(self.points)), len(trees) * most):
            nearest = (self.points[places] @ vectors.flatten(0, 1).T).unflatten(1, (len(trees), most)).amax(2)
            bar = torch.where(self.classes[places, :1] == own, second[places, None], first[places, None])
            tree, place = (nearest > bar).T.nonzero().T
            found.append((tree, places[place]))
        tree, place = (torch.cat(part) for part in zip(*found, strict=True))
        order = tree.argsort(stable=True)
        return list(place[order].split(tree.bincount(minlength=len(trees)).tolist()))

    def _counted(self, tree: _Tree, row: int, own: int, places: Tensor, whole: int) -> SplitTree:
        """The tree of the class `own`, whose only prototype is that row, from the images that its nodes may win."""
        counts = np.zeros(len(tree.vectors), np.int64)
        counts[0] = whole
        vectors, thresholds = torch.stack(tree.vectors), torch.tensor(tree.thresholds)
        cosines = self.points[places] @ vectors.T
        classes, rows = self.classes[places], self.rows[places]
        score = torch.where(classes[:, 0] == own, self.scores[places, 1], self.scores[places, 0])
        other = (rows[:, 0] == row).long()[:, None]  # the nearest prototype but this one
        cosine, nearest = self.cosines[places].gather(1, other)[:, 0], rows.gather(1, other)[:, 0]
        rejects = (cosine < self.rule.thresholds[nearest]) | self.rule.dropped[nearest]
        for nodes in tree.splits():
            best, place = cosines[:, nodes].max(1)
            rejected = torch.where(best > cosine, best < thresholds[nodes][place], rejects)
            won = (self._score(best) > score) & ~rejected
            counts[nodes[:2]] = place[won].bincount(minlength=len(nodes))[:2]
        return tree.packed(counts)
