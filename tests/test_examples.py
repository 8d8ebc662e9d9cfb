"""The examples do what happycat does."""

import importlib.util
import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from happycat.backbone.packaged import OFFLINE, is_installed
from happycat.backbone.views import ViewPlan
from happycat.images.decoding import read_picture

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPT = EXAMPLES / "predict_onnx.py"
SIZE, SIDE = 28, 32


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("onnxruntime")
    spec = importlib.util.spec_from_file_location("predict_onnx", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def sixteen_bits(path: Path) -> None:
    Image.fromarray(noise(32, 41).astype(np.uint16) * 256 + noise(32, 41).T[::-1].T).save(path)


def turned(path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(noise(32, 47, 3)).save(path, exif=exif)


def palette(path: Path, **options) -> None:
    image = Image.fromarray(noise(35, 32) % 8, "P")
    image.putpalette(noise(24).tolist())
    image.save(path, **options)


KINDS = {
    "colour.png": lambda path: Image.fromarray(noise(32, 39, 3)).save(path),
    "photo.jpg": lambda path: Image.fromarray(noise(40, 32, 3)).save(path),
    "grey.png": lambda path: Image.fromarray(noise(32, 33)).save(path),
    "16 bits.png": sixteen_bits,
    "16 bits.tif": sixteen_bits,
    "one bit.png": lambda path: Image.fromarray(noise(32, 32) > 99).save(path),
    "transparent.png": lambda path: Image.fromarray(noise(33, 32, 4)).save(path),
    "transparent grey.png": lambda path: Image.fromarray(noise(32, 32, 2)).save(path),
    "print.jpg": lambda path: Image.fromarray(noise(32, 32, 4), "CMYK").save(path),
    "palette.png": palette,
    "palette.gif": palette,
    "transparent palette.png": lambda path: palette(path, transparency=3),
    "half transparent palette.png": lambda path: palette(path, transparency=bytes(range(0, 240, 30))),
    **{f"turned {k}.jpg": lambda path, k=k: turned(path, k) for k in range(1, 9)},
    "turned.png": lambda path: turned(path, 6),
}


@pytest.mark.parametrize("name", KINDS)
def test_onnx_example_sees_the_pixels_that_happycat_sees(example, tmp_path, name):
    path = tmp_path / name
    KINDS[name](path)
    picture = read_picture(path)
    assert min(picture.size) == SIDE  # so that nothing is resized
    plan = ViewPlan(image_size=SIZE, crop_share=SIZE / SIDE)
    ours = plan.centre(plan.resized(picture)).permute(1, 2, 0).numpy()
    assert len(np.unique(ours)) > 1
    assert np.array_equal(example.view(path, SIZE, SIDE), ours)


def test_onnx_example_scales_every_value_of_16_bits_alike(example, tmp_path):
    Image.fromarray(np.arange(2**16, dtype=np.uint16).reshape(256, 256)).save(tmp_path / "a.png")
    read = np.asarray(read_picture(tmp_path / "a.png"))
    assert np.array_equal(np.asarray(example.upright_rgb(tmp_path / "a.png")), read)
    assert (read[0, 0, 0], read[-1, -1, 0]) == (0, 255)


@pytest.mark.parametrize("shape", [(35, 33), (33, 35), (300, 200), (19, 40), (64, 64)])
def test_onnx_example_resizes_alike(example, tmp_path, shape):
    """torch computes with fewer bits than Pillow: a few values differ by one level, no pixel is shifted."""
    Image.fromarray(noise(*shape, 3)).save(tmp_path / "a.png")
    plan = ViewPlan(image_size=SIZE, crop_share=SIZE / SIDE)
    ours = plan.centre(plan.resized(read_picture(tmp_path / "a.png"))).permute(1, 2, 0).numpy()
    difference = np.abs(example.view(tmp_path / "a.png", SIZE, SIDE).astype(int) - ours)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


@pytest.fixture
def model(tmp_path) -> Path:
    """A model file in the form of an export, which says place 1 of two to every image."""
    helper = pytest.importorskip("onnx").helper
    onnx = sys.modules["onnx"]
    images = helper.make_tensor_value_info("images", onnx.TensorProto.UINT8, ["n", SIZE, SIZE, 3])
    places = helper.make_tensor_value_info("place", onnx.TensorProto.INT64, [1])
    probabilities = helper.make_tensor_value_info("probability", onnx.TensorProto.FLOAT, [1])
    nodes = [
        helper.make_node("Constant", [], ["place"], value_ints=[1]),
        helper.make_node("Constant", [], ["probability"], value_floats=[0.75]),
    ]
    graph = helper.make_graph(nodes, "always", [images], [places, probabilities])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    metadata = {"image_size": SIZE, "crop_share": SIZE / SIDE, "names": ["cat", "dog"]}
    helper.set_model_props(made, {key: json.dumps(value) for key, value in metadata.items()})
    onnx.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_onnx_example_goes_on_after_an_unreadable_file(model, tmp_path):
    pytest.importorskip("onnxruntime")
    for name in ("1.png", "2.png"):
        Image.fromarray(noise(40, 40, 3)).save(tmp_path / name)
    (tmp_path / "page.png").write_text("<html>")
    (tmp_path / "cut.png").write_bytes((tmp_path / "1.png").read_bytes()[:900])
    Image.fromarray(noise(40, 40).astype(np.float32)).save(tmp_path / "float.tif")

    def run(*names):
        command = [sys.executable, SCRIPT, model, *(tmp_path / name for name in names)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    mixed = run("1.png", "page.png", "cut.png", "absent\x1b.png", "float.tif", "2.png")
    assert mixed.stdout.splitlines() == [f"{tmp_path / name}\tdog\t0.7500" for name in ("1.png", "2.png")]
    assert mixed.returncode == 1
    assert len(mixed.stderr.splitlines()) == 4
    assert all(" cannot be read as an image: " in line for line in mixed.stderr.splitlines())
    assert "\x1b" not in mixed.stderr
    good = run("1.png")
    assert (good.returncode, good.stderr) == (0, "")
    assert "python predict_onnx.py MODEL.onnx IMAGE" in run().stderr


def purity(cell: dict) -> float:
    """The share of the images in new classes that are of the class's most frequent kind that was not labelled."""
    given, truth = cell["given"], cell["inbox_truth"]
    kinds = [truth[given == new].tolist() for new in cell["found"].new]
    most = [max(map(kind.count, set(kind) & set(cell["NEW"])), default=0) for kind in kinds]
    return sum(most) / sum(map(len, kinds))


def run_with(tmp_path: Path, name: str, changes: dict[str, str]) -> dict:
    """Run an example with some of its words changed, and give its names."""
    text = (EXAMPLES / name).read_text("utf-8")
    for words, others in changes.items():
        assert text.count(words) == 1, words
        text = text.replace(words, others)
    (tmp_path / name).write_text(text, "utf-8")
    return runpy.run_path(str(tmp_path / name))


def test_text_example_runs_on_fewer_documents(tmp_path, capsys):
    fewer = {
        '*("scipy.signal", "scipy.sparse", "scipy.interpolate", "scipy.spatial", "scipy.special")': '"scipy.signal"',
        '*("sklearn.metrics", "sklearn.ensemble", "sklearn.cluster", "jinja2", "rich")': '"jinja2", "sklearn.cluster"',
        '("scipy.optimize", "matplotlib.axes", "email")': '("email",)',
        "EACH, LABELLED = 80, 50": "EACH, LABELLED = 30, 20",
        "TruncatedSVD(150,": "TruncatedSVD(30,",
    }
    cell = run_with(tmp_path, "text.py", fewer)
    assert cell["cat"].registry_
    assert "new classes found, 1 there are" in capsys.readouterr().out


@pytest.mark.skipif(not is_installed(OFFLINE), reason="needs pip install 'happycat[offline]'")
def test_digits_example_runs_on_fewer_digits(tmp_path, monkeypatch, capsys):
    """So few of so many numbers each that torch does not find the eigenvalues, either."""
    monkeypatch.chdir(tmp_path)
    fewer = {
        "EACH, LABELLED = range(7), range(7, 10), 30, 20": "EACH, LABELLED = range(4), range(4, 5), 12, 8",
        "for digit in range(10)": "for digit in range(5)",
        "image_size=96": "image_size=32",
    }
    cell = run_with(tmp_path, "digits.py", fewer)
    assert len(cell["again"].classes_) == 4 + len(cell["found"].new)
    assert f"remembers the backbone {OFFLINE}" in capsys.readouterr().out


@pytest.mark.slow
def test_text_example_finds_packages_that_were_not_labelled(capsys):
    cell = runpy.run_path(str(EXAMPLES / "text.py"))
    assert 2 <= len(cell["found"].new) <= 6
    assert purity(cell) > 0.7
    assert set(cell["named"]) == set(cell["NEW"])
    assert cell["right"][cell["known"]].mean() > 0.8
    assert cell["right"][~cell["known"]].mean() > 0.4
    assert "new classes found, 3 there are" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif(not is_installed(OFFLINE), reason="needs pip install 'happycat[offline]'")
def test_digits_example_finds_digits_that_were_not_labelled(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cell = runpy.run_path(str(EXAMPLES / "digits.py"))
    assert cell["cat"].fitted_.accuracy > 70
    assert 2 <= len(cell["found"].new) <= 5
    assert purity(cell) > 0.6
    assert f"remembers the backbone {OFFLINE}" in capsys.readouterr().out
