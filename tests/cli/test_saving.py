"""`bench calm --save`: a run becomes a model file that the commands for one's own images can use."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file

from happycat import Happycat
from happycat.images.datasets import load
from happycat.model import file as model_file
from tests.cli.test_research import folder_of_images, mistake, say  # noqa: F401

pytestmark = pytest.mark.usefixtures("undrawn")
QUICK = ("--episodes", 1)
TRAINED = ("--base-epochs", 6, "--batch-size", 16, "--projector-hidden", 16, "--projector-out", 8)
GLYPHS = ("glyphs", "--option", "num_classes=8", "--option", "per_class=20", "--base-classes", 4, "--stages", 2, *QUICK)
DIGITS = ("digits", "--base-classes", 4, "--stages", 2, *QUICK, *TRAINED, "--base-epochs", 1, "--views", 2)


def predictions_of(dataset: str, run: Path, stage: int, **options) -> tuple[np.ndarray, list[int], list[float]]:
    """The test pictures of a stage, the classes that the run gave to them, and how probable these are."""
    pictures = load(dataset, **options).test
    place = {key: i for i, key in enumerate(pictures.keys)}
    with open(run / "stages" / str(stage) / "predictions.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    pixels = np.stack([np.asarray(pictures.read(place[row["image"]])) for row in rows])
    return pixels, [int(row["predicted"]) for row in rows], [float(row["probability"]) for row in rows]


def agree(model: Path, pixels: np.ndarray, classes: list[int], probabilities: list[float]) -> None:
    """The model gives each picture that it does not reject the class and the probability of the run."""
    cat = Happycat.load(model)
    found = cat.predict_proba(pixels)
    np.testing.assert_array_equal(found.argmax(1), classes)
    np.testing.assert_allclose(found.max(1), probabilities, atol=1e-4)
    ids = [row.id for row in cat.assign(pixels)]
    kept = [(given, c) for given, c in zip(ids, classes, strict=True) if given is not None]
    assert len(kept) > len(ids) / 2
    assert all(given == c for given, c in kept)


def test_a_run_becomes_a_model(say, tmp_path):  # noqa: F811
    code, out, err = say("bench", "calm", *GLYPHS, *TRAINED, "-o", "run", "--save", "shop.cat")
    assert code == 0, err
    assert "written: shop.cat" in out
    agree(Path("shop.cat"), *predictions_of("glyphs", Path("run"), 2, num_classes=8, per_class=20))
    labelled = json.loads((Path("run") / "split.json").read_text())["classes"][:4]
    cat = Happycat.load("shop.cat")
    assert cat.classes_.tolist() == [*labelled, *(f"class {i}" for i in range(4, 8))]
    assert [entry.stage for entry in cat.registry_] == [0] * 4 + [1] * 2 + [2] * 2
    learned = json.loads((Path("run") / "stages/2/model.json").read_text())["classes"]
    assert [cat.registry_.learned_from(entry) for entry in cat.registry_] == [c["images"] for c in learned]
    assert cat.stage_ == 2
    assert 0 < cat.mean_cosine_ < 1
    assert cat.calm_.number_model.penalty.of(10) > 0

    code, out, err = say("name", "shop.cat", 5, "swan")
    assert code == 0, err
    mistake(say("split", "shop.cat", "swan"), "swan cannot be split")
    code, out, err = say("show", "shop.cat")
    assert "bench calm glyphs" in out
    assert "with its weights" in out
    inbox = folder_of_images(tmp_path / "inbox", classes=2, number=6)
    code, out, err = say("discover", "shop.cat", inbox, "--new", 1)
    assert code == 0, err
    assert Happycat.load("shop.cat").stage_ == 3
    code, out, err = say("predict", "shop.cat", inbox, "--csv")
    assert code == 0, err
    assert len(out.splitlines()) == 13


def test_a_finished_run_becomes_a_model_and_views_are_cut_as_in_the_run(say, fewer_digits):  # noqa: F811
    code, _, err = say("bench", "calm", *DIGITS, "-o", "run", "--until", 1)
    assert code == 0, err
    code, _, err = say("bench", "calm", *DIGITS, "-o", "run", "--until", 1, "--resume", "--save", "digits.cat")
    assert code == 0, err
    agree(Path("digits.cat"), *predictions_of("digits", Path("run"), 1))
    assert Happycat.load("digits.cat").extractor().plan.crop_share == 0.75
    before = Path("digits.cat").read_bytes()
    mistake(say("bench", "calm", *DIGITS, "-o", "run", "--resume", "--save", "digits.cat"), "is there already")
    assert Path("digits.cat").read_bytes() == before


@pytest.mark.parametrize("tuned", [(), ("--tune-tail", *TRAINED)])
def test_pretrained_weights_stay_where_they_are_and_a_tuned_tail_comes_along(say, tuned):  # noqa: F811
    torch.manual_seed(0)
    model = timm.create_model("test_vit", num_classes=0)
    save_file(model.state_dict(), "tiny.safetensors")
    backbone = ("--backbone", "test_vit", "--weights", "tiny.safetensors", "--image-size", 32)
    code, _, err = say("bench", "calm", *GLYPHS, *backbone, *tuned, "--workers", 0, "-o", "run", "--save", "shop.cat")
    assert code == 0, err
    agree(Path("shop.cat"), *predictions_of("glyphs", Path("run"), 2, num_classes=8, per_class=20))
    cat = Happycat.load("shop.cat")
    assert Path(cat.weights) == Path("tiny.safetensors").resolve()
    assert (cat.image_size, cat.mirror) == (32, False)
    assert Path("shop.cat").stat().st_size < (4e6 if tuned else 4e5)


def test_a_run_that_cannot_become_a_model_does_not_begin(say, tmp_path):  # noqa: F811
    mistake(say("bench", "happy", *GLYPHS, "-o", "run", "--save", "shop.cat"), "a run of happy cannot be saved", "calm")
    Path("shop.cat").write_text("mine")
    mistake(say("bench", "calm", *GLYPHS, "-o", "run", "--save", "shop.cat"), "shop.cat is there already")
    assert not Path("run").exists()
    root = folder_of_images(tmp_path / "shop")
    (root / "class0").rename(root / "unknown")
    words = ("--base-classes", 3, "--stages", 1, "--backbone", "scratch_vit", *QUICK)
    order = tmp_path / "order.txt"
    order.write_text("unknown\nclass1\nclass2\nclass3\n")
    command = ("bench", "calm", root, "--class-order", order, *words, "-o", "run", "--save", "new.cat")
    mistake(say(*command), "'unknown' is what happycat itself calls things")
    assert not (Path("run") / "stages").exists()
    assert not Path("new.cat").exists()


def test_a_fit_of_a_file_that_another_one_is_making_is_refused_at_once(say, tmp_path):  # noqa: F811
    (tmp_path / "labelled" / "a").mkdir(parents=True)  # no image: nothing is read before
    with model_file.locked(tmp_path / "shop.cat", new=True):
        mistake(say("fit", "labelled", "-o", "shop.cat"), "shop.cat is in use by process")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labelled"]
