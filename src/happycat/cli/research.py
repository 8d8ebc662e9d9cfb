"""The commands. Results go to stdout, progress to stderr; a person's mistake is one line and exit code 2."""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Table

from happycat.backbone.store import delete_stores
from happycat.backbone.weights import TESTED
from happycat.base.disk import write_json
from happycat.base.errors import HappycatError, InputError
from happycat.base.metrics import score_run
from happycat.base.progress import SILENT
from happycat.base.version import __version__
from happycat.benchmark import drawings as report
from happycat.benchmark.loop import LoopConfig
from happycat.benchmark.paper.catalogue import catalogue
from happycat.benchmark.paper.experiments import Variant
from happycat.benchmark.paper.reports import Report
from happycat.benchmark.paper.study import Setting, Study
from happycat.benchmark.protocol import Protocol, plan_text
from happycat.benchmark.setup import Request, prepare, the_split
from happycat.benchmark.speed import measure_speed, speed_table
from happycat.cli import corrections
from happycat.cli import practitioner as practice
from happycat.cli.display import Display, scores_table
from happycat.cli.display import results as out
from happycat.cli.flags import (
    DeviceOption,
    PrecisionOption,
    SizeOption,
    backbone_config,
    dataset_options,
    given,
    method_values,
    values_of,
)
from happycat.images.datasets import DATASETS
from happycat.images.datasets import load as load_images
from happycat.methods import METHODS
from happycat.model.scratch import FROM_SCRATCH

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# What differs from Happy's own values
DEMO = {**FROM_SCRATCH, "rate": 0.03, "epochs": 60}


def main() -> None:
    """Run a command; the entry point of `happycat`."""
    try:
        app()
    except HappycatError as error:
        print(f"happycat: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def show_version(wanted: bool) -> None:
    if wanted:
        print(f"happycat {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """happycat learns the classes you have labelled, then keeps discovering new ones in unlabelled images."""


DatasetArgument = Annotated[str, typer.Argument(help="a data set's name (`happycat list`) or a folder of images")]
RootOption = Annotated[Path | None, typer.Option(help="where the data set lies [data]")]
OptionOption = Annotated[list[str] | None, typer.Option("--option", help="a data set's option, key=value")]
DownloadOption = Annotated[bool, typer.Option("--download", help="download the data set if it is not there")]
BackboneOption = Annotated[str | None, typer.Option(help="a timm ViT (`happycat list`)")]
WeightsOption = Annotated[Path | None, typer.Option(help="its weights: safetensors or a plain state dict [hub]")]
OrderOption = Annotated[
    str | None,
    typer.Option(help="a file of class names in the order they are met, or `seed` to shuffle [as published]"),
]


@app.command()
@values_of(Protocol, LoopConfig, methods=True)
def bench(
    method: Annotated[str, typer.Argument(help="the method (`happycat list`)")],
    dataset: DatasetArgument,
    out_folder: Annotated[Path | None, typer.Option("--out", "-o", help="the run folder [runs/METHOD-DATASET]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with an interrupted run")] = False,
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    class_order: OrderOption = None,
    split: Annotated[Path | None, typer.Option(help="a split file to run on")] = None,
    start: Annotated[Path | None, typer.Option("--from", help="a run whose Stage-0 is taken as this one's")] = None,
    flavour: Annotated[str, typer.Option(help="which of the method's sets of values")] = "authors",
    backbone: BackboneOption = None,
    weights: WeightsOption = None,
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    **values,
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
        )
    )


@app.command()
def demo(
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="the run folder")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="the run's seed")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="go on with an interrupted demo")] = False,
) -> None:
    """Learn six handwritten digits with their labels, then discover the other four without.

    Needs no download and no GPU: scikit-learn's bundled digits and a small ViT trained from nothing.
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


def run(request: Request) -> None:
    """Run it, print the table, draw the pictures."""
    started = time.monotonic()
    with interruptible("the same command with --resume goes on from here"), Display() as display:
        loop = prepare(request, display)
        with loop.record:
            scores = loop.run()
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
    out.print(f"run folder: {request.out}   picture: {picture}   {time.monotonic() - started:.0f} s")


@app.command()
@values_of(Protocol, LoopConfig, methods=True)
def paper(
    name: Annotated[str, typer.Argument(help="the experiment (`happycat list`)")],
    dataset: Annotated[
        list[str] | None, typer.Option(help="a data set's name or a folder of images; repeat for more [the paper's]")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="only the rows of this method or label; repeat for more")
    ] = None,
    seeds: Annotated[int, typer.Option(help="how many seeds, from --seed on", min=1)] = 1,
    jobs: Annotated[int, typer.Option(help="how many runs at a time; they share the cores", min=1)] = 1,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="where the runs lie; experiments share them")] = Path(
        "runs/paper"
    ),
    results: Annotated[Path | None, typer.Option(help="where tables and figures go [OUT/results]")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="only say what would be done and how long it would take")
    ] = False,
    paper_dataset: Annotated[
        str | None, typer.Option(help="whose numbers of the paper to show beside [the data set's own]")
    ] = None,
    severity: Annotated[int, typer.Option(help="of `corruption`, 1 to 5", min=1, max=5)] = 2,
    own_corruptions: Annotated[
        bool, typer.Option("--own-corruptions", help="make CIFAR-100's corruptions here instead of reading CIFAR-100-C")
    ] = False,
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    class_order: OrderOption = None,
    flavour: Annotated[str, typer.Option(help="which of the methods' sets of values")] = "authors",
    backbone: BackboneOption = None,
    weights: WeightsOption = None,
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    **values,
) -> None:
    """Run one of the paper's experiments: a table with the paper's numbers beside, and its figure.

    Runs that are there already are not repeated, whichever experiment made them; one that was interrupted goes on.
    """
    experiments = catalogue(severity, own_corruptions)
    if name not in experiments:
        raise InputError(f"there is no experiment {name!r}; there are: {', '.join(experiments)}")
    experiment = experiments[name]
    loop = {"tokens": out_folder / "tokens", **given(values, LoopConfig), "keep_tokens": True}
    common = Request(
        method_values=method_values(values),
        flavour=flavour,
        dataset="",
        root=root,
        dataset_options=dataset_options(option, download),
        protocol_values=given(values, Protocol),
        class_order=class_order,
        backbone=backbone_config(backbone, weights, image_size, precision, device),
        out=out_folder,
        loop=LoopConfig(**loop),
    )
    settings = [Setting(replace(common, dataset=one)) for one in dataset or experiment.datasets]
    first = common.loop.seed
    study = Study(
        partial(chosen_rows, experiment.variants, only),
        {setting.data.name: setting for setting in settings},
        range(first, first + seeds),
        out_folder,
        {setting.data.name: paper_dataset or setting.data.name for setting in settings},
    )
    for line in (f"{name}: {experiment.title}", *study.plan(jobs)):
        out.print(line, soft_wrap=True)
    if plan:
        return
    with interruptible("the same command goes on from here"), Display() as display:
        study.carry_out(jobs, display)
        made = experiment.report(study.results())
    deliver(made, results or out_folder / "results")
    put_away(common.loop.tokens, keep=values.get("keep_tokens") is not False)


def deliver(made: Report, folder: Path) -> None:
    """Write an experiment's tables and figures, and print the tables."""
    written = [path for file, table in made.tables.items() for path in table.write(folder, file)]
    for table in made.tables.values():
        out.print(table)
    written += made.draw(folder)
    out.print(f"written: {', '.join(str(path) for path in written)}", soft_wrap=True)


def put_away(tokens: Path, keep: bool) -> None:
    """Delete an experiment's tokens, or say that they are still there."""
    if not keep:
        delete_stores(tokens)
    elif tokens.exists():
        size = sum(path.stat().st_size for path in tokens.rglob("*") if path.is_file()) / 1e9
        line = f"{size:.1f} GB of tokens stay in {tokens} for other experiments; delete them when you are done"
        out.print(line, soft_wrap=True)


def chosen_rows(variants: Callable, only: list[str] | None, *arguments) -> tuple[Variant, ...]:
    """An experiment's rows, or those of them whose method or label is asked for."""
    rows = variants(*arguments)
    chosen = tuple(row for row in rows if not only or row.method in only or row.label in only)
    if not chosen:
        raise InputError(f"no row is {only[0]!r}; there are: {', '.join(row.label for row in rows)}")
    return chosen


@contextmanager
def interruptible(advice: str) -> Iterator[None]:
    """Turn Ctrl-C into one line and exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"happycat: interrupted; {advice}", file=sys.stderr)
        raise typer.Exit(130) from None


@app.command("list")
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


def _first_line(thing) -> str:
    text = inspect.getdoc(inspect.getmodule(thing) if inspect.isclass(thing) else thing)
    return (text or "").splitlines()[0]


@app.command()
@values_of(Protocol)
def stages(
    dataset: DatasetArgument,
    out_file: Annotated[Path, typer.Option("--out", "-o", help="the file to write")] = Path("split.json"),
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    class_order: OrderOption = None,
    **values,
) -> None:
    """Write the split of a data set to a file that can be published: the same images everywhere."""
    options = dataset_options(option, download)
    data = load_images(dataset, root=root, **options)
    request = Request(dataset=dataset, protocol_values=given(values, Protocol), class_order=class_order, out=out_file)
    made = the_split(request, data)
    made.write(out_file)
    out.print(plan_text(made))
    out.print(f"written to {out_file}")


@app.command()
def speed(
    backbone: Annotated[
        str, typer.Option(help="a timm ViT; its weights do not matter here")
    ] = "vit_base_patch16_224.dino",
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    seconds: Annotated[float, typer.Option(help="how long to measure each figure at least")] = 10.0,
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


for command in (practice.fit, practice.discover, practice.predict, corrections.show, corrections.name):
    app.command()(command)
for command in (corrections.merge, corrections.split, corrections.drop, corrections.undo):
    app.command()(command)
for command in (practice.export, practice.report):
    app.command()(command)
