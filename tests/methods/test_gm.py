"""Grow and Merge: its two phases, the merge in between, and that it discovers."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.functional import normalize

from happycat.learning.clustering import novel_images
from happycat.learning.heads import CosineClassifier
from happycat.methods import gm
from happycat.methods.gm import GM, GMConfig
from tests.helpers.contract import NUM_BASE, NUM_NEW, TRAINED, accuracy_on, after_stage_0, training

GROW = {"contrast", "distillation", "pairs", "consistency"}
MERGE = {"prototypes", "distillation", "pseudo-labels", "lwf"}
GROW_TERM = {
    "contrast_weight": "contrast",
    "grow_distillation_weight": "distillation",
    "consistency_weight": "consistency",
}
MERGE_TERM = {"prototype_weight": "prototypes", "lwf_weight": "lwf", "distillation_weight": "distillation"}


class Seen:
    """The finder, what the merge is given, and the tails before and after the branches are averaged."""

    def __init__(self, monkeypatch):
        average, merge = GM._merge_branches, GM._merge

        def classifier(dim):
            self.finder = CosineClassifier(dim)
            return self.finder

        def averaging(method, static):
            self.grown = copy.deepcopy(method.tail)
            average(method, static)

        def merging(method, unlabelled, novel, found, *rest):
            self.merged, self.rows = copy.deepcopy(method.tail), method.head.weight.detach().clone()
            self.found = found
            yield from merge(method, unlabelled, novel, found, *rest)

        monkeypatch.setattr(gm, "CosineClassifier", classifier)
        monkeypatch.setattr(GM, "_merge_branches", averaging)
        monkeypatch.setattr(GM, "_merge", merging)


def weights(tail):
    return torch.cat([p.detach().flatten() for p in tail.parameters()])


def test_two_thirds_grow_and_the_rest_merges():
    assert [GMConfig(epochs=epochs).phases() for epochs in (30, 20, 2, 1)] == [(20, 10), (13, 7), (1, 1), (1, 1)]
    assert GMConfig(epochs=10, grow_share=0.99).phases() == (9, 1)


def test_the_terms_of_both_phases():
    method, _, unlabelled = after_stage_0("gm", epochs=3, batch_size=20)
    epochs = list(method.discover(unlabelled, NUM_NEW, training()))
    assert [set(epoch.terms) for epoch in epochs] == [GROW, GROW, MERGE]


@pytest.mark.parametrize("weight", [*GROW_TERM, *MERGE_TERM])
def test_a_weight_of_0_leaves_the_others(weight):
    method, _, unlabelled = after_stage_0("gm", epochs=4, grow_share=0.5, batch_size=20, rate=0.1, **{weight: 0.0})
    epochs = list(method.discover(unlabelled, NUM_NEW, training()))
    zero = [{name for name, value in epoch.terms.items() if value == 0} for epoch in (epochs[1], epochs[3])]
    assert zero == [{term[weight]} if weight in term else set() for term in (GROW_TERM, MERGE_TERM)]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_branches_are_averaged_with_the_static_share(monkeypatch, share):
    method, _, unlabelled = after_stage_0("gm", static_share=share, rate=0.1)
    old, seen = weights(method.tail), Seen(monkeypatch)
    list(method.discover(unlabelled, NUM_NEW, training()))
    grown, merged = weights(seen.grown), weights(seen.merged)
    assert (grown - old).abs().max() > 1e-3
    torch.testing.assert_close(merged, share * old + (1 - share) * grown)
    assert share == 0.5 or torch.equal(merged, old if share else grown)


def test_new_rows_and_prototypes_are_means_of_novel_images_by_the_grown_branchs_answer(monkeypatch):
    method, _, unlabelled = after_stage_0("gm", **{**TRAINED, "epochs": 6})
    novel, seen = novel_images(method.memory.similarity(method.features(unlabelled))), Seen(monkeypatch)
    old_rows, old = method.head.weight.detach().clone(), method.memory.prototypes.clone()
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    for found, expected in ((seen.rows, old_rows), (method.memory.prototypes, old)):
        assert torch.equal(found[:NUM_BASE], expected)
    last = normalize(method.features(unlabelled), dim=1)
    method.tail = seen.grown
    assert torch.equal(seen.found, NUM_BASE + seen.finder(method.features(unlabelled)).argmax(1))
    method.tail = seen.merged
    merged = normalize(method.features(unlabelled), dim=1)
    for c in range(NUM_BASE, NUM_BASE + NUM_NEW):
        members = novel & (seen.found == c)
        assert method.class_counts()[c] == members.sum()
        if not members.any():  # its row is the finder's
            continue
        torch.testing.assert_close(seen.rows[c], normalize(merged[members].mean(0), dim=0))
        torch.testing.assert_close(method.memory.prototypes[c], normalize(last[members].mean(0), dim=0))


@pytest.mark.parametrize(
    ("novel", "grow", "merge"),
    [(False, GROW - {"pairs", "consistency"}, MERGE - {"pseudo-labels"}), (True, GROW, MERGE - {"lwf"})],
)
def test_a_stage_in_which_no_image_is_novel_or_all_are(monkeypatch, novel, grow, merge):
    monkeypatch.setattr(gm, "novel_images", lambda similarity: torch.full(similarity.shape, novel))
    method, _, unlabelled = after_stage_0("gm")
    assert [set(epoch.terms) for epoch in method.discover(unlabelled, NUM_NEW, training())] == [grow, merge]
    assert sum(method.class_counts()[NUM_BASE:]) == (len(unlabelled) if novel else 0)
    assert method.predict_all(unlabelled).isfinite().all()


def test_it_discovers():
    method, _, unlabelled = after_stage_0("gm", projector_deviation=0.1, **TRAINED)
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    assert min(accuracy_on(method, unlabelled)) > 70  # all, old and new
