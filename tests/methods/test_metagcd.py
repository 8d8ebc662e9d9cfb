"""MetaGCD: soft neighbours at a stage, the tasks of its rehearsal and its first-order outer step."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn.functional import normalize

from happycat.learning import losses
from happycat.learning.batches import Labelled
from happycat.methods.metagcd import MetaGCD, MetaGCDConfig, PseudoStage
from tests.helpers.contract import NUM_BASE, NUM_NEW, TRAINED, accuracy_on, after_stage_0, build, training

LABELS = torch.arange(10).repeat_interleave(40)


def task(seed: int = 0, **changes) -> list[PseudoStage]:
    method, _, _ = build("metagcd")
    method.config = MetaGCDConfig(**{"task_stages": 3, "held_out_share": 0.4, "old_share": 0.2, **changes})
    return list(method._task(LABELS, torch.Generator().manual_seed(seed)))


def trained(method: MetaGCD) -> list[torch.nn.Parameter]:
    return [p for p in method.parameters() if p.requires_grad]


def test_the_terms_of_a_stage():
    method, _, unlabelled = after_stage_0("metagcd", neighbour_similarity=0.5)
    for epoch in method.discover(unlabelled, NUM_NEW, training()):
        assert set(epoch.terms) == {"contrast", "neighbours"}


def test_neighbours_have_their_share_and_info_nce_the_rest_or_all():
    method, labelled, _ = after_stage_0("metagcd")
    batch = next(labelled.batches(8, torch.Generator().manual_seed(0)))
    h = method.projector(method.tail(batch.tokens))
    contrast, neighbours = losses.info_nce(h[:8], h[8:], 1.0), losses.neighbour_contrast(h[:8], h[8:], 0.5, 0.07)
    for share in (0.0, 0.3, 1.0):
        method.config = MetaGCDConfig(neighbour_share=share, neighbour_similarity=0.5)
        expected = {"contrast": (1 - share) * contrast, "neighbours": share * neighbours}
        torch.testing.assert_close(method.stage_loss(batch), expected)
    batch = next(labelled.batches(2, torch.Generator().manual_seed(0), torch.tensor([0, 23])))  # two colours
    method.config = MetaGCDConfig(neighbour_share=0.3, neighbour_similarity=1.0)
    h = method.projector(method.tail(batch.tokens))
    torch.testing.assert_close(method.stage_loss(batch), {"contrast": losses.info_nce(h[:2], h[2:], 1.0)})


@pytest.mark.parametrize("seed", range(3))
def test_a_task_holds_out_classes_and_meets_them_one_pseudo_stage_after_the_other(seed):
    stages = task(seed)
    queried = [set(LABELS[stage.query].tolist()) for stage in stages]
    assert [len(classes) for classes in queried] == [8, 9, 10]  # four of ten are held out; two, one and one are met
    assert queried[0] < queried[1] < queried[2]
    for i, stage in enumerate(stages):
        assert not torch.isin(stage.served, stages[-1].query).any()  # which are those of all pseudo-stages
        served = LABELS[stage.served].bincount(minlength=10)
        assert set(served.nonzero()[:, 0].tolist()) <= queried[i]
        new = queried[i] - queried[i - 1] if i else {c for c in range(10) if served[c] > 20}
        assert len(new) == (2, 1, 1)[i]
        assert all(served[c] == 40 - (LABELS[stage.query] == c).sum() for c in new)
        assert all(served[c] < 20 for c in queried[i] - new)


def test_old_images_are_served_again_by_their_share_and_tasks_differ():
    for stage in task(old_share=0.0):
        assert LABELS[stage.served].unique().numel() <= 2  # the new classes alone
    assert task(0)[0].served.tolist() != task(1)[0].served.tolist()
    assert len(task(held_out_share=0.9, task_stages=20)) == 9  # one class, at least, is not held out


def by_hand(method: MetaGCD, stage: PseudoStage, labelled: Labelled, generator) -> list[torch.Tensor]:
    """The gradient of the supervised loss at the weights that momentum and weight decay lead to."""
    there, config = copy.deepcopy(method), method.config
    velocity = [torch.zeros_like(p) for p in trained(there)]
    for _ in range(config.inner_epochs):
        for batch in labelled.batches(8, generator, stage.served):
            gradients = torch.autograd.grad(sum(there.stage_loss(batch).values()), trained(there))
            decays = [5e-5 * p.detach() if p.ndim > 1 else 0 for p in trained(there)]
            velocity = [0.9 * v + g + d for v, g, d in zip(velocity, gradients, decays, strict=True)]
            for p, v in zip(trained(there), velocity, strict=True):
                p.data.sub_(config.rate * v)
    batch = next(labelled.batches(len(stage.query), generator, stage.query))
    return torch.autograd.grad(
        sum(there.supervised_loss(batch, labelled.labels[batch.images]).values()), trained(there)
    )


def test_the_outer_step_is_the_first_order_gradient():
    method, labelled, _ = after_stage_0("metagcd", inner_epochs=2, rate=0.1, tasks=1, outer_rate=10.0)
    stage = PseudoStage(served=torch.arange(0, 24, 3), query=torch.arange(1, 24, 3))  # of all colours
    gradients = by_hand(method, stage, labelled, training(3).generator)
    before = [p.detach().clone() for p in trained(method)]
    method._task = lambda labels, generator: iter([stage])
    (epoch,) = method.rehearse(labelled, training(3))
    assert epoch.terms["outer step"] == 0
    assert set(epoch.terms) == {"supervised contrast", "contrast", "outer step"}
    for p, was, g in zip(trained(method), before, gradients, strict=True):
        decay = 5e-5 * was if was.ndim > 1 else 0
        torch.testing.assert_close(p.detach(), was - 10 * (g + decay), atol=1e-5, rtol=1e-4)


def test_what_is_served_has_no_label_and_centres_follow_the_rehearsal():
    method, labelled, _ = after_stage_0("metagcd", rate=0.1, outer_rate=0.1)
    ends = []
    for labels in (labelled.labels, labelled.labels.flip(0)):
        adapted = copy.deepcopy(method)
        adapted._inner(torch.arange(16), Labelled(labelled.views, labels), training())
        ends.append(torch.cat([p.detach().flatten() for p in trained(adapted)]))
    assert torch.equal(*ends)
    list(method.rehearse(labelled, training()))
    features = normalize(method.features(labelled), dim=1)
    expected = torch.stack([features[labelled.labels == c].mean(0) for c in range(NUM_BASE)])
    torch.testing.assert_close(method.memory.prototypes, normalize(expected, dim=1))


def test_it_discovers_after_a_rehearsal():
    method, labelled, unlabelled = after_stage_0("metagcd", **{**TRAINED, "base_epochs": 20})
    list(method.rehearse(labelled, training()))
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    assert min(accuracy_on(method, unlabelled)) > 90  # all, old and new
