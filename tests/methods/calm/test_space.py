"""The discriminant space: against its definition, and against the model that data were drawn from."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm.space import SMALLEST_RATIO, Scatter, Space, eigenvectors

DIM = 30


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(between: torch.Tensor, classes: int, each: int, seed: int = 0):
    """Features (N, 1, D) and labels of the model x = m + y + e, in a basis that is neither orthogonal nor scaled.

    In the basis of the model, e ~ N(0, I) and y ~ N(0, diag(b)).
    """
    basis = torch.randn(len(between), len(between), generator=generator(99)) + 2 * torch.eye(len(between))
    random, labels = generator(seed), torch.arange(classes).repeat_interleave(each)
    own = between.sqrt() * torch.randn(classes, len(between), generator=random)
    x = own[labels] + torch.randn(len(labels), len(between), generator=random)
    return (3 + x @ basis)[:, None], labels


def stretched(classes: int = 3, each: int = 200, seed: int = 0):
    """Features (N, 1, 4) of classes with a scatter that is far from round."""
    labels = torch.arange(classes).repeat_interleave(each)
    stretch, random = torch.tensor([5.0, 1.0, 0.2, 0.1]), generator(seed)
    centres = torch.randn(classes, 4, generator=random)
    return (centres[labels] + stretch * torch.randn(len(labels), 4, generator=random))[:, None], labels


def measured(x: torch.Tensor, labels: torch.Tensor, projection: torch.Tensor, mean: torch.Tensor):
    """The variances within and between classes along each direction, by a loop over the classes."""
    z = (x[:, 0] - mean) @ projection
    groups = [z[labels == c] for c in labels.unique()]
    within = sum((group - group.mean(0)).square().sum(0) for group in groups) / (len(z) - len(groups))
    means = torch.stack([group.mean(0) for group in groups])
    return within, means.square().mean(0) - within * sum(1 / len(group) for group in groups) / len(groups)


def off_diagonal(matrix: torch.Tensor) -> float:
    return float((matrix - matrix.diag().diag()).abs().max() / matrix.diag().abs().max())


def test_covariance_within_classes_is_a_multiple_of_the_unit_matrix():
    x, labels = stretched()
    scatter = Scatter(x, labels)
    z = (x[:, 0] - scatter.mean) @ scatter.directions(4, 0.0).projection
    rest = torch.cat([z[labels == c] - z[labels == c].mean(0) for c in range(3)])
    square = rest.T @ rest
    torch.testing.assert_close(square / square[0, 0], torch.eye(4), rtol=1e-3, atol=1e-3)


def test_covariance_between_classes_is_diagonal_and_the_largest_variance_is_first():
    x, labels = stretched(4)
    scatter = Scatter(x, labels)
    z = 2 * normalize((x[:, 0] - scatter.mean) @ scatter.directions(4, 0.3).projection, dim=-1)
    means = torch.stack([z[labels == c].mean(0) for c in range(4)])
    spread = means.T @ means
    assert off_diagonal(spread) < 1e-4
    assert (spread.diag().diff() <= 0).all()


def test_full_shrinkage_only_turns_and_scales():
    x, labels = stretched()
    projection = Scatter(x, labels).directions(4, 1.0).projection
    square = projection.T @ projection
    torch.testing.assert_close(square / square[0, 0], torch.eye(4), rtol=1e-4, atol=1e-5)


def test_the_first_principal_directions_vary_most():
    x, labels = stretched()
    scatter = Scatter(x, labels)
    spread = ((x[:, 0] - scatter.mean) @ scatter.basis).var(0)
    assert (spread.diff() <= 1e-4).all()
    two = scatter.directions(2, 0.3)
    assert (two.projection.shape, two.between.shape) == ((4, 2), (2,))
    inside = scatter.basis[:, :2]
    torch.testing.assert_close(inside @ inside.T @ two.projection, two.projection, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_variances_are_those_of_classes_that_were_not_seen(seed):
    """Classes that differ alike in all directions; the directions that are found only seem to be better than others."""
    x, labels = drawn(torch.full((DIM,), 0.5), 80, 12, seed)
    scatter = Scatter(x, labels)
    projection, between = scatter.directions(DIM, 0.0)
    within, naive = measured(x, labels, projection, scatter.mean)
    first, last = slice(0, 5), slice(-5, None)
    assert (naive / within)[first].mean() > 1.1  # overconfident
    assert (naive / within)[last].mean() < 0.2
    assert between[first].mean() == pytest.approx(0.5, rel=0.15)
    assert between.mean() == pytest.approx(0.5, rel=0.1)


def test_variances_follow_those_of_the_model():
    """Ten directions tell classes apart, twenty do not: as foretold, so it is of a thousand other classes."""
    true = torch.cat([torch.linspace(4, 1, 10), torch.full((20,), 0.05)])
    x, labels = drawn(true, 60, 15)
    scatter = Scatter(x, labels)
    projection, between = scatter.directions(DIM, 0.0)
    within, ratio = measured(*drawn(true, 1000, 6, seed=5), projection, scatter.mean)
    ratio = ratio / within
    assert between[:10].mean() == pytest.approx(float(ratio[:10].mean()), rel=0.25)
    assert between[12:].mean() == pytest.approx(float(ratio[12:].mean()), abs=0.15)
    assert between[:10].mean() > 10 * between[12:].mean()
    # unit variance of unseen classes, up to one factor of all: those of the first directions are not narrower
    torch.testing.assert_close(within / within.mean(), torch.ones(DIM), rtol=0.35, atol=0)


def test_a_direction_in_which_unseen_classes_are_wide_is_made_narrow(monkeypatch):
    x, labels = stretched()  # of three classes: both variances are 1
    scatter = Scatter(x, labels)
    plain = scatter.directions(4, 0.3).projection
    within, between = torch.tensor([4.0, 1.0, 0.25, 1.0]), torch.tensor([8.0, 3.0, 0.5, 0.1])
    monkeypatch.setattr(scatter, "_variances", lambda *_: (within, between))
    got = scatter.directions(4, 0.3)
    torch.testing.assert_close(got.projection, plain * torch.tensor([0.5, 1.0, 2.0, 1.0]))
    torch.testing.assert_close(got.between, torch.tensor([2.0, 3.0, 2.0, 0.1]))


def test_directions_that_tell_classes_apart_weigh_more():
    x, labels = drawn(torch.cat([torch.full((5,), 4.0), torch.zeros(25)]), 30, 10)
    directions = Scatter(x, labels).directions(DIM, 0.3)
    torch.testing.assert_close(directions.weighted(0.0), directions.projection)
    share = [float(b) / (1 + float(b)) for b in directions.between]
    for exponent in (0.25, 1.0):
        by_hand = torch.stack([column * s**exponent for column, s in zip(directions.projection.T, share, strict=True)])
        torch.testing.assert_close(directions.weighted(exponent), by_hand.T)
    assert min(share[:4]) > 4 * max(share[6:])
    assert directions.between.min() > 0.9 * SMALLEST_RATIO


@pytest.mark.parametrize(("classes", "each"), [(4, 30), (2, 30), (12, 1)])
def test_with_too_few_classes_or_images_all_directions_count_the_same(classes, each):
    x, labels = drawn(torch.full((8,), 3.0), classes, each)
    scatter = Scatter(x, labels)
    directions = scatter.directions(6, 0.3)
    assert torch.equal(directions.between, torch.ones(6))
    space = Space(8)
    space.set(scatter.mean, directions.weighted(0.5))
    torch.testing.assert_close(space(x[:, 0]).norm(dim=1), torch.ones(len(x)))
    torch.testing.assert_close(directions.weighted(0.5), directions.projection * 0.5**0.5)


def test_one_image_a_class_keeps_the_angles_between_images():
    """Nothing is known of what differs within a class: the space only turns and scales."""
    x, labels = drawn(torch.full((8,), 3.0), 12, 1)
    scatter, space = Scatter(x, labels), Space(8)
    space.set(scatter.mean, scatter.directions(8, 0.3).weighted(0.25))
    centred = normalize(x[:, 0] - scatter.mean, dim=-1)
    torch.testing.assert_close(space(x[:, 0]) @ space(x[:, 0]).T, centred @ centred.T, rtol=1e-3, atol=1e-3)


def test_more_dimensions_than_classes_and_images_that_are_all_the_same():
    x, labels = drawn(torch.full((DIM,), 3.0), 6, 3)
    directions = Scatter(x, labels).directions(DIM, 0.3)
    assert directions.projection.isfinite().all()
    assert (directions.between > 0).all()
    same = Scatter(x[:1].expand(18, -1, -1), labels).directions(5, 0.3)
    assert same.projection.isfinite().all()
    assert same.between.isfinite().all()


def test_the_same_view_several_times_is_one_view():
    x, labels = drawn(torch.linspace(3, 0.1, 10), 20, 8)
    one, three = (Scatter(x.expand(-1, views, -1), labels).directions(10, 0.3) for views in (1, 3))
    torch.testing.assert_close(three.between, one.between, rtol=1e-3, atol=1e-4)
    points = [normalize((x[:, 0] - x[:, 0].mean(0)) @ some.weighted(0.5), dim=-1) for some in (one, three)]
    torch.testing.assert_close(points[1] @ points[1].T, points[0] @ points[0].T, rtol=1e-3, atol=1e-3)


def test_what_differs_between_the_views_of_an_image_counts_as_within_a_class():
    x, labels = drawn(torch.full((6,), 2.0), 3, 60)
    jitter = torch.zeros(6)
    jitter[0] = 30.0
    views = x + jitter * torch.tensor([-1.0, 1.0])[:, None]  # (N, 2, D), with the mean that it had
    plain, jittered = (Scatter(some, labels).directions(6, 0.0).projection for some in (x, views))
    assert jittered[0].norm() / jittered[1:].norm() < 0.1 * plain[0].norm() / plain[1:].norm()


def test_labels_may_have_gaps():
    x, labels = drawn(torch.linspace(3, 0.1, 10), 20, 8)
    one, two = (Scatter(x, some).directions(10, 0.3) for some in (labels, labels * 7 + 2))
    assert torch.equal(one.projection, two.projection)
    assert torch.equal(one.between, two.between)


def test_points_have_unit_length_and_the_state_holds_the_space():
    x, labels = stretched()
    scatter, space, fresh, larger = Scatter(x, labels), Space(4), Space(4), Space(4)
    space.set(scatter.mean, scatter.directions(3, 0.3).weighted(0.25))
    larger.set(torch.ones(4), torch.eye(4))
    for other in (fresh, larger):  # of another size
        other.load_state_dict(space.state_dict())
        assert space.dimensions == other.dimensions == 3
        assert torch.equal(space(x[:, 0]), other(x[:, 0]))
    torch.testing.assert_close(space(x[:, 0]).norm(dim=1), torch.ones(600))
    assert space(x[:, 0].view(200, 3, 4)).shape == (200, 3, 3)


@pytest.mark.parametrize("failing", [{torch.float32}, {torch.float32, torch.float64}])
def test_a_solver_that_does_not_converge_is_asked_again_in_double_precision_then_another_one_is(monkeypatch, failing):
    """It fails in float32 on some matrices of many zeros, on a few in float64; which ones depends on the machine."""
    solve = torch.linalg.eigh

    def fails(matrix):
        if matrix.dtype in failing:
            raise torch.linalg.LinAlgError("the algorithm failed to converge")
        return solve(matrix)

    matrix = torch.diag(torch.tensor([0.0, 3.0, 1.0]))
    expected = eigenvectors(matrix)
    monkeypatch.setattr(torch.linalg, "eigh", fails)
    values, vectors = eigenvectors(matrix)
    assert (values.dtype, vectors.dtype) == (torch.float32, torch.float32)
    assert torch.allclose(values, expected[0])
    assert torch.allclose(vectors.abs(), expected[1].abs())
