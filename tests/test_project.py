"""The package's metadata, its documents about itself, and the files for GitHub are what they should be."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.version import Version

import happycat

if sys.version_info >= (3, 11):
    import tomllib
else:  # what pytest itself reads TOML with there
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "happycat"
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("new-*.yml"))


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def architecture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_architecture", ROOT / "docs" / "draw_architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def test_the_drawing_is_up_to_date(architecture):
    assert read("docs/architecture.svg") == architecture.drawing(), "run python docs/draw_architecture.py"


def test_the_tree_is_up_to_date(architecture):
    page = read("docs/architecture.md")
    assert page == architecture.with_tree(page), "run python docs/draw_architecture.py"


def test_every_module_is_in_the_tree_and_says_what_it_is():
    page = read("docs/architecture.md")
    for path in PACKAGE.rglob("*.py"):
        if path.name != "__init__.py":
            link = "../" + path.relative_to(ROOT).as_posix()
            assert re.search(rf"^- \[`{path.name}`\]\({re.escape(link)}\): \S", page, re.MULTILINE), link


def test_the_steps_of_the_drawing_are_modules(architecture):
    for way in architecture.WAYS:
        for step in way.steps:
            assert (PACKAGE / step.module).exists(), f"{step.module}: change WAYS in docs/draw_architecture.py"


def test_the_layers_are_the_same_everywhere(project, architecture):
    (contract,) = project["tool"]["importlinter"]["contracts"]
    checked = [layer for layer in contract["layers"] if not layer.startswith("(") or (PACKAGE / layer[1:-1]).exists()]
    assert list(architecture.LAYERS) == [layer.strip("()") for layer in checked]
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders == {name for layer in architecture.LAYERS for name in layer.split(" | ")}
    assert set(re.findall(r"^\| `(\w+)/` \|", read("CONTRIBUTING.md"), re.MULTILINE)) == folders


def test_the_words_of_the_glossary_are_explained_once():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (.+) \|$", read("docs/glossary.md"), re.MULTILINE)
    words = [word for word, meaning, _ in rows if word != "word" and not set(word) <= {"-"} and meaning]
    assert len(words) == len(set(words))
    kept = ["trunk", "tail", "head", "view", "token", "prototype", "stage", "old, new", "strict accuracy"]
    assert set(kept) <= set(words)


def test_the_package_says_that_it_is_typed(project):
    assert (PACKAGE / "py.typed").is_file()
    assert "Typing :: Typed" in project["project"]["classifiers"]


def test_the_version_stands_in_one_place(project):
    place = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{happycat.__version__}"' in place.read_text("utf-8")
    assert "version" not in project["project"]
    assert "version" not in yaml.safe_load(read("CITATION.cff"))


def test_the_python_versions_agree(project):
    workflow = yaml.safe_load(read(".github/workflows/tests.yml"))
    tested = workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(project["project"]["classifiers"]))
    assert tested == promised
    assert project["project"]["requires-python"] == f">={tested[0]}"


def requirements(project: dict) -> dict[str, str]:
    """The lower bound of each package that happycat or one of its extras for users needs."""
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *(one for name in extras if name != "dev" for one in extras[name])]
    return dict(one.split(">=") for one in wanted if "==" not in one)


def constraints(name: str) -> dict[str, str]:
    """The versions of a file of constraints, by package: each is one version exactly, and nothing else is in it."""
    lines = [line for line in read(f"constraints/{name}.txt").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+", line) for line in lines)
    return dict(line.split("==") for line in lines)


def test_the_lower_bounds_are_the_versions_that_are_tested(project):
    assert constraints("oldest") == requirements(project)
    for extra, ones in project["project"]["optional-dependencies"].items():
        for name, bound in (one.split(">=") for one in ones if ">=" in one):
            assert requirements(project).get(name, bound) == bound, extra  # one bound for a package, wherever it stands
    script = read(".ci/oldest")
    assert "-c constraints/oldest.txt" in script
    for path in re.findall(r"tests/[\w/.]+", script):
        assert (ROOT / path).exists(), path


def test_the_newest_versions_are_of_all_that_is_needed_and_within_the_bounds(project):
    newest = constraints("newest")
    bounds = dict(one.split(">=") for one in project["project"]["dependencies"])
    assert bounds.keys() <= newest.keys()
    for name, bound in bounds.items():
        assert Version(newest[name]) >= Version(bound), name
    for page in ("README.md", "CONTRIBUTING.md"):
        assert "-c constraints/newest.txt" in read(page), page


def test_ci_runs_every_check_that_contributing_names():
    script, page = read(".ci/run"), read("CONTRIBUTING.md")
    steps = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]["tests"]["steps"]
    assert ".ci/run" in [step.get("run") for step in steps]
    for check in ("ruff check .", "ruff format --check .", "lint-imports", "mypy", "mkdocs build --strict"):
        assert f".venv/bin/{check}" in script, check
        assert f".venv/bin/{check}" in page, check
    assert re.search(r"^python3 -m venv .*pytest$", read("README.md"), re.MULTILINE)  # what the script looks for


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(("user", "said"), [(1000, ""), (0, "Chromium could not be installed")])
def test_ci_goes_on_where_no_browser_can_be_installed(user, said, tmp_path):
    """Somebody who may not install it does not try; root, whose package manager fails, is told."""
    script = read(".ci/run")
    browser = script[script.index("has_browser()") : script.index("rm -rf .venv")]
    for program, does in (("id", f"echo {user}"), ("apt-get", "exit 1")):
        (tmp_path / program).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / program).chmod(0o755)
    ended = subprocess.run(
        [shutil.which("bash"), "-euo", "pipefail", "-c", browser],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0
    assert ended.stderr.startswith(said)
    assert bool(ended.stderr) == bool(said)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    ("summary", "browser", "code"),
    [
        ("900 passed, 6 skipped in 3s", True, 0),
        ("900 passed, 7 skipped in 3s", True, 1),
        ("900 passed in 3s", True, 0),
        ("900 passed, 90 skipped in 3s", False, 0),
        ("900 passed, 900 skipped in 3s", False, 1),
    ],
)
def test_ci_fails_if_too_many_tests_were_skipped(summary, browser, code):
    script = read(".ci/run")
    limit = script[script.index("log=$(mktemp)") : script.index(".venv/bin/ruff")]
    set_up = (
        f"has_browser() {{ {'true' if browser else 'false'}; }}; command='echo 1 skipped; echo \"= {summary} =\"'\n"
    )
    run = [shutil.which("bash"), "-euo", "pipefail", "-c", set_up + limit]
    ended = subprocess.run(run, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    number = re.search(r"(\d+) skipped in", summary)
    assert f"skipped tests: {number[1] if number else 1}, at most" in ended.stdout


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms(path):
    """GitHub's own rules for a form: a name, a description, and fields with an id of their own and a label."""
    form = yaml.safe_load(path.read_text("utf-8"))
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert len(ids) == len(set(ids))
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_there_is_a_form_for_a_method_and_for_a_data_set():
    assert [path.stem for path in FORMS] == ["new-data-set", "new-method"]


def test_the_hooks_are_local_and_installed_with_the_dev_extra(project):
    config = yaml.safe_load(read(".pre-commit-config.yaml"))
    dev = {re.split(r"[>=<\[]", name)[0] for name in project["project"]["optional-dependencies"]["dev"]}
    packages = {"ruff": "ruff", "lint-imports": "import-linter", "mypy": "mypy"}
    assert {repo["repo"] for repo in config["repos"]} == {"local"}
    for hook in (hook for repo in config["repos"] for hook in repo["hooks"]):
        program, *arguments = hook["entry"].split()
        if program == "python":
            assert (ROOT / arguments[0]).is_file()
        else:
            assert packages[program] in dev


def test_the_citation_names_the_package_and_the_paper():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"] == [{"name": "happycat developers"}]
    (paper,) = citation["references"]
    assert paper["title"].startswith("Happy: A Debiased Learning Framework")
    assert [author["family-names"] for author in paper["authors"]] == ["Ma", "Zhu", "Zhong", "Liu", "Zhang", "Liu"]
