"""The README's commands work, and no command goes without documentation."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

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


RUN = [command for command in commands("sh") if "happycat speed" not in command]  # which a test of its own runs


@pytest.mark.parametrize("command", RUN)
def test_a_command_runs(command, folder, fewer_digits, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code, capsys.readouterr().err


@pytest.mark.parametrize("command", [*commands("text"), *commands("sh")])
def test_a_command_has_flags_that_exist(command):
    name, *words = shlex.split(command)[1:]
    known = {flag for p in load_command(name, words).params for flag in (*p.opts, *p.secondary_opts)}
    assert [word for word in words if word.startswith("-") and word not in known] == []


PYTHON = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_python_example_of_vectors_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(PYTHON[0], values := {})
    assert values["found"].new
    assert (tmp_path / "digits.cat").exists()


def test_the_python_example_of_a_run_runs(tmp_path, fewer_digits, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(PYTHON[1], values := {})
    assert len(values["scores"]) == 3
    assert len(PYTHON) == 2  # all are tried


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


def test_links_out_of_the_docs_lead_to_the_repository_on_the_site():
    spec = importlib.util.spec_from_file_location("site_links", ROOT / "docs" / "site_links.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    config = {"docs_dir": str(ROOT / "docs"), "repo_url": "https://example.org/cat/"}
    page = SimpleNamespace(file=SimpleNamespace(src_uri="results/README.md"))
    text = "[a](../calm.md#x) [b](../../recipes/README.md#y) [c](main.md) [d](https://example.org/../e)"
    changed = text.replace("../../recipes/README.md", "https://example.org/cat/blob/main/recipes/README.md")
    assert hook.on_page_markdown(text, page=page, config=config) == changed


def test_every_page_of_the_docs_is_on_the_site():
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert pages <= set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text("utf-8")))


def test_links_lead_somewhere():
    pages = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "recipes" / "README.md"]
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages):
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
