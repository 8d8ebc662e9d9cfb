"""SimGCD: its loss, its rows, and that it discovers."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import normalize

from happycat.learning import losses
from tests.helpers.contract import NUM_BASE, NUM_NEW, PER_CLASS, TRAINED, accuracy_on, after_stage_0, copied, training

K = NUM_BASE + NUM_NEW


def test_the_terms_of_a_stage():
    method, _, unlabelled = after_stage_0("simgcd")
    for epoch in method.discover(unlabelled, NUM_NEW, training()):
        assert set(epoch.terms) == {"self-distillation", "entropy", "contrast"}


@pytest.mark.parametrize(("weight", "term"), [("entropy_weight", "entropy"), ("contrast_weight", "contrast")])
def test_a_weight_counts_its_term_so_often(weight, term):
    values = {}
    for times in (0, 1, 3):
        method, _, unlabelled = after_stage_0("simgcd", rate=0.0, **{weight: times})
        values[times] = next(method.discover(unlabelled, NUM_NEW, training())).terms
    assert values[0][term] == 0
    assert values[3][term] == pytest.approx(3 * values[1][term], rel=1e-5)
    others = [{name: value for name, value in v.items() if name != term} for v in values.values()]
    assert others[0] == others[1] == others[2]


def test_the_loss_by_hand():
    """ε (log K − H(p̄)), p̄ over both views and all classes; the two others are losses of their own."""
    method, _, unlabelled = after_stage_0("simgcd", entropy_weight=2.0)
    list(method.discover(unlabelled, NUM_NEW, training()))
    batch = next(unlabelled.batches(8, torch.Generator().manual_seed(0)))
    projector = method.new_projector(training())
    features = method.tail(batch.tokens)
    cosines = normalize(features, dim=1) @ normalize(method.head.weight, dim=1).T
    p = (cosines / 0.1).softmax(1).mean(0)
    assert p.shape == (K,)
    found = method._loss(cosines, projector(features))
    torch.testing.assert_close(found["entropy"], 2 * (math.log(K) + (p * p.log()).sum()))
    torch.testing.assert_close(
        found["self-distillation"], losses.self_distillation(cosines[:8], cosines[8:], 0.1, 0.05)
    )
    h = projector(features)
    torch.testing.assert_close(found["contrast"], losses.info_nce(h[:8], h[8:], 1.0))


def test_old_rows_are_copied_and_new_ones_random():
    method, _, unlabelled = after_stage_0("simgcd", rate=0.0)
    old = method.head.weight.detach().clone()
    list(method.discover(unlabelled, NUM_NEW, training()))
    rows = method.head.weight.detach()
    assert torch.equal(rows[:NUM_BASE], old)
    assert (rows[NUM_BASE:].abs() <= rows.shape[1] ** -0.5).all()
    assert (normalize(rows[NUM_BASE:], dim=1) @ normalize(method.features(unlabelled), dim=1).T).amax() < 0.9


def test_prototypes_are_not_used():
    ends = []
    for seed in (0, 1):
        method, _, unlabelled = after_stage_0("simgcd")
        generator = torch.Generator().manual_seed(seed)
        method.memory.replace(torch.randn(NUM_BASE, method.tail.dim, generator=generator), method.memory.counts)
        list(method.discover(unlabelled, NUM_NEW, training()))
        ends.append(copied(method.state_dict()))
    assert torch.equal(ends[0]["head.weight"], ends[1]["head.weight"])
    assert torch.equal(ends[0]["tail.block.attn.qkv.weight"], ends[1]["tail.block.attn.qkv.weight"])


def test_new_classes_are_counted_by_the_predictions():
    method, _, unlabelled = after_stage_0("simgcd")
    list(method.discover(unlabelled, NUM_NEW, training()))
    predicted = method.predict_all(unlabelled).argmax(1).bincount(minlength=K).tolist()
    assert method.class_counts() == [PER_CLASS] * NUM_BASE + predicted[NUM_BASE:]


def test_more_entropy_spreads_the_predictions():
    even = []
    for weight in (0.0, 4.0):
        method, _, unlabelled = after_stage_0("simgcd", epochs=5, rate=0.1, entropy_weight=weight)
        list(method.discover(unlabelled, NUM_NEW, training(1)))
        even.append(-losses.negative_entropy(method.predict_all(unlabelled).mean(0), constant=False))
    assert even[0] + 0.3 < even[1]


def test_it_discovers():
    method, _, unlabelled = after_stage_0(
        "simgcd", **{**TRAINED, "base_epochs": 30, "batch_size": 8}, entropy_weight=4.0
    )
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    accuracy = accuracy_on(method, unlabelled)
    assert accuracy.old > 90
    assert accuracy.new > 80
