"""Fault injection on model files: commands and actions of the app are killed; no version is lost, no file torn.

    python benchmarks/faults/models.py --kills 300

A few digits are fitted, discovered among and corrected, by commands and in the app. Each step is killed again and
again: before each of its file operations in turn, and after a part of its CPU time. The model must then be whole,
and be what it was before the step or what it is after it. If the step was not done, doing it once more must end as if
nothing had happened, to the bit, but for the moment that a version remembers; if it was, `happycat cache --remove` must
leave nothing of an image. Prints how many kills there were of each kind.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the tests are no package that is installed

import numpy as np
import torch
from killing import Cost, cost, is_killed, kill_after, kill_before
from PIL import Image
from sklearn.datasets import load_digits
from starlette.testclient import TestClient

from happycat.app.desk import Desk
from happycat.app.discovering import Discoveries
from happycat.app.routes import make_app
from happycat.cli import main as happycat
from happycat.methods import pretraining
from happycat.model import file as model_file
from happycat.model.editor import Editor
from tests.app.visits import HOST, TOKEN, Visit, no_work
from tests.helpers.forgery import taken_apart

MODEL = Path("shop.cat")
WHEN = "when"  # the member of a version's description that is never the same
PAGE = "page.html"  # drawn when the version is there already; `happycat report` draws it again


def command(*words: str) -> Callable[[], None]:
    """A command, as a person gives it in the folder of the model."""

    def run() -> None:
        sys.argv, said = ["happycat", *words], io.StringIO()
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            try:
                happycat()
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(said.getvalue()) from None

    return run


def action(verb: str, **values: Any) -> Callable[[], None]:
    """An action of the app, as its page asks for it."""

    def run() -> None:
        editor = Editor(MODEL)
        desk = Desk(editor)
        discoveries = Discoveries(desk, no_work())
        app = make_app(desk, discoveries, TOKEN, 8123)
        with TestClient(app, base_url=f"http://{HOST}") as client:
            Visit(client, editor, desk, discoveries).done(verb, **values)

    return run


STEPS: dict[str, Callable[[], None]] = {
    "fit": command("fit", "labelled", "-o", "shop.cat", "--backbone", "scratch_vit", "--no-mirror"),
    "discover": command("discover", "shop.cat", "inbox", "--new", "2"),
    "name": command("name", "shop.cat", "#4", "four"),
    "move": command("move", "shop.cat", "inbox/0 20.png", "inbox/1 20.png", "--to", "four"),
    "merge": command("merge", "shop.cat", "#4", "#5"),
    "teach": command("teach", "shop.cat", "more"),
    "undo": command("undo", "shop.cat"),
    "redo": command("redo", "shop.cat"),
    "app: name": action("name", which=0, name="nought"),
    "app: confirm": action("confirm", images=[1, 2]),
    "app: move": action("move", images=[3, 4], to=1),
    "app: undo": action("undo"),
}


def write_digits(folder: Path) -> None:
    """Labelled images of four digits, some more of them and of two others in an inbox, and a few to teach."""
    digits = load_digits()
    for c in range(6):
        for k, i in enumerate(np.flatnonzero(digits.target == c)[:30]):
            place = ("inbox" if k >= 20 else f"labelled/{c}") if c < 4 else "inbox"
            place = f"more/{c}" if c < 2 and k >= 26 else place
            (folder / place).mkdir(parents=True, exist_ok=True)
            pixels = (digits.images[i] * 15.9).astype(np.uint8)
            Image.fromarray(pixels).resize((16, 16)).save(folder / place / f"{c} {k}.png")


class State:
    """What a folder holds: the content of its models, without times, and the other files that last."""

    def __init__(self, folder: Path):
        files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file() and p.name != PAGE}
        self.content = {name: _lasting(path) for name, path in files.items()}

    def has_model_of(self, other: State) -> bool:
        return _same(self.content.get(str(MODEL)), other.content.get(str(MODEL)))

    def difference(self, other: State) -> list[str]:
        """The names of what is not the same in two states."""
        names = self.content.keys() | other.content.keys()
        return sorted(name for name in names if not _same(self.content.get(name), other.content.get(name)))


def _lasting(path: Path) -> Any:
    """What a file holds: that of a model, such as a proposal, without times."""
    if path.suffix != MODEL.suffix:
        return path.read_bytes()
    if damaged := model_file.damaged_versions(path):
        raise SystemExit(f"versions {damaged} of {path} are damaged")
    return _without_times(taken_apart(path))


def _without_times(content: dict[str, Any]) -> dict[str, Any]:
    for part in (content["base"], *content["versions"]):
        part["description"] = {key: value for key, value in part["description"].items() if key != WHEN}
    return content


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays to the bit."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _may_be_left(name: str) -> bool:
    """Whether a file may be left by a step that was killed when its version was there: nothing of an image."""
    return Path(name).name in (".shop.cat.lock", "CACHEDIR.TAG", f".{PAGE}.partial")


class Story:
    """The steps, done once without a kill; the folder as it was before each, and what each took."""

    def __init__(self, root: Path, names: Sequence[str]):
        self.root, self.folder = root, root / "shop"  # always at the same place: versions remember it
        self.costs: dict[str, Cost] = {}
        self.folder.mkdir()
        os.chdir(self.folder)
        write_digits(self.folder)
        for name in names:
            shutil.copytree(self.folder, self._before(name))
            self.costs[name] = cost(STEPS[name], root)
            print(
                f"{name}: {self.costs[name].seconds:.2f} s, {self.costs[name].operations} file operations", flush=True
            )
        shutil.copytree(self.folder, root / "end")
        self.after = dict(
            zip(names, [*(State(self._before(name)) for name in names[1:]), State(root / "end")], strict=True)
        )

    def _before(self, name: str) -> Path:
        return self.root / name.replace(": ", "-")

    def begin(self, name: str) -> State:
        """Make the folder as it was before a step."""
        os.chdir(self.root)
        shutil.rmtree(self.folder)
        shutil.copytree(self._before(name), self.folder)
        os.chdir(self.folder)
        return State(self.folder)

    def kill(self, name: str, deadly: Callable[[], None]) -> bool:
        """Kill a step and look at what is left, then do it if it was not done; whether it was killed at all."""
        before, after = self.begin(name), self.after[name]
        killed = is_killed(STEPS[name], deadly)
        left = State(self.folder)
        done = left.has_model_of(after)
        if not done and not left.has_model_of(before):
            raise SystemExit(f"{name}: after a kill the model is neither what it was nor what it should be")
        is_killed(command("cache", "--remove") if done else STEPS[name])
        found = State(self.folder).difference(after)
        if wrong := [name for name in found if not (done and _may_be_left(name))]:
            raise SystemExit(f"{name}: after a kill and once more, {', '.join(wrong)} is not the same")
        return killed


def deaths(number: int, costs: dict[str, Cost], chance: random.Random) -> Iterator[tuple[str, str, Callable[[], None]]]:
    """So many kills, of each step in turn, at a moment and before an operation in turn: step, kind, what kills."""
    for i in range(number):
        name = list(costs)[i % len(costs)]
        turn = i // len(costs)
        if turn % 2:
            seconds = chance.uniform(0, costs[name].seconds)
            yield name, "at a moment", lambda seconds=seconds: kill_after(max(seconds, 1e-3))
        else:
            place = 1 + turn // 2 % costs[name].operations
            yield name, "before an operation", lambda place=place: kill_before(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)  # the bits of a sum depend on it
    pretraining.SMALL_VIT["base_epochs"] = 1
    done: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as root:
        story = Story(Path(root).resolve(), list(STEPS))
        for number, (name, kind, deadly) in enumerate(deaths(given.kills, story.costs, random.Random(given.seed)), 1):
            done[name, kind if story.kill(name, deadly) else "at its end"] += 1
            if number % len(STEPS) == 0:
                print(f"{number} of {given.kills}: all the same to the bit", flush=True)
        os.chdir("/")
    for (name, kind), number in sorted(done.items()):
        print(f"{name}: {number} kills {kind}")


if __name__ == "__main__":
    main()
