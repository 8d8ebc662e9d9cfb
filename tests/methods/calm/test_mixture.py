"""A mixture with known components: against a slow loop, and on data whose answer is known."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm.mixture import Search


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clouds(number: int, each: int = 30, dim: int = 16, noise: float = 0.08, seed: int = 0):
    """Unit points around `number` orthogonal directions, and the directions."""
    centres = torch.linalg.qr(torch.randn(dim, dim, generator=generator(seed)))[0][:number]
    points = centres.repeat_interleave(each, 0) + noise * torch.randn(number * each, dim, generator=generator(seed + 1))
    return normalize(points, dim=-1), centres


def one_round_by_loop(points, centres, shares, num_old, temperature):
    """E and M step, written from their definitions."""
    densities, weights = [], []
    for x in points:
        terms = [math.log(s) + float(x @ c) / temperature for s, c in zip(shares, centres, strict=True)]
        densities.append(math.log(sum(math.exp(t) for t in terms)))
        weights.append([math.exp(t - densities[-1]) for t in terms])
    counts = [sum(w[k] for w in weights) for k in range(len(centres))]
    found = []
    for k in range(num_old, len(centres)):
        total = sum(w[k] * x for w, x in zip(weights, points, strict=True))
        found.append(total / total.norm())
    return densities, counts, found


def test_one_round_is_that_of_a_loop():
    points, _ = clouds(3, each=5)
    centres = normalize(torch.randn(4, 16, generator=generator(5)), dim=-1)
    shares = torch.tensor([0.1, 0.2, 0.3, 0.4])
    got = Search(points, centres[:2], 0.3, generator()).maximise(centres[2:], shares, rounds=1)
    densities, counts, found = one_round_by_loop(points, centres, shares.tolist(), 2, 0.3)
    torch.testing.assert_close(got.log_density, torch.tensor(densities), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(got.counts, torch.tensor(counts), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got.centres[2:], torch.stack(found), rtol=1e-4, atol=1e-5)
    assert torch.equal(got.centres[:2], centres[:2])
    torch.testing.assert_close(got.shares, (got.counts + 1) / (len(points) + 4))


def test_more_rounds_explain_better():
    points, _ = clouds(4)
    search, shares = Search(points, points[:1], 0.1, generator()), torch.full((4,), 0.25)
    centres = search.seeded(points[:0], 3)
    scores = [search.maximise(centres, shares, rounds).score for rounds in (1, 2, 4, 8, 30)]
    assert scores == sorted(scores)


def test_the_new_classes_are_found_and_the_old_ones_stay():
    points, centres = clouds(6)
    got = Search(points, centres[:4], 0.1, generator()).best(2, restarts=2, moves=10)
    assert torch.equal(got.centres[:4], centres[:4])
    cosines = got.centres[4:] @ centres.T
    assert sorted(cosines.argmax(1).tolist()) == [4, 5]
    assert (cosines.amax(1) > 0.95).all()
    torch.testing.assert_close(got.counts, torch.full((6,), 30.0), rtol=0.05, atol=1)


def test_a_move_frees_a_component_that_shares_a_class():
    """Two classes under one centre and one under two: EM alone stays there, moves do not."""
    points, centres = clouds(4)
    between, beside = centres[1] + centres[2], centres[3] + 0.05 * torch.randn(2, 16, generator=generator(7))
    start = normalize(torch.cat([centres[:1], between[None], beside]), dim=1)
    search = Search(points, start[:1], 0.1, generator(1))
    stuck = search.maximise(start[1:], torch.full((4,), 0.25))
    assert (stuck.centres @ centres[1]).max() < 0.9
    freed = stuck
    for _ in range(20):
        freed = search.moved(freed)
        assert freed.score >= stuck.score
    assert ((freed.centres @ centres.T).amax(0) > 0.95).all()


def test_no_new_class_is_a_mixture_too():
    points, centres = clouds(3)
    got = Search(points, centres, 0.1, generator()).best(0, restarts=1, moves=5)
    assert torch.equal(got.centres, centres)


def test_growing_gains_much_for_each_class_there_is_and_little_after():
    points, centres = clouds(6)
    mixtures = list(itertools.islice(Search(points, centres[:3], 0.1, generator()).growing(moves=3), 7))
    assert [len(m.centres) for m in mixtures] == list(range(3, 10))
    gains = [b.log_density.sum() - a.log_density.sum() for a, b in itertools.pairwise(mixtures)]
    assert min(gains[:3]) > 5 * max(gains[3:])


@pytest.mark.parametrize("moves", [0, 5])
def test_the_same_generator_gives_the_same_mixture(moves):
    points, centres = clouds(5)
    one, two = (Search(points, centres[:2], 0.1, generator(3)).best(3, 2, moves) for _ in range(2))
    assert torch.equal(one.centres, two.centres)


def test_more_classes_than_candidates_and_few_points():
    points, centres = clouds(2, each=2)
    got = Search(points, centres[:1], 0.1, generator()).best(2, restarts=1, moves=2)
    assert got.centres.isfinite().all()


def test_growing_splits_a_component_that_covers_two_classes():
    """No point is drawn for it: the split alone frees the second class."""
    points, centres = clouds(4)
    search = Search(points, centres[:2], 0.1, generator())
    between = torch.nn.functional.normalize(centres[2] + centres[3], dim=0)[None]
    covering = search.maximise(between, torch.full((3,), 1 / 3), rounds=1)
    (split,) = search._splits(covering)
    got = search.maximise(*split)
    assert ((got.centres @ centres.T).amax(0) > 0.95).all()
    assert search.grown(covering).score >= got.score - 1e-4


def test_a_component_that_explains_much_is_missed_much():
    points, centres = clouds(5)
    search = Search(points, centres[:2], 0.1, generator())
    twice = torch.nn.functional.normalize(torch.stack([centres[2], centres[3], centres[4], points[130]]), dim=1)
    mixture = search.maximise(twice, torch.full((6,), 1 / 6), rounds=1)
    losses = search.losses(mixture)
    assert losses[:2].min() > 3 * losses[3]
    without = Search(points, centres[:2], 0.1, generator()).maximise(
        mixture.centres[3:], mixture.shares[[0, 1, 3, 4, 5]], 1
    )
    full = search.maximise(mixture.centres[2:], mixture.shares, 1)
    assert float(full.log_density.sum() - without.log_density.sum()) == pytest.approx(float(losses[0]), rel=1e-3)
