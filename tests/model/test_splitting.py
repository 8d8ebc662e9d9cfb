"""Split trees: their counts are what the rule of prediction gives when the class is split, for every split."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm.prediction import DROPPED, PredictionRule
from happycat.model.splitting import LEVELS, split_trees


def unit(number: int, seed: int, around: torch.Tensor | None = None, noise: float = 0.35) -> torch.Tensor:
    random = torch.randn(number, 8, generator=torch.Generator().manual_seed(seed))
    return normalize(random if around is None else around + noise * random, dim=-1)


@pytest.fixture
def stage():
    """A rule with two old prototypes of one class, a dropped one and three new ones; images of all of them."""
    prototypes = unit(6, 0)
    owner = torch.tensor([0, 0, DROPPED, 1, 2, 3])
    thresholds = torch.tensor([0.6, 0.6, 0.5, 0.7, 0.5, 0.6])
    rule = PredictionRule(prototypes, owner, 4, torch.tensor(0.1), thresholds)
    points = torch.cat([unit(40, 1 + i, row) for i, row in enumerate(prototypes)])
    nearest = (points @ prototypes.T).argmax(1)
    members = [(nearest == row).nonzero()[:, 0] for row in (3, 4, 5)]
    return rule, points, members


def split(rule: PredictionRule, row: int, tree, nodes: list[int]) -> PredictionRule:
    """The rule in which nodes of its tree have taken the place of a class's row, as classes of their own."""
    keep = [r for r in range(len(rule.prototypes)) if r != row]
    owner = torch.where(rule.dropped, DROPPED, rule.owner)
    number = rule.num_classes
    return PredictionRule(
        torch.cat([rule.prototypes[keep], torch.from_numpy(tree.vectors[nodes])]),
        torch.cat([owner[keep], number + torch.arange(len(nodes))]),
        number + len(nodes),
        rule.temperature,
        torch.cat([rule.thresholds[keep], torch.from_numpy(tree.thresholds[nodes])]),
    )


def test_counts_are_what_the_rule_gives_after_every_split(stage):
    rule, points, members = stage
    splits = 0
    for row, tree in enumerate(split_trees(rule, points, members, 3), 3):
        assert tree.counts[0] == (rule.decide(points).assigned == row - 2).sum()

        def follow(node: int, beside: list[int], row=row, tree=tree) -> int:
            if tree.children[node, 0] < 0:
                return 0
            one, two = tree.children[node].tolist()
            given = split(rule, row, tree, [one, two, *beside]).decide(points).assigned
            found = [int((given == rule.num_classes + place).sum()) for place in (0, 1)]
            assert tree.counts[[one, two]].tolist() == found
            return 1 + follow(one, [two, *beside]) + follow(two, [one, *beside])

        splits += follow(0, [])
    assert splits >= 9


def test_the_tree_is_as_deep_as_its_images_allow(stage):
    rule, points, members = stage
    few = [members[0][:3], members[1][:8], members[2]]
    three, eight, many = split_trees(rule, points, few, 3)
    assert len(three.counts) == 1
    assert 3 <= len(eight.counts) <= 7
    assert 7 < len(many.counts) <= 2 ** (LEVELS + 1) - 1
    for tree, threshold in zip((three, eight, many), rule.thresholds[3:].numpy(), strict=True):
        assert (tree.children[tree.children[:, 0] >= 0] > 0).all()
        assert tree.vectors.dtype == tree.thresholds.dtype == np.float32
        assert tree.thresholds[0] == threshold
        assert (tree.thresholds[1:] <= threshold).all()
        np.testing.assert_allclose(np.linalg.norm(tree.vectors, axis=1), 1, atol=1e-5)
    torch.testing.assert_close(torch.from_numpy(many.vectors[0]), rule.prototypes[5])


@pytest.mark.parametrize("threshold", [-0.5, 0.99])  # of the class
def test_the_threshold_of_a_half_is_that_of_its_images_unless_that_of_the_class_is_lower(stage, threshold):
    """Two standard deviations below the mean cosine, with a prior of three images that deviate by 0.1."""
    rule, points, members = stage
    rule.thresholds[3] = threshold
    tree = split_trees(rule, points, members, 3)[0]
    cosines = points[members[0]] @ torch.from_numpy(tree.vectors[tree.children[0]]).T
    for i, node in enumerate(tree.children[0]):
        own = cosines[cosines.argmax(1) == i, i].tolist()
        mean = sum(own) / len(own)
        variance = (sum((c - mean) ** 2 for c in own) + 3 * 0.1**2) / (len(own) + 3)
        assert -0.5 < mean - 2 * variance**0.5 < 0.99
        assert tree.thresholds[node] == pytest.approx(min(threshold, mean - 2 * variance**0.5), abs=1e-5)


def test_the_larger_half_comes_first(stage):
    rule, points, _ = stage
    lopsided = torch.cat([unit(20, 50, rule.prototypes[0], 0.05), unit(5, 51, rule.prototypes[1], 0.05)])
    (tree,) = split_trees(rule, torch.cat([points, lopsided]), [240 + torch.arange(25)], 3)
    one, two = tree.vectors[tree.children[0]]
    assert one @ rule.prototypes[0].numpy() > 0.95
    assert two @ rule.prototypes[1].numpy() > 0.95


def test_images_that_are_all_the_same_are_not_split(stage):
    rule, points, _ = stage
    same = points[:1].expand(10, -1)
    (tree,) = split_trees(rule, torch.cat([points, same]), [240 + torch.arange(10)], 3)
    assert tree.children.tolist() == [[-1, -1]]


def test_no_class_no_tree(stage):
    rule, points, _ = stage
    assert split_trees(rule, points, [], 6) == []


def test_no_half_is_a_single_image():
    """Nothing of a single image is kept: one odd image among many is not split off."""
    points = torch.nn.functional.normalize(torch.tensor([[1.0, 0.01 * i, 0.0] for i in range(9)] + [[0.0, 0.0, 1.0]]))
    prototypes = torch.cat([points[:1], -points[:1]])
    rule = PredictionRule(prototypes, torch.tensor([0, 1]), 2, torch.tensor(0.1), torch.tensor([-1.0, -1.0]))
    (tree,) = split_trees(rule, points, [torch.arange(10)], 0)
    assert tree.children.tolist() == [[-1, -1]]
