"""Hierarchical (bisecting) k-means of each class: how it would be split, found while its images are there.

Images are not kept, so the halves of a class, their halves and so on are prepared at fit and at discovery. The number
of images of a half is what the rule of prediction gives it once its class is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from happycat.learning.clustering import kmeans
from happycat.methods.calm.calibration import rejection_threshold
from happycat.methods.calm.prediction import PredictionRule, chunks, joined
from happycat.model.registry import SplitTree

LEVELS = 3  # of splits below a class
FEWEST = 4  # images that are split
SMALLEST = 2  # images of a half: nothing is kept of a single image


def split_trees(
    rule: PredictionRule, points: Tensor, members: Sequence[Tensor], first: int, most: float
) -> list[SplitTree]:
    """The tree of each class whose one prototype is row `first` + i of the rule.

    `points` (N, d) are all images of the stage, `members[i]` the places of those of the class, `most` is the largest
    rejection threshold that a half may have.
    """
    if not members:
        return []
    without = _Competition(rule, points)
    given = rule.decide(points).assigned
    trees = []
    for row, places in enumerate(members, first):
        own = int(rule.owner[row])
        root = _Node(rule.prototypes[row], float(rule.thresholds[row]), points @ rule.prototypes[row], places)
        tree = _Tree(points, without.row(row, own), most)
        tree.add(root, int((given == own).sum()))
        tree.grow(0, [], LEVELS)
        trees.append(tree.done())
    return trees


class _Node(NamedTuple):
    """A direction, its rejection threshold, its cosines (N,) with all images, and the places of its own."""

    vector: Tensor
    threshold: float
    cosines: Tensor
    places: Tensor


class _Others(NamedTuple):
    """What images (N,) are offered by all other classes: the best score, the nearest cosine, whether that rejects."""

    score: Tensor
    cosine: Tensor
    rejects: Tensor
    temperature: float

    def counts(self, nodes: Sequence[_Node]) -> list[int]:
        """How many images the rule gives to each of the nodes, were they classes beside the others."""
        cosines = torch.stack([node.cosines for node in nodes], 1)
        nearest, place = cosines.max(1)
        thresholds = torch.tensor([node.threshold for node in nodes])
        rejected = torch.where(nearest > self.cosine, nearest < thresholds[place], self.rejects)
        won = (_score(nearest, self.temperature) > self.score) & ~rejected
        return place[won].bincount(minlength=len(nodes)).tolist()


class _Competition:
    """For each image the two best classes and the two nearest prototypes: enough to leave any one of them out."""

    def __init__(self, rule: PredictionRule, points: Tensor):
        self.rule, self.temperature = rule, float(rule.temperature)
        pieces = (self._best(some) for some in chunks(points, len(rule.prototypes)))
        self.scores, self.classes, self.cosines, self.rows = joined(pieces, len(points))

    def _best(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        cosines = points @ self.rule.prototypes.T
        return *self.rule.summed(_score(cosines, self.temperature)).topk(2, 1), *cosines.topk(2, 1)

    def row(self, row: int, own: int) -> _Others:
        """What is left without that prototype, the only one of the class `own`."""
        score = torch.where(self.classes[:, 0] == own, self.scores[:, 1], self.scores[:, 0])
        second = self.rows[:, 0] == row
        nearest = torch.where(second, self.rows[:, 1], self.rows[:, 0])
        cosine = torch.where(second, self.cosines[:, 1], self.cosines[:, 0])
        rejects = (cosine < self.rule.thresholds[nearest]) | self.rule.dropped[nearest]
        return _Others(score, cosine, rejects, self.temperature)


def _score(cosines: Tensor, temperature: float) -> Tensor:
    """What a softmax would divide by its sum; in double precision, where no cosine is too small to count."""
    return ((cosines.double() - 1) / temperature).exp()


@dataclass
class _Tree:
    points: Tensor
    others: _Others
    most: float
    nodes: list[_Node] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    children: list[tuple[int, int]] = field(default_factory=list)

    def add(self, node: _Node, count: int) -> int:
        self.nodes.append(node)
        self.counts.append(count)
        self.children.append((-1, -1))
        return len(self.nodes) - 1

    def grow(self, place: int, beside: list[_Node], levels: int) -> None:
        """Split a node, and its halves in turn; `beside` is what the rest of the class was split into before."""
        halves = self._halves(self.nodes[place].places) if levels else None
        if halves is None:
            return
        one, two = halves
        counts = self.others.counts([one, two, *beside])
        self.children[place] = self.add(one, counts[0]), self.add(two, counts[1])
        self.grow(self.children[place][0], [two, *beside], levels - 1)
        self.grow(self.children[place][1], [one, *beside], levels - 1)

    def _halves(self, places: Tensor) -> tuple[_Node, _Node] | None:
        """The two halves of some images, the larger first; None if they, or one half, are too few, or all the same."""
        own = self.points[places]
        if len(own) < FEWEST or (own == own[0]).all():
            return None
        vectors = kmeans(own, 2, seed=0, restarts=3)
        half = (own @ vectors.T).argmax(1)
        sizes = half.bincount(minlength=2)
        if sizes.min() < SMALLEST:
            return None
        order = (0, 1) if sizes[0] >= sizes[1] else (1, 0)
        one, two = (self._node(vectors[i], places[half == i]) for i in order)
        return one, two

    def _node(self, vector: Tensor, places: Tensor) -> _Node:
        cosines = self.points @ vector
        return _Node(vector, min(self.most, rejection_threshold(cosines[places, None])), cosines, places)

    def done(self) -> SplitTree:
        return SplitTree(
            torch.stack([node.vector for node in self.nodes]).numpy(),
            np.array(self.counts, np.int64),
            np.array([node.threshold for node in self.nodes], np.float32),
            np.array(self.children, np.int64),
        )
