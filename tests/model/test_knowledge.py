"""When too little is known to calibrate the number of new classes, the output says so."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from happycat import Happycat
from happycat.methods.calm import method
from happycat.model.knowledge import Knowledge
from tests.helpers.vectors import clouds

LITTLE = "Little is known of what a class looks like here"


@pytest.mark.parametrize(
    ("knowledge", "reason"),
    [
        (Knowledge(4, 30), "(4 labelled classes)"),
        (Knowledge(1, 30), "(1 labelled class)"),
        (Knowledge(10, 4), "(about 4 images of a class)"),
        (Knowledge(10, 1), "(one image of a class)"),
        (Knowledge(2, 1), "(2 labelled classes, one image of a class)"),
    ],
)
def test_what_is_missing_is_said(knowledge, reason):
    assert knowledge.doubt == f"{LITTLE} {reason}: the number is rough."


def test_nothing_is_said_of_a_model_that_knows_enough():
    assert Knowledge(10, 5).doubt == ""


def test_a_discovery_from_few_classes_says_so():
    cat = Happycat().fit(*clouds(range(4)))
    assert Knowledge.of(cat.registry_) == (4, 30)
    found = cat.discover(clouds([4, 5])[0])
    assert found.doubt == Knowledge(4, 30).doubt
    assert "--" not in found.doubt  # a caller of the API has no flags
    assert Knowledge.of(cat.registry_) == (4, 30)  # what was discovered has no labels


def test_a_number_that_is_given_is_not_rough():
    assert Happycat().fit(*clouds(range(4))).discover(clouds([4, 5])[0], 2).doubt == ""


def test_a_discovery_from_enough_classes_says_nothing():
    assert Happycat().fit(*clouds(range(10), each=12)).discover(clouds([10, 11])[0]).doubt == ""


def test_corrections_change_nothing_of_what_was_labelled(tmp_path):
    cat = Happycat().fit(*clouds(range(4)))
    cat.discover(clouds([4, 5])[0], 2)
    cat.split(0)
    cat.split(0)
    cat.merge(1, 2)
    cat.drop(3)
    assert Knowledge.of(cat.registry_) == (4, 30)
    cat.save(tmp_path / "a.cat")
    assert Knowledge.of(Happycat.load(tmp_path / "a.cat").registry_) == (4, 30)


def test_few_images_of_many_classes_are_little():
    vectors, labels = clouds(range(12), each=3)
    found = Happycat().fit(vectors, labels).discover(np.concatenate([clouds([12])[0], vectors]))
    assert found.doubt == f"{LITTLE} (about 3 images of a class): the number is rough."


def test_a_photograph_that_was_saved_many_times_is_no_new_class(monkeypatch):
    random = np.random.default_rng(0)
    means, labels = random.standard_normal((12, 24)), np.repeat(np.arange(12), 20)
    cat = Happycat().fit(means[labels] + 0.5 * random.standard_normal((240, 24)), labels)
    inbox = means[labels[::4]] + 0.5 * random.standard_normal((60, 24))
    odd = means[:2] + 1.5 * random.standard_normal((2, 24))
    copies = np.repeat(odd, 15, 0) + 1e-3 * random.standard_normal((30, 24))
    assert copy.deepcopy(cat).discover(np.concatenate([inbox, copies]), "auto").count.number == 0
    monkeypatch.setattr(method, "first_of_copies", lambda points, nearest, least: nearest >= 0)  # as if all differed
    assert cat.discover(np.concatenate([inbox, copies]), "auto").count.number > 0
