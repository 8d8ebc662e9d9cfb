"""The number of new classes: known, by silhouette, by Calm's estimate."""

from __future__ import annotations

import pytest
import torch

from happycat.backbone.tail import Vectors
from happycat.base.errors import InputError
from happycat.learning.batches import Labelled, Unlabelled, VectorViews
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from happycat.methods.calm.number import NOTHING_NEW
from happycat.methods.counting import make_counter
from happycat.methods.kmeans import KMeans, KMeansConfig
from tests.helpers.contract import training

DIM, EACH, KNOWN = 16, 20, 4


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def features(classes: int) -> VectorViews:
    """EACH images of three views around orthogonal directions."""
    centres = torch.eye(DIM)[torch.arange(classes).repeat_interleave(EACH)]
    return VectorViews(centres[:, None] + 0.1 * torch.randn(len(centres), 3, DIM, generator=generator(1)))


class Source:
    """Features of four labelled classes; a stage has two more."""

    def vectors(self) -> Vectors:
        return Vectors(DIM)

    def labelled_features(self, random_views: int) -> Labelled:
        return Labelled(features(KNOWN), torch.arange(KNOWN).repeat_interleave(EACH))

    def features(self, stage: int, random_views: int) -> Unlabelled:
        return Unlabelled(features(KNOWN + 2))


@pytest.fixture
def method() -> KMeans:
    made = KMeans(Vectors(DIM), KMeansConfig())
    list(made.fit(Source().labelled_features(2), training()))
    return made


STAGE = Source().features(1, 2)


def test_a_known_number_is_the_stages(method):
    counter = make_counter("known", method, [2, 5], Source())
    assert counter.count(2, STAGE, generator()).number == 5
    assert not counter.estimates
    assert counter.ready
    assert counter.state_dict() == {}


def test_the_silhouette_is_largest_for_the_true_number(method):
    counter = make_counter("silhouette", method, [], Source(), most=5)
    found = counter.count(1, STAGE, generator())
    assert (found.number, found.numbers, found.measure) == (2, [1, 2, 3, 4, 5], "silhouette")


def test_too_few_images_for_a_silhouette(method):
    few = Unlabelled(VectorViews(features(1).features[:5]))
    with pytest.raises(InputError, match="5 images, too few"):
        make_counter("silhouette", method, [], Source()).count(1, few, generator())


def test_calm_beside_another_method_counts_and_follows_it(method):
    counter = make_counter("auto", method, [], Source())
    assert not counter.ready
    counter.learn(generator())
    assert counter.ready
    assert counter.count(1, STAGE, generator()).number == 2
    list(method.discover(STAGE, 2, training(1)))
    counter.follow(1, STAGE)
    assert counter.count(2, STAGE, generator()).number == 0
    again = make_counter("auto", method, [], Source())
    again.load_state_dict(counter.state_dict())
    assert again.count(2, STAGE, generator()) == counter.count(2, STAGE, generator())


def test_calm_counts_for_itself_and_has_no_second_memory():
    calm = Calm(Vectors(DIM), CalmConfig())
    list(calm.fit(Source().labelled_features(2), training()))
    counter = make_counter("auto", calm, [], Source())
    assert counter.state_dict() == {}
    assert counter.count(1, STAGE, generator()) == calm.count(STAGE, generator())


def test_of_one_image_nothing_can_be_new():
    calm = Calm(Vectors(DIM), CalmConfig())
    assert calm.count(Unlabelled(VectorViews(torch.rand(1, 3, DIM))), generator()) == NOTHING_NEW


def test_calm_may_find_more_new_classes_than_are_known():
    calm = Calm(Vectors(DIM), CalmConfig())
    list(calm.fit(Source().labelled_features(2), training()))
    many = Unlabelled(features(3 * KNOWN))
    assert calm.count(many, generator()).number == 2 * KNOWN
    assert calm.count(many, generator(), 3).high == 3
