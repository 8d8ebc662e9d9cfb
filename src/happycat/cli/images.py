"""Commands on images: teach, move, confirm, reject, ignore; accept a proposal; export labels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from happycat.base.errors import InputError
from happycat.base.text import shown
from happycat.cli.arguments import ModelArgument, WeightsOption, check_there, check_weights
from happycat.cli.display import Display, print_line
from happycat.cli.display import results as out
from happycat.cli.flags import DeviceOption, PrecisionOption, WaitOption, advising_to_wait
from happycat.model import file as model_file

if TYPE_CHECKING:
    from happycat.model.corrections import Corrected, Correction

ImagesArgument = Annotated[
    list[Path], typer.Argument(help="images of the last discovery: files, folders, or paths as in assignments.csv")
]
JOINS = ("ask", "auto", "never")


def move(
    model: ModelArgument,
    images: ImagesArgument,
    to: Annotated[str, typer.Option(help="the class that they are of: its number or name")],
    new: Annotated[bool, typer.Option("--new", help="make a new class of them, with that name")] = False,
    wait: WaitOption = False,
) -> None:
    """Say that images are of a class; they stay there."""
    from happycat.model import from_images, membership

    def change(correction: Correction, places: list[int]) -> str:
        chosen, registry = correction.chosen(places), correction.registry
        if new:
            entry = from_images.new_class(registry, chosen, correction.stage, registry.typed(to))
        else:
            entry = membership.move(registry, chosen, to)
        return registry.called(entry)

    done = _correct(model, images, change, lambda number, label: f"move {number} to {label}", wait)
    _say(done, f"{done.result[0]} of {done.result[1]} now")


def confirm(model: ModelArgument, images: ImagesArgument, wait: WaitOption = False) -> None:
    """Say that images are of the classes that they are given."""
    from happycat.model import membership

    _settle(model, images, "confirm", "confirmed", lambda c, chosen: membership.confirm(c.registry, chosen), wait)


def reject(model: ModelArgument, images: ImagesArgument, wait: WaitOption = False) -> None:
    """Say that images are not of the classes that they are given."""
    from happycat.model import membership

    _settle(model, images, "reject", "rejected", lambda c, chosen: membership.reject(c.registry, chosen), wait)


def ignore(model: ModelArgument, images: ImagesArgument, wait: WaitOption = False) -> None:
    """Say that images are of no class: they and what looks like them are left alone."""
    from happycat.model import membership

    _settle(
        model, images, "ignore", "left alone", lambda c, chosen: membership.ignore(c.registry, chosen, c.stage), wait
    )


def unignore(model: ModelArgument, images: ImagesArgument, wait: WaitOption = False) -> None:
    """Take back that images are to be left alone."""
    from happycat.model import membership

    _settle(
        model, images, "unignore", "looked at again", lambda c, chosen: membership.unignore(c.registry, chosen), wait
    )


def split_by(model: Path, which: str, examples: list[Path], wait: bool) -> Corrected[Any]:
    """Split a class: images like the examples become a new one; of the others, those least like them are the class."""
    from happycat.model.corrections import correct_images
    from happycat.model.from_images import split_off
    from happycat.model.paths import places_of

    def change(correction: Correction) -> Any:
        places = places_of(correction.review, examples)
        members = correction.members(which)
        if strange := [place for place in places if place not in members]:
            raise InputError(
                f"{len(strange)} of {len(places)} examples are not of {which}; give images that it is given"
            )
        within = [members.index(place) for place in places]
        return split_off(correction.registry, correction.chosen(members), which, within, correction.stage)

    with advising_to_wait():
        return correct_images(model, f"split {which} by {len(examples)} examples", change, wait, len(examples))


def teach(
    model: ModelArgument,
    labelled: Annotated[Path, typer.Argument(help="a folder of folders by class, or a CSV file with path and label")],
    join: Annotated[
        str,
        typer.Option(help="whether a discovered class that looks the same gets the new name: ask, auto or never"),
    ] = "ask",
    wait: WaitOption = False,
    weights: WeightsOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Learn more labelled images, of known classes or of new ones, without a refit."""
    if join not in JOINS:
        raise InputError(f"--join is one of {', '.join(JOINS)}, not {join!r}")
    check_there(labelled, "a folder with one folder of images per class, or a CSV file with the columns path and label")
    check_weights(weights)
    from happycat.model.estimator import Happycat

    progress = Display()

    def asked(name: object, label: object, images: int) -> bool:
        if join != "ask":
            return join == "auto"
        if not sys.stdin.isatty():
            raise InputError(
                f"{shown(str(label))} looks like {shown(str(name))} ({images} of its images are there); say with "
                "--join auto that such classes are the same, or with --join never that they are not"
            )
        progress.close()
        return typer.confirm(f"{images} images of {shown(str(name))} are in {shown(str(label))}. Are they the same?")

    with advising_to_wait(), model_file.locked(model, wait):
        cat = Happycat.load(model, weights=weights, precision=precision, device=device)
        with progress:
            taught = cat.set_params(progress=progress).teach(labelled, join=asked)
        images = sum(cat.taught_.values())
        number = cat.append(model, f"teach {labelled}", {"images": images})
    words = {"new": taught.added, "more images of": taught.extended, "discovered and named now": taught.joined}
    for what, entries in words.items():
        if entries:
            labels = ", ".join(f"{shown(str(e.name))} ({cat.taught_[e.id]})" for e in entries)
            out.print(f"{what}: {labels}", soft_wrap=True)
    print_line(f"{images} images learned (version {number})")


def accept(
    model: ModelArgument,
    folder: Annotated[Path, typer.Argument(help="the folder of `discover --propose`")],
    only: Annotated[list[str] | None, typer.Option(help="a new class to take; several times for several [all]")] = None,
    wait: WaitOption = False,
) -> None:
    """Take up what `discover --propose` has found, or some of its classes."""
    model_file.history(model)  # refuses what is no model
    from happycat.model.discovering import accept as take_up

    with advising_to_wait():
        done = take_up(model, folder, only, wait)
    number = len(done.result)
    _say(done, f"{number} new {'class' if number == 1 else 'classes'} taken up")


def export_labels(
    model: ModelArgument,
    target: Annotated[Path, typer.Option("--out", "-o", help="the file to write: .csv, or .json (COCO)")] = Path(
        "labels.csv"
    ),
    checked: Annotated[bool, typer.Option("--checked", help="only images that a person has spoken of")] = False,
    every: Annotated[bool, typer.Option("--every", help="of every discovery whose folder is there [the last]")] = False,
) -> None:
    """Write the class of each image, as corrected, as CSV or JSON (COCO, FiftyOne)."""
    model_file.history(model)  # refuses what is no model
    from happycat.model.labels import labelled_images, write_labels

    rows = labelled_images(model, every, checked)
    write_labels(target, rows)
    spoken = sum(row.said != "" for row in rows)
    print_line(f"written: {target}, {len(rows)} images, {spoken} of them checked by a person")


def _settle(
    model: Path, images: list[Path], verb: str, past: str, settle: Callable[[Any, Any], None], wait: bool
) -> None:
    def change(correction: Correction, places: list[int]) -> str:
        settle(correction, correction.chosen(places))
        return ""

    done = _correct(model, images, change, lambda number, _: f"{verb} {number}", wait)
    _say(done, f"{done.result[0]} {past}")


def _correct(
    model: Path,
    images: list[Path],
    change: Callable[[Any, list[int]], str],
    what: Callable[[str, str], str],
    wait: bool,
) -> Corrected[tuple[str, str]]:
    """Correct images of the last discovery; how many, in words, and what the change returned, are the result."""
    from happycat.model.corrections import correct_images
    from happycat.model.counts import in_words
    from happycat.model.paths import places_of
    from happycat.model.review import last_review

    model_file.history(model)  # refuses what is no model
    review = last_review(model)
    places = places_of(review, images)

    def whole(correction: Correction) -> tuple[str, str]:
        return in_words(len(places)), change(correction, places)

    with advising_to_wait():
        return correct_images(model, lambda result: what(*result), whole, wait, len(places), review)


def _say(done: Corrected, message: str) -> None:
    out.print(f"{shown(message)} (version {done.version})", soft_wrap=True)
