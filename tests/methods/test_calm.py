"""Calm: chosen by hiding, nothing tuned, old directions stay."""

from __future__ import annotations

import pytest
import torch
from test_contract import NUM_BASE, NUM_NEW, accuracy_on, after_stage_0, training
from torch.nn.functional import normalize

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


def test_an_episode_hides_whole_classes_and_judges_by_none_of_its_images():
    method, labelled, _ = after_stage_0("calm", **FULL)
    features = normalize(labelled.views.every(method.tail), dim=-1)
    labels = labelled.labels
    for seed in range(5):
        episode = method._hide(features, labels, torch.Generator().manual_seed(seed))
        assert episode.num_old + episode.num_new == NUM_BASE
        assert set(episode.labels.tolist()) <= set(range(episode.num_old))
        assert len(episode.labelled) + len(episode.served) + len(episode.judges) == len(labels)
        rows = [tuple(row) for row in torch.cat([episode.labelled, episode.served]).tolist()]
        judges = {tuple(row) for row in episode.judges.tolist()}
        assert judges.isdisjoint(rows)


def test_colours_are_discovered():
    method, _, unlabelled = after_stage_0("calm", **FULL)
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    assert min(accuracy_on(method, unlabelled)) > 80  # all, old and new


def test_probabilities_are_sharp_enough_to_be_likely():
    """The sharpness is that of the grid's likeliest: the labelled images are not given flat probabilities."""
    method, labelled, _ = after_stage_0("calm", **FULL)
    probabilities = method.predict_all(labelled)
    right = probabilities.argmax(1) == labelled.labels
    assert right.float().mean() > 0.9
    assert probabilities.amax(1).mean() > 0.8
