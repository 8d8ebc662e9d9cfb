"""The recipes for the paper at full scale: one for each experiment, with flags that exist and the costs reckoned."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from happycat.benchmark.paper import numbers, plan
from happycat.benchmark.paper.experiments import EXPERIMENTS
from happycat.cli import main
from happycat.cli.commands import load_command

ROOT = Path(__file__).parent.parent
RECIPES = {path.stem: path.read_text("utf-8") for path in sorted((ROOT / "recipes").glob("*.sh"))}
QUARTER = RECIPES.pop("quarter")  # many experiments on little data


@pytest.fixture(scope="module")
def hours() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hours", ROOT / "benchmarks" / "hours.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["hours"] = module
    spec.loader.exec_module(module)
    return module


def test_each_experiment_of_the_paper_has_a_recipe():
    assert set(RECIPES) == set(EXPERIMENTS) - {"calm-ablation", "tuning"}
    page = (ROOT / "recipes" / "README.md").read_text("utf-8")
    assert set(re.findall(r"^\| \[([\w-]+)\]\(\1\.sh\)", page, re.MULTILINE)) == set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_what_it_costs_and_what_to_expect(name, hours):
    head = RECIPES[name].split("set -euo pipefail")[0]
    assert f"# Cost:    {hours.line(name)}\n" in head
    assert "# Expect:  " in head
    assert "# Compare: " in head
    assert max(map(len, head.splitlines())) <= 120


def test_the_images_that_hours_are_reckoned_from(hours):
    labelled, later = hours.served("cifar100", 5)
    assert (labelled, later) == (20_000, [4000 + 25 * seen for seen in (50, 60, 70, 80, 90)])
    assert hours.served("cars", 5)[1][-1] == 22 * 30 + (98 + 4 * 19) * 6  # the last stage has 22 new classes


@pytest.mark.parametrize(("method", "dataset"), [("happy", "cifar100"), ("gm", "imagenet100"), ("kmeans", "cub")])
def test_the_main_recipe_has_the_papers_averages(method, dataset):
    means = [numbers.mean_over_stages("tab:main-all", g, dataset=dataset, method=method) for g in ("all", "old", "new")]
    line = next(line for line in RECIPES["main"].splitlines() if line.startswith(f"#          {method} "))
    column = ["cifar100", "imagenet100", "tiny_imagenet", "cub"].index(dataset)
    found = [float(value) for value in line.split()[2 + column].split("/")]
    assert found == pytest.approx(means, abs=0.051)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_the_recipe_for_little_data_gives_flags_that_exist(tmp_path):
    """It is run with a `happycat` that writes down its words."""
    program, words = tmp_path / "happycat", tmp_path / "words"
    program.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(words))}\n')
    program.chmod(0o755)
    places = {name: f"some-{name}" for name in ("QUARTER", "CARS", "ORDER", "CLIP")}
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", QUARTER, "quarter", "--plan"], env={**places, "PATH": path}, check=True)
    lines = [shlex.split(line) for line in words.read_text().splitlines()]
    assert [line[1] for line in lines[:3]] == ["tuning", "main", "main"]
    assert {line[1] for line in lines} <= set(EXPERIMENTS)
    known = {flag for p in load_command("paper", ["main"]).params for flag in (*p.opts, *p.secondary_opts)}
    for line in lines:
        assert line[-1] == "--plan"
        assert [word for word in line if word.startswith("--") and word not in known] == []


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_can_be_planned_on_the_smallest_data(name, tmp_path, monkeypatch, capsys):
    """The rates are not measured here: that takes seconds, and `test_study` does it."""
    monkeypatch.setattr(plan, "training_rate", lambda *_: 1.0)  # the small ViT from scratch extracts nothing
    monkeypatch.chdir(tmp_path)
    words = shlex.split(RECIPES[name].splitlines()[-1].replace('"${DATA:-data}"', "data").replace('"$@"', ""))
    small = ["--dataset", "glyphs", "--option", "num_classes=20", "--option", "per_class=4"]
    monkeypatch.setattr(sys, "argv", [*words, *small, "--plan"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code, capsys.readouterr().err
    printed = capsys.readouterr().out
    assert printed.startswith(f"{name}: {EXPERIMENTS[name].title}")
    assert "of them to be done" in printed
