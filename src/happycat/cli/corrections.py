"""Commands that correct a model's classes (name, merge, split, drop, undo), and `show`; they need no torch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from happycat.base.text import shown
from happycat.cli.display import print_line
from happycat.cli.display import results as out
from happycat.cli.flags import WaitOption, advising_to_wait
from happycat.model import corrections
from happycat.model import file as model_file
from happycat.model.file import ModelFile
from happycat.model.registry import ClassEntry, ClassRegistry

ModelArgument = Annotated[Path, typer.Argument(help="the model file")]
ClassArgument = Annotated[
    str, typer.Argument(help="a class's number or name (`happycat show`); #14 is a number, name:14 a name")
]


def name(
    model: ModelArgument,
    which: ClassArgument,
    name: Annotated[str, typer.Argument(help="its name")],
    wait: WaitOption = False,
) -> None:
    """Give a class its name."""

    def change(registry: ClassRegistry) -> str:
        entry = registry.name(which, registry.typed(name))
        return f"class {entry.id} is {_label(registry, entry)} now"

    _correct(model, f"name {which} {name!r}", change, wait)


def merge(
    model: ModelArgument,
    first: ClassArgument,
    others: Annotated[list[str], typer.Argument(help="the classes that it takes in")],
    wait: WaitOption = False,
) -> None:
    """Make one class of several."""

    def change(registry: ClassRegistry) -> str:
        taken = [_label(registry, registry.find(other)) for other in others]
        into = registry.merge(first, *others)
        verb = "is" if len(taken) == 1 else "are"
        return f"{', '.join(taken)} {verb} part of {_label(registry, into)} now ({_images(registry, into)})"

    _correct(model, f"merge {first} {' '.join(others)}", change, wait)


def split(model: ModelArgument, which: ClassArgument, wait: WaitOption = False) -> None:
    """Make two classes of one, or take apart what was merged."""

    def change(registry: ClassRegistry) -> str:
        first, *others = registry.split(which)
        parts = [f"{_label(registry, entry)} ({_images(registry, entry)})" for entry in (first, *others)]
        return f"{_label(registry, first)} is split: {', '.join(parts[:-1])} and {parts[-1]}"

    _correct(model, f"split {which}", change, wait)


def drop(model: ModelArgument, which: ClassArgument, wait: WaitOption = False) -> None:
    """Give a class up: nothing is given to it any more, and nothing like it is discovered again."""
    _correct(model, f"drop {which}", lambda registry: f"{_label(registry, registry.drop(which))} is dropped", wait)


def undo(model: ModelArgument, wait: WaitOption = False) -> None:
    """Go back to the version before."""
    with advising_to_wait():
        number = corrections.undo(model, wait)
    print_line(f"{model} is at version {number} again")


def show(
    model: ModelArgument,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show a model's classes, its versions, and what it holds."""
    file = model_file.read(model)
    registry = ClassRegistry.of(file.metadata, file.arrays)
    classes = [_class_row(registry, entry) for entry in registry.entries if entry.rows]
    history = model_file.history(model)
    if as_json:
        metadata = {"version": file.number, "backbone": file.base.metadata.get("backbone"), "unknown": registry.unknown}
        print(json.dumps({**metadata, "classes": classes, "versions": history}, indent=1))
        return
    out.print(_table(shown(f"{model}, version {file.number}"), classes))
    for version in history:
        out.print(f"version {version['number']}: {version['when']}  {shown(version['what'])}", soft_wrap=True)
    out.print(_holds(model, file, registry), soft_wrap=True)


def _correct(model: Path, what: str, change: Callable[[ClassRegistry], str], wait: bool) -> None:
    """A person's correction, as the next version."""
    with advising_to_wait():
        message, number = corrections.correct(model, what, change, wait)
    out.print(f"{message} (version {number})", soft_wrap=True)


def _label(registry: ClassRegistry, entry: ClassEntry) -> str:
    return shown(registry.label(entry))


def _images(registry: ClassRegistry, entry: ClassEntry) -> str:
    number = registry.images(entry)
    return "1 image" if number == 1 else f"{number} images"


def _class_row(registry: ClassRegistry, entry: ClassEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "label": registry.label(entry),
        "name": entry.name,
        "stage": entry.stage,
        "images": registry.images(entry),
        "state": "dropped" if entry.dropped else "living" if entry.merged_into is None else "merged",
        "merged_into": entry.merged_into,
    }


def _table(title: str, classes: list[dict[str, Any]]) -> Table:
    table = Table(title=title, title_justify="left")
    for column, justify in (
        ("id", "right"),
        ("name", "left"),
        ("found", "left"),
        ("images when found", "right"),
        ("", "left"),
    ):
        table.add_column(column, justify="right" if justify == "right" else "left")
    for c in classes:
        state = {"dropped": "dropped", "merged": f"part of {c['merged_into']}", "living": ""}[c["state"]]
        found = f"stage {c['stage']}" if c["stage"] else "labelled"
        table.add_row(str(c["id"]), "" if c["name"] is None else shown(c["name"]), found, str(c["images"]), state)
    return table


def _holds(model: Path, file: ModelFile, registry: ClassRegistry) -> str:
    own = "with its weights" if file.base.arrays else "whose weights lie elsewhere"
    number, dimensions = registry.pool.vectors.shape
    backbone = shown(file.base.metadata.get("backbone"))
    return (
        f"{model.stat().st_size / 1e6:.1f} MB on disk: {backbone} ({own}), {number} directions in a space of "
        f"{dimensions} dimensions, a number of images each; no image, and nothing of a single image"
    )
