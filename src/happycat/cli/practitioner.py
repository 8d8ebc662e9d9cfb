"""Commands for one's own images: fit, discover, predict, export, report. Results go to stdout, progress to stderr."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from happycat.base.disk import storage_errors
from happycat.base.errors import InputError
from happycat.base.text import shown
from happycat.cli.arguments import (
    ModelArgument,
    WeightsOption,
    WorkersOption,
    check_there,
    check_weights,
    new_classes,
    typed_or_piped,
)
from happycat.cli.display import Display, display_of, print_line
from happycat.cli.display import results as out
from happycat.cli.flags import (
    BACKBONE,
    DeviceOption,
    PrecisionOption,
    SizeOption,
    WaitOption,
    advising_to_wait,
    advising_without_hub,
)
from happycat.cli.flags import WeightsOption as FitWeightsOption
from happycat.cli.interruption import interruptible, keeping, kept_so_far
from happycat.cli.processes import DevicesOption, NodesOption, Processes, StrategyOption, together
from happycat.model import file as model_file

if TYPE_CHECKING:
    from happycat.base.ranks import Ranks
    from happycat.images.collecting import Skipped

# What needs torch is imported by the commands themselves, after their checks: help and mistakes need not wait for it.

AGAIN = "the same command begins again, with what is kept"  # when a process has died
VIEWS_OPTION = typer.Option(help="views of an image that are averaged", min=1, rich_help_panel=BACKBONE)
USUAL_BACKBONE = "vit_small_patch14_dinov2.lvd142m"


def fit(
    labelled: Annotated[Path, typer.Argument(help="a folder of folders by class, or a CSV file with path and label")],
    model: Annotated[Path, typer.Option("--out", "-o", help="the model file to write")] = Path("model.cat"),
    backbone: Annotated[
        str, typer.Option(help="a timm model (`happycat list`)", rich_help_panel=BACKBONE)
    ] = USUAL_BACKBONE,
    weights: FitWeightsOption = None,
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
    views: Annotated[int, VIEWS_OPTION] = 3,
    devices: DevicesOption = 1,
    nodes: NodesOption = 1,
    strategy: StrategyOption = "auto",
    mirror: Annotated[
        bool, typer.Option(help="augment with mirror images: a picture and its mirror image are of one class")
    ] = True,
    seed: Annotated[int, typer.Option(help="random seed", min=0)] = 0,
) -> None:
    """Learn the classes of labelled images."""
    if model.exists():
        raise InputError(f"{model} is there already; give another name (--out), or delete it")
    check_there(labelled, "a folder with one folder of images per class, or a CSV file with the columns path and label")
    check_weights(weights)
    from happycat.cli.output import fitted_table
    from happycat.model.estimator import Happycat

    with (
        together(Processes(devices, nodes, strategy), device, AGAIN) as (ranks, device),
        advising_without_hub(),
        model_file.locked(model, new=True) if ranks.first else nullcontext(),
    ):
        cat = Happycat(
            backbone,
            weights=weights,
            image_size=image_size,
            precision=precision,
            device=device,
            workers=workers,
            views=views,
            mirror=mirror,
            random_state=seed,
        )
        cat.ranks, progress = ranks, display_of(ranks.first)
        with (
            keeping(model) as cache,
            interruptible(lambda: kept_so_far(progress, cache)),
            progress,
        ):
            cat.set_params(progress=progress, cache_dir=cache).fit(labelled)
            cat.create(
                model,
                f"fit {labelled}",
                {"fitted": {"accuracy": cat.fitted_.accuracy, "images": cat.fitted_.images}},
            )
    _print_left_out(model.with_name(f"{model.stem}-1"), cat.fitted_.skipped, cat.fitted_.duplicates)
    out.print(fitted_table(cat.fitted_))
    if cat.fitted_.accuracy is not None:
        out.print(f"{cat.fitted_.accuracy:.1f}% of {cat.fitted_.held_out} images that were held out are right")
    print_line(f"written: {model} ({_size(model)}), version 1")


def discover(
    model: ModelArgument,
    inbox: Annotated[Path, typer.Argument(help="a folder of unlabelled images, or a CSV file with path")],
    new: Annotated[str, typer.Option(help="how many new classes there are, or auto to estimate it")] = "auto",
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="where the page and the lists go [MODEL-VERSION]")
    ] = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="only propose: the model stays as it is until `happycat accept`")
    ] = False,
    images: Annotated[bool, typer.Option(help="put small pictures, and links to the originals, into the page")] = True,
    wait: WaitOption = False,
    weights: WeightsOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
    views: Annotated[int | None, VIEWS_OPTION] = None,
    devices: DevicesOption = 1,
    nodes: NodesOption = 1,
    strategy: StrategyOption = "auto",
) -> None:
    """Find new classes among unlabelled images; the model learns them as a new version."""
    num_new = new_classes(new)
    check_there(inbox, "a folder of images, or a CSV file that lists them")
    check_weights(weights)
    with (
        together(Processes(devices, nodes, strategy), device, AGAIN) as (ranks, device),
        advising_to_wait(),
        model_file.locked(model, wait) if ranks.first else nullcontext(),
    ):
        model_file.history(model)  # refuses what is no model
        backbone: dict[str, Any] = {"weights": weights, "precision": precision, "device": device}
        backbone |= {"workers": workers, "views": views}
        _discover(model, inbox, num_new, folder, propose, images, backbone, ranks)


def _discover(
    model: Path,
    inbox: Path,
    num_new: int | str,
    folder: Path | None,
    propose: bool,
    images: bool,
    backbone: dict[str, Any],
    ranks: Ranks,
) -> None:
    """Find new classes, and say what was found."""
    from happycat.cli.output import found_sentence, found_table
    from happycat.model.discovering import discover_inbox

    progress = display_of(ranks.first)
    with (
        keeping(model) as cache,
        interruptible(lambda: f"{kept_so_far(progress, cache)}; {model} is as it was"),
        progress,
    ):
        done = discover_inbox(
            model,
            inbox,
            num_new,
            folder,
            progress,
            propose=propose,
            images=images,
            cache_dir=cache,
            ranks=ranks,
            **backbone,
        )
    found, folder = done.found, done.folder
    _print_left_out(folder, found.skipped, found.duplicates)
    for version, same in done.seen:
        out.print(f"{same} of these images were in the discovery of version {version} already", soft_wrap=True)
    out.print(found_table(done.cat, found))
    out.print(found_sentence(found))
    where = f"{folder / 'assignments.csv'}; look at {folder / 'page.html'}"
    if propose:
        print_line(f"proposed: {where}; `happycat accept {model} {folder}` takes it up, {model} is as it was")
    else:
        print_line(f"written: {model}, version {done.version}; {where}")


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
    devices: DevicesOption = 1,
    nodes: NodesOption = 1,
    strategy: StrategyOption = "auto",
) -> None:
    """Predict the class of each image, or that none fits."""
    if as_json and as_csv:
        raise InputError("--json and --csv are two ways to print the same; give one of them")
    model_file.history(model)  # refuses what is no model
    check_weights(weights)
    paths = typed_or_piped(paths)
    from happycat.cli.output import print_rows
    from happycat.model.estimator import Happycat
    from happycat.model.sorting import COPIES, LINKS, sort_into

    with together(Processes(devices, nodes, strategy), device, AGAIN) as (ranks, device):
        cat = Happycat.load(model, weights=weights, precision=precision, device=device, workers=workers)
        cat.ranks = ranks
        with display_of(ranks.first) as progress:
            rows = cat.set_params(progress=progress).assign(paths)
    for skipped in cat.skipped_:
        print(shown(f"happycat: {skipped.path}: {skipped.reason}"), file=sys.stderr)
    print_rows(rows, as_json, as_csv)
    for target, way in ((copy_to, COPIES), (link_to, LINKS)):
        if target is not None:
            done = sort_into(target, rows, way)
            there = f"; {done.there} were there already" if done.there else ""
            print(shown(f"happycat: {done.put} images sorted into {target}{there}"), file=sys.stderr)


def export(
    model: ModelArgument,
    onnx: Annotated[Path, typer.Argument(help="the ONNX file to write")],
    weights: WeightsOption = None,
) -> None:
    """Write a model as one ONNX file: images in, class and probability out."""
    model_file.history(model)  # refuses what is no model
    check_weights(weights)
    from happycat.model.estimator import Happycat
    from happycat.model.export import export_onnx

    cat = Happycat.load(model, weights=weights, precision="fp32", device="cpu")
    with Display() as progress:
        progress.step("exporting")
        difference = export_onnx(cat, onnx)
    print_line(
        f"written: {onnx} ({_size(onnx)}); it predicts as the model does (probabilities within {difference:.0e})"
    )


def report(
    what: Annotated[list[Path], typer.Argument(help="a model file, or run folders of `happycat bench`")],
    page: Annotated[Path, typer.Option("--out", "-o", help="the page to write")] = Path("page.html"),
    images: Annotated[bool, typer.Option(help="put small pictures, and links to the originals, into the page")] = True,
) -> None:
    """Show a model's last discovery with the corrections made since, or research runs, as one page."""
    from happycat.report.html import write_page

    if what[0].is_dir():
        from happycat.benchmark.page import run_page
        from happycat.benchmark.record import Record

        write_page(run_page([Record(folder) for folder in what]), page)
    else:
        from happycat.model.page import review_page

        write_page(review_page(what[0], images), page)
    print_line(f"written: {page}")


def _print_left_out(folder: Path, skipped: list[Skipped], duplicates: int) -> None:
    """Say how many files were left out and where they are listed."""
    if duplicates:
        out.print(f"{duplicates} images are there twice; each was counted once")
    if skipped:
        from happycat.images.collecting import write_skipped

        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_skipped(folder / "skipped.csv", skipped)
        print_line(f"{len(skipped)} files could not be used; see {folder / 'skipped.csv'}")


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"
