"""The ONNX export says what the model says, of classes that were merged, dropped and discovered, too."""

from __future__ import annotations

import json

import numpy as np
import pytest

from happycat import Happycat
from happycat.base.errors import InputError
from happycat.model import scratch
from happycat.model.export import export_onnx
from tests.helpers.vectors import clouds

SHADES = np.repeat(np.array([20, 90, 160, 230], np.uint8), 6)


def pictures(seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(-15, 15, (24, 16, 16))
    return np.clip(SHADES[:, None, None] + noise, 0, 255).astype(np.uint8)


def test_the_file_says_what_the_model_says(tmp_path, monkeypatch):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    monkeypatch.setitem(scratch.FROM_SCRATCH, "base_epochs", 2)
    cat = Happycat("scratch_vit", precision="fp32", device="cpu").fit(pictures(0), SHADES)
    cat.discover(pictures(1), 1)
    cat.merge(0, 1)
    cat.drop(2)
    assert export_onnx(cat, tmp_path / "m.onnx") < 1e-3
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    told = {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()}
    assert told["names"] == cat.classes_.tolist() == [20, 230, 231]
    assert told["ids"] == [0, 3, 4]
    assert told["unknown"] == -1
    views = np.random.default_rng(0).integers(0, 256, (7, told["image_size"], told["image_size"], 3), dtype=np.uint8)
    place, probability = session.run(None, {"images": views})
    assert place.shape == probability.shape == (7,)
    assert set(place.tolist()) <= {-1, 0, 1, 2}


def test_vectors_are_no_images(tmp_path):
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    with pytest.raises(InputError, match="a model of vectors has no images"):
        export_onnx(Happycat().fit(*clouds(range(2), each=3)), tmp_path / "m.onnx")
