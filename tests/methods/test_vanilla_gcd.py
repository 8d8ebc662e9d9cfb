"""GCD: its losses, its clustering with and without anchors, and that it discovers."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.base.errors import InputError
from happycat.learning import losses
from happycat.learning.batches import Labelled, Unlabelled
from happycat.learning.clustering import kmeans
from happycat.methods import METHODS
from tests.helpers.contract import (
    NUM_BASE,
    NUM_NEW,
    PER_CLASS,
    TRAINED,
    accuracy_on,
    after_stage_0,
    build,
    training,
    views,
)

K = NUM_BASE + NUM_NEW


def test_the_terms_of_stage_0_and_of_a_stage():
    method, labelled, unlabelled = build("vanilla_gcd")
    for epoch in method.fit(labelled, training()):
        assert set(epoch.terms) == {"supervised contrast", "contrast"}
    for epoch in method.discover(unlabelled, NUM_NEW, training()):
        assert set(epoch.terms) == {"contrast"}


@pytest.mark.parametrize("name", ["vanilla_gcd", "metagcd"])
def test_the_paper_flavour_contrasts_in_65536_dimensions(name):
    config = METHODS[name][1]
    assert (config.authors().projector_prototypes, config.paper().projector_prototypes) == (0, 65536)
    method, labelled, _ = build(name, projector_prototypes=32)
    batch = next(labelled.batches(8, torch.Generator().manual_seed(0)))
    assert method.projector(method.tail(batch.tokens)).shape == (16, 32)


def test_the_losses_by_hand():
    method, labelled, _ = after_stage_0("vanilla_gcd", supervised_share=0.2)
    batch = next(labelled.batches(8, torch.Generator().manual_seed(0)))
    h, labels = method.projector(method.tail(batch.tokens)), labelled.labels[batch.images]
    supervised, contrast = losses.supervised_contrast(h[:8], h[8:], labels, 0.07), losses.info_nce(h[:8], h[8:], 1.0)
    found = method.supervised_loss(batch, labels)
    torch.testing.assert_close(found["supervised contrast"], 0.2 * supervised)
    torch.testing.assert_close(found["contrast"], 0.8 * contrast)
    torch.testing.assert_close(method.stage_loss(batch)["contrast"], contrast)


def test_without_a_supervised_share_labels_do_not_train():
    tails = []
    for order in ([0, 1, 2], [0, 0, 1]):
        method, labelled, _ = build("vanilla_gcd", supervised_share=0.0)
        labels = torch.tensor(order).repeat_interleave(PER_CLASS)
        epochs = list(method.fit(Labelled(labelled.views, labels), training()))
        assert epochs[-1].terms["supervised contrast"] == 0
        tails.append(method.tail.block.attn.qkv.weight)
    assert torch.equal(*tails)


def test_labelled_classes_are_their_means():
    method, labelled, _ = after_stage_0("vanilla_gcd")
    features = normalize(method.features(labelled), dim=1)
    for c in range(NUM_BASE):
        expected = normalize(features[labelled.labels == c].mean(0), dim=0)
        torch.testing.assert_close(method.memory.prototypes[c], expected)
    assert method.class_counts() == [PER_CLASS] * NUM_BASE


def test_plain_clusters_are_those_of_k_means_on_the_last_features():
    method, _, unlabelled = after_stage_0("vanilla_gcd", restarts=3)
    list(method.discover(unlabelled, NUM_NEW, training()))
    features = normalize(method.features(unlabelled), dim=1)
    expected = kmeans(features, K, seed=0, restarts=3)
    assert sorted(method.memory.prototypes.tolist()) == sorted(expected.tolist())
    assert method.class_counts() == (features @ method.memory.prototypes.T).argmax(1).bincount(minlength=K).tolist()


@pytest.mark.parametrize(("images", "moves"), [(1e8, False), (1.0, True)])
def test_anchors_hold_the_old_centres(images, moves):
    method, _, unlabelled = after_stage_0("vanilla_gcd", anchored=True, anchor_images=images, rate=0.1)
    old = method.memory.prototypes.clone()
    list(method.discover(unlabelled, NUM_NEW, training()))
    moved = (method.memory.prototypes[:NUM_BASE] - old).norm(dim=1).max()
    assert moved > 1e-3 if moves else moved < 1e-5
    assert method.num_classes == K
    torch.testing.assert_close(method.memory.prototypes.norm(dim=1), torch.ones(K))


def test_an_anchored_old_class_needs_no_image():
    method, labelled, _ = after_stage_0("vanilla_gcd", anchored=True, rate=0.0, batch_size=2)
    old = method.memory.prototypes.clone()
    new = Unlabelled(views(labelled.views.trunk, [3, 7], per_class=3))
    list(method.discover(new, NUM_NEW, training()))
    torch.testing.assert_close(method.memory.prototypes[:NUM_BASE], old)
    assert method.class_counts() == [0, 0, 0, 3, 3]


@pytest.mark.parametrize(("anchored", "number", "kind"), [(True, 5, "new classes"), (False, 2, "classes")])
def test_more_classes_than_images(anchored, number, kind):
    method, labelled, _ = after_stage_0("vanilla_gcd", anchored=anchored, batch_size=2)
    few = Unlabelled(views(labelled.views.trunk, [0, 1], per_class=2))
    with pytest.raises(InputError, match=f"4 images cannot form 5 {kind}"):
        list(method.discover(few, number, training()))


def test_the_projector_goes_on_from_stage_to_stage():
    method, _, unlabelled = after_stage_0("vanilla_gcd", rate=0.0)
    before = method.projector.mlp[0].weight.detach().clone()
    list(method.discover(unlabelled, NUM_NEW, training()))
    assert torch.equal(method.projector.mlp[0].weight, before)
    assert "projector.mlp.0.weight" in method.state_dict()


@pytest.mark.parametrize("anchored", [False, True])
def test_it_discovers_and_the_old_colours_keep_their_ids(anchored):
    method, labelled, unlabelled = after_stage_0("vanilla_gcd", **{**TRAINED, "base_epochs": 20}, anchored=anchored)
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    accuracy = accuracy_on(method, unlabelled)
    assert accuracy.old > 90
    assert accuracy.new > 90
    assert torch.equal(method.predict_all(labelled).argmax(1), labelled.labels)
