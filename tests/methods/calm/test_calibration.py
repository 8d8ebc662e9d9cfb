"""Held-out classes: what an episode holds, and what is learned from it."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from happycat.learning.batches import draw_held_out
from happycat.methods.calm.calibration import (
    ENOUGH,
    Calibration,
    enough,
    fit_temperature,
    hold_out,
    rejection_threshold,
)
from happycat.methods.calm.number import follow

NUM_CLASSES, EACH, DIM = 10, 20, 24


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labelled(noise: float = 0.1):
    """Unit features (N, 2, D) of two views of images around orthogonal directions, and their labels."""
    centres = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator()))[0][:NUM_CLASSES]
    labels = torch.arange(NUM_CLASSES).repeat_interleave(EACH)
    features = centres[labels][:, None] + noise * torch.randn(len(labels), 2, DIM, generator=generator(1))
    return normalize(features, dim=-1), labels


def some_held_out(seed: int) -> torch.Tensor:
    return draw_held_out(NUM_CLASSES, 0.3, generator(seed))


def calibration(features, labels, episodes=3) -> Calibration:
    made = [hold_out(features, labels, some_held_out(seed), generator(seed)) for seed in range(episodes)]
    return Calibration(made, lambda search, number: search.best(number, 1, 5), seed=0)


def test_an_episode_holds_out_whole_classes_and_judges_by_none_of_its_images():
    features, labels = labelled()
    for seed in range(5):
        episode = hold_out(features, labels, some_held_out(seed), generator(seed))
        assert (episode.num_old, episode.num_new) == (7, 3)
        assert set(episode.labels.tolist()) == set(range(7))
        assert len(episode.labelled) + len(episode.served) + len(episode.validation) == len(labels)
        assert {7, 8, 9} <= set(episode.classes.tolist())
        place = {tuple(row): i for i, row in enumerate(features[:, 0].tolist())}
        validation = [place[tuple(row)] for row in episode.validation.tolist()]
        rest = torch.ones(len(labels), dtype=torch.bool)
        rest[validation] = False
        used = torch.cat([episode.labelled, episode.served])
        assert sorted(used.tolist()) == sorted(features[rest].mean(1).tolist())


def test_no_class_loses_its_last_image():
    features, labels = labelled()
    first = torch.stack([(labels == c).nonzero()[0, 0] for c in range(NUM_CLASSES)])
    for seed in range(20):
        episode = hold_out(features[first], labels[first], some_held_out(seed), generator(seed))
        assert (len(episode.labelled), len(episode.served), len(episode.validation)) == (7, 3, 0)


def test_of_very_large_classes_some_images_judge():
    few, many = torch.arange(3).repeat(ENOUGH), torch.tensor([0] * 3 * ENOUGH + [1] * 5)
    assert enough(few).tolist() == list(range(3 * ENOUGH))
    chosen = enough(many)
    assert many[chosen].bincount().tolist() == [ENOUGH, 5]
    assert chosen.diff().min() == 1
    assert chosen[0] == 0
    assert chosen[ENOUGH - 1] == 3 * ENOUGH - 1  # spread over all of them


def test_the_space_that_finds_held_out_classes_is_more_accurate():
    made = calibration(*labelled(0.15))
    assert made.accuracy(9, 0.3, 0.1) > made.accuracy(2, 0.3, 0.1) + 10


def test_the_penalty_finds_the_number_of_held_out_classes():
    features, labels = labelled()
    made = calibration(features, labels)
    penalty = made.penalty(20, 0.3, 0.1)
    assert penalty.component > 0
    assert penalty.image > 0
    for i, episode in enumerate(made.episodes):
        space, old = episode.known(20, 0.3)
        steps = follow(made._search(i, space(episode.served), old, 0.1), 2, 8)
        assert penalty.number(steps) == episode.num_new
        low, high = penalty.interval(steps)
        assert low <= episode.num_new <= high


def test_a_lower_softmax_temperature_for_classes_that_are_told_apart_better():
    clear, blurred = calibration(*labelled(0.05)), calibration(*labelled(0.4))
    assert clear.confidence(20, 0.3).softmax_temperature < blurred.confidence(20, 0.3).softmax_temperature


def test_the_softmax_temperature_is_that_of_the_likeliest_probabilities():
    cosines = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.2, 0.7], [0.6, 0.5]])
    truth = torch.tensor([0, 0, 1, 1])

    def likelihood(t: float) -> float:
        return float((cosines / t).log_softmax(1)[torch.arange(4), truth].sum())

    best = fit_temperature(cosines, truth)
    assert likelihood(best) >= max(likelihood(best * 1.2), likelihood(best / 1.2))


def test_all_but_a_few_images_are_above_the_rejection_threshold():
    cosines = torch.rand(200, 5, generator=generator())
    assert 0 < (cosines.amax(1) < rejection_threshold(cosines)).float().mean() < 0.1
    made = calibration(*labelled())
    threshold = made.confidence(20, 0.3).rejection_threshold
    for episode in made.episodes:
        space, old = episode.known(20, 0.3)
        new = episode.truth >= episode.num_old
        assert ((space(episode.validation[new]) @ old.T).amax(1) < threshold).float().mean() > 0.9
