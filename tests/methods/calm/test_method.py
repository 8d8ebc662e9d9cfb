"""Calm: values chosen on held-out classes, nothing tuned, old directions stay."""

from __future__ import annotations

import pytest
import torch

from happycat.backbone.tail import Vectors
from happycat.learning.batches import Labelled, VectorViews
from happycat.methods.calm.method import EXPONENTS, TEMPERATURES, Calm, CalmConfig
from happycat.methods.calm.number import NOTHING_NEW
from tests.helpers.contract import NUM_BASE, NUM_NEW, accuracy_on, after_stage_0, training

FULL = {"episodes": 2}


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
    method, _, _ = after_stage_0("calm", dimensions=5, exponent=0.75, mixture_temperature=0.2, **FULL)
    assert method.space.projection.shape[1] == 5
    assert float(method.exponent) == pytest.approx(0.75)
    assert float(method.temperature) == pytest.approx(0.2)
    whitened, spherical = (after_stage_0("calm", shrinkage=s, **FULL)[0].space for s in (0.3, 1.0))
    assert not torch.allclose(whitened.projection, spherical.projection)


def test_values_that_are_not_given_are_chosen_from_the_lists():
    method, _, _ = after_stage_0("calm", **FULL)
    assert any(float(method.exponent) == pytest.approx(value) for value in EXPONENTS)
    assert any(float(method.temperature) == pytest.approx(value) for value in TEMPERATURES)


def test_directions_count_as_the_exponent_says():
    """More classes than five, of several images: their variances can be measured."""
    centres = torch.randn(20, 12, generator=torch.Generator().manual_seed(0))
    centres[:, 4:] = 0
    labels = torch.arange(20).repeat_interleave(12)
    noise = torch.randn(len(labels), 1, 12, generator=torch.Generator().manual_seed(1))
    labelled = Labelled(VectorViews(centres[labels][:, None] + 0.2 * noise), labels)
    norms = []
    for exponent in (0.0, 1.0):
        method = Calm(Vectors(12), CalmConfig(episodes=1, averaged_views=0, exponent=exponent))
        list(method.fit(labelled, training()))
        norms.append(method.space.projection.norm(dim=0))
    ratio = norms[1] / norms[0]
    assert ratio[:4].min() > 2 * ratio[4:].max()


def test_relearning_keeps_the_values_and_takes_confidence_from_what_was_held_out():
    method, labelled, _ = after_stage_0("calm", **FULL)
    chosen = ("exponent", "temperature", "number_values")
    before = {name: value.clone() for name, value in method.state_dict().items()}
    method.relearn(labelled)
    for name, value in method.state_dict().items():
        torch.testing.assert_close(value, before[name], msg=name)  # the same images, with the same values
    method.relearn(labelled, held_out=labelled)
    assert all(torch.equal(getattr(method, name), before[name]) for name in chosen)
    nearest = (method.space(method._views(labelled)[:, 0]) @ before["memory.prototypes"].T).amax(1)
    variance = (len(nearest) * nearest.var(correction=0) + 3 * 0.1**2) / (len(nearest) + 3)  # with the prior
    assert float(method.rejection_threshold) == pytest.approx(float(nearest.mean() - 2 * variance.sqrt()))


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
    assert found.measure == "probability"
    assert 0 < sum(found.curve) <= 1 + 1e-6
    assert found.number in found.numbers
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


@pytest.mark.parametrize(
    ("given", "candidates"), [({}, 3 + 3), ({"exponent": 0.25, "mixture_temperature": 0.05}, 1 + 1)]
)
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


def test_a_count_has_no_bound_but_the_images_unless_one_is_given():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    watched = Watched()
    method.count(unlabelled, torch.Generator().manual_seed(0), advance=watched)
    assert watched.total == len(unlabelled) - 1
    assert method.count(unlabelled, torch.Generator().manual_seed(0), 1).high <= 1
    assert method.count(unlabelled, torch.Generator().manual_seed(0), 0) == NOTHING_NEW


def test_discovering_and_counting_draw_nothing_at_random():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    state = {name: value.clone() for name, value in method.state_dict().items()}
    numbers, prototypes = [], []
    for seed in (1, 2):
        method.load_state_dict(state)
        numbers.append(method.count(unlabelled, torch.Generator().manual_seed(seed), 6))
        list(method.discover(unlabelled, NUM_NEW, training(seed)))
        prototypes.append(method.memory.prototypes.clone())
    assert numbers[0] == numbers[1]
    assert torch.equal(*prototypes)
