"""Any timm model as a backbone for features: CNNs, ConvNeXts, ViTs that pool their patches."""

from __future__ import annotations

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file

from happycat import Happycat
from happycat.backbone.config import BackboneConfig, build
from happycat.backbone.extraction import VIEWS, FeatureExtractor
from happycat.backbone.pooled import PooledBackbone
from happycat.backbone.trunk import Trunk
from happycat.base.errors import InputError, WeightsError
from happycat.images.pictures import ArrayPictures
from tests.helpers.runs import small_vit

MODELS = {"resnet18": 32, "convnext_atto": 64, "vit_pwee_patch16_reg1_gap_256": 32}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The path of random weights of a model for its size, with statistics that a batch norm would not start with."""
    folder, made = tmp_path_factory.mktemp("weights"), {}

    def of(name):
        if name not in made:
            torch.manual_seed(0)
            fixed = timm.get_pretrained_cfg(name).fixed_input_size
            model = timm.create_model(name, num_classes=0, **({"img_size": MODELS[name]} if fixed else {}))
            for key, value in model.state_dict().items():
                if key.endswith("running_var"):
                    value *= 0.3
            made[name] = folder / f"{name}.safetensors"
            save_file(model.state_dict(), made[name])
        return made[name]

    return of


def config(name, weights, **changes) -> BackboneConfig:
    values = {"image_size": MODELS[name], "precision": "fp32", "device": "cpu", **changes}
    return BackboneConfig(name=name, weights=weights(name), **values)


def noise(number, side=40) -> ArrayPictures:
    return ArrayPictures(np.random.default_rng(0).integers(0, 256, (number, side, side, 3), dtype=np.uint8))


@pytest.mark.parametrize("name", MODELS)
def test_features_are_timms(name, weights):
    extractor = FeatureExtractor.of(config(name, weights), workers=0)
    views = torch.randint(256, (3, 3, MODELS[name], MODELS[name]), dtype=torch.uint8)
    fixed = timm.get_pretrained_cfg(name).fixed_input_size
    size = {"img_size": MODELS[name]} if fixed else {}
    model = timm.create_model(name, num_classes=0, checkpoint_path=str(weights(name)), **size).eval()
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    with torch.inference_mode():
        expected, found = model((views / 255 - mean) / std), extractor.tail(extractor.trunk(views))
    assert isinstance(extractor.trunk, PooledBackbone)
    assert found.shape == (3, extractor.dim)
    assert found.std() > 0
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_a_vit_that_pools_by_attention():
    model = small_vit(global_pool="map").eval()
    views = torch.randint(256, (3, 3, 16, 16), dtype=torch.uint8)
    with torch.inference_mode():
        expected = model(views / 127.5 - 1)
        found = PooledBackbone(model, "small", (0.5,) * 3, (0.5,) * 3, 16)(views)
    assert found.std() > 0
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_vit_with_a_class_token_keeps_trunk_and_tail(tmp_path):
    save_file(timm.create_model("test_vit", num_classes=0).state_dict(), tmp_path / "t.safetensors")
    about = BackboneConfig(name="test_vit", weights=tmp_path / "t.safetensors", image_size=32, device="cpu")
    assert isinstance(FeatureExtractor.of(about).trunk, Trunk)


def test_an_extractor_says_what_it_is(weights):
    extractor = FeatureExtractor.of(config("resnet18", weights), workers=0, mirror=False)
    assert extractor.dim == 512
    assert extractor.image_size == extractor.plan.image_size == 32
    assert extractor.device == torch.device("cpu")
    assert extractor.tensors() == {}
    assert not extractor.from_scratch
    assert extractor.seconds(10) > 0
    assert extractor.metadata() == {
        "backbone": "resnet18",
        "image_size": 32,
        "mirror": False,
        "crop_share": 224 / 256,
        "patches": False,
        "fingerprint": extractor.fingerprint(),
    }
    usual = FeatureExtractor.of(config("resnet18", weights, image_size=None))
    assert usual.image_size == timm.get_pretrained_cfg("resnet18").input_size[-1]


def test_the_fingerprint_is_the_same_in_any_precision_and_covers_statistics(weights):
    one, two = (FeatureExtractor.of(config("resnet18", weights, precision=p)) for p in ("fp32", "bf16"))
    assert one.fingerprint() == two.fingerprint()
    views = torch.randint(256, (2, 3, 32, 32), dtype=torch.uint8)
    exact, rough = one.trunk(views), two.trunk(views)
    assert rough.dtype == torch.float32
    assert 0 < (rough - exact).norm() / exact.norm() < 5e-2
    one.trunk.model.bn1.running_var += 1
    other = FeatureExtractor(one.trunk, one.tail, one.plan, 0)
    assert other.fingerprint() != two.fingerprint()


def test_what_is_kept_is_the_same_to_the_bit(tmp_path, weights, monkeypatch):
    pictures, through, calls = noise(70), PooledBackbone.forward, []
    extractor = FeatureExtractor.of(config("resnet18", weights), workers=0)
    whole = extractor.extract(pictures, VIEWS)

    def stopped(self, views):
        calls.append(len(views))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return through(self, views)

    monkeypatch.setattr(PooledBackbone, "forward", stopped)
    with pytest.raises(KeyboardInterrupt):
        extractor.extract(pictures, VIEWS, cache_dir=tmp_path)
    assert torch.equal(extractor.extract(pictures, VIEWS, cache_dir=tmp_path), whole)
    assert sum(calls) == 70 * 3 + 18  # the shard of six pictures that was stopped came twice


@pytest.mark.parametrize("name", MODELS)
def test_a_method_that_tunes_the_tail_refuses_it(name, weights):
    with pytest.raises(InputError, match=f"backbone {name} has .*calm and kmeans take it") as caught:
        build(config(name, weights))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "size"), [("convnext_atto", 8), ("vit_pwee_patch16_reg1_gap_256", 40), ("swin_tiny_patch4_window7_224", 2)]
)
def test_a_size_that_the_model_cannot_take_is_one_line(tmp_path, name, size):
    with pytest.raises(InputError, match=rf"{size}\b") as caught:
        FeatureExtractor.of(BackboneConfig(name=name, image_size=size, weights=tmp_path / "none.pth", device="cpu"))
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_weights_of_another_model_do_not_fit(weights):
    wrong = BackboneConfig(name="resnet50", weights=weights("resnet18"), device="cpu")
    with pytest.raises(WeightsError, match="do not fit resnet50") as caught:
        FeatureExtractor.of(wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["resnet18", "convnext_atto"])
def test_a_model_of_ones_own_images(name, weights):
    tones = np.array([[220, 30, 30], [30, 30, 220], [200, 200, 40], [90, 90, 90], [240, 240, 240], [30, 220, 30]])
    classes = np.array([i % 5 for i in range(60)] + [5] * 8)
    shades = tones[classes][:, None, None] + np.random.default_rng(0).integers(-25, 25, (68, 40, 40, 3))
    images, labels = shades.clip(0, 255).astype(np.uint8), [f"tone {c}" for c in classes[:60]]
    cat = Happycat(backbone=name, weights=weights(name), image_size=MODELS[name], device="cpu", workers=0)
    cat.fit(images[:60], labels)
    likely = cat.classes_[cat.predict_proba(images[:60]).argmax(1)]
    assert (likely == labels).mean() > 0.9
    found = cat.discover(images[60:], num_new=1)
    assert len(found.new) == 1
    assert sum(row.id == found.new[0] for row in found.assigned) >= 6
