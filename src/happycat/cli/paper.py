"""The command `paper`: one of the paper's experiments, its tables and its figure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from happycat.base.errors import InputError
from happycat.benchmark.config import LoopConfig
from happycat.benchmark.paper.experiments import EXPERIMENTS, OWN_EXPERIMENTS, Variant
from happycat.benchmark.protocol import Protocol
from happycat.cli.display import display_of, print_line
from happycat.cli.display import results as out
from happycat.cli.flags import DATA, PROTOCOL, RUN, values_of
from happycat.cli.interruption import interruptible
from happycat.cli.processes import together
from happycat.cli.requests import processes_of, request_values

AGAIN = "the same command goes on from here"

if TYPE_CHECKING:  # what needs torch is imported where it is used: a command's help need not wait for it
    from happycat.benchmark.paper.reports import Report
    from happycat.benchmark.paper.study import Study


@values_of({PROTOCOL: Protocol, RUN: LoopConfig}, shared=request_values, methods=True)
def paper(
    name: Annotated[
        str,
        typer.Argument(
            help=f"the experiment: {', '.join(EXPERIMENTS)} (see `happycat list`); or "
            f"{' or '.join(OWN_EXPERIMENTS)}, which have arguments and flags of their own (see `happycat paper "
            "calm-check --help`)"
        ),
    ],
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            help="a data set's name or a folder of images; repeat for more [the paper's]", rich_help_panel=DATA
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="only the rows of this method or label; repeat for more")
    ] = None,
    seeds: Annotated[int, typer.Option(help="number of random seeds, from --seed on", min=1)] = 1,
    jobs: Annotated[int, typer.Option(help="runs at a time; they share the cores", min=1)] = 1,
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="where the runs lie; experiments share them")] = Path(
        "runs/paper"
    ),
    results: Annotated[Path | None, typer.Option(help="where tables and figures go [OUT/results]")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="only say what would be done and how long it would take")
    ] = False,
    paper_dataset: Annotated[
        str | None, typer.Option(help="the paper's data set whose numbers are shown beside ours [the same]")
    ] = None,
    severity: Annotated[int, typer.Option(help="severity of the experiment `corruption`, 1 to 5", min=1, max=5)] = 2,
    own_corruptions: Annotated[
        bool, typer.Option("--own-corruptions", help="make CIFAR-100's corruptions here instead of reading CIFAR-100-C")
    ] = False,
    **values: Any,
) -> None:
    """Run one of the paper's experiments: a table with the paper's numbers beside, and its figure.

    Runs that are there already are not repeated, whichever experiment made them; one that was interrupted goes on.
    """
    if name in OWN_EXPERIMENTS:
        raise InputError(f"{name} comes first, its flags after it: happycat paper {name} …")
    if name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r}; there are: {', '.join([*EXPERIMENTS, *OWN_EXPERIMENTS])}")
    from happycat.benchmark.paper.catalogue import report_of

    tokens = values.get("tokens") or out_folder / "tokens"
    with interruptible(AGAIN), together(processes_of(values), values["device"], AGAIN) as (ranks, device):
        values = {**values, "tokens": tokens, "device": device}
        study = make_study(name, dataset, only, seeds, out_folder, paper_dataset, values, plan)
        for line in (f"{name}: {EXPERIMENTS[name].title}", *study.plan(jobs, EXPERIMENTS[name].again)):
            print_line(line)
        if plan:
            return
        with display_of(ranks.first) as display:
            study.carry_out(jobs, display, ranks)
            if not ranks.first:
                return
            made = report_of(name, severity, own_corruptions)(study.results())
        deliver(made, results or out_folder / "results")
        put_away(tokens, keep=values.get("keep_tokens") is not False)


def make_study(
    name: str,
    datasets: list[str] | None,
    only: list[str] | None,
    seeds: int,
    folder: Path,
    paper_dataset: str | None,
    values: dict[str, Any],
    planned: bool = False,
) -> Study:
    """The runs of an experiment that the flags ask for; they share what is stored, which is kept until the end.

    If they are only `planned`, a data set need not be there.
    """
    from happycat.benchmark.paper.jobs import Setting
    from happycat.benchmark.paper.study import Study
    from happycat.benchmark.setup import Request

    experiment = EXPERIMENTS[name]
    asked = request_values(**{**values, "keep_tokens": True, "held_out": experiment.held_out or values["held_out"]})
    settings = [Setting(Request(dataset=one, out=folder, **asked), planned) for one in datasets or experiment.datasets]
    first = asked["loop"].seed
    return Study(
        partial(chosen_rows, experiment.variants, only),
        {setting.data.name: setting for setting in settings},
        range(first, first + seeds),
        folder,
        {setting.data.name: paper_dataset or setting.data.name for setting in settings},
    )


def deliver(made: Report, folder: Path) -> None:
    """Write an experiment's tables and figures, and print the tables."""
    written = [path for file, table in made.tables.items() for path in table.write(folder, file)]
    for table in made.tables.values():
        out.print(table)
    written += made.draw(folder)
    print_line(f"written: {', '.join(str(path) for path in written)}")


def put_away(tokens: Path, keep: bool) -> None:
    """Delete an experiment's tokens, or say that they are still there."""
    if not keep:
        from happycat.backbone.housekeeping import delete_stores

        delete_stores(tokens)
    elif tokens.exists():
        size = sum(path.stat().st_size for path in tokens.rglob("*") if path.is_file()) / 1e9
        print_line(f"{size:.1f} GB of tokens stay in {tokens} for other experiments; delete them when you are done")


def chosen_rows(
    variants: Callable[..., tuple[Variant, ...]], only: list[str] | None, *arguments: Any
) -> tuple[Variant, ...]:
    """An experiment's rows, or those of them whose method or label is asked for."""
    rows = variants(*arguments)
    if not only:
        return rows
    chosen = tuple(row for row in rows if row.method in only or row.label in only)
    if not chosen:
        raise InputError(f"no row is {only[0]!r}; there are: {', '.join(row.label for row in rows)}")
    return chosen
