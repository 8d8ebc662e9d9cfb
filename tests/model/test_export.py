"""The ONNX export says what the model says, of classes that were merged, dropped and discovered, too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from happycat import Happycat
from happycat.base.errors import InputError
from happycat.methods import pretraining
from happycat.model.export import can_export, export_onnx
from tests.cli.test_practitioner import say
from tests.helpers.vectors import clouds

EXAMPLE = Path(__file__).parents[2] / "examples" / "predict_onnx.py"
SHADES = np.repeat(np.array([20, 90, 160, 230], np.uint8), 6)


def pictures(seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(-15, 15, (24, 16, 16))
    return np.clip(SHADES[:, None, None] + noise, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A model, shop.cat, and its export by the command, shop.onnx."""
    if not can_export():
        pytest.skip("a torch that exports")
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("export")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pretraining.SMALL_VIT, "base_epochs", 2)
        cat = Happycat("scratch_vit", precision="fp32", device="cpu").fit(pictures(0), SHADES)
    cat.discover(pictures(1), 1)
    cat.merge(0, 1)
    cat.drop(2)
    cat.save(folder / "shop.cat")
    code, out, err = say("export", folder / "shop.cat", folder / "shop.onnx")
    assert code == 0, err
    within = re.search(r"it predicts as the model does \(probabilities within (.*)\)", out)[1]
    assert float(within) < 1e-3
    return folder


def test_the_file_says_what_the_model_says(folder):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "shop.onnx"), providers=["CPUExecutionProvider"])
    told = {key: json.loads(text) for key, text in session.get_modelmeta().custom_metadata_map.items()}
    assert told["names"] == Happycat.load(folder / "shop.cat").classes_.tolist() == [20, 230, 231]
    assert told["ids"] == [0, 3, 4]
    assert told["unknown"] == -1
    views = np.random.default_rng(0).integers(0, 256, (7, told["image_size"], told["image_size"], 3), dtype=np.uint8)
    place, probability = session.run(None, {"images": views})
    assert place.shape == probability.shape == (7,)
    assert set(place.tolist()) <= {-1, 0, 1, 2}


def test_it_is_used_without_torch(folder, tmp_path):
    images = [tmp_path / f"{i}.png" for i in range(4)]
    for path, pixels in zip(images, pictures(2)[::6], strict=True):
        Image.fromarray(pixels).save(path)
    images.append(tmp_path / "wide.png")
    Image.open(images[0]).resize((35, 33)).save(images[-1])  # its crop falls between two pixels
    hidden = "import sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; import runpy; "
    run = [sys.executable, "-c", hidden + "runpy.run_path(sys.argv[0], run_name='__main__')"]
    told = subprocess.run([*run, EXAMPLE, folder / "shop.onnx", *images], capture_output=True, text=True, check=True)
    ours = [line.split("\t") for line in say("predict", folder / "shop.cat", *images)[1].splitlines()]
    theirs = [line.split("\t") for line in told.stdout.splitlines()]
    assert len(ours) == len(images)
    assert [row[1] for row in theirs] == [row[1] for row in ours]
    assert np.allclose([float(row[2]) for row in theirs], [float(row[2]) for row in ours], atol=0.01)


def test_a_torch_whose_exporter_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.__version__", "2.6.0+cu124")
    with pytest.raises(
        InputError, match=r"^torch 2\.6\.0\+cu124 cannot write the model as ONNX; install torch 2\.7 or"
    ):
        export_onnx(Happycat(), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("torch.__version__", "2.15.0a0+git1234")
    assert can_export()


def test_vectors_are_no_images(tmp_path):
    if not can_export():
        pytest.skip("a torch that exports")
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    with pytest.raises(InputError, match="a model of vectors has no images"):
        export_onnx(Happycat().fit(*clouds(range(2), each=3)), tmp_path / "m.onnx")
