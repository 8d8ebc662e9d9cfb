"""From what is asked for to the values of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from happycat.benchmark.setup import method_config
from happycat.images.datasets import glyphs
from happycat.methods.happy import HappyConfig

CHANGES = {"parametric": {"base_entropy_weight": 2.0, "epochs": 20}}


@pytest.fixture(scope="module")
def changed():
    """A data set for which the paper's authors changed two values."""
    return replace(glyphs.load(num_classes=4, per_class=8), method_values=CHANGES)


def test_a_data_set_brings_its_authors_values(changed):
    config = method_config("happy", "authors", changed, {})[1]
    assert config == HappyConfig(base_entropy_weight=2.0, epochs=20)


def test_what_is_asked_for_comes_before_the_data_sets_values(changed):
    assert method_config("happy", "authors", changed, {"epochs": 3})[1].epochs == 3


def test_the_papers_text_has_no_values_of_a_data_set(changed):
    assert method_config("happy", "paper", changed, {})[1] == HappyConfig.paper()


def test_a_data_sets_values_are_those_of_one_family(changed):
    assert method_config("vanilla_gcd", "authors", changed, {})[1].epochs == 30
