"""The README's commands work, and no command goes without documentation."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from happycat.cli import main
from happycat.cli.commands import TABLE, load_command

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def commands(kind: str) -> list[str]:
    """The `happycat` lines in the README's fenced blocks of that kind; a backslash joins lines."""
    blocks = re.findall(rf"^```{kind}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split(" #")[0].strip() for line in lines if line.startswith("happycat ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("readme")


@pytest.mark.parametrize("command", commands("sh"))
def test_a_command_runs(command, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code, capsys.readouterr().err


@pytest.mark.parametrize("command", commands("text"))
def test_a_command_that_needs_data_has_flags_that_exist(command):
    name, *words = shlex.split(command)[1:]
    known = {flag for p in load_command(name, words).params for flag in (*p.opts, *p.secondary_opts)}
    assert [word for word in words if word.startswith("-") and word not in known] == []


def test_the_python_examples_run(folder, monkeypatch):
    own, runs = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(folder)
    values = {}
    exec(own, values)
    assert values["found"].new
    assert (folder / "digits.cat").exists()
    exec(runs, values)
    assert len(values["scores"]) == 3


def test_every_command_is_documented():
    for name in TABLE:
        assert f"`{name}`" in README or f"happycat {name}" in README, name


def test_the_first_screen():
    """The sentence, the two commands, what the first prints, a picture."""
    screen = "\n".join(README.splitlines()[:60])
    two = [line for line in screen.splitlines() if line.startswith("python3 -m venv")]
    assert len(two) == 2
    assert two[0].endswith("happycat demo")
    assert two[1].endswith("pytest")
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", screen)
    assert pictures
    assert all((ROOT / path).is_file() for path in pictures)


def test_links_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))):
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
