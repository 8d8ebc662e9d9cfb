"""Calm: values chosen on held-out classes, nothing tuned, old directions stay."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.backbone.tail import Vectors
from happycat.base.metrics import clustering_accuracy
from happycat.learning.batches import Labelled, Unlabelled, VectorViews
from happycat.methods.calm import candidates
from happycat.methods.calm.choosing import EXPONENTS, TEMPERATURES
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from happycat.methods.calm.number import NOTHING_NEW
from happycat.methods.calm.prediction import nearest
from tests.helpers.contract import NUM_BASE, NUM_NEW, accuracy_on, after_stage_0, training

FULL = {"episodes": 2}
OLD, NEW, EACH = 16, 4, 30  # classes of vectors, and images of each


def of_vectors(widths: dict[int, float] | None = None, **changes) -> tuple[Calm, Unlabelled, torch.Tensor]:
    """Calm that learned classes of vectors, images of these and of new classes, and their true classes.

    Some classes may be wider than the others, so many times.
    """
    spread = torch.linspace(3, 0.3, 24)  # classes differ most in the first directions
    centres = spread * torch.randn(OLD + NEW, 24, generator=torch.Generator().manual_seed(0))
    truth = torch.arange(OLD + NEW).repeat_interleave(EACH)
    width = torch.tensor([(widths or {}).get(c, 1.0) for c in truth.tolist()])[:, None]
    known, served = (
        centres[truth] + width * torch.randn(len(truth), 24, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 2)
    )
    method = Calm(Vectors(24), CalmConfig(episodes=2, averaged_views=0, **changes))
    old = truth < OLD
    list(method.fit(Labelled(VectorViews(known[old][:, None]), truth[old]), training()))
    return method, Unlabelled(VectorViews(served[:, None])), truth


def with_patches(signal: float, **changes) -> tuple[Calm, torch.Tensor]:
    """Calm that learned classes by a class token and by patches, which differ so much in them; some features."""
    random = torch.Generator().manual_seed(0)
    token, patches = (torch.randn(OLD, 12, generator=random) for _ in range(2))
    truth = torch.arange(OLD).repeat_interleave(EACH)
    centres = torch.cat([normalize(token, dim=-1), signal * normalize(patches, dim=-1)], 1)
    features = centres[truth] + 0.4 * torch.randn(len(truth), 24, generator=random)
    method = Calm(Vectors(24, class_token=12), CalmConfig(episodes=2, averaged_views=0, dimensions=12, **changes))
    list(method.fit(Labelled(VectorViews(features[:, None]), truth), training()))
    return method, features


def accuracy_of(method: Calm, unlabelled: Unlabelled, truth: torch.Tensor) -> float:
    predicted = method.predict_all(unlabelled).argmax(1)
    return clustering_accuracy(truth.numpy(), predicted.numpy(), OLD).all


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
    cosine, row = (method.space(method._views(labelled)[:, 0]) @ before["memory.prototypes"].T).max(1)
    less, usual = before["usual_cosines"][row] - cosine, before["usual_cosines"]
    variance = (len(less) * less.var(correction=0) + 3 * 0.1**2) / (len(less) + 3)  # with the prior
    torch.testing.assert_close(method.thresholds, usual - less.mean() - 2 * variance.sqrt())
    torch.testing.assert_close(method.rule().thresholds, method.thresholds)


def test_colours_are_discovered():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    assert min(accuracy_on(method, unlabelled)) > 80  # all, old and new


@pytest.mark.parametrize("exponent", [0.25, 1.0])
def test_new_classes_are_predicted_in_the_space_of_the_old_ones(exponent):
    """However directions count there: a new class has the direction of its images, and about their number."""
    method, unlabelled, truth = of_vectors(exponent=exponent)
    list(method.discover(unlabelled, NEW, training(1)))
    points, prototypes = method.points(unlabelled), method.memory.prototypes
    torch.testing.assert_close(prototypes.norm(dim=1), torch.ones(OLD + NEW))
    means = torch.stack([points[truth == c].mean(0) for c in range(OLD + NEW)])
    cosines = normalize(means, dim=-1) @ prototypes.T
    assert sorted(cosines[OLD:].argmax(1).tolist()) == [*range(OLD, OLD + NEW)]
    assert cosines[OLD:].amax(1).min() > 0.98
    assert sorted(method.class_counts()[OLD:]) == pytest.approx([EACH] * NEW, abs=2)
    assert accuracy_of(method, unlabelled, truth) > 95


@pytest.mark.parametrize("most", [100, 500])  # images of a tree: too few, or enough for those that are not familiar
def test_of_very_many_images_new_classes_are_looked_for_among_those_that_are_not_familiar(monkeypatch, most):
    monkeypatch.setattr(candidates, "MOST_MERGED", most)
    monkeypatch.setattr(candidates, "SIZES", (5, 15, 30))
    method, unlabelled, truth = of_vectors()
    cosine, row = nearest(method.points(unlabelled), method.memory.prototypes)
    familiar = cosine >= (method.usual_cosines - method.shortfall)[row]  # as images of known classes on average
    assert familiar[truth < OLD].float().mean() > 0.4
    assert not familiar[truth >= OLD].any()
    assert 100 < (~familiar).sum() < 500 < len(truth)
    members = method.search(method.points(unlabelled)).groups.members
    assert members.shape[1] == len(truth)
    assert set(members.indices.tolist()) <= set((~familiar).nonzero()[:, 0].tolist())
    list(method.discover(unlabelled, NEW, training(1)))
    assert accuracy_of(method, unlabelled, truth) > 95


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
    assert method.thresholds.shape == (NUM_BASE + NUM_NEW + 1,)
    assert method.thresholds.isfinite().all()


def test_an_unknown_colour_is_below_the_threshold_and_most_labelled_images_are_not():
    method, labelled, unlabelled = after_stage_0("calm", **FULL)
    assert (~method.rule().decide(method.points(labelled)).rejected).float().mean() > 0.7
    new = method.points(unlabelled)[-len(unlabelled) // 5 :]
    assert method.rule().decide(new).rejected.float().mean() > 0.7


def test_each_class_has_the_threshold_of_its_own_images():
    """When a labelled class and a new one become wider, theirs fall, and hardly those of others."""
    every = []
    for widths in ({}, {0: 2.0, OLD: 2.0}):
        method, unlabelled, truth = of_vectors(widths)
        list(method.discover(unlabelled, NEW, training(1)))
        points = method.points(unlabelled)
        means = torch.stack([points[truth == c].mean(0) for c in range(OLD + NEW)])
        found = nearest(means, method.memory.prototypes).row
        assert sorted(found.tolist()) == [*range(OLD + NEW)]
        every.append(method.thresholds[found])
        assert method.rule().decide(points).rejected.float().mean() < 0.1
    fall = every[0] - every[1]
    others = [c for c in range(OLD + NEW) if c not in (0, OLD)]
    assert min(fall[0], fall[OLD]) > fall[others].max() + 0.05


def test_what_each_class_has_goes_into_a_method_of_another_size():
    method, unlabelled, _ = of_vectors()
    other, images = Calm(Vectors(24), CalmConfig(averaged_views=0)), torch.eye(24)
    for number in (OLD, OLD + NEW):
        assert method.num_classes == number
        other.load_state_dict(method.state_dict())
        assert torch.equal(other.thresholds, method.thresholds)
        assert torch.equal(
            other.familiarity(images, other.predict(images)), method.familiarity(images, method.predict(images))
        )
        list(method.discover(unlabelled, NEW, training(1)))


class Watched:
    """An `Advance` that keeps what it is told."""

    def __init__(self) -> None:
        self.parts: list[int] = []
        self.total = 0

    def __call__(self, steps: int, total: int | None = None, loss: float | None = None) -> None:
        self.parts.append(steps)
        self.total = total or self.total


@pytest.mark.parametrize(("given", "candidates"), [({}, 3 * 3), ({"exponent": 0.25, "mixture_temperature": 0.05}, 1)])
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


def test_copies_of_images_are_counted_once():
    """Fifty copies of one odd image are no class, and each image twice is the same as once."""
    method, unlabelled, _ = of_vectors()
    served = unlabelled.views.centre(lambda features: features)
    odd = 3 * torch.randn(1, 24, generator=torch.Generator().manual_seed(9))
    state, found, prototypes = method.state_dict(), [], []
    for images in (torch.cat([served, odd]), torch.cat([served, served, odd.expand(50, -1)])):
        method.load_state_dict(state)
        some = Unlabelled(VectorViews(images[:, None]))
        found.append(method.count(some, torch.Generator().manual_seed(0)))
        list(method.discover(some, NEW, training(1)))
        prototypes.append(method.memory.prototypes)
    assert found[0] == found[1]
    assert found[0].number == NEW
    torch.testing.assert_close(*prototypes)


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


@pytest.mark.parametrize(("signal", "used"), [(1.0, True), (0.0, False)])
def test_patches_are_used_if_held_out_classes_are_found_better_with_them(signal, used):
    method, features = with_patches(signal)
    assert bool(method.space.projection[12:].any()) is used
    if not used:  # what lies behind the class token changes nothing
        unit = normalize(features, dim=-1)
        other = torch.cat([unit[:, :12], torch.rand_like(unit[:, 12:])], 1)
        torch.testing.assert_close(method.space(other), method.space(unit))


def test_patches_are_used_or_not_as_asked_for():
    assert with_patches(0.0, patches=True)[0].space.projection[12:].any()
    whole = Vectors(24)
    assert whole.class_token == whole.dim  # nothing is known of vectors: all of them count
