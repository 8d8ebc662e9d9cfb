"""The commands for one's own images. Results go to stdout, progress to stderr."""

from __future__ import annotations

import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from happycat.base.disk import storage_errors
from happycat.base.errors import InputError
from happycat.benchmark.page import run_page
from happycat.benchmark.record import Record
from happycat.cli.display import Display
from happycat.cli.display import results as out
from happycat.cli.flags import DeviceOption, PrecisionOption, SizeOption
from happycat.cli.output import fitted_table, found_sentence, found_table, print_rows
from happycat.images.collecting import write_skipped
from happycat.model import file as model_file
from happycat.model.estimator import BACKBONE, Happycat
from happycat.model.export import export_onnx
from happycat.model.page import page_of, review_page, write_assignments
from happycat.model.results import Discovery
from happycat.model.review import Review
from happycat.model.sorting import link, sort_into
from happycat.report.html import write_page

ModelArgument = Annotated[Path, typer.Argument(help="the model file")]
WeightsOption = Annotated[Path | None, typer.Option(help="the backbone's weights [those of fit]")]
WorkersOption = Annotated[int | None, typer.Option(help="processes that read images", min=0)]


@contextmanager
def keeping(model: Path):
    """A folder for what is described so far, should the command be killed; it goes when the work is done."""
    kept = model.with_name(f".{model.name}.kept")
    yield kept
    shutil.rmtree(kept, ignore_errors=True)


def fit(
    labelled: Annotated[Path, typer.Argument(help="a folder of folders by class, or a CSV file with path and label")],
    model: Annotated[Path, typer.Option("--out", "-o", help="the model file to write")] = Path("model.cat"),
    backbone: Annotated[str, typer.Option(help="a timm ViT (`happycat list`)")] = BACKBONE,
    weights: Annotated[Path | None, typer.Option(help="its weights: safetensors or a plain state dict [hub]")] = None,
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
    mirror: Annotated[bool, typer.Option(help="whether a picture's mirror image is of the same class")] = True,
    seed: Annotated[int, typer.Option(help="of everything random", min=0)] = 0,
) -> None:
    """Learn the classes of labelled images."""
    if model.exists():
        raise InputError(f"{model} is there already; give another name (--out), or delete it")
    cat = Happycat(
        backbone,
        weights=weights,
        image_size=image_size,
        precision=precision,
        device=device,
        workers=workers,
        mirror=mirror,
        random_state=seed,
    )
    with Display() as progress, keeping(model) as cache_dir:
        cat.set_params(progress=progress, cache_dir=cache_dir).fit(labelled)
        cat.save(model, f"fit {labelled}", {"fitted": {"accuracy": cat.fitted_.accuracy, "images": cat.fitted_.images}})
    _told_of_files(model.with_name(f"{model.stem}-1"), cat.fitted_.skipped, cat.fitted_.duplicates)
    out.print(fitted_table(cat.fitted_))
    if cat.fitted_.accuracy is not None:
        out.print(f"{cat.fitted_.accuracy:.1f}% of {cat.fitted_.held_out} images that were held out are right")
    out.print(f"written: {model} ({_size(model)}), version 1", soft_wrap=True)


def discover(
    model: ModelArgument,
    inbox: Annotated[Path, typer.Argument(help="a folder of unlabelled images, or a CSV file with path")],
    new: Annotated[str, typer.Option(help="how many new classes there are, or auto to estimate it")] = "auto",
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="where the page and the lists go [MODEL-VERSION]")
    ] = None,
    images: Annotated[bool, typer.Option(help="put small pictures into the page")] = True,
    weights: WeightsOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
) -> None:
    """Find new classes among unlabelled images; the model learns them as a new version."""
    if new != "auto" and not new.isdigit():
        raise InputError(f"--new is a number or auto, not {new!r}")
    with model_file.locked(model, wait=False), Display() as progress, keeping(model) as cache_dir:
        number = model_file.read(model).number + 1
        cat = Happycat.load(model, weights=weights, precision=precision, device=device, workers=workers)
        cat.set_params(progress=progress, cache_dir=cache_dir)
        found = cat.discover(inbox, "auto" if new == "auto" else int(new))
        folder = folder or model.with_name(f"{model.stem}-{number}")
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        progress.step("drawing the page")
        write_assignments(folder / "assignments.csv", found.assigned)
        what = f"discover {inbox}"
        review = Review.of(found, cat.stage_)
        more = {"found": _summary(found), "results": str(folder.resolve()), "review": review.write(folder)}
        cat.append(model, what, more)
        write_page(page_of(cat, review, model, images), folder / "page.html")
    _told_of_files(folder, found.skipped, found.duplicates)
    out.print(found_table(cat, found))
    out.print(found_sentence(found))
    out.print(
        f"written: {model}, version {number}; {folder / 'assignments.csv'}; look at {folder / 'page.html'}",
        soft_wrap=True,
    )


def predict(
    model: ModelArgument,
    paths: Annotated[list[Path] | None, typer.Argument(help="images or folders [a line each from a pipe]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, an object a line")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="print CSV")] = False,
    copy_to: Annotated[Path | None, typer.Option(help="copy the images into folders by class, below this one")] = None,
    link_to: Annotated[Path | None, typer.Option(help="link to the images from folders by class")] = None,
    weights: WeightsOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
) -> None:
    """Say which class images belong to, or that none fits."""
    if not paths or paths == [Path("-")]:
        if sys.stdin.isatty():
            raise InputError("give images or folders, or their paths through a pipe")
        paths = [Path(line.rstrip("\n")) for line in sys.stdin if line.strip()]
    if not paths:
        raise InputError("nothing came through the pipe; give images or folders")
    cat = Happycat.load(model, weights=weights, precision=precision, device=device, workers=workers)
    with Display() as progress:
        rows = cat.set_params(progress=progress).assign(paths)
    for skipped in cat.skipped_:
        print(f"happycat: {skipped.path}: {skipped.reason}", file=sys.stderr)
    print_rows(rows, as_json, as_csv)
    for target, put in ((copy_to, shutil.copy2), (link_to, link)):
        if target is not None:
            sort_into(target, rows, put)


def export(
    model: ModelArgument,
    onnx: Annotated[Path, typer.Argument(help="the ONNX file to write")],
    weights: WeightsOption = None,
) -> None:
    """Write a model as one ONNX file: images in, class and probability out."""
    cat = Happycat.load(model, weights=weights, precision="fp32", device="cpu")
    with Display() as progress:
        progress.step("exporting")
        difference = export_onnx(cat, onnx)
    out.print(
        f"written: {onnx} ({_size(onnx)}); it says what the model says (probabilities within {difference:.0e})",
        soft_wrap=True,
    )


def report(
    what: Annotated[list[Path], typer.Argument(help="a model file, or run folders of `happycat bench`")],
    page: Annotated[Path, typer.Option("--out", "-o", help="the page to write")] = Path("page.html"),
    images: Annotated[bool, typer.Option(help="put small pictures into the page")] = True,
) -> None:
    """Show a model's last discovery with the corrections made since, or research runs, as one page."""
    if what[0].is_dir():
        write_page(run_page([Record(folder) for folder in what]), page)
    else:
        write_page(review_page(what[0], images), page)
    out.print(f"written: {page}", soft_wrap=True)


def _summary(found: Discovery) -> dict:
    """What a version of the model remembers of the discovery that made it."""
    return {
        "images": len(found.assigned),
        "new": found.new,
        "unsure": found.unsure,
        "count": found.count._asdict() if found.count else None,
        "skipped": len(found.skipped),
        "duplicates": found.duplicates,
    }


def _told_of_files(folder: Path, skipped: list, duplicates: int) -> None:
    if duplicates:
        out.print(f"{duplicates} images are there twice; each was counted once")
    if skipped:
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_skipped(folder / "skipped.csv", skipped)
        out.print(f"{len(skipped)} files could not be used; see {folder / 'skipped.csv'}", soft_wrap=True)


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"
