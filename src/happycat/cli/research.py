"""Commands for research: bench, demo, list, stages, speed."""

from __future__ import annotations

import inspect
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.table import Table

from happycat.backbone.weights import TESTED
from happycat.base.disk import write_json
from happycat.base.errors import InputError
from happycat.base.metrics import score_run
from happycat.base.progress import SILENT
from happycat.benchmark import drawings as report
from happycat.benchmark.loop import Loop, LoopConfig
from happycat.benchmark.paper.catalogue import catalogue
from happycat.benchmark.protocol import Protocol, plan_text
from happycat.benchmark.setup import Request, prepare, the_split
from happycat.benchmark.speed import measure_speed, speed_table
from happycat.cli.display import Display, print_line, scores_table
from happycat.cli.display import results as out
from happycat.cli.flags import (
    BACKBONE,
    PROTOCOL,
    RUN,
    BackboneOption,
    DatasetArgument,
    DeviceOption,
    DownloadOption,
    FlavourOption,
    OptionOption,
    OrderOption,
    PrecisionOption,
    RootOption,
    SizeOption,
    WeightsOption,
    backbone_config,
    dataset_options,
    given,
    method_values,
    values_of,
)
from happycat.cli.interruption import interruptible
from happycat.images.datasets import DATASETS
from happycat.images.datasets import load as load_images
from happycat.methods import METHODS
from happycat.methods.calm.method import Calm
from happycat.methods.pretraining import SMALL_VIT
from happycat.model.from_method import check_new_model, write_model

# What differs from Happy's own values
DEMO = {**SMALL_VIT, "rate": 0.03, "epochs": 60}


@values_of({PROTOCOL: Protocol, RUN: LoopConfig}, methods=True)
def bench(
    method: Annotated[str, typer.Argument(help="the method (`happycat list`)")],
    dataset: DatasetArgument,
    out_folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="the run folder [runs/METHOD-DATASET]", rich_help_panel=RUN)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="resume an interrupted run", rich_help_panel=RUN)] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="write what was learned to this model file, to predict with (calm)", rich_help_panel=RUN),
    ] = None,
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    class_order: OrderOption = None,
    split: Annotated[Path | None, typer.Option(help="a split file to run on", rich_help_panel=PROTOCOL)] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="start from the Stage-0 of another run: its folder", rich_help_panel=RUN),
    ] = None,
    flavour: FlavourOption = "authors",
    backbone: BackboneOption = None,
    weights: WeightsOption = None,
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    **values: Any,
) -> None:
    """Run a method over all stages of a data set and score it."""
    options = dataset_options(option, download)
    run(
        Request(
            method=method,
            flavour=flavour,
            method_values=method_values(values),
            dataset=dataset,
            root=root,
            dataset_options=options,
            protocol_values=given(values, Protocol),
            class_order=class_order,
            split=split,
            backbone=backbone_config(backbone, weights, image_size, precision, device),
            out=out_folder or Path("runs") / f"{method}-{Path(dataset).name}",
            resume=resume,
            start=start,
            loop=LoopConfig(**given(values, LoopConfig)),
        ),
        save,
    )


def demo(
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="the run folder")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="random seed of the run")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="resume an interrupted demo")] = False,
) -> None:
    """Learn six handwritten digits with their labels, then discover the other four without.

    Needs no download and no GPU: scikit-learn's bundled digits and a small ViT trained from scratch.
    """
    torch.set_num_threads(1)  # so small a model gains nothing from a second, and waits for it on a busy machine
    run(
        Request(
            dataset="digits",
            method_values=DEMO,
            out=out_folder,
            resume=resume,
            loop=LoopConfig(seed=seed, checkpoint_seconds=2),
        )
    )


def run(request: Request, save: Path | None = None) -> None:
    """Run it, print the table, draw the pictures; if asked to, save what was learned as a model file."""
    started = time.monotonic()
    if save is not None:
        check_method(request.method)
        check_new_model(save)
    with interruptible("the same command with --resume goes on from here"):
        with Display() as display:
            loop = prepare(request, display)
            with loop.record:
                if save is not None:
                    check_new_model(save, loop.split.classes[: loop.split.num_seen(0)])
                scores = loop.run()
                if save is not None:
                    save_model(loop, request, save)
        title = f"{request.method} on {loop.images.name}, seed {request.loop.seed}"
        out.print(scores_table(scores, title))
        whole = score_run(scores)
        write_json(request.out / "summary.json", whole)
        if len(scores) > 1:
            out.print(
                f"average over stages: All {whole['mean_all']:.1f}   Old {whole['mean_old']:.1f}   "
                f"New {whole['mean_new']:.1f}   forgetting M_f {whole['m_f']:.1f}"
            )
        picture = report.draw_run(loop.record, loop.images, title)
    print_line(f"run folder: {request.out}   picture: {picture}   {time.monotonic() - started:.0f} s")
    if save is not None:
        print_line(f"written: {save} ({save.stat().st_size / 1e6:.1f} MB), version 1")


def check_method(name: str) -> None:
    """Refuse a method whose runs cannot become a model file: a model is a frozen backbone and Calm's prototypes."""
    if name in METHODS and not issubclass(METHODS[name][0], Calm):
        able = ", ".join(other for other, (cls, _) in METHODS.items() if issubclass(cls, Calm))
        raise InputError(f"a run of {name} cannot be saved as a model file; leave --save out, or run {able}")


def save_model(loop: Loop, request: Request, path: Path) -> None:
    """Write the model file of a run, as it is after the last stage."""
    calm, last = loop.method, len(loop.record.stage_scores()) - 1
    assert isinstance(calm, Calm)
    classes = loop.record.model(last)["classes"]
    write_model(
        path,
        calm,
        [c["name"] for c in classes],
        [c["stage"] for c in classes],
        loop.data.extractor,
        request.backbone,
        stage=last,
        seed=request.loop.seed,
        what=f"bench {request.method} {request.dataset}",
    )


def list_() -> None:
    """Show the methods, data sets and tested backbones."""
    for title, rows in (
        ("Methods", [(name, _first_line(cls)) for name, (cls, _) in METHODS.items()]),
        ("Data sets", [(name, _first_line(sys.modules[load.__module__])) for name, load in DATASETS.items()]),
        ("Tested backbones", TESTED.items()),
        ("The paper's experiments", [(name, experiment.title) for name, experiment in catalogue().items()]),
    ):
        table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
        for row in rows:
            table.add_row(*row)
        out.print(table)
        out.print()


def _first_line(thing: object) -> str:
    text = inspect.getdoc(inspect.getmodule(thing) if inspect.isclass(thing) else thing)
    return (text or "").splitlines()[0]


@values_of({PROTOCOL: Protocol})
def stages(
    dataset: DatasetArgument,
    out_file: Annotated[Path, typer.Option("--out", "-o", help="the file to write")] = Path("split.json"),
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    class_order: OrderOption = None,
    **values: Any,
) -> None:
    """Write the split of a data set to a file that can be published: the same images everywhere."""
    options = dataset_options(option, download)
    data = load_images(dataset, root=root, **options)
    request = Request(dataset=dataset, protocol_values=given(values, Protocol), class_order=class_order, out=out_file)
    made = the_split(request, data)
    made.write(out_file)
    out.print(plan_text(made))
    print_line(f"written to {out_file}")


def speed(
    backbone: Annotated[
        str, typer.Option(help="a timm ViT; its weights do not matter here", rich_help_panel=BACKBONE)
    ] = "vit_base_patch16_224.dino",
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    seconds: Annotated[float, typer.Option(help="seconds to measure each figure, at least")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Measure training throughput: the reference step, fresh views, cached tokens."""
    config = backbone_config(backbone, None, image_size, precision, device)
    with Display() as display:
        figures = measure_speed(config, seconds, SILENT if as_json else display)
    if as_json:
        out.print_json(data=figures)
    else:
        out.print(speed_table(figures))
