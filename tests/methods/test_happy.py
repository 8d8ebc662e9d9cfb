"""Happy: its flavours, its switches, and that it learns and discovers what can be."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.base.errors import InputError
from happycat.base.metrics import clustering_accuracy
from happycat.learning import losses
from happycat.learning.batches import Labelled, Unlabelled
from happycat.learning.training import Training
from happycat.methods.happy import Happy, HappyConfig
from tests.helpers.contract import NUM_BASE, NUM_NEW, PER_CLASS, backbone, small, training, views


def stage(**changes):
    """Happy after Stage-0, the images of a stage, and the terms of the stage's epochs."""
    trunk, tail = backbone()
    method = Happy(tail, small(HappyConfig, **changes))
    labels = torch.arange(NUM_BASE).repeat_interleave(PER_CLASS)
    list(method.fit(Labelled(views(trunk, range(NUM_BASE)), labels), training()))
    return method, Unlabelled(views(trunk, range(NUM_BASE + NUM_NEW)))


ALL_TERMS = {
    "self-distillation",
    "entropy between",
    "entropy within_old",
    "entropy within_new",
    "prototypes",
    "distillation",
    "contrast",
}


@pytest.mark.parametrize(
    ("switch", "gone"),
    [
        ({}, set()),
        ({"self_training_weight": 0}, {"self-distillation"}),
        ({"entropy_weight": 0}, {"entropy between", "entropy within_old", "entropy within_new"}),
        ({"prototype_weight": 0}, {"prototypes"}),
        ({"distillation_weight": 0}, {"distillation"}),
        ({"contrast_weight": 0}, {"contrast"}),
    ],
)
def test_each_term_can_be_switched_off(switch, gone):
    method, unlabelled = stage(**switch)
    epochs = list(method.discover(unlabelled, NUM_NEW, training()))
    assert set(epochs[0].terms) == ALL_TERMS - gone


def test_new_rows_start_from_centres_or_at_random():
    for cluster_init in (True, False):
        method, unlabelled = stage(cluster_init=cluster_init)
        features = normalize(method.features(unlabelled), dim=1)
        rows = normalize(method._initial_rows(unlabelled, NUM_NEW, training()), dim=1)
        nearest = (rows @ features.T).amax(1)
        assert (nearest > 0.9).all() == cluster_init


@pytest.mark.parametrize("unit", [False, True])
def test_centres_get_the_length_of_the_random_rows_that_they_replace(unit):
    """U(−1/√D, 1/√D) has the mean square 1/(3D): rows of √⅓, 0.577, unless they are to be unit."""
    method, unlabelled = stage(unit_rows=unit)
    lengths = method._initial_rows(unlabelled, NUM_NEW, training()).norm(dim=1)
    random = method.random_rows(NUM_NEW, training()).norm(dim=1)
    torch.testing.assert_close(lengths, random.mean().expand(NUM_NEW))
    assert lengths[0].item() == pytest.approx(1 if unit else 3**-0.5, rel=0.1)


def test_hardness_can_be_switched_off():
    method, _ = stage(hardness=False)
    torch.testing.assert_close(method._hardness(), torch.full((NUM_BASE,), 1 / NUM_BASE))
    method, _ = stage(hardness=True)
    assert not torch.allclose(method._hardness(), torch.full((NUM_BASE,), 1 / NUM_BASE))


def test_a_known_share_of_new_images_replaces_the_entropy_between(monkeypatch):
    """Each stage has its own; the paper's analysis of the prior."""
    told = []
    monkeypatch.setattr(
        losses, "prior_between", lambda p, num_old, share: told.append((num_old, share)) or p[:num_old].sum()
    )
    method, unlabelled = stage(new_shares=(0.7, 0.4))
    for number, (num_old, share) in enumerate([(NUM_BASE, 0.7), (NUM_BASE + 1, 0.4)], 1):
        run = Training(torch.Generator().manual_seed(0), stage=number)
        terms = list(method.discover(unlabelled, 1, run))[-1].terms
        assert set(told) == {(num_old, share)}
        assert 0 < terms["entropy between"] < 1  # what the replaced function gives: the old classes' mass
        told.clear()


def test_flavours_are_what_the_paper_and_the_program_say():
    authors, paper = HappyConfig.authors(), HappyConfig.paper()
    assert authors == HappyConfig()
    assert (authors.base_classification_weight, paper.base_classification_weight) == (0.35, 1.0)
    assert (authors.base_self_training_weight, paper.base_self_training_weight) == (0.65, 0.0)
    assert (authors.distillation_weight, paper.distillation_weight) == (2.0, 1.0)
    assert (authors.entropy_constants, paper.entropy_constants) == (True, False)
    assert (authors.unit_samples, paper.unit_samples) == (False, True)
    assert (authors.projector_prototypes, paper.projector_prototypes) == (0, 65536)
    for flavour in (authors, paper):
        assert (flavour.base_epochs, flavour.epochs, flavour.batch_size) == (100, 30, 128)
        assert (flavour.base_rate, flavour.rate, flavour.hardness_temperature) == (0.1, 0.01, 0.1)


def test_the_paper_flavour_runs():
    method, unlabelled = stage(
        base_self_training_weight=0.0,
        unit_samples=True,
        unit_rows=True,
        projector_prototypes=32,
        entropy_constants=False,
    )
    list(method.discover(unlabelled, NUM_NEW, training()))
    assert method.num_classes == NUM_BASE + NUM_NEW


def test_base_teacher_temperature_falls_linearly_then_stays():
    method = Happy(backbone()[1], HappyConfig(base_teacher_epochs=4))
    got = [method._base_teacher_temperature(epoch) for epoch in range(6)]
    assert got == pytest.approx([0.07, 0.06, 0.05, 0.04, 0.04, 0.04])


def test_only_new_prototypes_are_appended():
    method, unlabelled = stage()
    before, radius = method.memory.prototypes.clone(), method.memory.radius.clone()
    list(method.discover(unlabelled, NUM_NEW, training()))
    assert torch.equal(method.memory.prototypes[:NUM_BASE], before)
    assert torch.equal(method.memory.radius, radius)
    assert len(method.memory.prototypes) == NUM_BASE + NUM_NEW


def test_the_final_norm_stays_and_the_block_moves():
    method, unlabelled = stage()
    norm, block = method.tail.norm.weight.clone(), method.tail.block.attn.qkv.weight.clone()
    list(method.discover(unlabelled, NUM_NEW, training()))
    assert torch.equal(method.tail.norm.weight, norm)
    assert not torch.equal(method.tail.block.attn.qkv.weight, block)


def test_learns_the_labelled_and_discovers_the_new():
    """Five colours, two of them never labelled: nearly all must be told apart."""
    method, unlabelled = stage(base_epochs=30, epochs=20, base_rate=0.1)
    list(method.discover(unlabelled, NUM_NEW, training()))
    targets = torch.arange(NUM_BASE + NUM_NEW).repeat_interleave(PER_CLASS).numpy()
    accuracy = clustering_accuracy(targets, method.predict_all(unlabelled).argmax(1).numpy(), NUM_BASE)
    assert accuracy.old > 80
    assert accuracy.new > 80


@pytest.mark.parametrize("value", [{"epochs": 0}, {"supervised_share": 1.5}, {"rate": -1.0}, {"base_optimizer": "x"}])
def test_config_checks_its_ranges(value):
    with pytest.raises(InputError, match=next(iter(value))):
        HappyConfig(**value)
