"""One contract for every method in the registry: what makes them true peers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from conftest import small_vit
from happycat.images.pictures import ArrayPictures
from happycat.methods import METHODS
from happycat.serving import FreshViews, Labelled, Unlabelled
from happycat.stages import Subset
from happycat.tail import Tail
from happycat.training import Training
from happycat.trunk import Trunk
from happycat.views import ViewPlan

SMALL = {"base_epochs": 2, "epochs": 2, "batch_size": 8, "projector_hidden": 8, "projector_out": 4}
NUM_BASE, NUM_NEW, PER_CLASS = 3, 2, 8


def backbone() -> tuple[Trunk, Tail]:
    model = small_vit()
    tail = Tail(model)
    return Trunk(model, "small", (0.5,) * 3, (0.25,) * 3), tail


def views(trunk: Trunk, classes: range, per_class: int = PER_CLASS) -> FreshViews:
    """Pictures of one colour a class, the corners of the colour cube, with noise."""
    random = np.random.default_rng(1)
    colours = 48 + 160 * np.array([[c >> 2 & 1, c >> 1 & 1, c & 1] for c in range(8)])
    pixels = [
        np.clip(colours[c] + random.integers(-20, 20, (20, 20, 3)), 0, 255) for c in classes for _ in range(per_class)
    ]
    pictures = ArrayPictures(np.stack(pixels).astype(np.uint8))
    return FreshViews(trunk, Subset(pictures, list(pictures.keys)), ViewPlan(image_size=16), workers=0)


@pytest.fixture(params=METHODS)
def make(request):
    """A fresh method, and what serves it."""
    method_class, config_class, _ = METHODS[request.param]

    def build():
        trunk, tail = backbone()
        labels = torch.arange(NUM_BASE).repeat_interleave(PER_CLASS)
        labelled = Labelled(views(trunk, range(NUM_BASE)), labels)
        unlabelled = Unlabelled(views(trunk, range(1, NUM_BASE + NUM_NEW)))
        return method_class(tail, config_class(**SMALL)), labelled, unlabelled

    return build


def training(seed: int = 0) -> Training:
    return Training(torch.Generator().manual_seed(seed))


def through(make, per_class=PER_CLASS):
    """A method after Stage-0 and one stage."""
    method, labelled, unlabelled = make()
    list(method.fit(labelled, training()))
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    return method, unlabelled


def test_yields_once_per_epoch_with_named_terms(make):
    method, labelled, unlabelled = make()
    for epochs in (method.fit(labelled, training()), method.discover(unlabelled, NUM_NEW, training())):
        told = list(epochs)
        assert [(e.number, e.total) for e in told] == [(1, 2), (2, 2)]
        assert all(isinstance(value, float) for e in told for value in e.terms.values())
        assert all(e.terms for e in told)


def test_class_count_grows_by_num_new(make):
    method, labelled, unlabelled = make()
    list(method.fit(labelled, training()))
    assert method.num_classes == NUM_BASE
    list(method.discover(unlabelled, NUM_NEW, training()))
    assert method.num_classes == NUM_BASE + NUM_NEW
    list(method.discover(unlabelled, 1, training()))
    assert method.num_classes == NUM_BASE + NUM_NEW + 1
    assert len(method.class_counts()) == method.num_classes


def test_predict_gives_probabilities_and_changes_nothing(make):
    method, unlabelled = through(make)
    state = {name: value.clone() for name, value in method.state_dict().items()}
    random = torch.get_rng_state()
    first, second = method.predict_all(unlabelled), method.predict_all(unlabelled)
    assert torch.equal(first, second)
    assert first.shape == (len(unlabelled), NUM_BASE + NUM_NEW)
    torch.testing.assert_close(first.sum(1), torch.ones(len(unlabelled)))
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(value, state[name]) for name, value in method.state_dict().items())


def test_same_seed_same_result_whatever_the_global_state(make):
    torch.rand(3)
    one, _ = through(make)
    torch.rand(5)
    two, _ = through(make)
    for name, value in one.state_dict().items():
        assert torch.equal(value, two.state_dict()[name]), name


def test_the_state_is_the_whole_memory(make):
    method, unlabelled = through(make)
    other, _, _ = make()
    other.load_state_dict(method.state_dict())
    assert torch.equal(other.predict_all(unlabelled), method.predict_all(unlabelled))
    for one in (method, other):
        list(one.discover(unlabelled, 1, training(7)))
    assert torch.equal(other.predict_all(unlabelled), method.predict_all(unlabelled))


def test_memory_does_not_grow_with_the_number_of_images(make):
    sizes = []
    for per_class in (PER_CLASS, 3 * PER_CLASS):
        method, labelled, _ = make()
        trunk = labelled.views.trunk
        labels = torch.arange(NUM_BASE).repeat_interleave(per_class)
        list(method.fit(Labelled(views(trunk, range(NUM_BASE), per_class), labels), training()))
        list(method.discover(Unlabelled(views(trunk, range(1, 5), per_class)), NUM_NEW, training()))
        sizes.append({name: value.shape for name, value in method.state_dict().items()})
    assert sizes[0] == sizes[1]


def test_the_trunk_is_not_touched(make):
    method, labelled, unlabelled = make()
    before = labelled.views.trunk.fingerprint()
    list(method.fit(labelled, training()))
    list(method.discover(unlabelled, NUM_NEW, training()))
    assert labelled.views.trunk.fingerprint() == before
