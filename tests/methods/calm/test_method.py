"""Calm: values chosen on held-out classes, nothing tuned, old directions stay."""

from __future__ import annotations

import pytest
import torch

from tests.helpers.contract import NUM_BASE, NUM_NEW, accuracy_on, after_stage_0, training

FULL = {"episodes": 2, "restarts": 2, "moves": 10}


def test_nothing_is_tuned():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    before = {name: value.clone() for name, value in method.tail.state_dict().items()}
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    assert all(torch.equal(value, before[name]) for name, value in method.tail.state_dict().items())


def test_old_directions_stay_and_new_ones_are_appended():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    old, counts = method.memory.prototypes.clone(), method.class_counts()
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    assert torch.equal(method.memory.prototypes[:NUM_BASE], old)
    assert method.class_counts()[:NUM_BASE] == counts
    assert len(method.memory.prototypes) == NUM_BASE + NUM_NEW


def test_values_that_are_given_are_taken():
    method, _, _ = after_stage_0("calm", dimensions=5, shrinkage=0.5, mixture_temperature=0.2, **FULL)
    assert method.space.projection.shape[1] == 5
    assert float(method.temperature) == pytest.approx(0.2)


def test_colours_are_discovered():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    assert min(accuracy_on(method, unlabelled)) > 80  # all, old and new


def test_probabilities_are_sharp_enough_to_be_likely():
    """The softmax temperature is that of the grid's likeliest: the labelled images are not given flat probabilities."""
    method, labelled, _ = after_stage_0("calm", **FULL)
    probabilities = method.predict_all(labelled)
    right = probabilities.argmax(1) == labelled.labels
    assert right.float().mean() > 0.9
    assert probabilities.amax(1).mean() > 0.8


def test_new_colours_are_counted():
    method, labelled, unlabelled = after_stage_0("calm", **{**FULL, "episodes": 6})
    found = method.count(unlabelled, torch.Generator().manual_seed(0), 6)
    assert found.number == NUM_NEW
    assert found.low <= found.number <= found.high
    assert found.numbers[found.curve.index(max(found.curve))] == found.number
    assert method.count(labelled, torch.Generator().manual_seed(0), 6).number == 0


def test_the_classes_of_another_method_are_adopted():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    truth = torch.arange(NUM_BASE + NUM_NEW).repeat_interleave(len(unlabelled) // (NUM_BASE + NUM_NEW))
    method.adopt(unlabelled, truth, NUM_BASE + NUM_NEW + 1)  # the last one got no image
    assert method.num_classes == NUM_BASE + NUM_NEW + 1
    assert method.class_counts()[NUM_BASE:] == [len(truth) // 5, len(truth) // 5, 0]
    assert (method.predict_all(unlabelled).argmax(1) == truth).float().mean() > 0.9


def test_an_unknown_colour_is_below_the_threshold_and_most_labelled_images_are_not():
    method, labelled, unlabelled = after_stage_0("calm", **FULL)
    assert (method.memory.similarity(method.points(labelled)) >= method.rejection_threshold).float().mean() > 0.7
    new = method.points(unlabelled)[-len(unlabelled) // 5 :]
    assert (method.memory.similarity(new) < method.rejection_threshold).float().mean() > 0.7


class Watched:
    """An `Advance` that keeps what it is told."""

    def __init__(self) -> None:
        self.parts: list[int] = []
        self.total = 0

    def __call__(self, steps: int, total: int | None = None, loss: float | None = None) -> None:
        self.parts.append(steps)
        self.total = total or self.total


@pytest.mark.parametrize(("given", "candidates"), [({}, 4 + 3 + 3), ({"shrinkage": 0.3, "dimensions": 4}, 1 + 1 + 3)])
def test_the_calibration_says_how_far_it_is(given, candidates):
    method, labelled, _ = after_stage_0("calm", **FULL, **given)
    before, watched = {name: value.clone() for name, value in method.state_dict().items()}, Watched()
    list(method.fit(labelled, training(0), watched))
    assert watched.total == sum(watched.parts) == FULL["episodes"] * (candidates + 1)
    assert set(watched.parts) == {0, 1}
    list(method.fit(labelled, training(0)))
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())


def test_counting_says_how_far_it_is_and_is_full_at_the_end():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    watched = Watched()
    found = method.count(unlabelled, torch.Generator().manual_seed(0), 12, watched)
    assert found == method.count(unlabelled, torch.Generator().manual_seed(0), 12)
    assert watched.total == sum(watched.parts) == 12
    assert watched.parts[1] == 1
    assert watched.parts[-1] > 0  # numbers that need not be tried
