"""FRoST: its terms and weights, what it remembers, and that it discovers."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.learning.clustering import novel_images
from happycat.learning.heads import CosineClassifier
from happycat.methods import frost
from tests.helpers.contract import NUM_BASE, NUM_NEW, PER_CLASS, TRAINED, accuracy_on, after_stage_0, copied, training

ON_ALL = {"prototypes", "distillation"}
ON_NOVEL = {"pairs", "consistency", "pseudo-labels"}


@pytest.fixture
def finders(monkeypatch):
    """The auxiliary heads that are made, though they are thrown away."""
    made = []

    def classifier(dim):
        made.append(CosineClassifier(dim))
        return made[-1]

    monkeypatch.setattr(frost, "CosineClassifier", classifier)
    return made


def test_the_terms_of_a_stage():
    method, _, unlabelled = after_stage_0("frost", batch_size=20)
    for epoch in method.discover(unlabelled, NUM_NEW, training()):
        assert set(epoch.terms) == ON_ALL | ON_NOVEL


@pytest.mark.parametrize(
    ("weight", "term"),
    [
        ("prototype_weight", "prototypes"),
        ("distillation_weight", "distillation"),
        ("consistency_weight", "consistency"),
        ("pseudo_label_weight", "pseudo-labels"),
    ],
)
def test_a_weight_of_0_leaves_the_others(weight, term):
    method, _, unlabelled = after_stage_0("frost", **{weight: 0.0}, batch_size=20, rate=0.1)
    terms = list(method.discover(unlabelled, NUM_NEW, training()))[-1].terms
    assert {name for name, value in terms.items() if value == 0} == {term}


def test_consistency_and_pseudo_labels_grow_with_the_epochs(monkeypatch):
    told = []
    monkeypatch.setattr(frost, "ramp_up", lambda epoch, length: told.append((epoch, length)) or 0.0)
    method, _, unlabelled = after_stage_0("frost", batch_size=20, ramp_epochs=7)
    terms = [epoch.terms for epoch in method.discover(unlabelled, NUM_NEW, training())]
    assert set(told) == {(0, 7), (1, 7)}
    assert all(t["consistency"] == t["pseudo-labels"] == 0 < t["pairs"] for t in terms)


@pytest.mark.parametrize("split", [True, False])
def test_new_classes_are_remembered_by_what_the_finder_says_of_novel_images(finders, split):
    method, _, unlabelled = after_stage_0("frost", **{**TRAINED, "epochs": 3}, split=split)
    novel = novel_images(method.memory.similarity(method.features(unlabelled)))
    assert 0 < novel.sum() < len(novel)
    if not split:
        novel[:] = True
    old, radius = method.memory.prototypes.clone(), method.memory.radius.clone()
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    features = normalize(method.features(unlabelled), dim=1)
    found = (features @ normalize(finders[0].weight.detach(), dim=1).T).argmax(1)
    assert method.class_counts() == [PER_CLASS] * NUM_BASE + [int((novel & (found == c)).sum()) for c in range(NUM_NEW)]
    assert torch.equal(method.memory.prototypes[:NUM_BASE], old)
    assert torch.equal(method.memory.radius, radius)
    for c, prototype in enumerate(method.memory.prototypes[NUM_BASE:]):
        members = features[novel & (found == c)]
        expected = members.mean(0) if len(members) else method.head.weight.detach()[NUM_BASE + c]
        torch.testing.assert_close(prototype, normalize(expected, dim=0))


@pytest.mark.parametrize(("novel", "terms"), [(False, ON_ALL), (True, ON_ALL | ON_NOVEL)])
def test_a_stage_in_which_no_image_is_novel_or_all_are(monkeypatch, novel, terms):
    monkeypatch.setattr(frost, "novel_images", lambda similarity: torch.full(similarity.shape, novel))
    method, _, unlabelled = after_stage_0("frost")
    for epoch in method.discover(unlabelled, NUM_NEW, training()):
        assert set(epoch.terms) == terms
    assert sum(method.class_counts()[NUM_BASE:]) == (len(unlabelled) if novel else 0)
    assert method.predict_all(unlabelled).isfinite().all()


def test_the_finder_is_trained_and_thrown_away(finders):
    method, _, unlabelled = after_stage_0("frost", batch_size=20)
    before = copied(method.state_dict())
    starts = []
    for _ in method.discover(unlabelled, NUM_NEW, training()):
        starts.append(finders[0].weight.detach().clone())
    assert finders[0].num_classes == NUM_NEW
    assert not torch.equal(starts[0], starts[1])
    assert method.state_dict().keys() == before.keys()
    assert not any(module is finders[0] for module in method.modules())


def test_distillation_holds_the_features():
    drift = []
    for weight in (0.0, 30.0):
        method, _, unlabelled = after_stage_0("frost", epochs=5, rate=0.1, distillation_weight=weight)
        before = normalize(method.features(unlabelled), dim=1)
        list(method.discover(unlabelled, NUM_NEW, training(1)))
        drift.append(1 - (before * normalize(method.features(unlabelled), dim=1)).sum(1).mean())
    assert drift[1] < 0.2 * drift[0]


def test_it_discovers():
    method, _, unlabelled = after_stage_0("frost", **TRAINED, distillation_weight=1.0, pseudo_label_weight=1.0)
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    accuracy = accuracy_on(method, unlabelled)
    assert accuracy.old > 90
    assert accuracy.new > 80
