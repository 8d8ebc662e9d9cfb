"""The table of commands: what is imported when, and what the help texts show."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from happycat.cli import main, practitioner
from happycat.cli.commands import GROUPS, TABLE, load_command
from happycat.cli.practitioner import USUAL_BACKBONE
from happycat.model import file as model_file

HEAVY = {"torch", "torchvision", "timm", "sklearn", "matplotlib", "pandas", "scipy"}
# Commands of one process: what none of them has imported, none alone would import
COUNT = """
import contextlib, io, json, sys
from happycat.cli import main
for words in json.loads(sys.argv[1]):
    said, code, sys.argv = io.StringIO(), 0, ["happycat", *words]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    print(json.dumps([said.getvalue(), code, sorted({name.split(".")[0] for name in sys.modules})]))
"""
HELP = [
    ["--help"],
    ["--version"],
    [],
    *([command, "--help"] for command in ("fit", "predict", "bench", "paper", "stages", "speed", "demo", "list")),
    ["paper", "calm-check", "--help"],
]
MISTAKES = [
    (["discver"], "discover"),
    (["fit", "nowhere"], "there is no folder or file nowhere"),
    (["fit", ".", "--weights", "none.pt"], "there is no weights file none.pt"),
    (["discover", "none.cat", "."], "there is no model none.cat"),
    (["discover", "none.cat", "nowhere"], "there is no folder or file nowhere"),
    (["discover", "none.cat", ".", "--new", "²"], "a number or auto"),
    (["discover", __file__, "."], "is not a happycat model"),
    (["predict", "none.cat", "x.png"], "there is no model none.cat"),
    (["predict", __file__, "x.png", "--json", "--csv"], "--json and --csv"),
    (["export", "none.cat", "x.onnx"], "there is no model none.cat"),
    (["paper", "calm-check", "none.npz"], "there is no file none.npz"),
]


def run_and_list_modules(commands: list[list[str]]) -> list[tuple[str, int, set[str]]]:
    """What each of the commands of one process says, its exit code, and the packages that are imported by then."""
    told = subprocess.run([sys.executable, "-c", COUNT, json.dumps(commands)], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return [(said, code, {*modules}) for said, code, modules in map(json.loads, told.stdout.splitlines())]


def help_of(monkeypatch, capsys, *words: str) -> str:
    """A help text on a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "argv", ["happycat", *words, "--help"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    return capsys.readouterr().out


def test_help_and_version_need_nothing_heavy():
    for words, (said, _, modules) in zip(HELP, run_and_list_modules(HELP), strict=True):
        assert said.strip(), words
        assert not modules & HEAVY, words


def test_a_mistake_is_answered_before_anything_heavy_is_imported():
    told = run_and_list_modules([words for words, _ in MISTAKES])
    for (words, message), (said, code, modules) in zip(MISTAKES, told, strict=True):
        assert code == 2, words
        assert message in said
        assert not modules & HEAVY, words


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model of four classes of vectors."""
    from happycat import Happycat

    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("model") / "shop.cat"
    labels = np.repeat(list("abcd"), 12)
    centres = np.repeat(np.eye(4, 16), 12, axis=0)
    Happycat().fit(centres + 0.1 * random.normal(size=centres.shape), labels).save(path)
    return path


def test_corrections_need_nothing_heavy(model):
    words = [["name", "0", "ant"], ["merge", "0", "1"], ["split", "0"], ["drop", "2"], ["undo"], ["show"]]
    commands = [[command, str(model), *rest] for command, *rest in words]
    for command, (said, code, modules) in zip(commands, run_and_list_modules(commands), strict=True):
        assert code == 0, said
        assert not modules & HEAVY, command


def test_a_model_that_is_in_use_is_told_at_once(model):
    words = [["undo"], ["name", "0", "ant"], ["discover", "."]]
    with model_file.locked(model):
        told = run_and_list_modules([[command, str(model), *rest] for command, *rest in words])
    for said, code, modules in told:
        assert code == 2
        assert f"{model} is in use by process {os.getpid()} " in said
        assert "--wait" in said
        assert not modules & HEAVY


@pytest.mark.parametrize("flags", [[], ["--wait"]])
def test_discover_waits_if_it_is_told_to(model, monkeypatch, capsys, flags):
    asked = []
    monkeypatch.setattr(model_file, "locked", lambda path, wait: asked.append((path, wait)) or nullcontext())
    monkeypatch.setattr(practitioner, "_discover", lambda *words: None)
    monkeypatch.setattr(sys, "argv", ["happycat", "discover", str(model), ".", *flags])
    with pytest.raises(SystemExit):
        main()
    assert asked == [(model, bool(flags))]


@pytest.mark.parametrize("name", TABLE)
def test_the_table_agrees_with_the_docstrings(name):
    command = load_command(name)
    first = (command.help or "").split("\n\n")[0]
    assert " ".join(first.split()) == TABLE[name].help


def test_the_practitioners_commands_come_first_in_groups(monkeypatch, capsys):
    said = help_of(monkeypatch, capsys)
    titles = ["Your images:", "Corrections:", "Look:", "Research:", "Options:"]
    assert [line for line in said.splitlines() if line in titles] == titles
    assert [f"{title}:" for title in GROUPS] == titles[:-1]
    words = re.findall(r"^  (\w[\w-]*) ", said.split("Your images:")[1], re.MULTILINE)
    assert words == list(TABLE)
    assert "..." not in said.split("Your images:")[1]  # no help is cut short


def test_the_help_of_bench_fits_two_screens(monkeypatch, capsys):
    said = help_of(monkeypatch, capsys, "bench")
    assert len(said.splitlines()) <= 100
    for title in ("Protocol:", "Run:", "Backbone:", "Values of a method:"):
        assert f"\n{title}\n" in said
    assert "happycat bench METHOD --help" in said
    assert len(help_of(monkeypatch, capsys, "paper", "main").splitlines()) <= 100


def test_the_help_of_a_method_shows_its_own_values(monkeypatch, capsys):
    from dataclasses import fields

    from happycat.methods import METHODS

    for method in ("happy", "kmeans", "metagcd"):
        section = help_of(monkeypatch, capsys, "bench", method).split(f"Values of {method}:\n")[1]
        flags = {flag.replace("-", "_") for flag in re.findall(r"^  --([\w-]+)", section, re.MULTILINE)}
        assert flags == {f.name for f in fields(METHODS[method][1])}


def test_the_help_of_a_method_shows_its_own_default(monkeypatch, capsys):
    from happycat.methods import METHODS

    defaults = {name: METHODS[name][1]().held_out_share for name in ("calm", "metagcd")}
    assert len({*defaults.values()}) == 2
    for name, default in defaults.items():
        section = help_of(monkeypatch, capsys, "bench", name).split(f"Values of {name}:\n")[1]
        assert re.search(rf"--held-out-share [^[]*\[{default}\]", section), name


def test_the_usual_backbone_is_the_estimators():
    from happycat import Happycat

    assert inspect.signature(Happycat).parameters["backbone"].default == USUAL_BACKBONE
