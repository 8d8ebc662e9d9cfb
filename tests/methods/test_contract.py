"""One contract for every method in the registry: what makes them true peers."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from itertools import chain
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from happycat.backbone.extraction import fill_tokens
from happycat.backbone.recipe import Recipe
from happycat.backbone.token_store import TokenStore
from happycat.base import tables
from happycat.learning.batches import FreshViews, Labelled, StoredViews, Unlabelled
from happycat.learning.training import Epoch, Training
from happycat.methods import METHODS
from happycat.methods.method import Method
from tests.helpers.contract import (
    NUM_BASE,
    NUM_NEW,
    PER_CLASS,
    SMALL,
    assert_same,
    build,
    copied,
    through,
    training,
    views,
)


@pytest.fixture(scope="module", params=METHODS)
def make(request):
    return partial(build, request.param)


class Story(NamedTuple):
    """Stage-0 and one stage: epochs, number of classes and state after each of them, and the method itself."""

    epochs: list[list[Epoch]]
    num_classes: list[int]
    states: list[dict[str, Tensor]]
    fingerprints: list[str]
    method: Method


@pytest.fixture(scope="module")
def story(make) -> Story:
    """What the method does as `through` does it, told once for all tests; copy what it has before changing it."""
    method, labelled, unlabelled = make()
    found, fingerprint = Story([], [], [], [], method), labelled.views.trunk.fingerprint
    for epochs in (method.fit(labelled, training()), method.discover(unlabelled, NUM_NEW, training(1))):
        found.fingerprints.append(fingerprint())
        found.epochs.append(list(epochs))
        found.num_classes.append(method.num_classes)
        found.states.append(copied(method.state_dict()))
    found.fingerprints.append(fingerprint())
    return found


@pytest.fixture(scope="module")
def learned(story):
    """The state of the method after Stage-0 and one stage."""
    return story.states[1]


def knowing(make, learned):
    """The method after Stage-0 and one stage, and the images of that stage."""
    method, _, unlabelled = make()
    method.load_state_dict(learned)
    return method, unlabelled


def test_yields_once_per_epoch_with_named_terms(story):
    numbers = [(1, 2), (2, 2)] if story.method.trains else []  # k-means has none
    for told in story.epochs:
        assert [(e.number, e.total) for e in told] == numbers
        assert all(isinstance(value, float) for e in told for value in e.terms.values())
        assert all(e.terms for e in told)


def test_class_count_grows_by_num_new(make, story):
    assert story.num_classes == [NUM_BASE, NUM_BASE + NUM_NEW]
    method, unlabelled = knowing(make, story.states[1])
    list(method.discover(unlabelled, 1, training()))
    assert method.num_classes == NUM_BASE + NUM_NEW + 1
    assert len(method.class_counts()) == method.num_classes


def test_predict_gives_probabilities_and_changes_nothing(make, learned):
    method, unlabelled = knowing(make, learned)
    state = copied(method.state_dict())
    random = torch.get_rng_state()
    first, second = method.predict_all(unlabelled), method.predict_all(unlabelled)
    assert torch.equal(first, second)
    assert first.shape == (len(unlabelled), NUM_BASE + NUM_NEW)
    torch.testing.assert_close(first.sum(1), torch.ones(len(unlabelled)))
    assert torch.equal(random, torch.get_rng_state())
    assert_same(method.state_dict(), state)


def test_an_image_has_a_familiarity_beside_its_probabilities(make, learned):
    method, unlabelled = knowing(make, learned)
    probabilities, familiarity = method.evaluate(unlabelled)
    assert torch.equal(probabilities, method.predict_all(unlabelled))
    likeliest, probability = method.classify(unlabelled)
    assert torch.equal(likeliest, probabilities.argmax(1))
    assert torch.equal(probability, probabilities.amax(1))
    assert familiarity.shape == (len(unlabelled),)
    assert familiarity.isfinite().all()
    if type(method).familiarity is Method.familiarity:
        assert torch.equal(familiarity, probabilities.amax(1))


def test_same_seed_same_result_whatever_the_global_state(make, learned):
    torch.rand(5)
    again, _ = through(make)
    assert_same(again.state_dict(), learned)


def test_the_state_is_the_whole_memory(make, story):
    method = deepcopy(story.method)  # with all that it may remember beside its state
    other, _, unlabelled = make()
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.predict_all(unlabelled), method.predict_all(unlabelled))
    for one in (method, other):
        list(one.discover(unlabelled, 1, training(7)))
    assert torch.equal(other.predict_all(unlabelled), method.predict_all(unlabelled))


def test_memory_does_not_grow_with_the_number_of_images(make):
    sizes = []
    for per_class in (PER_CLASS, 2 * PER_CLASS):
        # Calm takes no more dimensions than there are images
        method, labelled, _ = make(dimensions=8, base_epochs=1, epochs=1)
        trunk = labelled.views.trunk
        labels = torch.arange(NUM_BASE).repeat_interleave(per_class)
        list(method.fit(Labelled(views(trunk, range(NUM_BASE), per_class), labels), training()))
        list(method.discover(Unlabelled(views(trunk, range(1, 5), per_class)), NUM_NEW, training()))
        sizes.append({name: value.shape for name, value in method.state_dict().items()})
    assert sizes[0] == sizes[1]


def test_the_trunk_is_not_touched(story):
    assert len(set(story.fingerprints)) == 1


def stage_0(method, labelled, _, training):
    return chain(method.fit(labelled, training), method.rehearse(labelled, training))


def rehearsal(method, labelled, _, training):
    return method.rehearse(labelled, training)


def stage_1(method, _, unlabelled, training):
    return method.discover(unlabelled, NUM_NEW, training)


@pytest.mark.parametrize("verb", [stage_0, rehearsal, stage_1])
def test_stopped_after_any_epoch_and_resumed_is_never_stopped(make, story, verb):
    """From the state before the stage and that of the training: to the last bit, whatever the epoch."""
    method, labelled, unlabelled = make(epochs=3)
    if verb is not stage_0:
        method.load_state_dict(story.states[0])
    start, states, run = copied(method.state_dict()), [], training(1)
    for epoch in verb(method, labelled, unlabelled, run):
        states.append(copied(run.state))
        assert len(states) == epoch.number
    tasks = SMALL["tasks"] if method.rehearses else 0
    number = {stage_0: SMALL["base_epochs"] + tasks, rehearsal: tasks, stage_1: 3}[verb]
    assert len(states) == (number if method.trains else 0)
    for state in states:
        again, labelled, unlabelled = make(epochs=3)
        again.load_state_dict(start)
        left = list(verb(again, labelled, unlabelled, Training(torch.Generator().manual_seed(99), state)))
        assert len(left) == number - int(state["epoch"])
        assert_same(again.state_dict(), method.state_dict())


@pytest.mark.parametrize("family", sorted({method.family for method, _ in METHODS.values()}))
def test_one_stage_0_is_the_start_of_a_whole_family(family):
    """That of its first method: the Stage-0 of every other one is the same."""
    names = [name for name, (method, _) in METHODS.items() if method.family == family]
    method, labelled, unlabelled = build(names[0])
    list(method.fit(labelled, training()))
    for name in names:
        other, _, _ = build(name)
        other.load_state_dict(method.state_dict())
        assert torch.equal(other.predict_all(labelled), method.predict_all(labelled)), name
        assert other.class_counts() == method.class_counts()
        list(other.discover(unlabelled, NUM_NEW, training()))
        assert other.num_classes == NUM_BASE + NUM_NEW
        own, _, _ = build(name)
        list(own.fit(labelled, training()))
        assert_same(own.state_dict(), method.state_dict())


def test_rehearsal_is_none_or_leaves_a_working_method(make, story):
    method, labelled, unlabelled = make()
    method.load_state_dict(story.states[0])
    before = copied(method.state_dict())
    epochs = list(method.rehearse(labelled, training(1)))
    assert [e.number for e in epochs] == ([1, 2] if method.rehearses else [])
    if method.rehearses:
        assert not torch.equal(method.tail.block.attn.qkv.weight, before["tail.block.attn.qkv.weight"])
    else:
        assert_same(method.state_dict(), before)
    assert method.num_classes == NUM_BASE
    assert method.class_counts() == [PER_CLASS] * NUM_BASE or method.family == "kmeans"
    found = method.predict_all(labelled)
    torch.testing.assert_close(found.sum(1), torch.ones(len(labelled)))
    list(method.discover(unlabelled, NUM_NEW, training(2)))
    assert method.predict_all(unlabelled).shape == (len(unlabelled), NUM_BASE + NUM_NEW)


def test_what_was_labelled_is_learned(make):
    """Three colours, told apart by a random backbone that was trained a little: each picture gets its own id."""
    method, labelled, _ = make(base_epochs=20)
    list(method.fit(labelled, training()))
    right = method.predict_all(labelled).argmax(1) == labelled.labels
    assert right.float().mean() > 0.9


def test_stored_views_serve_as_well(make, tmp_path):
    method, labelled, unlabelled = make()

    def stored(fresh: FreshViews) -> StoredViews:
        trunk, pictures, plan = fresh.trunk, fresh.pictures, fresh.plan
        store = TokenStore(tmp_path, Recipe.of(trunk, trunk.fingerprint(), pictures, plan, 3))
        fill_tokens(store, trunk, pictures, plan, 0)
        return StoredViews(store, torch.device("cpu"))

    list(method.fit(Labelled(stored(labelled.views), labelled.labels), training()))
    kept = Unlabelled(stored(unlabelled.views))
    list(method.discover(kept, NUM_NEW, training(1)))
    found = method.predict_all(kept)
    torch.testing.assert_close(found, method.predict_all(unlabelled), atol=1e-2, rtol=0)  # tokens are kept in half
    assert found.shape == (len(kept), NUM_BASE + NUM_NEW)


def test_tables_in_files_change_nothing(make, learned, monkeypatch):
    monkeypatch.setattr(tables, "IN_MEMORY", 0)
    assert_same(through(make)[0].state_dict(), learned)
