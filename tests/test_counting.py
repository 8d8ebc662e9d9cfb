"""How many new classes: the price of a component, the estimate and its interval."""

from __future__ import annotations

import itertools

import pytest
import torch

from happycat.counting import Price, Step, count, follow, learn_price
from happycat.mixture import Mixture

CLASSES = [Step(90, 30), Step(80, 30), Step(60, 30), Step(12, 25), Step(9, 20), Step(8, 18)]


def test_worth_is_gain_less_price():
    price = Price(10, 0.5, 1)
    assert price.worth([Step(90, 30), Step(20, 20)]).tolist() == [0, 90 - 25, 90 - 25 + 20 - 20]


def test_the_number_is_where_the_worth_is_largest():
    assert Price(10, 0.5, 1).number(CLASSES) == 3
    assert Price(1, 0.01, 1).number(CLASSES) == 6
    assert Price(100, 0.5, 1).number(CLASSES) == 0


def test_a_late_class_is_found_behind_a_component_that_is_not_worth_it():
    assert Price(10, 0.5, 1).number([Step(90, 30), Step(5, 30), Step(80, 30), Step(1, 30)]) == 3


def test_a_dearer_price_is_the_low_end_and_a_cheaper_one_the_high_end():
    price = Price(10, 0.5, 3)
    assert price.interval(CLASSES) == (price.number(CLASSES, 3), price.number(CLASSES, 1 / 3)) == (2, 6)
    found = count(CLASSES, price)
    assert (found.low, found.number, found.high) == (2, 3, 6)
    assert found.numbers == list(range(7))
    assert found.curve[3] == max(found.curve)


def mixtures(gains, num_old=2):
    """Growing mixtures that gain so much."""
    total = 0.0
    for k, gain in enumerate([0.0, *gains]):
        total += gain
        number = num_old + k
        yield Mixture(torch.zeros(number, 3), torch.ones(number), torch.tensor([total]), torch.full((number,), 4.0))


def test_steps_are_followed_up_to_the_most():
    steps = follow(mixtures([9.0, 5.0, 1.0, 1.0]), 2, most=3)
    assert steps == [Step(9, 4), Step(5, 4), Step(1, 4)]


def test_growing_stops_when_nothing_is_worth_its_price_any_more():
    endless = mixtures(itertools.chain([50.0, 40.0], itertools.repeat(1.0, 100)))
    steps = follow(endless, 2, most=100, price=Price(5, 0, 2))
    assert len(steps) == 2 + 5
    assert Price(5, 0, 2).number(steps) == 2


def test_the_price_is_learned():
    nothing = [[Step(6, 3), Step(4, 3)], [Step(3, 3), Step(9, 3)]]  # most per component: 6
    few = [Step(30, 5), Step(25, 5), Step(8, 4), Step(7, 4)]
    many = [Step(90, 50), Step(80, 50), Step(60, 50), Step(25, 40), Step(20, 30)]
    price = learn_price(nothing, [(2, few), (3, many)])
    assert price.component == 6
    assert (price.number(few), price.number(many)) == (2, 3)
    assert price.factor == 1
    assert all(price.number(steps) == 0 for steps in nothing)


def test_the_interval_widens_until_it_holds_most_truths():
    episodes = [(3, [Step(60, 10), Step(50, 10), Step(g, 10), Step(1, 10)]) for g in (40, 30, 20, 9, 8)]
    episodes += [(2, [Step(60, 10), Step(50, 10), Step(24, 10), Step(1, 10)])] * 3
    price = learn_price([], episodes)
    assert price.factor > 1
    inside = [price.interval(steps)[0] <= number <= price.interval(steps)[1] for number, steps in episodes]
    assert sum(inside) / len(inside) >= 0.8


@pytest.mark.parametrize("nothing", [[], [[Step(5, 1)]]])
def test_without_an_episode_that_says_something_the_price_is_still_a_price(nothing):
    price = learn_price(nothing, [(1, [Step(40, 10), Step(2, 10)])])
    assert price.number([Step(40, 10), Step(2, 10)]) == 1
