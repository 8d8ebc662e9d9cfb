"""How many new classes: the penalty of a component, the estimate and its interval."""

from __future__ import annotations

import pytest
import torch

from happycat.methods.calm.mixture import Mixture
from happycat.methods.calm.number import Penalty, Step, count, follow, learn_penalty


def steps_of(*gains_and_images) -> list[Step]:
    """Steps of components that would all be missed by what they gained."""
    losses = [gain for gain, _ in gains_and_images]
    return [Step(gain, images, tuple(losses[: k + 1])) for k, (gain, images) in enumerate(gains_and_images)]


CLASSES = steps_of((90, 30), (80, 30), (60, 30), (12, 25), (9, 20), (8, 18))


def test_the_score_is_gain_less_penalty():
    penalty = Penalty(10, 0.5, 1)
    assert penalty.score(steps_of((90, 30), (20, 20))).tolist() == [0, 90 - 25, 90 - 25 + 20 - 20]


def test_the_number_is_where_the_score_is_largest():
    assert Penalty(10, 0.5, 1).number(CLASSES) == 3
    assert Penalty(1, 0.01, 1).number(CLASSES) == 6
    assert Penalty(100, 0.5, 1).number(CLASSES) == 0


def test_a_late_class_is_found_behind_a_component_that_is_not_counted():
    steps = steps_of((90, 30), (5, 30), (80, 30), (1, 30))
    penalty = Penalty(10, 0.5, 1)
    assert int(penalty.score(steps).argmax()) == 3
    assert penalty.kept(steps) == [0, 1, 1, 2, 2]
    assert penalty.number(steps) == 2
    found = count(steps, penalty)
    assert found.numbers == [0, 1, 2]
    assert found.curve == [0, 65, 65 - 20 + 55]


def test_a_larger_penalty_is_the_low_end_and_a_smaller_one_the_high_end():
    penalty = Penalty(10, 0.5, 3)
    assert penalty.interval(CLASSES) == (penalty.number(CLASSES, 3), penalty.number(CLASSES, 1 / 3)) == (2, 6)
    found = count(CLASSES, penalty)
    assert (found.low, found.number, found.high) == (2, 3, 6)
    assert found.numbers == [0, 1, 2, 3]  # none of the others would be missed
    assert found.curve[3] == max(found.curve)


class Growing:
    """A search whose components gain so much and have four images each."""

    num_old = 2

    def __init__(self, gains):
        self.gains = gains

    def growing(self, moves):
        total = 0.0
        for k, gain in enumerate([0.0, *self.gains]):
            total += gain
            number = self.num_old + k
            counts = torch.full((number,), 4.0)
            yield Mixture(torch.zeros(number, 3), torch.ones(number), torch.tensor([total]), counts)

    def losses(self, mixture):
        return torch.full((len(mixture.counts) - self.num_old,), 7.0)


def test_steps_are_followed_up_to_the_most():
    steps = follow(Growing([9.0, 5.0, 1.0, 1.0]), 0, most=3)
    assert [(step.gain, step.images) for step in steps] == [(9, 4), (5, 4), (1, 4)]
    assert [step.losses for step in steps] == [(7,), (7, 7), (7, 7, 7)]


def test_growing_stops_when_nothing_gains_its_penalty_any_more():
    steps = follow(Growing([50.0, 40.0, *[1.0] * 100]), 0, most=100, penalty=Penalty(5, 0, 2))
    assert len(steps) == 2 + 5


def test_the_penalty_is_learned():
    nothing = [steps_of((6, 3), (4, 3)), steps_of((3, 3), (9, 3))]  # most per component: 6
    few = steps_of((30, 5), (25, 5), (8, 4), (7, 4))
    many = steps_of((90, 50), (80, 50), (60, 50), (25, 40), (20, 30))
    penalty = learn_penalty(nothing, [(2, few), (3, many)])
    assert penalty.component == 6
    assert (penalty.number(few), penalty.number(many)) == (2, 3)
    assert penalty.factor == 1
    assert all(penalty.number(steps) == 0 for steps in nothing)


def test_the_penalty_is_the_geometric_mean_of_the_near_optimal_ones():
    # two classes of ten images; a component costs 5 and ten times what an image does, and anything from 6 to 100 fits
    penalty = learn_penalty([steps_of((5, 1))], [(2, steps_of((100, 10), (100, 10), (6, 10)))])
    assert penalty.of(Step(0, 10, ())) == pytest.approx((6 * 100) ** 0.5, rel=0.1)


def test_the_interval_widens_until_it_holds_most_truths():
    episodes = [(3, steps_of((60, 10), (50, 10), (g, 10), (1, 10))) for g in (40, 30, 20, 9, 8)]
    episodes += [(2, steps_of((60, 10), (50, 10), (24, 10), (1, 10)))] * 3
    penalty = learn_penalty([], episodes)
    assert penalty.factor > 1
    inside = [penalty.interval(steps)[0] <= number <= penalty.interval(steps)[1] for number, steps in episodes]
    assert sum(inside) / len(inside) >= 0.8


@pytest.mark.parametrize("nothing", [[], [steps_of((5, 1))]])
def test_without_an_episode_that_says_something_the_penalty_is_still_a_penalty(nothing):
    steps = steps_of((40, 10), (2, 10))
    assert learn_penalty(nothing, [(1, steps)]).number(steps) == 1
