"""The commands that correct a model's classes and show them."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer

from happycat import Happycat
from happycat.base.errors import HappycatError
from happycat.cli import corrections
from happycat.model.registry import ClassRegistry, SplitTree
from tests.helpers.models import write_classes
from tests.helpers.vectors import clouds

COMMANDS = ("name", "merge", "split", "drop", "undo", "show")


def say(*words) -> tuple[str, str]:
    """Run a command; what it prints, and the error that it ends with."""
    app = typer.Typer(pretty_exceptions_enable=False)
    for command in COMMANDS:
        app.command()(getattr(corrections, command))
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        try:
            app(list(map(str, words)), standalone_mode=False)
        except HappycatError as error:
            return out.getvalue(), str(error)
    return out.getvalue(), ""


def tree(count: int) -> SplitTree:
    """A class of so many images, of which the first half has two and cannot be split again."""
    return SplitTree(np.eye(3), np.array([count, 2, count - 2]), np.zeros(3), np.array([[1, 2], [-1, -1], [-1, -1]]))


def model_of(path: Path, names: list) -> Path:
    registry = ClassRegistry()
    for i, name in enumerate(names):
        registry.add(name, 0, tree(10 + i))
    registry.add(None, 1, tree(20))
    registry.count([-1, -1, *(i for i, entry in enumerate(registry) for _ in range(registry.learned_from(entry)))], 1)
    write_classes(path, registry, "fit photos", "a vit")
    return path


@pytest.fixture
def model(tmp_path) -> Path:
    return model_of(tmp_path / "shop.cat", ["[b] :cat:", "tiger", "crab"])


def classes(model: Path) -> list[dict]:
    return json.loads(say("show", model, "--json")[0])["classes"]


def test_a_merge_is_taken_back_by_split(model):
    before = classes(model)
    said = say("merge", model, "tiger", "crab", "#3")[0]
    assert said == "crab, class 3 are part of tiger now (about 43 images of the last discovery) (version 2)\n"
    assert [c["state"] for c in classes(model)] == ["living", "living", "merged", "merged"]
    said = say("split", model, "tiger")[0]
    assert said == (
        "tiger is split: tiger (about 11 images), crab (about 12 images) and class 3 (about 20 images) "
        "of the last discovery (version 3)\n"
    )
    assert classes(model) == before


def test_a_split_says_the_counts_of_the_halves(model):
    said = say("split", model, 3)[0]
    assert said == (
        "class 3 is split: class 3 (about 2 images) and class 4 (about 18 images) of the last discovery (version 2)\n"
    )
    assert [c["images"] for c in classes(model)[3:]] == [2, 18]
    assert "class 3 cannot be split" in say("split", model, 3)[1]


def test_a_number_as_a_name_changes_nobody_else(model):
    assert say("name", model, 2, "3")[0] == "class 2 is 3 now (version 2)\n"
    assert (
        "'3' is both the number of class 3 and the name of class 2; write #3 or name:3" in say("name", model, 3, "x")[1]
    )
    assert say("name", model, "#3", "x")[0] == "class 3 is x now (version 3)\n"
    assert [c["name"] for c in classes(model)] == ["[b] :cat:", "tiger", "3", "x"]


def test_every_correction_is_a_version_and_can_be_undone(model):
    said = [
        say("name", model, 3, "six")[0],
        say("merge", model, "six", "crab")[0],
        say("split", model, "six")[0],
        say("drop", model, "six")[0],
    ]
    assert all(f"(version {i})" in line for i, line in enumerate(said, 2))
    told = json.loads(say("show", model, "--json")[0])
    assert told["version"] == 5
    assert [version["what"] for version in told["versions"]] == [
        "fit photos", "name 3 'six'", "merge six crab", "split six", "drop six",
    ]  # fmt: skip
    assert told["classes"][3] == {
        "id": 3, "label": "six", "name": "six", "stage": 1, "learned_from": 20, "images": 0, "state": "dropped",
        "merged_into": None,
    }  # fmt: skip
    for version in (4, 3, 2, 1):
        assert say("undo", model)[0] == f"{model} is at version {version} again\n"
    assert say("undo", model)[1] == f"{model} has no earlier version"


def test_an_undone_number_is_not_given_again(model):
    say("split", model, 3)
    say("undo", model)
    assert "class 5" in say("split", model, "tiger")[0]
    assert "there is no class '4'" in say("drop", model, 4)[1]
    assert [c["id"] for c in classes(model)] == [0, 1, 2, 3, 5]


def test_a_model_of_numbers_is_given_numbers(tmp_path):
    model = model_of(tmp_path / "numbers.cat", [1, 5])
    say("name", model, "#2", "4")
    assert [c["name"] for c in classes(model)] == [1, 5, 4]


def test_show_says_about_where_images_cannot_be_counted_again(model):
    said = say("show", model)[0]
    assert "images: of the 55 of the last discovery, as the model predicts them now; 2 of them fit no class" in said
    assert "about 1" not in said
    assert json.loads(say("show", model, "--json")[0])["counted"] == {"stage": 1, "images": 55, "exact": True}
    say("drop", model, "crab")  # there is no folder of a discovery
    said = say("show", model)[0]
    assert [line.split("│")[5].strip() for line in said.splitlines() if line.startswith("│")] == [
        "about 10", "about 11", "0", "about 20",
    ]  # fmt: skip
    assert "about 14 of them fit no class" in said
    assert not json.loads(say("show", model, "--json")[0])["counted"]["exact"]


def test_a_model_whose_images_were_never_counted_says_no_number(tmp_path):
    registry = ClassRegistry()
    for name in ("ant", "bee", "cat"):
        registry.add(name, 0, tree(10))
    path = tmp_path / "bench.cat"
    write_classes(path, registry, "bench", "a vit")
    assert say("merge", path, "ant", "bee")[0] == "bee is part of ant now (version 2)\n"
    assert say("split", path, "ant")[0] == "ant is split: ant and bee (version 3)\n"
    assert "images:" not in say("show", path)[0]
    assert [c["images"] for c in classes(path)] == [None] * 3


def test_show_says_what_is_stored(model):
    say("drop", model, "crab")
    said = say("show", model)[0]
    for text in ("version 2", "stage 1", "[b] :cat:", "dropped", "no image, and nothing of a single image", "a vit"):
        assert text in said
    assert "there is no model" in say("show", model.parent / "none.cat")[1]


def test_show_says_that_a_class_of_one_image_is_the_point_of_that_image(tmp_path):
    X, y = clouds(range(3))
    cat = Happycat().fit(X, [f"c{label}" for label in y])
    cat.new_class(X[:1])
    cat.save(tmp_path / "one.cat")
    assert "no image, and the point of a single image for 1 of the classes" in say("show", tmp_path / "one.cat")[0]


def test_control_characters_do_not_reach_the_terminal(model):
    assert "control characters" in say("name", model, 3, "a\x1b[31m")[1]
    _, error = say("name", model, "a\x1b[31m", "x")
    assert "\x1b" not in error


HOLD = """
import sys, time
from happycat.model import file
sys.argv = ["happycat", "discover", "shop.cat"]
with file.locked(sys.stdin.readline().strip()):
    print("held", flush=True)
    time.sleep(float(sys.stdin.readline()))
"""


@pytest.fixture
def holder(model):
    """Another process that holds the model for so many seconds."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )

    def hold(seconds: float) -> subprocess.Popen:
        process.stdin.write(f"{model}\n{seconds}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    process.kill()
    process.communicate()


def test_a_locked_model_says_who_holds_it_and_no_lock_stays(model, holder):
    process, start = holder(60), time.monotonic()
    before = model.read_bytes()
    for words in (("name", model, 3, "x"), ("undo", model)):
        error = say(*words)[1]
        assert re.search(
            rf"in use by process {process.pid} of .+ on .+ \(happycat discover shop.cat\) since \d{{4}}-", error
        )
        assert error.endswith("(--wait waits for it)")
    assert time.monotonic() - start < 10
    assert model.read_bytes() == before
    assert say("show", model)[1] == ""  # looking is allowed
    process.kill()
    process.wait()
    assert say("name", model, 3, "x")[1] == ""
    assert [path.name for path in model.parent.iterdir()] == ["shop.cat"]


def test_wait_waits(model, holder):
    process = holder(0.5)
    assert say("name", model, 3, "x", "--wait")[0] == "class 3 is x now (version 2)\n"
    assert process.wait() == 0
    assert [path.name for path in model.parent.iterdir()] == ["shop.cat"]
