"""Running a method and printing its scores; lists of what can be run."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from happycat.backbone.weights import TESTED
from happycat.base.disk import write_json
from happycat.base.errors import InputError
from happycat.base.scores import score_run
from happycat.benchmark import drawings as report
from happycat.benchmark.config import LoopConfig
from happycat.benchmark.loop import Loop
from happycat.benchmark.paper.experiments import EXPERIMENTS, OWN_EXPERIMENTS
from happycat.benchmark.setup import Request, prepare
from happycat.cli.display import display_of, print_line, scores_table
from happycat.cli.display import results as out
from happycat.cli.interruption import interruptible
from happycat.cli.processes import Processes, together
from happycat.images.datasets import DATASETS
from happycat.methods import METHODS
from happycat.methods.calm.method import Calm
from happycat.methods.pretraining import SMALL_VIT
from happycat.model.from_method import check_new_model, write_model

# What differs from Happy's own values
DEMO = {**SMALL_VIT, "rate": 0.03, "epochs": 60}


def run_demo(folder: Path, seed: int, resume: bool) -> None:
    """Run Happy on handwritten digits with a small ViT from scratch."""
    loop = LoopConfig(seed=seed, checkpoint_seconds=2)
    run(Request(dataset="digits", method_values=DEMO, out=folder, resume=resume, loop=loop))


RESUME = "the same command with --resume goes on from here"


def run(request: Request, save: Path | None = None, processes: Processes = Processes()) -> None:  # noqa: B008
    """Run it, print the table, draw the pictures; if asked to, save what was learned as a model file."""
    started = time.monotonic()
    if save is not None:
        check_method(request.method)
        check_new_model(save)
    with interruptible(RESUME), together(processes, request.backbone.device, RESUME) as (ranks, device):
        request = replace(request, backbone=replace(request.backbone, device=device))
        with display_of(ranks.first) as display:
            loop = prepare(request, display, ranks)
            with loop.record:
                if save is not None:
                    check_new_model(save, loop.split.classes[: loop.split.num_seen(0)])
                scores = loop.run()
                if save is not None and ranks.first:
                    save_model(loop, request, save)
        if not ranks.first:
            return
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


def lists() -> Iterator[Table]:
    """The methods, data sets, tested backbones and experiments, a table each."""
    for title, rows in (
        ("Methods", [(name, _first_line(cls)) for name, (cls, _) in METHODS.items()]),
        ("Data sets", [(name, _first_line(sys.modules[load.__module__])) for name, load in DATASETS.items()]),
        ("Tested backbones", TESTED.items()),
        (
            "The paper's experiments",
            [*((name, experiment.title) for name, experiment in EXPERIMENTS.items()), *OWN_EXPERIMENTS.items()],
        ),
    ):
        table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
        for row in rows:
            table.add_row(*row)
        yield table


def _first_line(thing: object) -> str:
    text = inspect.getdoc(inspect.getmodule(thing) if inspect.isclass(thing) else thing)
    return (text or "").splitlines()[0]
