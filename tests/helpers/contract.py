"""Methods on pictures of one colour a class: what the contract and the tests of single methods share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

import numpy as np
import torch

from happycat.backbone.tail import Tail
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import ViewPlan
from happycat.base.metrics import Accuracy, clustering_accuracy
from happycat.images.pictures import ArrayPictures, Subset
from happycat.learning.batches import FreshViews, Labelled, Unlabelled
from happycat.learning.training import Training
from happycat.methods import METHODS
from tests.helpers.runs import small_vit

SMALL = {
    "base_epochs": 2,
    "epochs": 2,
    "batch_size": 8,
    "projector_hidden": 8,
    "projector_out": 4,
    "projector_deviation": 0.3,
    "tasks": 2,
    "task_stages": 1,
    "inner_epochs": 1,
    "episodes": 1,
    "restarts": 1,
}
NUM_BASE, NUM_NEW, PER_CLASS = 3, 2, 8


def backbone() -> tuple[Trunk, Tail]:
    model = small_vit()
    tail = Tail(model)
    return Trunk(model, "small", (0.5,) * 3, (0.25,) * 3), tail


def views(trunk: Trunk, classes: Iterable[int], per_class: int = PER_CLASS) -> FreshViews:
    """Pictures of one colour a class, the corners of the colour cube, with noise."""
    random = np.random.default_rng(1)
    colours = 48 + 160 * np.array([[c >> 2 & 1, c >> 1 & 1, c & 1] for c in range(8)])
    pixels = [
        np.clip(colours[c] + random.integers(-20, 20, (20, 20, 3)), 0, 255) for c in classes for _ in range(per_class)
    ]
    pictures = ArrayPictures(np.stack(pixels).astype(np.uint8))
    return FreshViews(trunk, Subset(pictures, list(pictures.keys)), ViewPlan(image_size=16), workers=0)


def small(config_class, **changes):
    """A method's values, small where it has them."""
    known = {f.name for f in fields(config_class)}
    return config_class(**{name: value for name, value in {**SMALL, **changes}.items() if name in known})


def build(name: str, **changes):
    """A fresh method, and what serves it."""
    method_class, config_class = METHODS[name]
    trunk, tail = backbone()
    labels = torch.arange(NUM_BASE).repeat_interleave(PER_CLASS)
    labelled = Labelled(views(trunk, range(NUM_BASE)), labels)
    unlabelled = Unlabelled(views(trunk, range(1, NUM_BASE + NUM_NEW)))
    return method_class(tail, small(config_class, **changes)), labelled, unlabelled


def training(seed: int = 0) -> Training:
    return Training(torch.Generator().manual_seed(seed))


def copied(state: dict) -> dict:
    return {name: value.clone() for name, value in state.items()}


def assert_same(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def through(make, per_class=PER_CLASS):
    """A method after Stage-0 and one stage."""
    method, labelled, unlabelled = make()
    list(method.fit(labelled, training()))
    list(method.discover(unlabelled, NUM_NEW, training(1)))
    return method, unlabelled


# For the tests of one method: two new colours that are unlike the labelled ones
FAR_COLOURS = (0, 1, 2, 3, 7)
TRAINED = {"base_epochs": 60, "epochs": 20, "batch_size": 20, "rate": 0.03, "top_dimensions": 3, "ramp_epochs": 5}


def after_stage_0(name: str, **changes):
    """A method after Stage-0, and the images of a stage with all the old colours and two new ones."""
    method, labelled, _ = build(name, **changes)
    list(method.fit(labelled, training()))
    return method, labelled, Unlabelled(views(labelled.views.trunk, FAR_COLOURS))


def accuracy_on(method, unlabelled) -> Accuracy:
    """Of pictures of NUM_BASE old colours and NUM_NEW new ones."""
    targets = torch.arange(NUM_BASE + NUM_NEW).repeat_interleave(PER_CLASS).numpy()
    return clustering_accuracy(targets, method.predict_all(unlabelled).argmax(1).numpy(), NUM_BASE)
