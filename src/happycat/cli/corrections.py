"""Commands that correct a model's classes (name, merge, split, drop, apart), go back and forth, and `show`.

Those that change who is given images count them again, if the folder of the last discovery is there, and need torch for
that; `name`, `apart`, `undo`, `redo` and `show` need none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from happycat.base.text import shown
from happycat.cli.arguments import ModelArgument
from happycat.cli.display import print_line
from happycat.cli.display import results as out
from happycat.cli.flags import WaitOption, advising_to_wait
from happycat.model import corrections
from happycat.model import file as model_file
from happycat.model.counts import ImageCounts
from happycat.model.file import ModelFile
from happycat.model.reading import open_model
from happycat.model.registry import ClassEntry, ClassRegistry
from happycat.model.stored import StoredPart, stored_parts

Result = TypeVar("Result")
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
    done = _correct(model, f"name {which} {name!r}", lambda one: one.name(which, one.typed(name)), wait)
    _say(done, f"class {done.result.id} is {_label(done, done.result)} now")


def merge(
    model: ModelArgument,
    first: ClassArgument,
    others: Annotated[list[str], typer.Argument(help="the classes that it takes in")],
    wait: WaitOption = False,
) -> None:
    """Make one class of several."""

    def change(registry: ClassRegistry) -> tuple[ClassEntry, list[ClassEntry]]:
        taken = [registry.find(other) for other in others]
        return registry.merge(first, *others), taken

    done = _correct(model, f"merge {first} {' '.join(others)}", change, wait)
    into, taken = done.result
    verb = "is" if len(taken) == 1 else "are"
    parts = ", ".join(_label(done, entry) for entry in taken)
    counts = done.registry.counts
    images = f" ({_images(counts, into)} {_batch(counts)})" if counts else ""
    _say(done, f"{parts} {verb} part of {_label(done, into)} now{images}")


def split(
    model: ModelArgument,
    which: ClassArgument,
    examples: Annotated[
        list[Path] | None, typer.Argument(help="images of what is to become the new class [an automatic cut]")
    ] = None,
    wait: WaitOption = False,
) -> None:
    """Make two classes of one, by a few examples or an automatic cut; or take apart what was merged."""
    if examples:
        from happycat.cli.images import split_by

        done = split_by(model, which, examples, wait)
    else:
        done = _correct(model, f"split {which}", lambda registry: registry.split(which), wait)
    counts = done.registry.counts
    *first, last = [
        f"{_label(done, entry)} ({_images(counts, entry)})" if counts else _label(done, entry) for entry in done.result
    ]
    batch = f" {_batch(counts)}" if counts else ""
    _say(done, f"{_label(done, done.result[0])} is split: {', '.join(first)} and {last}{batch}")


def drop(model: ModelArgument, which: ClassArgument, wait: WaitOption = False) -> None:
    """Give a class up: nothing is given to it any more, and nothing like it is discovered again."""
    done = _correct(model, f"drop {which}", lambda registry: registry.drop(which), wait)
    _say(done, f"{_label(done, done.result)} is dropped")


def apart(
    model: ModelArgument,
    one: ClassArgument,
    two: Annotated[str, typer.Argument(help="the class that it is not the same as")],
    wait: WaitOption = False,
) -> None:
    """Say that two classes are not the same: they are never merged."""

    def change(registry: ClassRegistry) -> tuple[ClassEntry, ClassEntry]:
        registry.hold_apart(one, two)
        return registry.find(one), registry.find(two)

    done = _correct(model, f"apart {one} {two}", change, wait)
    first, second = (_label(done, entry) for entry in done.result)
    _say(done, f"{first} and {second} are held apart")


def undo(model: ModelArgument, wait: WaitOption = False) -> None:
    """Go back to the version before; `redo` brings it back."""
    with advising_to_wait():
        number = corrections.undo(model, wait)
    print_line(f"{model} is at version {number} again")


def redo(model: ModelArgument, wait: WaitOption = False) -> None:
    """Bring back what was undone last."""
    with advising_to_wait():
        number = corrections.redo(model, wait)
    print_line(f"{model} is at version {number} again")


def show(
    model: ModelArgument,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    stored: Annotated[bool, typer.Option("--stored", help="list every array that is stored, and what it is")] = False,
) -> None:
    """Show a model's classes, its versions, and what it holds."""
    file, registry = open_model(model)
    if stored:
        _print_stored(stored_parts(model, file), as_json)
        return
    counts = registry.counts
    classes = [_class_row(registry, entry) for entry in registry.entries if entry.rows]
    history = model_file.history(model)
    if as_json:
        metadata = {
            "version": file.number,
            "backbone": file.base.metadata.get("backbone"),
            "unknown": registry.unknown,
            "counted": counts and {"stage": counts.stage, "images": counts.total, "exact": counts.exact},
        }
        print(json.dumps({**metadata, "classes": classes, "versions": history}, indent=1))
        return
    out.print(_table(shown(f"{model}, version {file.number}"), classes, counts))
    if counts:
        none = max(0, counts.total - sum(counts.by_id.values()))
        about = "" if counts.exact else "about "
        images = f"images: of the {counts.total} {_batch(counts)}, as the model predicts them now"
        out.print(f"{images}; {about}{none} of them fit no class", soft_wrap=True)
    for version in history:
        out.print(f"version {version['number']}: {version['when']}  {shown(version['what'])}", soft_wrap=True)
    if gone := model_file.undone(model):
        out.print(f"undone: {'; '.join(shown(one['what']) for one in gone)} (`happycat redo` brings it back)")
    if said := len(registry.statements):
        out.print(f"{said} images are known by a checksum: a person said where they belong", soft_wrap=True)
    out.print(_holds(model, file, registry), soft_wrap=True)


def _print_stored(parts: list[StoredPart], as_json: bool) -> None:
    """Print every part of a model file."""
    if as_json:
        print(json.dumps([part._asdict() for part in parts], indent=1))
        return
    table = Table(box=None, padding=(0, 2))
    for column in ("name", "type, shape", "bytes", "what it is"):
        table.add_column(column, justify="right" if column == "bytes" else "left")
    for part in parts:
        table.add_row(part.name, part.kind, f"{part.size:,}", part.meaning)
    out.print(table)


def _correct(
    model: Path, what: str, change: Callable[[ClassRegistry], Result], wait: bool
) -> corrections.Corrected[Result]:
    """A person's correction, as the next version."""
    with advising_to_wait():
        return corrections.correct(model, what, change, wait)


def _say(done: corrections.Corrected, message: str) -> None:
    out.print(f"{message} (version {done.version})", soft_wrap=True)


def _label(done: corrections.Corrected, entry: ClassEntry) -> str:
    return shown(done.registry.label(entry))


def _images(counts: ImageCounts, entry: ClassEntry) -> str:
    return f"{_number(counts, entry.id)} {'image' if counts.by_id[entry.id] == 1 else 'images'}"


def _number(counts: ImageCounts, number: int) -> str:
    """How many images a class is given; nothing is given to one that was merged, dropped or ignored."""
    images = counts.by_id.get(number, 0)
    return f"about {images}" if number in counts.by_id and not counts.exact else str(images)


def _batch(counts: ImageCounts) -> str:
    """Of which images the counts are."""
    return "of the last discovery" if counts.stage else "of fit"


def _class_row(registry: ClassRegistry, entry: ClassEntry) -> dict[str, Any]:
    counts = registry.counts
    return {
        "id": entry.id,
        "label": registry.label(entry),
        "name": entry.name,
        "stage": entry.stage,
        "learned_from": registry.learned_from(entry),
        "images": None if counts is None else counts.by_id.get(entry.id, 0),
        "state": entry.state,
        "merged_into": entry.merged_into,
    }


def _table(title: str, classes: list[dict[str, Any]], counts: ImageCounts | None) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("id", "name", "found", "learned from", "images", ""):
        table.add_column(column, justify="right" if column in ("id", "learned from", "images") else "left")
    for c in classes:
        state = {"living": "", "merged": f"part of {c['merged_into']}"}.get(c["state"], c["state"])
        found = f"stage {c['stage']}" if c["stage"] else "labelled"
        images = "–" if counts is None else _number(counts, c["id"])
        name = "" if c["name"] is None else shown(c["name"])
        table.add_row(str(c["id"]), name, found, str(c["learned_from"]), images, state)
    return table


def _holds(model: Path, file: ModelFile, registry: ClassRegistry) -> str:
    own = "with its weights" if file.base.arrays else "whose weights lie elsewhere"
    number, dimensions = registry.pool.vectors.shape
    backbone = shown(file.base.metadata.get("backbone"))
    single = sum(registry.learned_from(entry) == 1 for entry in registry)
    alone = f"the point of a single image for {single} of the classes" if single else "nothing of a single image"
    return (
        f"{model.stat().st_size / 1e6:.1f} MB on disk: {backbone} ({own}), {number} directions in a space of "
        f"{dimensions} dimensions, a number of images each; no image, and {alone}"
    )
