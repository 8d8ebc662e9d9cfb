"""How many new classes: which components are useful, the distribution of the number, and what it is learned from."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
import pytest

from happycat.methods.calm.number import (
    CLEARER,
    CLEAREST,
    FEWEST,
    MANY_SIZES,
    MORE,
    NODES,
    NUM_VALUES,
    ONE_SIZE,
    PATIENCE,
    NumberModel,
    Observation,
    Penalty,
    Step,
    count,
    follow,
)
from happycat.methods.calm.selection import Component

ODD = 2  # images of a component that is no class


def growing(*losses: float, images: Sequence[float] | None = None) -> list[Step]:
    """Steps of components that lose so much, each the same whatever comes after it.

    Those that lose more than 1.5 have 20 images, as classes do, unless it is said how many.
    """
    sizes = images or [20 if loss > 1.5 else ODD for loss in losses]
    components = [Component(size, loss) for size, loss in zip(sizes, losses, strict=True)]
    return [components[: k + 1] for k in range(len(components))]


CLASSES = growing(9, 8, 7, 1.1, 0.9, 0.8, 0.7)
HALVES = growing(9, 9, 8, 8, 4, 4, 3, 3, 0.4, 0.3, images=[20, 20, 20, 20, 10, 10, 10, 10, ODD, ODD])
PAIRS = growing(9, 9, 8, 8, 7, 7, 6, 6, 0.3, 0.3, images=[20, 20, 20, 20, 20, 40, 40, 40, ODD, ODD])
UNLIKE = growing(9, 8, 7, 6, 5, 4, 0.4, 0.3, images=[80, 40, 20, 10, 5, 5, ODD, ODD])
BETWEEN = growing(9, 8, 7, 6, 5, 4, 3.5, 3, 0.3, 0.3, images=[30, 15, 24, 13, 12, 9, 8, 7, ODD, ODD])
FEW = growing(9, 8, 0.4, 0.3, 0.3, images=[20, 10, 20, 20, 20])


def by_size(useful: int, steps: Sequence[Step]) -> int:
    """k̂ = k^(1−t) (n/N)^t for k useful components, written from the module's words."""
    if useful < FEWEST:
        return useful

    def clearest_first(step: Step) -> list[float]:
        return [max(1, c.images) for c in sorted(step, key=lambda c: c.loss, reverse=True)]

    more = clearest_first(steps[min(round(MORE * useful), len(steps)) - 1])
    typical = statistics.median(more[: math.ceil(CLEAREST * len(more))])
    clearer = clearest_first(steps[useful - 1])[: math.ceil(CLEARER * useful)]
    spread = statistics.pstdev(math.log(size) for size in clearer)
    trust = min(1.0, max(0.0, (MANY_SIZES - spread) / (MANY_SIZES - ONE_SIZE)))
    return round(useful ** (1 - trust) * (sum(more) / typical) ** trust)


def model(component=2.0, image=0.02, spread=0.1, error=0.1) -> NumberModel:
    return NumberModel(np.array([[component, image, spread, error, 1.0]]))


def test_a_component_is_useful_if_it_is_worth_its_penalty():
    penalty = Penalty(2, 0.05)
    assert penalty.of(20) == 3
    assert penalty.useful([Component(20, 3), Component(20, 2.9), Component(4, 2.2), Component(4, 2.1)]) == 2


@pytest.mark.parametrize(
    "steps",
    [CLASSES, HALVES, PAIRS, UNLIKE, BETWEEN, FEW],
    ids=["classes", "halves", "pairs", "unlike", "between", "few"],
)
def test_the_distribution_is_what_its_equations_say(steps):
    probabilities = model(2.0, 0.02, 0.5, 0.2).probabilities(steps)
    weights = [math.exp(-z * z / 2) for z in NODES]
    expected = np.zeros_like(probabilities)
    for z, weight in zip(NODES, weights, strict=True):
        scale = math.exp(0.5 * z)
        useful = max(sum(c.loss >= scale * (2 + 0.02 * c.images) for c in step) for step in steps)
        estimate = by_size(useful, steps)
        kernel = [math.exp(-((math.log((k + 0.5) / (estimate + 0.5)) / 0.2) ** 2) / 2) for k in range(len(expected))]
        expected += weight / sum(weights) * np.array(kernel) / sum(kernel)
    np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    assert probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("steps", "useful", "number"),
    [
        (HALVES, 8, 6),  # two classes are divided: 120 images, 20 of a class
        (HALVES[:8], 8, 6),  # no more components were tried
        (PAIRS, 8, 11),  # three components have two classes each: 220 images
        (growing(9, 9, 8, 8, 7, 7, 0.3, 0.3), 6, 6),  # nothing is divided
    ],
)
def test_of_classes_of_one_size_the_number_is_that_of_their_images(steps, useful, number):
    assert Penalty(2, 0.02).useful(steps[-1]) == useful
    assert model().probabilities(steps).argmax() == number


def test_of_classes_of_very_different_sizes_the_number_is_that_of_useful_components():
    """As many images as four classes of 40 have, the median of the clearest half; as 2.7 of the clearest two."""
    assert Penalty(2, 0.02).useful(UNLIKE[-1]) == 6
    assert model().probabilities(UNLIKE).argmax() == 6


def test_the_more_alike_sizes_are_the_more_the_number_is_that_of_the_images():
    """Six classes, two of which are divided: 8 components, and 6 times the images of a usual class."""
    found = []
    for deviation in (0.0, 0.15, 0.3, 0.4, 0.55):  # of the logarithms of the clearer half's sizes
        factor = math.exp(deviation * math.sqrt(2))
        sizes = [20, 20 * factor, 20 / factor, 20, 10, 10, 10, 10]
        found.append(int(model().probabilities(growing(9, 8.5, 8, 7.5, 4, 4, 3, 3, images=sizes)).argmax()))
    assert found == [6, 6, 7, 7, 8]


@pytest.mark.parametrize("useful", [0, 1, 2])
def test_of_fewer_than_three_useful_components_sizes_say_nothing(useful):
    for images in ([20] * 6, [40, 10, 40, 20, 20, 20]):
        steps = growing(*[9, 8][:useful], *[0.3] * (6 - useful), images=images)
        assert model().probabilities(steps).argmax() == useful


def test_a_component_without_an_image_is_no_class():
    steps = growing(9, 9, 8, 8, 7, 7, 0, 0, images=[20] * 6 + [0, 0])
    assert model().probabilities(steps).argmax() == 6
    assert np.isfinite(model().probabilities(growing(0, 0, 0, 0, images=[0] * 4))).all()


def test_a_class_needs_so_many_images_to_be_noticed():
    # lost an image: 0.45, 0.4, 0.35 and 0.55 and less; only the first three are worth 2 + 0.02 n
    assert model().smallest(CLASSES) == math.ceil(1.5 * 2 / (0.4 - 0.02))
    assert model(component=1.0).smallest(CLASSES) < model(component=2.0).smallest(CLASSES)
    assert model(component=50.0).smallest(CLASSES) is None
    assert model().smallest([]) is None
    assert count(model().probabilities(CLASSES), 99, 8).smallest == 8


def test_the_most_useful_components_that_there_ever_are_together_count():
    """Three classes; the fourth component divides the first, and both of its parts are of no use then."""
    three = [Component(20, 9), Component(20, 8), Component(20, 7)]
    divided = [Component(10, 0.5), Component(20, 8), Component(20, 7), Component(10, 0.5)]
    assert model().probabilities([three[:1], three[:2], three, divided]).argmax() == 3


def test_nothing_and_no_steps_are_zero():
    assert model().probabilities(growing(0.3, 0.2)).argmax() == 0
    assert model().probabilities([]).argmax() == 0


def test_the_estimate_is_the_median_and_the_interval_holds_nine_tenths():
    found = count(np.array([0.02, 0.2, 0.4, 0.2, 0.1, 0.08]), most=10)
    assert (found.number, found.low, found.high) == (2, 1, 5)
    assert found.numbers == [0, 1, 2, 3, 4, 5]
    assert sum(found.curve) == pytest.approx(1)
    assert found.measure == "probability"


def test_perhaps_none_perhaps_one_is_said_as_such():
    found = count(np.array([0.55, 0.4, 0.05]), most=10)
    assert (found.number, found.low, found.high) == (0, 0, 1)
    assert found.curve[:2] == pytest.approx([0.55, 0.4])


def test_an_upper_bound_cuts_the_distribution_off():
    found = count(np.array([0.1, 0.15, 0.35, 0.4]), most=2)
    assert (found.number, found.high) == (2, 2)
    assert sum(found.curve) == pytest.approx(1)
    assert found.numbers[-1] == 2


def test_steps_are_followed_up_to_the_most():
    assert len(follow(iter(CLASSES), 4)) == 4
    assert len(follow(iter(CLASSES), 100)) == len(CLASSES)


def test_growing_stops_when_no_more_components_are_useful():
    many = growing(*[9] * 6, *[0.1] * 100)
    assert len(follow(iter(many), 200, Penalty(2, 0))) == 6 + PATIENCE
    more = growing(*[9] * 30, *[0.1] * 100)
    assert len(follow(iter(more), 200, Penalty(2, 0))) == 30 + 10  # a third of what was useful


def test_a_distribution_is_learned_that_fits_what_was_held_out():
    episodes = [Observation(growing(*[5 + k for k in range(n)], 0.4, 0.3, 0.3), n) for n in (3, 4, 5)]
    episodes.append(Observation(growing(0.5, 0.4), 0))
    learned = NumberModel.learned(episodes)
    assert learned.values.shape == (NUM_VALUES, 5)
    assert learned.values[:, 4].sum() == pytest.approx(1)
    assert 0.5 < learned.penalty.of(20) < 5
    for episode in episodes:
        found = count(learned.probabilities(episode.steps), 100)
        assert found.number == episode.number
        assert found.low <= episode.number <= found.high


def test_the_interval_is_wide_where_held_out_classes_say_little():
    clear = [Observation(growing(*[9] * n, 0.2, 0.2), n) for n in (4, 5, 6, 7, 8, 9)]
    vague = [Observation(growing(*np.linspace(3, 0.3, 12).tolist()), n) for n in (3, 6, 9, 4, 8, 5)]

    def width(episodes):
        found = count(NumberModel.learned(episodes).probabilities(growing(*[9] * 5, *np.linspace(3, 0.3, 9))), 100)
        return found.high - found.low

    assert width(vague) > width(clear)
    assert width(clear[:1]) > width(clear)


def test_more_than_are_known_can_be_found():
    found = count(NumberModel.learned([Observation(growing(9, 0.2), 1)]).probabilities(growing(*[9] * 40, 0.1)), 1000)
    assert found.low > 15
    assert found.low <= 40 <= found.high


def test_other_directions_of_old_classes_are_no_part_of_new_ones_whatever_their_size():
    """Three classes, and two components of as many images that lose hardly anything."""
    assert model().probabilities(growing(9, 8, 7, 0.3, 0.3, images=[20] * 5)).argmax() == 3
