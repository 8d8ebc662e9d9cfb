"""Feature extraction: the same backbone in another precision, and pictures that were replaced."""

from __future__ import annotations

import os

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from happycat.backbone.config import BackboneConfig
from happycat.backbone.extraction import CENTRE, FeatureExtractor
from happycat.backbone.store import Recipe, TokenStore
from happycat.backbone.tail import Tail
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import ViewPlan
from happycat.images.pictures import ArrayPictures, FilePictures
from happycat.learning.batches import StoredViews
from tests.helpers.runs import small_vit

NAME = "vit_tiny_patch16_224"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model(NAME, num_classes=0).state_dict(), path)
    return path


def test_a_backbone_is_itself_in_any_precision(weights, tmp_path):
    one, two = (
        FeatureExtractor.of(BackboneConfig(name=NAME, weights=weights, image_size=32, precision=p, device="cpu"))
        for p in ("fp32", "bf16")
    )
    assert one.fingerprint() == two.fingerprint()
    other = tmp_path / "other.safetensors"
    save_file({k: v + 0.01 for k, v in timm.create_model(NAME, num_classes=0).state_dict().items()}, other)
    assert (
        FeatureExtractor.of(BackboneConfig(name=NAME, weights=other, image_size=32, device="cpu")).fingerprint()
        != one.fingerprint()
    )
    assert (
        FeatureExtractor.of(BackboneConfig(name=NAME, weights=weights, image_size=48, device="cpu")).fingerprint()
        != one.fingerprint()
    )


def test_what_is_kept_is_used_unless_the_picture_was_replaced(weights, tmp_path, monkeypatch):
    extractor = FeatureExtractor.of(
        BackboneConfig(name=NAME, weights=weights, image_size=32, precision="fp32", device="cpu"), workers=0
    )
    path = tmp_path / "a.png"
    Image.fromarray(np.full((40, 40, 3), 90, np.uint8)).save(path)
    pictures, calls = FilePictures(tmp_path, ["a.png"]), []
    features = FeatureExtractor._features
    monkeypatch.setattr(FeatureExtractor, "_features", lambda *a: calls.append(1) or features(*a))
    first = extractor.extract(pictures, CENTRE, cache_dir=tmp_path / "kept")
    assert torch.equal(extractor.extract(pictures, CENTRE, cache_dir=tmp_path / "kept"), first)
    assert len(calls) == 1
    Image.fromarray(np.full((40, 40, 3), 200, np.uint8)).save(path)
    os.utime(path, ns=(1, 1))
    assert not torch.equal(extractor.extract(pictures, CENTRE, cache_dir=tmp_path / "kept"), first)
    assert len(calls) == 2


@pytest.mark.parametrize("number", [11, 300])
def test_features_are_to_the_bit_those_of_stored_tokens(tmp_path, number):
    model = small_vit()
    tail, plan = Tail(model), ViewPlan(image_size=16)
    trunk = Trunk(model, "small", (0.5,) * 3, (0.5,) * 3)
    pictures = ArrayPictures(np.random.default_rng(0).integers(0, 256, (number, 20, 24, 3), dtype=np.uint8))
    store = TokenStore(tmp_path, Recipe.of(trunk, trunk.fingerprint(), pictures, plan, 2))
    store.fill(trunk, pictures, plan, 0, lambda _: None)
    told = []
    found = FeatureExtractor(trunk, tail, plan, 0).extract(pictures, ("centre", "1", "2"), told.append)
    assert torch.equal(found, StoredViews(store, torch.device("cpu")).every(tail, 2))
    assert sum(told) == number
    assert max(told) <= 21  # of 64 views that go through the trunk at once
