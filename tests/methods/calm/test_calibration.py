"""Held-out classes: what an episode holds, and what is learned from it."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.learning.batches import draw_held_out
from happycat.methods.calm import calibration as module
from happycat.methods.calm.calibration import Calibration, fit_temperature, hold_out, rejection_threshold
from happycat.methods.calm.mixture import Search
from happycat.methods.calm.number import count, follow

NUM_CLASSES, EACH, DIM = 10, 20, 24


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labelled(noise: float = 0.1, classes: int = NUM_CLASSES, each: int = EACH):
    """Unit features (N, 2, D) of two views of images around orthogonal directions, and their labels."""
    centres = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator()))[0][:classes]
    labels = torch.arange(classes).repeat_interleave(each)
    features = centres[labels][:, None] + noise * torch.randn(len(labels), 2, DIM, generator=generator(1))
    return normalize(features, dim=-1), labels


def some_held_out(seed: int) -> torch.Tensor:
    return draw_held_out(NUM_CLASSES, 0.3, generator(seed))


def calibration(features, labels, episodes=3, dimensions=20, shrinkage=0.3, advance=module.nobody) -> Calibration:
    made = [hold_out(features, labels, some_held_out(seed), generator(seed)) for seed in range(episodes)]
    return Calibration(made, dimensions, shrinkage, advance)


def places(rows: torch.Tensor, features: torch.Tensor) -> list[int]:
    """Which of the features each row is."""
    where = {tuple(row): i for i, row in enumerate(features.tolist())}
    return [where[tuple(row)] for row in rows.tolist()]


def test_an_episode_holds_out_whole_classes_and_judges_by_none_of_its_images():
    features, labels = labelled()
    for seed in range(5):
        held_out = some_held_out(seed)
        episode = hold_out(features, labels, held_out, generator(seed))
        assert (episode.num_old, episode.num_new) == (7, 3)
        known = places(episode.labelled, features.mean(1))
        served = places(episode.served, features.mean(1))
        validation = places(episode.validation, features[:, 0])  # the centre view, as in a prediction
        assert sorted(known + served + validation) == list(range(len(labels)))
        names = [*(c for c in range(NUM_CLASSES) if c not in held_out.tolist()), *held_out.tolist()]
        for found, ids in ((known, episode.labels), (served, episode.classes), (validation, episode.truth)):
            assert labels[found].tolist() == [names[i] for i in ids.tolist()]
        assert set(episode.labels.tolist()) == set(range(7))
        assert {7, 8, 9} <= set(episode.classes.tolist())
        assert min(episode.classes.tolist()) < 7
        more = places(episode.more, features.mean(1))
        assert sorted(more) == sorted(i for i in validation if labels[i] in held_out)


def test_no_class_loses_its_last_image():
    features, labels = labelled()
    first = torch.stack([(labels == c).nonzero()[0, 0] for c in range(NUM_CLASSES)])
    for seed in range(20):
        episode = hold_out(features[first], labels[first], some_held_out(seed), generator(seed))
        assert (len(episode.labelled), len(episode.served), len(episode.validation)) == (7, 3, 0)


def test_of_very_large_classes_some_images_are_served(monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", 10)
    monkeypatch.setattr(module, "MOST_AGAIN", 12)
    features, labels = labelled(each=100)
    episode = hold_out(features, labels, torch.tensor([2, 5]), generator())
    assert episode.classes.bincount().tolist()[8:] == [10, 10]
    assert (episode.classes < 8).sum() == 12
    of_two = sorted(places(episode.served[episode.classes == 8], features.mean(1)))
    assert max(of_two) - min(of_two) > 85  # spread over all of them


def test_the_known_classes_are_directions_in_the_space_of_what_is_still_labelled():
    features, labels = labelled()
    episode = hold_out(features, labels, torch.tensor([0, 4, 9]), generator())
    space, old = episode.known(15, 0.3, 0.5)
    assert space.dimensions == 15
    for c in range(7):
        mean = space(episode.labelled[episode.labels == c]).mean(0)
        torch.testing.assert_close(old[c], mean / mean.norm())
    other, _ = episode.known(15, 0.3, 0.0)
    assert not torch.equal(other.projection, space.projection)


def test_the_space_has_no_more_dimensions_than_features_or_images():
    features, labels = labelled()
    assert calibration(features, labels, dimensions=5).dimensions == 5
    assert calibration(features, labels, dimensions=10**6).dimensions == DIM
    few = torch.arange(0, len(labels), EACH)  # one image of each class
    assert calibration(features[few], labels[few], dimensions=20).dimensions == 6


def test_weights_that_favour_the_directions_of_classes_find_held_out_ones_better():
    """Classes differ in six directions of sixty; the rest is noise."""
    own = torch.zeros(40, 60)
    own[:, :6] = 2 * torch.randn(40, 6, generator=generator())
    labels = torch.arange(40).repeat_interleave(25)
    features = normalize(own[labels] + torch.randn(1000, 60, generator=generator(1)), dim=-1)[:, None]
    episodes = [hold_out(features, labels, draw_held_out(40, 0.2, generator(s)), generator(s)) for s in range(2)]
    made = Calibration(episodes, 60, 0.3)
    assert made.accuracy(0.5, 0.03) > made.accuracy(0.0, 0.03) + 5


def test_accuracy_is_that_of_the_validation_images():
    made = calibration(*labelled(0.02))
    assert made.accuracy(0.25, 0.03) == 100
    features, labels = labelled()
    first = torch.arange(0, len(labels), EACH)
    nobody_judges = [hold_out(features[first], labels[first], some_held_out(0), generator())]
    assert Calibration(nobody_judges, 20, 0.3).accuracy(0.25, 0.03) == 0


def test_each_episode_is_told():
    told = []
    made = calibration(*labelled(), episodes=2, advance=lambda steps, total=None, loss=None: told.append(steps))
    made.accuracy(0.25, 0.03)
    assert told == [1, 1]
    made.number_model(0.25)
    assert told == [1, 1, 1, 1]


def test_the_number_of_held_out_classes_is_found():
    made = calibration(*labelled())
    model = made.number_model(0.25)
    for episode in made.episodes:
        space, old = episode.known(made.dimensions, 0.3, 0.25)
        steps = follow(Search(space(episode.served), old, 1.0).growing(), 8, model.least)
        found = count(model.probabilities(steps), 8)
        assert found.number == episode.num_new
        assert found.low <= episode.num_new <= found.high
        again = episode.served[episode.classes < episode.num_old]
        steps = follow(Search(space(again), old, 1.0).growing(), 8, model.least)
        assert count(model.probabilities(steps), 8).number == 0


def test_a_lower_softmax_temperature_for_classes_that_are_told_apart_better():
    clear, blurred = calibration(*labelled(0.05)), calibration(*labelled(0.4))
    assert clear.confidence(0.25).softmax_temperature < blurred.confidence(0.25).softmax_temperature


def test_the_softmax_temperature_is_that_of_the_likeliest_probabilities():
    cosines = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.2, 0.7], [0.6, 0.5]])
    truth = torch.tensor([0, 0, 1, 1])

    def likelihood(t: float) -> float:
        return float((cosines / t).log_softmax(1)[torch.arange(4), truth].sum())

    best = fit_temperature(cosines, truth)
    assert likelihood(best) >= max(likelihood(best * 1.2), likelihood(best / 1.2))
    assert fit_temperature(cosines[:0], truth[:0]) == pytest.approx(0.1)


def test_a_few_images_that_happen_to_be_alike_do_not_make_a_narrow_threshold():
    alike = torch.full((2, 1), 0.95)
    assert rejection_threshold(alike) < 0.85
    assert rejection_threshold(torch.full((1000, 1), 0.95)) > 0.93
    assert rejection_threshold(torch.empty(0, 3)) <= 0


def test_all_but_a_few_images_are_above_the_rejection_threshold():
    cosines = torch.rand(200, 5, generator=generator())
    assert 0 < (cosines.amax(1) < rejection_threshold(cosines)).float().mean() < 0.1
    made = calibration(*labelled())
    threshold = made.confidence(0.25).rejection_threshold
    for episode in made.episodes:
        space, old = episode.known(made.dimensions, 0.3, 0.25)
        new = episode.truth >= episode.num_old
        assert ((space(episode.validation[new]) @ old.T).amax(1) < threshold).float().mean() > 0.9
