"""A mixture with known components: against slow loops, and on data whose answer is known."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm import candidates, prediction
from happycat.methods.calm.mixture import Search


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clouds(number: int, each: int = 30, dim: int = 16, noise: float = 0.08, seed: int = 0):
    """Unit points around `number` orthogonal directions, and the directions."""
    centres = torch.linalg.qr(torch.randn(dim, dim, generator=generator(seed)))[0][:number]
    points = centres.repeat_interleave(each, 0) + noise * torch.randn(number * each, dim, generator=generator(seed + 1))
    return normalize(points, dim=-1), centres


def one_round_by_loop(points, centres, shares, num_old, temperature):
    """E and M step, written from their definitions, with a share for each of the centres, the old ones first."""
    score, weights = 0.0, []
    for x in points:
        terms = [math.log(s) + float(x @ c) / temperature for s, c in zip(shares, centres, strict=True)]
        density = math.log(sum(math.exp(t) for t in terms))
        score += density / len(points)
        weights.append([math.exp(t - density) for t in terms])
    counts = [sum(w[k] for w in weights) for k in range(len(centres))]
    found = []
    for k in range(num_old, len(centres)):
        total = sum(w[k] * x for w, x in zip(weights, points, strict=True))
        found.append(total / total.norm())
    old, new = [c + 1 for c in counts[:num_old]], [c + 1 for c in counts[num_old:]]
    tied = [sum(old) / len(old)] * len(old) + [sum(new) / len(new)] * len(new)
    return score, counts, found, [share / sum(tied) for share in tied]


@pytest.mark.parametrize("cells", [2**21, 7])  # all points at once, or two
def test_one_round_is_that_of_a_loop(monkeypatch, cells):
    monkeypatch.setattr(prediction, "CELLS", cells)
    points, _ = clouds(3, each=5)
    centres = normalize(torch.randn(5, 16, generator=generator(5)), dim=-1)
    search = Search(points, centres[:2])
    got = search.maximise(centres[2:], 0.3, (0.14, 0.24), rounds=1)
    score, counts, found, tied = one_round_by_loop(points, centres, [0.14] * 2 + [0.24] * 3, 2, 0.3)
    assert got.score == pytest.approx(score, abs=1e-5)
    torch.testing.assert_close(got.counts, torch.tensor(counts[2:]), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got.centres, torch.stack(found), rtol=1e-4, atol=1e-5)
    assert got.shares == pytest.approx((tied[0], tied[-1]), abs=1e-5)
    assert 2 * got.shares[0] + 3 * got.shares[1] == pytest.approx(1)
    assert torch.equal(search.old, centres[:2])


def test_several_rounds_are_one_after_the_other():
    points, centres = clouds(4, noise=0.3)
    search, start = Search(points, centres[:1]), normalize(torch.randn(3, 16, generator=generator(3)), dim=-1)
    one, shares = start, (0.25, 0.25)
    for _ in range(4):
        step = search.maximise(one, 0.2, shares, rounds=1)
        one, shares = step.centres, step.shares
    four = search.maximise(start, 0.2, (0.25, 0.25), rounds=4)
    torch.testing.assert_close(four.centres, step.centres)
    torch.testing.assert_close(four.counts, step.counts)
    assert (four.score, *four.shares) == pytest.approx((step.score, *step.shares))


def test_more_rounds_explain_better():
    points, _ = clouds(4)
    search, start = Search(points, points[:1]), normalize(torch.randn(3, 16, generator=generator(3)), dim=-1)
    scores = [search.maximise(start, 0.1, (0.25, 0.25), rounds).score for rounds in (1, 2, 4, 8, 30)]
    assert scores == sorted(scores)
    assert scores[-1] > scores[0] + 0.1


def test_an_old_class_that_takes_a_new_ones_images_gets_no_larger_share_for_it():
    points, centres = clouds(4)
    beside = normalize(centres[2] + centres[0], dim=0)  # an old class on the way to a new one
    old = torch.stack([beside, centres[1]])
    got = Search(points, old).maximise(centres[3:], 0.1, (1 / 3, 1 / 3))
    each = [got.shares[0], got.shares[0], got.shares[1]]  # the loop has one for each; these two are alike
    score, counts, found, tied = one_round_by_loop(points, torch.cat([old, got.centres]), each, 2, 0.1)
    assert counts[0] > 1.5 * counts[1]
    assert (counts[0] + 1) / (len(points) + 3) > 1.2 * got.shares[0]  # what it would have by itself
    assert got.shares == pytest.approx((tied[0], tied[2]), abs=1e-3)
    assert got.score == pytest.approx(score, abs=1e-3)
    torch.testing.assert_close(got.centres[0], found[0], rtol=1e-3, atol=1e-3)


def test_a_new_component_that_explains_nothing_stays_where_it_is():
    points, centres = clouds(3)
    far = -normalize(centres.sum(0), dim=0)
    got = Search(points, centres[:1]).maximise(torch.stack([centres[1], far, centres[2]]), 0.01, (0.25, 0.25))
    torch.testing.assert_close(got.centres[1], far)
    torch.testing.assert_close(got.counts, torch.tensor([30.0, 0.0, 30.0]))
    assert math.isfinite(got.score)


@pytest.mark.parametrize("noise", [0.08, 0.2])
def test_the_new_classes_are_found_and_the_old_ones_stay(noise):
    points, centres = clouds(6, noise=noise)
    search = Search(points, centres[:4])
    groups = search.groups.members[search._selection().choose(2)].toarray()
    assert sorted(group.nonzero()[0].tolist() for group in groups) == [[*range(120, 150)], [*range(150, 180)]]
    got = search.best(2, 0.05)
    assert torch.equal(search.old, centres[:4])
    cosines = got.centres @ centres.T
    assert sorted(cosines.argmax(1).tolist()) == [4, 5]
    assert (cosines.amax(1) > 0.95).all()
    torch.testing.assert_close(got.counts, torch.full((2,), 30.0), rtol=0.05, atol=1)
    assert got.shares == pytest.approx((1 / 6, 1 / 6), rel=0.05)  # the old ones have 30 each, too


@pytest.mark.parametrize("familiar", ["none", "old", "old and some new"])
def test_new_classes_are_found_among_very_many_images(monkeypatch, familiar):
    """Images that are familiar are counted in, though nothing is looked for among them."""
    monkeypatch.setattr(candidates, "MOST_MERGED", 60)
    monkeypatch.setattr(candidates, "SIZES", (10, 30, 90))
    points, centres = clouds(6, each=100)
    place = torch.arange(600)
    which = {"none": None, "old": place < 300, "old and some new": (place < 300) | (place % 5 == 0)}
    got = Search(points, centres[:3], which[familiar]).best(3, 0.05)
    cosines = got.centres @ centres.T
    assert sorted(cosines.argmax(1).tolist()) == [3, 4, 5]
    assert (cosines.amax(1) > 0.95).all()
    torch.testing.assert_close(got.counts, torch.full((3,), 100.0), rtol=0.05, atol=1)
    assert got.shares == pytest.approx((1 / 6, 1 / 6), rel=0.05)


def test_of_few_images_familiar_ones_are_looked_at_too():
    points, centres = clouds(4, noise=0.2)
    plain, familiar = (Search(points, centres[:2], which) for which in (None, torch.arange(120) < 75))
    assert torch.equal(plain.best(2, 0.05).centres, familiar.best(2, 0.05).centres)


def test_classes_of_very_different_sizes_are_found():
    points, centres = clouds(5, each=60)
    some = torch.cat([points[:120], points[120:180], points[180:188], points[240:260]])
    got = Search(some, centres[:2]).best(3, 0.05)
    assert sorted((got.centres @ centres.T).argmax(1).tolist()) == [2, 3, 4]
    assert sorted(got.counts.tolist()) == pytest.approx([8, 20, 60], abs=2)


def test_no_new_class_is_a_mixture_too():
    points, centres = clouds(3)
    got = Search(points, centres).best(0, 0.1)
    assert got.centres.shape == (0, 16)
    assert got.counts.shape == (0,)
    assert got.shares[0] == pytest.approx(1 / 3)
    density = (points @ centres.T / 0.1).exp().mean(1).log().mean()
    assert got.score == pytest.approx(float(density), abs=1e-5)


def test_a_search_is_as_good_the_second_time():
    """Calibration asks one search for several temperatures."""
    points, centres = clouds(5, noise=0.3)
    search = Search(points, centres[:2])
    search.best(2, 0.3)
    again, fresh = search.best(3, 0.05), Search(points, centres[:2]).best(3, 0.05)
    assert torch.equal(again.centres, fresh.centres)
    assert again.score == fresh.score


def test_the_temperature_is_that_of_the_densities():
    points, centres = clouds(5, noise=0.3)
    search = Search(points, centres[:2])
    for temperature in (0.3, 0.05):
        got = search.best(3, temperature)
        each = [got.shares[0]] * 2 + [got.shares[1]] * 3
        score, counts, _, _ = one_round_by_loop(points, torch.cat([centres[:2], got.centres]), each, 2, temperature)
        assert got.score == pytest.approx(score, abs=1e-3)
        assert got.counts.tolist() == pytest.approx(counts[2:], abs=0.5)


def test_growing_misses_each_class_there_is_much_and_what_follows_little():
    points, centres = clouds(6)
    steps = list(itertools.islice(Search(points, centres[:3]).growing(), 6))
    assert [len(step) for step in steps] == [1, 2, 3, 4, 5, 6]
    assert [round(one.images) for one in steps[2]] == [30, 30, 30]
    least = [min(one.loss for one in step) for step in steps]
    assert min(least[:3]) > 10 * max(least[3:])


def test_growing_puts_right_a_component_that_covered_two_classes():
    """The first component of two near classes lies between them; when a second one comes, each has its own."""
    points, centres = clouds(3, noise=0.05)
    near = normalize(torch.cat([points[:30], points[30:60] + 2 * centres[0], points[60:] + 2 * centres[0]]), dim=-1)
    first, second = itertools.islice(Search(near[30:], -centres[0][None]).growing(), 2)
    assert [round(one.images) for one in first] == [60]
    assert [round(one.images) for one in second] == [30, 30]
    assert second[0].loss == pytest.approx(second[1].loss, rel=0.2)  # neither still covers both


def test_growing_ends_when_each_image_has_a_component():
    points, centres = clouds(3, each=3)
    steps = list(Search(points, centres[:1]).growing())
    assert [len(step) for step in steps] == list(range(1, 10))
    assert all(one.loss >= 0 for step in steps for one in step)


@pytest.mark.parametrize("most", [4000, 50])
def test_the_same_images_give_the_same_mixture(monkeypatch, most):
    monkeypatch.setattr(candidates, "MOST_MERGED", most)
    monkeypatch.setattr(candidates, "SIZES", (5, 20))
    points, centres = clouds(5, noise=0.3)
    one, two = (Search(points, centres[:2]).best(3, 0.1) for _ in range(2))
    assert torch.equal(one.centres, two.centres)
    assert one.score == two.score


@pytest.mark.parametrize(
    ("points", "number"),
    [
        (clouds(3, each=2)[0], 4),
        (clouds(3, each=2)[0], 5),  # as many as groups of several images
        (clouds(3, each=2)[0], 6),  # as many as images
        (clouds(3, each=2)[0], 9),
        (clouds(1, each=1)[0], 1),
        (clouds(1, each=1)[0], 2),
        (clouds(1, each=1)[0].expand(8, -1), 3),
        (clouds(3, each=3)[1][:1].expand(8, -1), 2),  # all the same, and as an old class
    ],
)
def test_few_images_many_classes_and_images_that_are_all_the_same(points, number):
    centres = clouds(3)[1]
    search = Search(points, centres[:2])
    got = search.best(number, 0.1)
    assert got.centres.shape == (number, 16)
    assert got.centres.isfinite().all()
    torch.testing.assert_close(got.centres.norm(dim=1), torch.ones(number))
    assert math.isfinite(got.score)
    assert 2 * got.shares[0] + number * got.shares[1] == pytest.approx(1)
    of_old = 2 * (got.shares[0] * (len(points) + 2 + number) - 1)  # without the prior of one image each
    assert float(got.counts.sum()) + of_old == pytest.approx(len(points), abs=1e-3)
    assert len(list(search.growing())) == len(points)


@pytest.mark.parametrize("number", [2, 4, 8, 12])
@pytest.mark.parametrize("seed", range(3))
def test_as_many_new_classes_as_images_explain_each_one(number, seed):
    points, _ = clouds(number, each=1, seed=seed)
    got = Search(points, -points[:1]).best(number, 0.02)
    assert ((got.centres @ points.T).amax(0) > 0.95).all()


def test_images_that_no_group_explains_are_classes_of_their_own():
    """An old class lies between three images and is nearer to each of them than the others are."""
    points = torch.eye(5)[:3]
    old = torch.stack([normalize(points.sum(0), dim=0), torch.eye(5)[3]])
    for number in (1, 2, 3):
        got = Search(points, old).best(number, 0.02)
        assert len(set((got.centres @ points.T).argmax(1).tolist())) == number
        torch.testing.assert_close((got.centres @ points.T).amax(1), torch.ones(number), rtol=0, atol=1e-3)


@pytest.mark.parametrize("seed", [3, 58, 82])
def test_a_second_selection_with_the_shares_that_were_found_may_explain_better(seed):
    """Of small classes beside large ones: with even shares, a part of a large one is taken for a class."""
    centres = normalize(torch.randn(6, 12, generator=generator(seed)), dim=-1)
    each = torch.tensor([60, 60, 60, 6, 6, 6])
    noisy = centres.repeat_interleave(each, 0) + 0.3 * torch.randn(198, 12, generator=generator(seed + 1))
    search = Search(normalize(noisy, dim=-1), centres[:3])
    first = search.maximise(search._starts(3, 0.0), 0.1, (1 / 6, 1 / 6))
    got = search.best(3, 0.1)
    assert got.score > first.score + 0.01
    assert (centres[3:] @ first.centres.T).amax(1).min() < 0.3
    assert (centres[3:] @ got.centres.T).amax(1).min() > 0.7
