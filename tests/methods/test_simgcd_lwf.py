"""SimGCD with LwF: what is distilled, and that it holds."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.simgcd import SimGCD
from tests.helpers.contract import NUM_BASE, NUM_NEW, TRAINED, accuracy_on, after_stage_0, assert_same, build, training


def test_the_terms_of_a_stage():
    method, _, unlabelled = after_stage_0("simgcd_lwf")
    for epoch in method.discover(unlabelled, NUM_NEW, training()):
        assert set(epoch.terms) == {"self-distillation", "entropy", "contrast", "lwf"}


def test_without_weight_it_is_simgcd():
    method, _, unlabelled = after_stage_0("simgcd_lwf", lwf_weight=0.0)
    plain, _, _ = build("simgcd")
    plain.load_state_dict(method.state_dict())
    epochs = [list(one.discover(unlabelled, NUM_NEW, training(1))) for one in (method, plain)]
    assert epochs[0][-1].terms == {**epochs[1][-1].terms, "lwf": 0.0}
    assert_same(method.state_dict(), plain.state_dict())


def test_only_the_old_columns_are_distilled(monkeypatch):
    """−λ mean Σ softmax(a/T) log softmax(b/T): a the previous model's cosines/τ_p, b ours of the old classes."""
    method, _, unlabelled = after_stage_0("simgcd_lwf", lwf_weight=3.0, lwf_temperature=4.0)
    given = []
    monkeypatch.setattr(
        SimGCD, "learn_stage", lambda self, images, number, training, also: iter(given.append(also) or ())
    )
    before = copy.deepcopy(method)
    list(method.discover(unlabelled, NUM_NEW, training()))
    for parameter in method.parameters():
        parameter.data.mul_(0.5)  # what is distilled is the model as it was, whatever becomes of it
    batch = next(unlabelled.batches(8, torch.Generator().manual_seed(0)))
    cosines = torch.rand(16, NUM_BASE + NUM_NEW, generator=torch.Generator().manual_seed(1)).requires_grad_()
    value = given[0](batch, cosines)["lwf"]
    a = normalize(before.tail(batch.tokens), dim=1) @ normalize(before.head.weight, dim=1).T
    q, p = (a / 0.1 / 4).softmax(1), (cosines[:, :NUM_BASE] / 0.1 / 4).softmax(1)
    torch.testing.assert_close(value, -3 * (q * p.log()).sum(1).mean())
    value.backward()
    assert (cosines.grad[:, NUM_BASE:] == 0).all()
    assert (cosines.grad[:, :NUM_BASE].abs().sum(1) > 0).all()  # both views of every image
    assert all(parameter.grad is None for parameter in before.parameters())


def test_at_first_the_answers_agree():
    """With the rate at 0 nothing moves: the term is the entropy of the old answers, its least value."""
    terms = {}
    for rate in (0.0, 0.3):
        method, _, unlabelled = after_stage_0("simgcd_lwf", rate=rate, batch_size=20)
        epochs = list(method.discover(unlabelled, NUM_NEW, training()))
        terms[rate] = [epoch.terms["lwf"] for epoch in epochs]
    assert terms[0.0][0] == pytest.approx(terms[0.0][1], rel=0.1)  # other crops, the same model
    assert terms[0.3][1] > terms[0.0][1]


def test_a_large_weight_holds_the_old_answers():
    drift = []
    for weight in (0.0, 10.0):
        method, _, unlabelled = after_stage_0("simgcd_lwf", epochs=5, rate=0.1, lwf_weight=weight)
        before = method.predict_all(unlabelled)
        list(method.discover(unlabelled, NUM_NEW, training(1)))
        now = normalize(method.predict_all(unlabelled)[:, :NUM_BASE], p=1, dim=1)
        drift.append((now - before).abs().mean())
    assert drift[1] < 0.2 * drift[0]


def test_it_discovers():
    method, _, unlabelled = after_stage_0(
        "simgcd_lwf", **{**TRAINED, "base_epochs": 30, "batch_size": 8}, entropy_weight=4.0
    )
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    accuracy = accuracy_on(method, unlabelled)
    assert accuracy.old > 80
    assert accuracy.new > 40
