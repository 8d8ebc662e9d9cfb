"""Candidate classes: leave-one-out cosines against recomputed means, and small groups in place of images."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm.candidates import MOST_POINTS, Candidates, Points


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clouds(number: int, each: int, dim: int = 16, noise: float = 0.1) -> torch.Tensor:
    """Unit points (N, d) around `number` orthogonal directions."""
    centres = torch.linalg.qr(torch.randn(dim, dim, generator=generator()))[0][:number]
    noisy = centres.repeat_interleave(each, 0) + noise * torch.randn(number * each, dim, generator=generator(1))
    return normalize(noisy, dim=-1)


def nearest_mean(points: torch.Tensor, groups: Points) -> torch.Tensor:
    """The small group of each point: that with the nearest mean, as k-means has it."""
    return (points @ normalize(groups.means, dim=-1).T).argmax(1)


def test_cosines_are_those_with_the_mean_of_the_other_images():
    points = Points(clouds(3, 6, noise=0.3))
    candidates = Candidates(points)
    got = candidates.cosines(points)
    for i, image in enumerate(points.means):
        for k, inside in enumerate(candidates.members.T):
            others = [j for j in inside.nonzero()[:, 0].tolist() if j != i]
            by_hand = float(image @ normalize(points.means[others].mean(0), dim=0)) if others else -1.0
            assert float(got[i, k]) == pytest.approx(by_hand, abs=1e-5)


def test_groups_are_the_points_then_what_each_merger_makes():
    points = Points(clouds(3, 6))
    members = Candidates(points).members
    assert members.shape == (18, 35)
    assert torch.equal(members[:, :18], torch.eye(18, dtype=torch.bool))
    assert members[:, -1].all()
    seen = {frozenset([i]) for i in range(18)}
    for column in members.T[18:]:
        group = frozenset(column.nonzero()[:, 0].tolist())
        assert any(group - part in seen and part < group for part in seen)  # of two that there were before
        seen.add(group)
    assert {frozenset(range(6 * c, 6 * c + 6)) for c in range(3)} <= seen  # the clouds


def test_sums_sizes_and_directions_are_those_of_the_members():
    points = Points(clouds(4, 40), most=30)
    candidates = Candidates(points)
    for column, total, size, direction in zip(
        candidates.members.T, candidates.sums, candidates.sizes, candidates.directions, strict=True
    ):
        by_hand = sum(points.means[i] * points.sizes[i] for i in column.nonzero()[:, 0])
        torch.testing.assert_close(total, by_hand, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(direction, by_hand / by_hand.norm(), rtol=1e-4, atol=1e-4)
        assert size == points.sizes[column].sum()


def test_a_pair_of_odd_images_does_not_look_tight():
    """With their mean, unlike images have a cosine of 0.7; with each other one of 0."""
    points = Points(torch.eye(2))
    cosines = Candidates(points).cosines(points)
    torch.testing.assert_close(cosines, torch.tensor([[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]))
    opposite = Points(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    torch.testing.assert_close(Candidates(opposite).cosines(opposite)[:, 2], torch.tensor([-1.0, -1.0]))


def test_few_images_are_as_they_are():
    unit = clouds(2, 5)
    points = Points(unit, most=10)
    assert torch.equal(points.means, unit)
    assert torch.equal(points.sizes, torch.ones(10))


def test_of_many_images_small_groups_keep_the_sums():
    unit = clouds(5, 80)
    points = Points(unit, most=50)
    assert len(points) <= 50
    assert points.sizes.sum() == 400
    torch.testing.assert_close(points.sizes @ points.means, unit.sum(0), rtol=1e-4, atol=1e-3)
    group = nearest_mean(unit, points)
    for i in range(len(points)):
        torch.testing.assert_close(points.means[i], unit[group == i].mean(0), rtol=1e-4, atol=1e-4)
        cloud = (group == i).nonzero()[:, 0] // 80
        assert (cloud == cloud[0]).all()  # no group has images of two clouds


def test_there_are_never_more_points_than_can_be_merged():
    unit = clouds(4, 800, dim=8)
    points = Points(unit)
    assert len(points) <= MOST_POINTS < len(unit)
    torch.testing.assert_close(points.sizes @ points.means, unit.sum(0), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize(("noise", "tolerance"), [(0.1, 1e-3), (0.3, 0.02)])  # of cosines of 0.9 and of 0.6
def test_cosines_of_a_small_group_are_the_mean_over_its_images(noise, tolerance):
    """Exact with groups that it is not in; within one, each image should be left out by itself."""
    unit = clouds(6, 100, noise=noise)
    points = Points(unit, most=60)
    candidates, group = Candidates(points), nearest_mean(unit, points)
    got = candidates.cosines(points)
    for i in range(len(points)):
        images = unit[group == i]
        for k in range(len(candidates.sums)):
            total = candidates.sums[k]
            if not candidates.members[i, k]:
                exact = sum(float(image @ total / total.norm()) for image in images) / len(images)
                assert float(got[i, k]) == pytest.approx(exact, abs=1e-4)
            elif candidates.sizes[k] > 1:
                rest = [total - image for image in images]
                exact = sum(float(x @ r / r.norm()) for x, r in zip(images, rest, strict=True)) / len(images)
                assert float(got[i, k]) == pytest.approx(exact, abs=tolerance)
                assert float(got[i, k]) < float(points.means[i] @ total / total.norm())  # less than with themselves


def test_one_point_and_points_that_are_all_the_same():
    one = Points(clouds(1, 1))
    assert Candidates(one).cosines(one).tolist() == [[-1.0]]
    same = Points(clouds(1, 1).expand(9, -1))
    candidates = Candidates(same)
    cosines = candidates.cosines(same)
    torch.testing.assert_close(cosines[:, 9:], torch.ones(9, 8))
    compressed = Points(clouds(1, 1).expand(40, -1), most=5)
    assert compressed.sizes.sum() == 40
    assert compressed.means.isfinite().all()


def test_the_same_points_give_the_same_groups():
    unit = clouds(5, 80, noise=0.3)
    one, two = Points(unit, most=50), Points(unit, most=50)
    assert torch.equal(one.means, two.means)
    assert torch.equal(Candidates(one).members, Candidates(two).members)


def test_points_that_look_like_distances_are_points():
    """SciPy takes a square matrix with a zero diagonal for distances that were given in the wrong form."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Candidates(Points(torch.eye(2).flip(0))).members.shape == (2, 3)
