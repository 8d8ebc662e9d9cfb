"""Candidate classes: leave-one-out cosines against recomputed means, trees of few images, neighbourhoods of many."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from happycat.base import tables
from happycat.methods.calm import candidates, prediction
from happycat.methods.calm.candidates import Groups, explained, find_groups, leave_one_out


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clouds(number: int, each: int, dim: int = 16, noise: float = 0.1) -> torch.Tensor:
    """Unit points (N, d) around `number` orthogonal directions."""
    centres = torch.linalg.qr(torch.randn(dim, dim, generator=generator()))[0][:number]
    noisy = centres.repeat_interleave(each, 0) + noise * torch.randn(number * each, dim, generator=generator(1))
    return normalize(noisy, dim=-1)


def groups_of(points: torch.Tensor, familiar: torch.Tensor | None = None) -> Groups:
    return find_groups(points, torch.zeros(len(points), dtype=torch.bool) if familiar is None else familiar)


def members(groups: Groups) -> list[set[int]]:
    """The images of each group."""
    return [set(row.nonzero()[0].tolist()) for row in groups.members.toarray()]


def pairs(groups: Groups, points: torch.Tensor, have: torch.Tensor) -> dict[tuple[int, int], float]:
    """The cosine of each group with each image that it explains."""
    start, image, cosine = explained(groups, points, have)
    group = np.repeat(np.arange(len(start) - 1), np.diff(start)).tolist()
    assert start[0] == 0
    assert start[-1] == len(image) == len(cosine)
    return dict(zip(zip(group, image.tolist(), strict=True), cosine.tolist(), strict=True))


def every_pair(groups: Groups, points: torch.Tensor) -> torch.Tensor:
    """All cosines (M, N), by `explained` with nothing to surpass."""
    found = pairs(groups, points, torch.full((len(points),), -2.0))
    assert len(found) == len(groups.sums) * len(points)
    return torch.tensor([found[key] for key in sorted(found)]).view(len(groups.sums), len(points))


def small_trees(monkeypatch: pytest.MonkeyPatch, most: int, sizes: tuple[int, ...]) -> None:
    monkeypatch.setattr(candidates, "MOST_MERGED", most)
    monkeypatch.setattr(candidates, "SIZES", sizes)


@pytest.mark.parametrize("cells", [2**21, 40])  # all groups at once, or two
def test_what_is_explained_are_larger_cosines_with_the_mean_of_the_other_images(monkeypatch, cells):
    monkeypatch.setattr(prediction, "CELLS", cells)
    points = clouds(3, 6, noise=0.3)
    groups, have = groups_of(points), 1.4 * torch.rand(18, generator=generator(2)) - 0.4
    got, more, less = pairs(groups, points, have), 0, 0
    for k, inside in enumerate(members(groups)):
        for i, image in enumerate(points):
            others = points[[j for j in inside if j != i]]
            by_hand = float(image @ normalize(others.mean(0), dim=0))
            if by_hand > float(have[i]):
                assert got[k, i] == pytest.approx(by_hand, abs=1e-5)
                more += 1
            else:
                assert (k, i) not in got
                less += 1
    assert min(more, less) > 50
    assert len(got) == more


def test_an_image_that_has_as_large_a_cosine_already_is_not_explained():
    points = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    groups = groups_of(points)
    where = members(groups).index({0, 1})
    found = pairs(groups, points, torch.tensor([1.0, 0.99, 0.0, -0.01]))
    assert [image for group, image in found if group == where] == [1, 3]


def test_groups_are_what_each_merger_makes():
    groups = groups_of(clouds(3, 6))
    assert groups.members.shape == (17, 18)
    found = members(groups)
    assert found[-1] == set(range(18))
    seen = [{i} for i in range(18)]
    for group in found:
        assert any(group - part in seen and part < group for part in seen)  # of two that there were before
        seen.append(group)
    assert all(set(range(6 * c, 6 * c + 6)) in found for c in range(3))  # the clouds


@pytest.mark.parametrize("most", [4000, 50])
def test_sums_and_directions_are_those_of_the_members(monkeypatch, most):
    small_trees(monkeypatch, most, (5, 20, 40))
    monkeypatch.setattr(tables, "ROWS", 7)  # images that are added at once
    points = clouds(4, 40)
    groups = groups_of(points)
    for inside, total, direction in zip(members(groups), groups.sums, groups.directions, strict=True):
        by_hand = sum(points[i] for i in inside)
        torch.testing.assert_close(total, by_hand, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(direction, by_hand / by_hand.norm(), rtol=1e-4, atol=1e-4)


def test_a_pair_of_odd_images_does_not_look_tight():
    """With their mean, unlike images have a cosine of 0.7; with each other one of 0."""
    torch.testing.assert_close(every_pair(groups_of(torch.eye(2)), torch.eye(2)), torch.zeros(1, 2))
    opposite = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    torch.testing.assert_close(every_pair(groups_of(opposite), opposite), -torch.ones(1, 2))


def test_leave_one_out_is_the_cosine_with_the_sum_without_the_image():
    points = clouds(1, 7, noise=0.5)
    total = points.sum(0)
    got = leave_one_out(points @ total, total @ total)
    for i, image in enumerate(points):
        rest = points[[j for j in range(7) if j != i]].sum(0)
        assert float(got[i]) == pytest.approx(float(image @ rest / rest.norm()), abs=1e-6)


def test_none_and_one_image_make_no_group():
    for number in (0, 1):
        points = clouds(1, number)
        groups = groups_of(points)
        assert groups.members.shape == (0, number)
        assert groups.directions.shape == (0, 16)
        assert pairs(groups, points, torch.full((number,), -1.0)) == {}


@pytest.mark.parametrize("most", [4000, 10])
def test_images_that_are_all_the_same_explain_each_other_wholly(monkeypatch, most):
    small_trees(monkeypatch, most, (5,))
    points = clouds(1, 1).expand(40, -1)
    groups = groups_of(points)
    assert len(groups.sums) > 0
    torch.testing.assert_close(every_pair(groups, points), torch.ones(len(groups.sums), 40))


def test_of_few_images_familiar_ones_are_in_groups_as_others_are():
    points, familiar = clouds(3, 6), torch.arange(18) < 6
    assert members(groups_of(points, familiar)) == members(groups_of(points))


@pytest.mark.parametrize("most", [60, 200])  # neighbourhoods, or a tree of those that are not familiar
def test_of_many_images_familiar_ones_are_in_no_group(monkeypatch, most):
    small_trees(monkeypatch, most, (10, 40))
    points, familiar = clouds(5, 80), torch.arange(400) % 5 < 3
    groups = groups_of(points, familiar)
    found = set().union(*members(groups))
    assert found == set((~familiar).nonzero()[:, 0].tolist())
    assert groups.members.shape == (len(groups.sums), 400)
    if most == 200:
        assert len(groups.sums) == 160 - 1


def test_there_are_groups_when_all_of_many_images_are_familiar(monkeypatch):
    small_trees(monkeypatch, 60, (10, 40))
    points = clouds(5, 80)
    assert members(groups_of(points, torch.ones(400, dtype=torch.bool))) == members(groups_of(points))


@pytest.mark.parametrize("noise", [0.1, 0.2])  # cosines of 0.93 and of 0.78 with the own centre
@pytest.mark.parametrize("some_familiar", [False, True])
def test_of_many_images_each_cloud_is_nearly_whole_among_the_groups(monkeypatch, noise, some_familiar):
    small_trees(monkeypatch, 60, (5, 15, 40))
    points, familiar = clouds(6, 40, noise=noise), torch.arange(240) < (80 if some_familiar else 0)
    found = members(groups_of(points, familiar))
    for c in range(2 if some_familiar else 0, 6):
        cloud = set(range(40 * c, 40 * c + 40))
        assert max(len(cloud & group) / len(cloud | group) for group in found) > 0.9


def test_of_many_images_clouds_of_different_sizes_are_among_the_groups(monkeypatch):
    """Nearly whole, and without many others, where a neighbourhood is of about that size."""
    small_trees(monkeypatch, 60, (5, 15, 40))
    points, sizes = clouds(6, 40), (40, 40, 40, 16, 14, 6)
    points = torch.cat([points[40 * c : 40 * c + size] for c, size in enumerate(sizes)])
    found = members(groups_of(points))
    for c, size in enumerate(sizes):
        cloud = set(range(sum(sizes[:c]), sum(sizes[:c]) + size))
        assert max(len(cloud & group) / len(cloud | group) for group in found) > 0.8


@pytest.mark.parametrize("most", [4000, 50])
def test_the_same_points_give_the_same_groups(monkeypatch, most):
    small_trees(monkeypatch, most, (5, 20, 60))
    points = clouds(5, 80, noise=0.3)
    one, two = groups_of(points), groups_of(points)
    assert (one.members != two.members).nnz == 0
    assert torch.equal(one.sums, two.sums)


def test_points_that_look_like_distances_are_points():
    """SciPy takes a square matrix with a zero diagonal for distances that were given in the wrong form."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert groups_of(torch.eye(2).flip(0)).members.shape == (1, 2)


@pytest.mark.parametrize("number", [1, 3, 8])
def test_neighbours_in_blocks_are_those_among_all_points(monkeypatch, number):
    monkeypatch.setattr(candidates, "BLOCK", 5)
    points, directions = clouds(4, 6), clouds(3, 1)
    by_hand = (directions @ points.T).argsort(1, descending=True)[:, :number]
    assert candidates._neighbours(directions, points, number).tolist() == by_hand.tolist()
