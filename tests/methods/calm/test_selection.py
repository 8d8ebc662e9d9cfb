"""Facility location: against an objective that is summed in a slow loop over all images and chosen groups."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm.candidates import Explained, explained, find_groups
from happycat.methods.calm.selection import Selection


class Dense(NamedTuple):
    """The cosines (M, N) of groups with images, and what the images have (N,) without any."""

    cosines: np.ndarray
    have: np.ndarray

    def selection(self) -> Selection:
        more = self.cosines > self.have
        return Selection(
            self.have, Explained(np.append(0, more.sum(1).cumsum()), more.nonzero()[1], self.cosines[more])
        )

    def objective(self, chosen: list[int]) -> float:
        """The sum over images of the largest cosine that they have, or have with a chosen group; one image has none."""
        groups, total = [c for c in chosen if c < len(self.cosines)], 0.0
        for i, base in enumerate(self.have.tolist()):
            total += max([base, *(float(self.cosines[c, i]) for c in groups)])
        return total


def at_random(images: int = 30, groups: int = 12, seed: int = 0) -> Dense:
    """Cosines of nothing in particular."""
    random = np.random.default_rng(seed)
    return Dense(random.uniform(-1, 1, (groups, images)), random.uniform(-0.5, 0.5, images))


def of_clouds(number: int = 4, each: int = 5, dim: int = 16, noise: float = 0.3) -> Dense:
    """The groups of noisy points around orthogonal directions, of which one is an old class."""
    centres = torch.linalg.qr(torch.randn(dim, dim, generator=torch.Generator().manual_seed(0)))[0][:number]
    noisy = torch.randn(number * each, dim, generator=torch.Generator().manual_seed(1))
    points = normalize(centres.repeat_interleave(each, 0) + noise * noisy, dim=-1)
    groups, have = find_groups(points, torch.zeros(len(points), dtype=torch.bool)), points @ centres[0]
    start, image, cosine = explained(groups, points, have)
    cosines = np.full((len(start) - 1, len(points)), -1.0)
    for group in range(len(cosines)):
        rows = slice(start[group], start[group + 1])
        cosines[group, image[rows]] = cosine[rows]
    return Dense(cosines, have.numpy())


def put(selection: Selection, order: list[int]) -> None:
    """Choose these, whatever they gain, where nothing is chosen yet."""
    for place, group in enumerate(order, 1):
        selection.order.append(group)
        selection._put(group, place, np.arange(len(selection.have)))


def test_a_group_that_is_added_gains_most():
    dense = at_random()
    selection = dense.selection()
    for _ in range(5):
        before = list(selection.order)
        selection.add()
        reached = [dense.objective([*before, c]) for c in range(12)]
        assert selection.order[:-1] == before
        assert reached[selection.order[-1]] == pytest.approx(max(reached), abs=1e-9)
        assert max(reached) > dense.objective(before)


def test_adding_names_the_places_that_lose_images_to_it():
    selection = at_random(seed=2).selection()
    named = 0
    for _ in range(6):
        before = selection.nearest.tolist()
        weaker = selection.add()
        new = len(selection.order)
        lost = {old - 1 for old, now in zip(before, selection.nearest.tolist(), strict=True) if old > 0 and now == new}
        assert sorted(weaker) == sorted(lost)
        named += len(lost)
    assert named


@pytest.mark.parametrize("seed", range(5))
def test_an_exchange_is_the_best_one_and_never_lowers_the_objective(seed):
    dense = at_random(seed=seed)
    selection = dense.selection()
    for _ in range(4):
        selection.add()
    first = min((c for c in range(12) if c not in selection.order), key=lambda c: dense.objective([c]))
    worse = [first, *selection.order[1:]]
    selection = dense.selection()
    put(selection, worse)
    changed = 0
    for place in (0, 1, 2, 3, 0, 1, 2, 3):
        before = list(selection.order)
        others = [c for i, c in enumerate(before) if i != place]
        best = max(dense.objective([*others, c]) for c in range(12))
        exchanged = selection.exchange(place)
        after = dense.objective(selection.order)
        assert exchanged == (selection.order != before)
        assert after >= dense.objective(before)
        assert after == pytest.approx(best, abs=1e-3)  # an exchange that gains next to nothing is not made
        assert [c for i, c in enumerate(selection.order) if i != place] == others
        changed += exchanged
    assert changed


def test_an_exchange_that_gains_next_to_nothing_is_not_made():
    """Rounding would exchange two equal groups for ever."""
    dense = Dense(np.array([[0.5, 0.5], [0.5 + 1e-6, 0.5], [0.5, 0.6]]), np.zeros(2))
    selection = dense.selection()
    put(selection, [0])
    assert selection.exchange(0)
    assert selection.order == [2]
    same = Dense(dense.cosines[:2], dense.have).selection()
    put(same, [0])
    assert not same.exchange(0)
    assert same.order == [0]


@pytest.mark.parametrize("seed", range(3))
def test_gains_that_are_kept_are_those_that_the_objective_says(seed):
    dense = at_random(60, 25, seed)
    selection = dense.selection()

    def check() -> None:
        now = dense.objective(selection.order)
        more = [dense.objective([*selection.order, c]) - now for c in range(25)]
        np.testing.assert_allclose(selection.gains, more, rtol=0, atol=1e-12)

    check()
    for _ in range(30):  # five more than there are groups
        for place in selection.add():
            selection.exchange(place)
        check()
    assert selection.order[-1] >= 25  # what rounding leaves of a gain is none


def test_a_components_loss_is_what_is_missing_without_it_and_its_images_are_those_nearest():
    dense = at_random()
    selection = dense.selection()
    for _ in range(5):
        selection.add()
        every, components = dense.objective(selection.order), selection.components()
        assert len(components) == len(selection.order)
        for place, component in enumerate(components):
            without = [c for i, c in enumerate(selection.order) if i != place]
            assert component.loss == pytest.approx(every - dense.objective(without), abs=1e-9)
            own = 0
            for i, base in enumerate(dense.have):
                others = [base, *(dense.cosines[c, i] for c in without)]
                own += dense.cosines[selection.order[place], i] > max(others)
            assert component.images == own
        assert sum(c.images for c in components) <= 30  # those that have more already are nobody's


def test_an_image_that_is_as_near_to_two_belongs_to_the_first_and_misses_neither():
    dense = Dense(np.array([[0.5, 0.9, 0.1], [0.5, 0.1, 0.9]]), np.zeros(3))
    for order in ([0, 1], [1, 0]):
        selection = dense.selection()
        put(selection, order)
        assert selection.nearest[0] == 1
        assert [c.images for c in selection.components()] == [2, 1]
        assert [c.loss for c in selection.components()] == pytest.approx([0.8, 0.8])


def test_images_are_chosen_where_no_group_explains_more_the_worst_explained_first():
    dense = Dense(np.array([[0.9, 0.8, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1]]), np.array([0.0, 0.1, 0.7, 0.3]))
    selection = dense.selection()
    assert selection.choose(3) == [0, 2 + 3, 2 + 2]  # with the group they have 0.9, 0.8, 0.7 and 0.3
    assert [c.images for c in selection.components()] == [2, 0, 0]
    assert [c.loss for c in selection.components()] == pytest.approx([0.9 + 0.7, 0, 0])


def test_each_image_is_chosen_where_there_are_no_more_images():
    """Whatever groups there are: a component for each explains them best."""
    dense = at_random(5, 12)
    assert sorted(dense.selection().choose(5)) == [12, 13, 14, 15, 16]
    chosen = dense.selection().choose(8)
    assert len(chosen) == 8
    assert set(chosen) == {12, 13, 14, 15, 16}


def test_no_groups_and_groups_that_explain_nothing():
    have = np.array([0.5, -0.2, 0.1])
    for number in (0, 2):
        dense = Dense(np.full((number, 3), -0.9), have)
        assert dense.selection().choose(2) == [number + 1, number + 2]
        steps = list(dense.selection().growing())
        assert [[tuple(one) for one in step] for step in steps] == [[(0, 0)] * n for n in (1, 2, 3)]


def test_a_single_image_is_exchanged_for_a_group_that_explains_more():
    dense = at_random()
    selection = dense.selection()
    put(selection, [12 + 3])
    assert selection.exchange(0)
    assert dense.objective(selection.order) == pytest.approx(max(dense.objective([c]) for c in range(12)))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_selection_is_as_good_as_the_best_of_all(number):
    dense = of_clouds()
    every = itertools.combinations(range(len(dense.cosines)), number)
    best = max(dense.objective(list(chosen)) for chosen in every)
    chosen = dense.selection().choose(number)
    assert len(chosen) == number
    assert dense.objective(chosen) == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_exchanges_go_on_until_none_is_better(seed):
    dense = at_random(seed=seed)
    added = dense.selection()
    for _ in range(4):
        added.add()
    chosen = dense.selection().choose(4)
    assert dense.objective(chosen) >= dense.objective(added.order)
    for place, other in itertools.product(range(4), range(12)):
        exchanged = [*chosen[:place], other, *chosen[place + 1 :]]
        assert dense.objective(exchanged) <= dense.objective(chosen) + 1e-5 * 30


@pytest.mark.parametrize("dense", [at_random(20, 8), of_clouds()], ids=["random", "clouds"])
def test_growing_adds_one_component_after_another_until_each_image_may_have_its_own(dense):
    selection = dense.selection()
    reached = [dense.objective([])]
    for number, step in enumerate(selection.growing(), 1):
        assert len(step) == len(selection.order) == number
        assert len(set(selection.order)) == number  # none twice
        assert step == selection.components()
        reached.append(dense.objective(selection.order))
    assert len(reached) == 1 + len(dense.have)
    assert reached == sorted(reached)


def test_growing_puts_right_a_group_that_lost_images():
    """The first group covers all; when the second one comes, the half that is left has a better one."""
    cosines = np.array([[0.6] * 4, [0.9, 0.9, 0, 0], [0, 0, 0.8, 0.8]])
    selection = Dense(cosines, np.zeros(4)).selection()
    first, second = itertools.islice(selection.growing(), 2)
    assert [c.images for c in first] == [4]
    assert sorted(selection.order) == [1, 2]
    assert sorted(c.images for c in second) == [2, 2]
    assert sorted(c.loss for c in second) == pytest.approx([1.6, 1.8])


def test_the_order_of_the_images_does_not_matter():
    dense, order = at_random(), np.random.default_rng(5).permutation(30)
    turned = Dense(dense.cosines[:, order], dense.have[order])
    assert turned.selection().choose(5) == dense.selection().choose(5)
