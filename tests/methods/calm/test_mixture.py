"""A mixture with known components: against slow loops, and on data whose answer is known."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm.candidates import Points
from happycat.methods.calm.mixture import Search, Selection


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clouds(number: int, each: int = 30, dim: int = 16, noise: float = 0.08, seed: int = 0):
    """Unit points around `number` orthogonal directions, and the directions."""
    centres = torch.linalg.qr(torch.randn(dim, dim, generator=generator(seed)))[0][:number]
    points = centres.repeat_interleave(each, 0) + noise * torch.randn(number * each, dim, generator=generator(seed + 1))
    return normalize(points, dim=-1), centres


def random_selection(points: int = 20, candidates: int = 12, seed: int = 0) -> Selection:
    """Cosines of nothing in particular, for images in groups of 1 to 4."""
    random = generator(seed)
    return Selection(
        torch.rand(points, generator=random) - 0.5,
        2 * torch.rand(points, candidates, generator=random) - 1,
        torch.randint(1, 5, (points,), generator=random).float(),
    )


def objective(selection: Selection, chosen: list[int]) -> float:
    """The sum over images of the largest of the base and the chosen candidates' cosines."""
    total = 0.0
    for base, cosines, size in zip(selection.base, selection.cosines, selection.sizes, strict=True):
        total += float(size) * max([float(base), *(float(cosines[c]) for c in chosen)])
    return total


def one_round_by_loop(points, sizes, centres, shares, num_old, temperature):
    """E and M step, written from their definitions; a point stands for `sizes` images."""
    score, weights = 0.0, []
    for x, size in zip(points, sizes, strict=True):
        terms = [math.log(s) + float(x @ c) / temperature for s, c in zip(shares, centres, strict=True)]
        density = math.log(sum(math.exp(t) for t in terms))
        score += size * density / sum(sizes)
        weights.append([size * math.exp(t - density) for t in terms])
    counts = [sum(w[k] for w in weights) for k in range(len(centres))]
    found = []
    for k in range(num_old, len(centres)):
        total = sum(w[k] * x for w, x in zip(weights, points, strict=True))
        found.append(total / total.norm())
    old, new = [c + 1 for c in counts[:num_old]], [c + 1 for c in counts[num_old:]]
    tied = [sum(old) / len(old)] * len(old) + [sum(new) / len(new)] * len(new)
    return score, counts, found, [share / sum(tied) for share in tied]


@pytest.mark.parametrize("most", [15, 6])
def test_one_round_is_that_of_a_loop(most):
    points, _ = clouds(3, each=5)
    centres = normalize(torch.randn(5, 16, generator=generator(5)), dim=-1)
    shares = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25])
    search = Search(points, centres[:2], 0.3)
    search.points = Points(points, most)
    search.to_old = search.points.means @ centres[:2].T
    got = search.maximise(centres[2:], shares, rounds=1)
    score, counts, found, tied = one_round_by_loop(
        search.points.means, search.points.sizes.tolist(), centres, shares.tolist(), 2, 0.3
    )
    assert got.score == pytest.approx(score, abs=1e-5)
    torch.testing.assert_close(got.counts, torch.tensor(counts), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got.centres[2:], torch.stack(found), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got.shares, torch.tensor(tied), rtol=1e-4, atol=1e-5)
    assert torch.equal(got.centres[:2], centres[:2])
    assert got.shares.sum() == pytest.approx(1)


def test_more_rounds_explain_better():
    points, _ = clouds(4)
    search, shares = Search(points, points[:1], 0.1), torch.full((4,), 0.25)
    start = normalize(torch.randn(3, 16, generator=generator(3)), dim=-1)
    scores = [search.maximise(start, shares, rounds).score for rounds in (1, 2, 4, 8, 30)]
    assert scores == sorted(scores)
    assert scores[-1] > scores[0] + 0.1


def test_an_old_class_that_takes_a_new_ones_images_gets_no_larger_share_for_it():
    points, centres = clouds(4)
    beside = normalize(centres[2] + centres[0], dim=0)  # an old class on the way to a new one
    search = Search(points, torch.stack([beside, centres[1]]), 0.1)
    got = search.maximise(centres[3:], torch.full((3,), 1 / 3))
    assert got.counts[0] > 1.5 * got.counts[1]
    assert got.shares[0] == got.shares[1]


def test_a_candidate_that_is_added_gains_most():
    selection = random_selection()
    for _ in range(5):
        before = list(selection.chosen)
        selection.add()
        reached = [objective(selection, [*before, c]) for c in range(12)]
        assert selection.chosen[:-1] == before
        assert reached[selection.chosen[-1]] == pytest.approx(max(reached), abs=1e-4)


def test_adding_names_the_places_that_lose_points_to_it():
    selection = random_selection(30, seed=2)
    named = 0
    for _ in range(6):
        before = selection.nearest.tolist()
        weaker = selection.add()
        new = len(selection.chosen)
        lost = {old - 1 for old, now in zip(before, selection.nearest.tolist(), strict=True) if old > 0 and now == new}
        assert set(weaker) == lost
        named += len(lost)
    assert named


@pytest.mark.parametrize("seed", range(5))
def test_an_exchange_is_the_best_one_and_never_lowers_the_objective(seed):
    selection = random_selection(seed=seed)
    for _ in range(4):
        selection.add()
    selection.order[0] = (selection.order[0] + 1) % 12  # a worse one
    selection._update()
    changed = 0
    for place in (0, 1, 2, 3, 0, 1, 2, 3):
        before = list(selection.chosen)
        others = [c for i, c in enumerate(before) if i != place]
        best = max(objective(selection, [*others, c]) for c in range(12))
        exchanged = selection.exchange(place)
        after = objective(selection, selection.chosen)
        assert exchanged == (selection.chosen != before)
        assert after >= objective(selection, before) - 1e-5
        assert after == pytest.approx(best, abs=1e-3)
        assert [c for i, c in enumerate(selection.chosen) if i != place] == others
        changed += exchanged
    assert changed


def test_a_components_loss_is_what_is_missing_without_it():
    selection = random_selection()
    for _ in range(5):
        selection.add()
        every = objective(selection, selection.chosen)
        for place, component in enumerate(selection.components()):
            without = [c for i, c in enumerate(selection.chosen) if i != place]
            assert component.loss == pytest.approx(every - objective(selection, without), abs=1e-4)
            own = 0.0
            for base, cosines, size in zip(selection.base, selection.cosines, selection.sizes, strict=True):
                others = [float(base), *(float(cosines[c]) for c in without)]
                own += float(size) * (float(cosines[selection.chosen[place]]) > max(others))
            assert component.images == own


def test_the_selection_is_as_good_as_the_best_of_all():
    points, centres = clouds(4, each=5, noise=0.3)
    search = Search(points, centres[:1], 0.1)
    shares = torch.full((4,), 0.25)
    got = search._selection(3, shares)
    every = itertools.combinations(range(len(search.candidates.sums)), 3)
    best = max(float(got.sizes @ torch.maximum(got.base, got.cosines[:, list(chosen)].amax(1))) for chosen in every)
    assert objective(got, got.chosen) == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("noise", [0.08, 0.2])
def test_the_new_classes_are_found_and_the_old_ones_stay(noise):
    points, centres = clouds(6, noise=noise)
    search = Search(points, centres[:4], 0.05)
    groups = search.candidates.members[:, search._selection(2, torch.full((6,), 1 / 6)).chosen].T
    assert sorted(group.nonzero()[:, 0].tolist() for group in groups) == [[*range(120, 150)], [*range(150, 180)]]
    got = search.best(2)
    assert torch.equal(got.centres[:4], centres[:4])
    cosines = got.centres[4:] @ centres.T
    assert sorted(cosines.argmax(1).tolist()) == [4, 5]
    assert (cosines.amax(1) > 0.95).all()
    torch.testing.assert_close(got.counts, torch.full((6,), 30.0), rtol=0.05, atol=1)


def test_new_classes_are_found_among_very_many_images(monkeypatch):
    monkeypatch.setattr("happycat.methods.calm.mixture.Points", lambda points: Points(points, 60))
    points, centres = clouds(6, each=100)
    got = Search(points, centres[:3], 0.05).best(3)
    assert sorted((got.centres @ centres.T).argmax(1).tolist()) == list(range(6))
    torch.testing.assert_close(got.counts, torch.full((6,), 100.0), rtol=0.05, atol=1)


def test_classes_of_very_different_sizes_are_found():
    points, centres = clouds(5, each=60)
    some = torch.cat([points[:120], points[120:180], points[180:188], points[240:260]])
    got = Search(some, centres[:2], 0.05).best(3)
    assert sorted((got.centres[2:] @ centres.T).argmax(1).tolist()) == [2, 3, 4]


def test_no_new_class_is_a_mixture_too():
    points, centres = clouds(3)
    got = Search(points, centres, 0.1).best(0)
    assert torch.equal(got.centres, centres)
    torch.testing.assert_close(got.shares, torch.full((3,), 1 / 3))


def test_growing_misses_each_class_there_is_much_and_what_follows_little():
    points, centres = clouds(6)
    steps = list(itertools.islice(Search(points, centres[:3], 0.1).growing(), 6))
    assert [len(step) for step in steps] == [1, 2, 3, 4, 5, 6]
    assert [round(one.images) for one in steps[2]] == [30, 30, 30]
    least = [min(one.loss for one in step) for step in steps]
    assert min(least[:3]) > 10 * max(least[3:])


def test_growing_puts_right_a_component_that_covered_two_classes():
    """The first component of two near classes lies between them; when a second one comes, each has its own."""
    points, centres = clouds(3, noise=0.05)
    near = normalize(torch.cat([points[:30], points[30:60] + 2 * centres[0], points[60:] + 2 * centres[0]]), dim=-1)
    old = -centres[0][None]
    search = Search(near[30:], old, 0.1)
    first, second = itertools.islice(search.growing(), 2)
    assert [round(one.images) for one in first] == [60]
    assert [round(one.images) for one in second] == [30, 30]
    assert second[0].loss == pytest.approx(second[1].loss, rel=0.2)  # neither still covers both


def test_growing_ends_when_each_image_has_a_component():
    points, centres = clouds(3, each=3)
    steps = list(Search(points, centres[:1], 0.1).growing())
    assert [len(step) for step in steps] == list(range(1, 10))
    assert all(one.loss >= 0 for step in steps for one in step)


def test_the_same_images_give_the_same_mixture():
    points, centres = clouds(5, noise=0.3)
    one, two = (Search(points, centres[:2], 0.1).best(3) for _ in range(2))
    assert torch.equal(one.centres, two.centres)


@pytest.mark.parametrize(
    ("points", "number"),
    [
        (clouds(3, each=2)[0], 4),  # more than groups of several images
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
    search = Search(points, centres[:2], 0.1)
    got = search.best(number)
    assert got.centres.shape == (2 + number, 16)
    assert got.centres.isfinite().all()
    torch.testing.assert_close(got.centres.norm(dim=1), torch.ones(2 + number))
    assert math.isfinite(got.score)
    assert got.counts.sum() == pytest.approx(len(points), abs=1e-3)
    assert len(list(search.growing())) == len(points)


def test_as_many_new_classes_as_images_explain_each_one():
    points, _ = clouds(4, each=1)
    got = Search(points, -points[:1], 0.02).best(4)
    assert ((got.centres[1:] @ points.T).amax(0) > 0.95).all()
