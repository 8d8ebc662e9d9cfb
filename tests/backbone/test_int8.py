"""Linear layers in bytes: groups of inputs on their own, close to fp32; and never mixed with another precision."""

from __future__ import annotations

import builtins
import subprocess
import sys

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

from happycat import Happycat
from happycat.backbone import int8
from happycat.backbone.config import BackboneConfig, build, build_for_features
from happycat.backbone.extraction import FeatureExtractor
from happycat.backbone.int8 import GROUP, Int8Network
from happycat.base.errors import InputError
from happycat.images.pictures import ArrayPictures
from happycat.model.export import can_export, export_onnx

NAME = "test_vit"


@pytest.fixture(autouse=True)
def _packages():
    pytest.importorskip("openvino")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model(NAME, num_classes=0).state_dict(), path)
    return path


def config(weights, **changes) -> BackboneConfig:
    return BackboneConfig(**{"name": NAME, "weights": weights, "image_size": 32, "device": "cpu", **changes})


class Flat(nn.Module):
    """Pixels (B, 3, 8, 8), 192 numbers a view, through one linear layer."""

    def __init__(self, bias: bool = True):
        super().__init__()
        torch.manual_seed(1)
        self.linear = nn.Linear(192, 40, bias=bias).requires_grad_(False)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.linear(pixels.flatten(1))


def quantised(flat: Flat) -> Int8Network:
    return Int8Network(flat, flat, "flat", 8)


def views(number: int) -> torch.Tensor:
    return torch.randn(number, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def with_rounded_weights(flat: Flat, pixels: torch.Tensor) -> torch.Tensor:
    """y = x (s ∘ Q)ᵀ + b, output by output, in double precision."""
    x, y = pixels.flatten(1).double(), torch.empty(len(pixels), 40, dtype=torch.double)
    for j, w in enumerate(flat.linear.weight.double()):
        s = max(w.abs().max() / 127, 1e-30)
        y[:, j] = x @ ((w / s).round() * s) + (0 if flat.linear.bias is None else flat.linear.bias[j])
    return y


@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_computes_its_equation(bias):
    """Each input is off by half a step of its group at most."""
    flat, pixels = Flat(bias), views(5)
    said, exact = quantised(flat)(pixels).double(), with_rounded_weights(flat, pixels)
    step = pixels.flatten(1).unflatten(1, (-1, GROUP)).abs().amax(2) / 127  # (B, groups)
    reach = flat.linear.weight.abs().unflatten(1, (-1, GROUP)).sum(2) * 1.01  # (40, groups)
    assert ((said - exact).abs() <= step @ reach.T / 2 + 1e-5).all()


def test_one_large_number_spoils_its_group_alone():
    flat, pixels = Flat(), views(2)
    flat.linear.weight[:, :GROUP] = 0
    pixels[0, 0, 0, 0] = 1e6
    torch.testing.assert_close(quantised(flat)(pixels), flat(pixels), rtol=0, atol=0.03)


def test_the_largest_products_do_not_overflow():
    flat = Flat(bias=False)
    flat.linear.weight.fill_(-1.0)
    pixels = torch.ones(2, 3, 8, 8)
    pixels[1] = -3.0
    torch.testing.assert_close(quantised(flat)(pixels), flat(pixels), rtol=1e-4, atol=1e-3)


def test_views_do_not_depend_on_each_other():
    network, pixels = quantised(Flat()), views(6)
    pixels[3] *= 1000
    torch.testing.assert_close(network(pixels)[:3], network(pixels[:3]), rtol=0, atol=1e-6)


def test_black_pixels_and_weights_of_zeros():
    flat = Flat()
    flat.linear.weight[7] = 0
    torch.testing.assert_close(quantised(flat)(torch.zeros(2, 3, 8, 8)), flat.linear.bias.expand(2, 40))


def test_what_is_not_finite_is_seen():
    flat = Flat()
    flat.linear.weight[0, 0] = torch.nan
    assert not quantised(flat)(views(2))[:, 0].isfinite().any()


def test_another_number_of_threads_computes_the_same():
    network, pixels, threads = quantised(Flat()), views(6), torch.get_num_threads()
    one = network(pixels)
    torch.set_num_threads(threads + 1)
    try:
        torch.testing.assert_close(network(pixels), one, rtol=0, atol=1e-6)
    finally:
        torch.set_num_threads(threads)


def test_the_features_of_a_vit_are_close(weights):
    views = torch.randint(256, (5, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    exact, rough = (build(config(weights, precision=precision)) for precision in ("fp32", "int8"))
    with torch.inference_mode():
        one, two = (parts.tail(parts.trunk(views)) for parts in (exact, rough))
    assert not torch.equal(one, two)
    assert nn.functional.cosine_similarity(one, two).min() > 0.99


def test_a_backbone_is_itself_in_int8_but_computes_something_else(weights):
    one, two = (FeatureExtractor.of(config(weights, precision=p), workers=0) for p in ("fp32", "int8"))
    pictures = ArrayPictures(np.zeros((2, 32, 32, 3), np.uint8))
    assert one.fingerprint() == two.fingerprint()
    assert one.trunk.fingerprint() != two.trunk.fingerprint()
    assert one.recipe(pictures) != two.recipe(pictures)
    two.trunk.freeze()  # once more
    assert one.fingerprint() == two.fingerprint()


def test_what_is_stored_says_whether_the_cpu_multiplies_bytes(weights, monkeypatch):
    """Without VNNI the weights alone are bytes: what two kinds of CPU fill together mixes nothing."""
    trunk, said = build(config(weights, precision="int8")).trunk, set()
    for vnni in (True, False):
        monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda vnni=vnni: vnni, raising=False)
        said.add(trunk.fingerprint())
    assert len(said) == 2


def test_a_vit_that_pools_its_patches_is_quantised_too(tmp_path):
    torch.manual_seed(0)
    name, path = "vit_pwee_patch16_reg1_gap_256", tmp_path / "pooled.safetensors"
    save_file(timm.create_model(name, num_classes=0, img_size=32).state_dict(), path)
    exact, rough = (build_for_features(config(path, name=name, precision=p)).trunk for p in ("fp32", "int8"))
    views = torch.randint(256, (3, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        one, two = exact(views), rough(views)
    assert not torch.equal(one, two)
    assert nn.functional.cosine_similarity(one, two).min() > 0.99
    assert exact.weights_fingerprint() == rough.weights_fingerprint()


def test_a_model_without_linear_layers_is_refused(tmp_path):
    path = tmp_path / "cnn.safetensors"
    save_file(timm.create_model("resnet18", num_classes=0).state_dict(), path)
    with pytest.raises(InputError, match="resnet18 has no linear layers, for which int8 is"):
        build_for_features(config(path, name="resnet18", precision="int8"))


def test_what_int8_is_not_for(weights, monkeypatch):
    with pytest.raises(InputError, match="bytes cannot be trained"):
        build(BackboneConfig(name="scratch_vit", precision="int8", device="cpu"))
    with pytest.raises(InputError, match="int8 is computed on a CPU, not on meta"):
        build(config(weights, precision="int8", device="meta"))
    real = builtins.__import__

    def without(name, *more):
        if name == "openvino":
            raise ImportError(name=name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"openvino, which is not installed; pip install 'happycat\[int8\]'"):
        build(config(weights, precision="int8"))
    assert not int8.is_installed()


SHADES = np.repeat(np.array([20, 90, 160, 230], np.uint8), 6)


def pictures(seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(-15, 15, (24, 32, 32))
    return np.clip(SHADES[:, None, None] + noise, 0, 255).astype(np.uint8)


def test_a_model_keeps_to_its_precision_and_to_its_views(weights, tmp_path):
    values = {"weights": weights, "image_size": 32, "device": "cpu", "workers": 0}
    for precision, other, views in (("int8", "fp32", 1), (None, "int8", 2)):
        path = tmp_path / f"{precision}.cat"
        cat = Happycat(NAME, precision=precision, views=views, **values).fit(pictures(0), SHADES)
        cat.save(path)
        again = Happycat.load(path, device="cpu")
        assert (again.precision, again.views) == (precision, views)
        np.testing.assert_array_equal(again.transform(pictures(1)), cat.transform(pictures(1)))
        with pytest.raises(InputError, match="keep to that, or fit again"):
            Happycat.load(path, device="cpu", precision=other).discover(pictures(1), 1)
        if precision == "int8":
            why = "made in int8 cannot be exported" if can_export() else "cannot write the model as ONNX"
            with pytest.raises(InputError, match=why):
                export_onnx(cat, tmp_path / "m.onnx")
    with pytest.raises(InputError, match="views must be a number of views"):
        Happycat(NAME, views=0, **values).fit(pictures(0), SHADES)


def test_as_many_views_as_were_asked_for_are_extracted(weights, monkeypatch):
    seen = []
    extract = FeatureExtractor.extract

    def watched(self, pictures, views, *more):
        seen.append(views)
        return extract(self, pictures, views, *more)

    monkeypatch.setattr(FeatureExtractor, "extract", watched)
    cat = Happycat(NAME, weights=weights, image_size=32, device="cpu", workers=0, views=2).fit(pictures(0), SHADES)
    cat.discover(pictures(1), 1)
    cat.predict(pictures(1))
    assert seen == [("centre", "1"), ("centre", "1"), ("centre",)]


INTERRUPTED = """
import faulthandler, gc, signal
import torch
from torch import nn
from happycat.backbone.int8 import Int8Network

faulthandler.enable()
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
linear = nn.Sequential(nn.Flatten(), nn.Linear(192, 40)).requires_grad_(False)
networks = [Int8Network(linear, linear, "flat", 8) for _ in range(2)]
for network in networks:
    network(torch.zeros(2, 3, 8, 8))
while networks:
    networks.pop(0)
    network = None
    gc.collect()
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_signal_is_taken_after_several_networks():
    """OpenVINO puts a stack for signals in place while it works, and back what was there before, which may be gone."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr[-500:]
