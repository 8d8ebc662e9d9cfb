"""Running an experiment: which runs it has, which are done, how long the rest will take."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch

from happycat.base.errors import InputError
from happycat.base.progress import SILENT, Progress
from happycat.base.ranks import ALONE, Ranks
from happycat.benchmark.paper.experiments import Variant
from happycat.benchmark.paper.jobs import Job, Setting, with_protocol
from happycat.benchmark.paper.plan import plan_lines
from happycat.benchmark.paper.results import Results
from happycat.benchmark.protocol import Split
from happycat.benchmark.setup import Request, prepare, pretraining_config
from happycat.methods import METHODS
from happycat.methods.parametric import ParametricConfig

NAMED = ("epochs", "evaluation")  # in a run's name wherever they come from: runs with others lie beside it
STAGES_ONLY = ("epochs", "rate")  # what Stage-0 does not depend on
FIRST = {"parametric": "happy", "contrastive": "vanilla_gcd"}  # the method that trains Stage-0 for its family


class Study:
    """One experiment over data sets and seeds, in one folder that other experiments may share.

    The method's values in a setting's request apply to every method that has them.
    """

    def __init__(
        self,
        variants: Callable[[Split, object], tuple[Variant, ...]],
        settings: dict[str, Setting],
        seeds: range,
        folder: Path,
        paper_names: dict[str, str],
    ):
        self.settings, self.folder, self.paper_names = settings, folder, paper_names
        self.stage0: dict[Path, Job] = {}
        self.runs: dict[str, list[tuple[Variant, list[Job]]]] = {}
        for name, setting in settings.items():
            usual = setting.config("happy", self._fitting(setting, "happy", {}))
            rows = variants(setting.split(setting.request.protocol_values), usual)
            self.runs[name] = [(row, [self._job(name, setting, row, seed) for seed in seeds]) for row in rows]

    def _job(self, name: str, setting: Setting, variant: Variant, seed: int) -> Job:
        request = setting.request
        common = self._fitting(setting, variant.method, variant.loop)
        own = {f.name for f in fields(METHODS[variant.method][1])}
        usual = setting.config(variant.method, {k: v for k, v in common.items() if k in own})
        values = {k: v for k, v in variant.values.items() if getattr(usual, k) != v}
        protocol = {k: v for k, v in variant.protocol.items() if request.protocol_values.get(k) != v}
        named = self._named(setting, variant.method, common)
        slug = "-".join([variant.method, *_changes(named | values | variant.loop | protocol)])
        start = self._stage0(name, setting, variant.method, seed, protocol)
        if start:
            common = {k: v for k, v in common.items() if not k.startswith("base_")}
        return Job(
            title=f"{name}, {slug}, seed {seed}",
            setting=setting,
            request=replace(
                with_protocol(request, request.protocol_values | protocol),
                method=variant.method,
                method_values=common | values,
                loop=replace(request.loop, seed=seed, **variant.loop),
                start=start,
                out=self.folder / name / f"{slug}-seed{seed}",
            ),
        )

    def _fitting(self, setting: Setting, method: str, loop: dict[str, Any]) -> dict[str, Any]:
        """Those of the values in the setting's request that the method has, or the training of its backbone."""
        request = replace(setting.request, method=method, loop=replace(setting.request.loop, **loop))
        pretraining = pretraining_config(request, setting.scratch)
        owners = [METHODS[method][1], *([ParametricConfig] if pretraining else [])]
        known = {f.name for owner in owners for f in fields(owner)}
        return {name: value for name, value in request.method_values.items() if name in known}

    def _stage0(self, name: str, setting: Setting, method: str, seed: int, protocol: dict[str, Any]) -> Path | None:
        """The folder of the Stage-0 that the method starts from, and a job that fills it.

        It is the same for any number of stages and epochs of a stage, and another for other labelled classes.
        """
        first = FIRST.get(METHODS[method][0].family)
        if first is None:
            return None
        own = {k: v for k, v in protocol.items() if k != "stages"}
        values = {k: v for k, v in self._fitting(setting, first, {}).items() if k not in STAGES_ONLY}
        slug = "-".join(["stage0", first, *_changes(self._named(setting, first, values) | own)])
        request, out = setting.request, self.folder / name / f"{slug}-seed{seed}"
        self.stage0.setdefault(
            out,
            Job(
                title=f"{name}, {slug}, seed {seed}",
                setting=setting,
                request=replace(
                    with_protocol(request, request.protocol_values | own),
                    method=first,
                    method_values=values,
                    loop=replace(request.loop, seed=seed, until=0),
                    out=out,
                ),
            ),
        )
        return out

    def _named(self, setting: Setting, method: str, values: dict[str, Any]) -> dict[str, Any]:
        """Those of the values that were given, and are not the method's usual ones, which its run's name has."""
        usual = vars(setting.config(method, {}))
        given = {name: values[name] for name in NAMED if name in values and name in usual}
        return {name: value for name, value in given.items() if value != usual[name]}

    def jobs(self) -> Iterator[Job]:
        """All of them, each once: Stage-0 first, methods with features only last, which can make those of tokens."""
        yield from self.stage0.values()
        once = {job.request.out: job for rows in self.runs.values() for _, jobs in rows for job in jobs}
        yield from sorted(once.values(), key=lambda job: job.features_only)

    def plan(self, num_jobs: int, again: int = 0) -> list[str]:
        """What will be done and how long that will take, in a few lines; `again` as an experiment has it."""
        return list(plan_lines(list(self.jobs()), self.settings.values(), self.folder, num_jobs, again))

    def carry_out(self, num_jobs: int, progress: Progress, ranks: Ranks = ALONE) -> None:
        """Run what is left, Stage-0 first; what an interrupted study did is not done again."""
        if num_jobs > 1 and ranks.size > 1:
            raise InputError("several processes share one run; run one at a time (jobs = 1)")
        everything = list(self.jobs())
        for wave in (everything[: len(self.stage0)], everything[len(self.stage0) :]):
            left = [job for job in wave if not job.finished()]
            progress.message(f"{len(wave) - len(left)} of {len(wave)} runs are there already")
            ranks.wait()  # until everybody knows what is there
            for number, title in enumerate(_run_all(left, num_jobs, progress, ranks), 1):
                progress.message(f"{number} of {len(left)}: {title} is done")

    def results(self) -> Results:
        return Results(runs=self.runs, paper_names=self.paper_names)


def _run_all(jobs: list[Job], num_jobs: int, progress: Progress, ranks: Ranks) -> Iterator[str]:
    """Run them, so many at a time; yields each one's title when it is over."""
    if num_jobs == 1:
        for job in jobs:
            progress.message(job.title)
            run_one(job.request, progress, ranks)
            yield job.title
        return
    threads = max(1, (os.cpu_count() or 1) // num_jobs)
    with ProcessPoolExecutor(num_jobs, multiprocessing.get_context("spawn")) as pool:
        pending = {pool.submit(_run_quietly, job.request, threads): job.title for job in jobs}
        try:
            for future in as_completed(pending):
                future.result()
                yield pending[future]
        except KeyboardInterrupt:  # SIGTERM is sent to this process alone
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _run_quietly(request: Request, threads: int) -> None:
    torch.set_num_threads(threads)
    run_one(request, SILENT)


def run_one(request: Request, progress: Progress, ranks: Ranks = ALONE) -> None:
    loop = prepare(replace(request, resume=True), progress, ranks)
    with loop.record:
        loop.run()


def _changes(values: dict[str, Any]) -> list[str]:
    """Changed values as parts of a folder's name."""
    return [f"{name}={_short(value)}" for name, value in values.items()]


def _short(value: object) -> str:
    return "given" if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value).lower()
