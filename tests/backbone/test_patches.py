"""Features of the class token and of the patch tokens: values, registers, stored tokens, model files."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from torch.nn.functional import layer_norm, normalize

from happycat import Happycat
from happycat.backbone.config import BackboneConfig
from happycat.backbone.extraction import CENTRE, VIEWS, FeatureExtractor, fill_tokens
from happycat.backbone.patches import ClassAndPatches, feature_tail
from happycat.backbone.pooled import PooledBackbone
from happycat.backbone.recipe import Recipe
from happycat.backbone.tail import Tail, Vectors
from happycat.backbone.token_store import TokenStore
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import ViewPlan
from happycat.images.pictures import ArrayPictures
from tests.helpers.runs import quick_loop, small_vit

PLAN = ViewPlan(image_size=16)
HALF = (0.5,) * 3


def extractor(patches: bool, model=None) -> FeatureExtractor:
    model = copy.deepcopy(model or small_vit())
    tail = Tail(model)
    return FeatureExtractor(Trunk(model, "small", HALF, HALF), tail, PLAN, 0, patches=patches)


def noise(number) -> ArrayPictures:
    return ArrayPictures(np.random.default_rng(0).integers(0, 256, (number, 20, 24, 3), dtype=np.uint8))


@pytest.mark.parametrize("registers", [0, 4])
def test_the_first_half_is_the_class_token_and_the_second_the_mean_of_the_patches_alone(registers):
    shape = {"reg_tokens": registers, "no_embed_class": bool(registers)}
    views, model = torch.randint(0, 256, (3, 3, 16, 16), dtype=torch.uint8), small_vit(**shape)
    with torch.no_grad():
        pixels = (views.float() - 127.5) / 127.5
        x = model.norm_pre(model._pos_embed(model.patch_embed(pixels)))
        for block in model.blocks[:-1]:
            x = block(x)
        patches = layer_norm(x, (24,), eps=model.blocks[-1].norm1.eps)[:, 1 + registers :]
        token = model.norm(model.blocks[-1](x))[:, 0]
        made = extractor(patches=True, model=model)
        found = made.tail(made.trunk(views))
    assert patches.shape[1] == 4  # of 8 × 8 pixels
    assert found.shape == (3, made.dim) == (3, 48)
    torch.testing.assert_close(found[:, :24], normalize(token, dim=-1))
    torch.testing.assert_close(found[:, 24:], normalize(patches.mean(1), dim=-1))


def test_they_are_those_of_stored_tokens(tmp_path):
    made, pictures = extractor(patches=True), noise(5)
    whole = made.extract(pictures)
    store = TokenStore(tmp_path, Recipe.of(made.trunk, made.trunk.fingerprint(), pictures, PLAN, len(VIEWS) - 1))
    fill_tokens(store, made.trunk, pictures, PLAN, 0)
    made.trunk.forward = None  # from here on nothing goes through the trunk
    assert made.extract(pictures, cache_dir=tmp_path).equal(whole)


def test_features_with_and_without_them_are_never_taken_for_each_other(tmp_path):
    with_them, without = extractor(patches=True), extractor(patches=False)
    assert with_them.fingerprint() != without.fingerprint()
    assert with_them.recipe(noise(2)).name != without.recipe(noise(2)).name
    assert (with_them.metadata()["patches"], without.metadata()["patches"]) == (True, False)


def test_a_model_without_a_class_token_has_its_own_features():
    pooled = PooledBackbone(timm.create_model("resnet18", num_classes=0), "resnet18", HALF, HALF, 32)
    tail = Vectors(pooled.dim)
    assert feature_tail(pooled, tail, patches=True) is tail


def test_a_backbone_from_scratch_has_the_class_token_alone():
    made = FeatureExtractor.of(BackboneConfig(name="scratch_vit", image_size=16), patches=True)
    assert isinstance(made.tail, Tail)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model("test_vit", num_classes=0).state_dict(), path)
    return path


def backbone(weights) -> BackboneConfig:
    return BackboneConfig(name="test_vit", weights=weights, image_size=32, precision="fp32", device="cpu")


def test_calm_and_the_counter_of_other_methods_are_served_them_and_kmeans_is_not(tmp_path, weights):
    dims = {}
    some = {"calm": {}, "kmeans": {}, "happy": {"batch_size": 16}, "plain": {"patches": False}}
    for method, values in some.items():
        loop = quick_loop(
            tmp_path / method,
            method="calm" if method == "plain" else method,
            method_values=values,
            backbone=backbone(weights),
            loop={"num_new": "auto"},
        )
        dims[method] = loop.data.extractor.extract(noise(1), CENTRE).shape[-1]
        assert loop.data.vectors().dim == dims[method]
        if method == "happy":
            assert loop.counter.calm.tail.dim == dims[method]
        else:
            assert loop.method.tail.dim == dims[method]
        loop.record.close()
    assert dims == {"calm": 128, "kmeans": 64, "happy": 128, "plain": 64}


def test_a_model_file_remembers_them(tmp_path, weights):
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (40, 40, 3), dtype=np.uint8) // (1 + i % 2) for i in range(12)]
    values = {"backbone": "test_vit", "weights": weights, "image_size": 32, "workers": 0, "views": 1}
    cat = Happycat(**values, precision="fp32").fit(images, [i % 2 for i in range(12)])
    assert cat.n_features_in_ == 128
    cat.save(tmp_path / "with.cat")
    again = Happycat.load(tmp_path / "with.cat")
    assert isinstance(again.extractor().tail, ClassAndPatches)
    assert (again.predict(images) == cat.predict(images)).all()
