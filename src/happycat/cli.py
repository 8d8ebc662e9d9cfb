"""The commands. Results go to stdout, progress to stderr; a person's mistake is one line and exit code 2."""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, get_type_hints

import torch
import typer
from rich.console import Console
from rich.table import Table

import happycat
from happycat import report
from happycat.disk import write_json
from happycat.display import Display, scores_table
from happycat.errors import HappycatError, InputError
from happycat.images import DATASETS
from happycat.images import load as load_images
from happycat.loop import LoopConfig
from happycat.methods import METHODS
from happycat.metrics import score_run
from happycat.run import Request, prepare, the_split
from happycat.speed import measure_speed, speed_table
from happycat.stages import Protocol, plan_text
from happycat.trunk import TESTED

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
out = Console(highlight=False)

# What differs from Happy's own values: a small ViT from scratch wants Adam, small batches, a higher rate.
DEMO = {
    "base_optimizer": "adamw",
    "base_rate": 1e-3,
    "base_epochs": 70,
    "weight_decay": 0.05,
    "rate": 0.03,
    "epochs": 60,
    "batch_size": 64,
    "projector_hidden": 256,
    "projector_out": 64,
}


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
        print(f"happycat {happycat.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """happycat learns the classes you have labelled, then keeps discovering new ones in unlabelled images."""


def values_of(*configs: type) -> Callable:
    """Give a command a flag for each field of the config classes; the values given arrive as `values`."""

    def wrap(command: Callable) -> Callable:
        signature = inspect.signature(command, eval_str=True)
        flags = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        for config in configs:
            hints = get_type_hints(config)
            for f in fields(config):
                text = f.metadata.get("help", "")
                if f.default not in (MISSING, None):
                    text += f" [{f.default}]"
                flags.append(
                    inspect.Parameter(
                        f.name,
                        inspect.Parameter.KEYWORD_ONLY,
                        default=None,
                        annotation=Annotated[
                            hints[f.name] | None,
                            typer.Option(help=text, show_default=False, rich_help_panel=config.__name__),
                        ],
                    )
                )
        command.__signature__ = signature.replace(parameters=flags)
        command.__annotations__ = {p.name: p.annotation for p in flags}
        return command

    return wrap


def given(values: dict, config: type) -> dict:
    """Those of the values that belong to `config` and were given."""
    return {f.name: values[f.name] for f in fields(config) if values.get(f.name) is not None}


def dataset_options(pairs: list[str] | None) -> dict[str, str]:
    """`key=value` pairs as a dict."""
    options = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign:
            raise InputError(f"--option takes key=value, got {pair!r}")
        options[key] = value
    return options


DatasetArgument = Annotated[str, typer.Argument(help="a data set's name (`happycat list`) or a folder of images")]
RootOption = Annotated[Path | None, typer.Option(help="where the data set lies [data]")]
OptionOption = Annotated[list[str] | None, typer.Option("--option", help="a data set's option, key=value")]
DownloadOption = Annotated[bool, typer.Option("--download", help="download the data set if it is not there")]
OrderOption = Annotated[
    str | None,
    typer.Option(help="a file of class names in the order they are met, or `seed` to shuffle [as published]"),
]


@app.command()
@values_of(Protocol, LoopConfig, *(config for _, config, _ in METHODS.values()))
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
    flavour: Annotated[str, typer.Option(help="which of the method's sets of values")] = "authors",
    backbone: Annotated[str | None, typer.Option(help="a timm ViT (`happycat list`)")] = None,
    weights: Annotated[Path | None, typer.Option(help="its weights: safetensors or a plain state dict [hub]")] = None,
    image_size: Annotated[int | None, typer.Option(help="pixels a side of a view [the backbone's]")] = None,
    precision: Annotated[str | None, typer.Option(help="of the trunk: bf16 or fp32 [the fastest]")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto")] = "auto",
    **values,
) -> None:
    """Run a method over all stages of a data set and score it."""
    options = dataset_options(option) | ({"download": True} if download else {})
    config = METHODS[method][1] if method in METHODS else Protocol
    run(
        Request(
            method=method,
            flavour=flavour,
            method_values=given(values, config),
            dataset=dataset,
            root=root,
            dataset_options=options,
            protocol_values=given(values, Protocol),
            class_order=class_order,
            split=split,
            backbone=backbone,
            weights=weights,
            image_size=image_size,
            precision=precision,
            device=device,
            out=out_folder or Path("runs") / f"{method}-{Path(dataset).name}",
            resume=resume,
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
    display = Display()
    try:
        loop = prepare(request, display)
        with loop.record:
            scores = loop.run()
    except KeyboardInterrupt:
        print("happycat: interrupted; the same command with --resume goes on from here", file=sys.stderr)
        raise typer.Exit(130) from None
    title = f"{request.method} on {loop.images.name}, seed {request.loop.seed}"
    out.print(scores_table(scores, title))
    whole = score_run(scores)
    write_json(request.out / "summary.json", whole)
    out.print(
        f"average over stages: All {whole['mean_all']:.1f}   Old {whole['mean_old']:.1f}   "
        f"New {whole['mean_new']:.1f}   forgetting M_f {whole['m_f']:.1f}"
    )
    picture = report.draw_run(loop.record, loop.images, title)
    out.print(f"run folder: {request.out}   picture: {picture}   {time.monotonic() - started:.0f} s")


@app.command("list")
def list_() -> None:
    """Show the methods, data sets and tested backbones."""
    for title, rows in (
        ("Methods", [(name, _first_line(cls)) for name, (cls, _, _) in METHODS.items()]),
        ("Data sets", [(name, _first_line(sys.modules[load.__module__])) for name, load in DATASETS.items()]),
        ("Tested backbones", TESTED.items()),
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
def split(
    dataset: DatasetArgument,
    out_file: Annotated[Path, typer.Option("--out", "-o", help="the file to write")] = Path("split.json"),
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    class_order: OrderOption = None,
    **values,
) -> None:
    """Write the split of a data set to a file that can be published: the same images everywhere."""
    options = dataset_options(option) | ({"download": True} if download else {})
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
    image_size: Annotated[int | None, typer.Option(help="pixels a side of a view [the backbone's]")] = None,
    precision: Annotated[str | None, typer.Option(help="of the trunk: bf16 or fp32 [the fastest]")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, mps or auto")] = "auto",
    seconds: Annotated[float, typer.Option(help="how long to measure each figure at least")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Measure training throughput: the reference step, fresh views, cached tokens."""
    figures = measure_speed(backbone, image_size, precision, device, seconds, Display(quiet=as_json))
    if as_json:
        out.print_json(data=figures)
    else:
        out.print(speed_table(figures))
