"""A model file that is made of a Calm alone."""

from __future__ import annotations

import pytest

from happycat import Happycat
from happycat.base.errors import InputError
from happycat.model.from_method import mean_cosine, prototype_registry
from tests.helpers.vectors import KNOWN, clouds


@pytest.fixture(scope="module")
def cat() -> Happycat:
    return Happycat().fit(*clouds(range(KNOWN), noise=0.15))


def test_the_mean_cosine_is_that_of_the_labelled_images(cat):
    assert cat.mean_cosine_ < 0.95
    assert mean_cosine(cat.calm_) == pytest.approx(cat.mean_cosine_, abs=0.01)


def test_a_calm_that_did_not_measure_its_radius_is_refused(cat, tmp_path):
    cat.save(tmp_path / "m.cat")  # a model file has no radius
    with pytest.raises(InputError, match="did not measure"):
        mean_cosine(Happycat.load(tmp_path / "m.cat").calm_)


def test_each_class_has_its_prototype_its_images_and_its_threshold(cat):
    registry = prototype_registry(cat.calm_, ["a", "b", "c", "d", None, None], [0, 0, 0, 0, 1, 2])
    assert [registry.label(entry) for entry in registry] == ["a", "b", "c", "d", "class 4", "class 5"]
    assert [registry.learned_from(entry) for entry in registry] == [30] * KNOWN
    assert (registry.pool.thresholds == cat.calm_.thresholds.numpy()).all()
    assert len(set(registry.pool.thresholds.tolist())) > 1  # each class has its own
    assert (registry.pool.vectors == cat.calm_.memory.prototypes.numpy()).all()
    with pytest.raises(InputError, match="cannot be split"):
        registry.split("a")
