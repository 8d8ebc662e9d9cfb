"""k-means: nothing is learned, every stage is clustered anew, ids last as far as they can."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.base.errors import InputError
from happycat.learning.batches import Labelled, Unlabelled
from happycat.learning.clustering import aligned_centres, kmeans
from tests.helpers.contract import (
    NUM_BASE,
    NUM_NEW,
    PER_CLASS,
    accuracy_on,
    after_stage_0,
    build,
    copied,
    training,
    views,
)

K = NUM_BASE + NUM_NEW


def test_nothing_is_trained():
    method, _, unlabelled = after_stage_0("kmeans")
    before, run = copied(method.tail.state_dict()), training()
    random = run.generator.get_state()
    assert list(method.discover(unlabelled, NUM_NEW, run)) == []
    assert all(torch.equal(value, before[name]) for name, value in method.tail.state_dict().items())
    assert torch.equal(run.generator.get_state(), random)


def test_a_stage_is_clustered_anew_with_all_classes():
    method, _, unlabelled = after_stage_0("kmeans", restarts=3)
    old = method.memory.prototypes.clone()
    list(method.discover(unlabelled, NUM_NEW, training()))
    features = normalize(method.features(unlabelled), dim=1)
    expected, found = kmeans(features, K, seed=0, restarts=3), method.memory.prototypes
    assert sorted(found.tolist()) == sorted(expected.tolist())
    assert not torch.equal(found[:NUM_BASE], old)  # centres of this stage's images, under the old ids
    assert (found @ old.T).argmax(0).tolist() == [0, 1, 2]
    nearest = (features @ found.T).argmax(1)
    assert torch.equal(method.predict_all(unlabelled).argmax(1), nearest)
    assert method.class_counts() == nearest.bincount(minlength=K).tolist()


def test_old_colours_keep_their_ids():
    method, labelled, unlabelled = after_stage_0("kmeans")
    one_more = Unlabelled(views(labelled.views.trunk, [4, 7, 3, 2, 1, 0]))
    for images, number in ((unlabelled, NUM_NEW), (one_more, 1)):
        list(method.discover(images, number, training()))
        assert torch.equal(method.predict_all(labelled).argmax(1), labelled.labels)


def test_labels_only_name_the_clusters():
    ends = []
    for names, wrong in (([0, 1, 2], 0), ([2, 0, 1], 3)):
        method, labelled, _ = build("kmeans")
        labels = torch.tensor(names).repeat_interleave(PER_CLASS)
        given = labels.clone()
        given[:wrong] = names[1]  # they change no centre
        list(method.fit(Labelled(labelled.views, given), training()))
        ends.append(method.memory.prototypes)
        assert torch.equal(method.predict_all(labelled).argmax(1), labels)
    assert torch.equal(ends[0], ends[1][[2, 0, 1]])


def test_probabilities_are_of_the_cosines():
    cold, labelled, _ = after_stage_0("kmeans", prediction_temperature=0.05)
    cosines = normalize(cold.features(labelled), dim=1) @ cold.memory.prototypes.T
    torch.testing.assert_close(cold.predict_all(labelled), (cosines / 0.05).softmax(1))


@pytest.mark.parametrize("name", ["kmeans", "vanilla_gcd"])
def test_transductive_evaluation_clusters_the_test_images_and_changes_nothing(name):
    method, labelled, unlabelled = after_stage_0(name, evaluation="transductive")
    list(method.discover(unlabelled, NUM_NEW, training()))
    state = copied(method.state_dict())
    trunk = labelled.views.trunk
    tests = [Unlabelled(views(trunk, part, per_class=3)) for part in ([0, 1, 2], [3, 4])]
    probabilities, familiarity = method.evaluate_together(tests)
    features = normalize(torch.cat([method.features(test) for test in tests]), dim=1)
    centres = aligned_centres(kmeans(features, K, seed=0, restarts=1), method.memory.prototypes)
    torch.testing.assert_close(probabilities, (features @ centres.T / 0.1).softmax(1))
    inductive = [method.evaluate(test) for test in tests]
    assert not torch.allclose(probabilities, torch.cat([p for p, _ in inductive]))
    torch.testing.assert_close(familiarity, torch.cat([f for _, f in inductive]))
    assert all(torch.equal(value, state[key]) for key, value in method.state_dict().items())


def test_evaluation_is_inductive_unless_asked_otherwise():
    method, labelled, _ = after_stage_0("kmeans")
    together, _ = method.evaluate_together([labelled, labelled])
    assert torch.equal(together, torch.cat([method.predict_all(labelled)] * 2))


def test_more_classes_than_images():
    method, labelled, _ = after_stage_0("kmeans")
    few = Unlabelled(views(labelled.views.trunk, [0, 1], per_class=2))
    with pytest.raises(InputError, match="4 images cannot form 5 classes"):
        list(method.discover(few, NUM_NEW, training()))


def test_it_discovers():
    method, _, unlabelled = after_stage_0("kmeans")
    list(method.discover(unlabelled, NUM_NEW, training()))
    accuracy = accuracy_on(method, unlabelled)
    assert accuracy.old > 90
    assert accuracy.new > 90
