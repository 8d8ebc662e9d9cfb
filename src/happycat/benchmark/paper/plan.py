"""The plan of an experiment: views to extract, views to train on, hours and disk, from rates measured here and now."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from happycat.base.progress import duration
from happycat.benchmark.paper.jobs import Job, Setting
from happycat.benchmark.speed import extraction_rates, training_rate
from happycat.methods import METHODS


def plan_lines(
    jobs: list[Job], settings: Iterable[Setting], folder: Path, num_jobs: int, again: int = 0
) -> Iterator[str]:
    """What will be done and how long that will take, in a few lines; `again`, test images are read once more."""
    left = [job for job in jobs if job.done() < job.num_stages]
    yield f"{len(jobs)} runs, {len(left)} of them to be done, in {folder}"
    seconds = 0.0
    for setting in settings:
        mine = [job for job in left if job.setting is setting]
        for line, took in (*_extraction(setting, mine, again), *_training(setting, mine)) if mine else ():
            seconds += took
            yield f"{setting.data.name}: {line}"
    if left:
        shared = f", {num_jobs} runs at a time" if num_jobs > 1 else ""
        untrained = len([job for job in left if not job.training_views()])
        beside = f", and some minutes for each run that trains nothing ({untrained})" if untrained else ""
        yield f"about {duration(seconds)} on this machine{shared}{beside}"


def _extraction(setting: Setting, jobs: list[Job], again: int) -> Iterator[tuple[str, float]]:
    """Lines on the views that go through the trunk, each with the seconds that it adds."""
    if setting.scratch:
        return
    needed = [job.extraction() for job in longest(jobs)]
    each: dict[tuple[str, int], int] = {}  # what one run stores of a picture, others copy
    for one in needed:
        each |= {key: max(views, each.get(key, 0)) for key, views in one.views.items()}
    views, size = sum(each.values()) + again * len(setting.data.test), sum(one.total_bytes for one in needed)
    if views:
        rates = extraction_rates(jobs[0].parts.trunk)
        used, *others = [f"at {rate:.2f} a second in {name}: {duration(views / rate)}" for name, rate in rates.items()]
        yield f"{views:,} views to extract {'; '.join([used, *others])}", views / next(iter(rates.values()))
    for note in setting.notes:
        yield note, 0.0
    root = next(place for place in (jobs[0].tokens, *jobs[0].tokens.resolve().parents) if place.is_dir())
    free = shutil.disk_usage(root).free
    yield f"{size / 1e9:.1f} GB of tokens and features on disk, where {free / 1e9:.1f} GB are free", 0.0


def _training(setting: Setting, jobs: list[Job]) -> Iterator[tuple[str, float]]:
    """A line for each family of methods that is trained, with the seconds that it takes."""
    families: dict[str, list[Job]] = {}
    for job in jobs:
        if job.training_views():
            families.setdefault(METHODS[job.request.method][0].family, []).append(job)
    if not families:
        return
    rate = training_rate(*jobs[0].parts)  # of a step of Happy; the others' are much the same
    for family, its in families.items():
        views = sum(job.training_views() for job in its)
        names = ", ".join(dict.fromkeys(job.name for job in its))
        seconds = views / rate
        yield f"{views:,} views to train on at {rate:.0f} a second, {family} ({names}): {duration(seconds)}", seconds


def longest(jobs: list[Job]) -> list[Job]:
    """The longest job for each split that stores tokens; for a split without, that of each method with features only.

    The others take what those store, features of tokens included.
    """
    found: dict[tuple[str, str], Job] = {}
    for job in sorted(jobs, key=lambda job: job.features_only):
        split = json.dumps(job.request.protocol_values, sort_keys=True)
        tokens = found.get((split, ""))
        if job.features_only and tokens and tokens.num_stages >= job.num_stages:
            continue
        key = split, job.request.method if job.features_only else ""
        if key not in found or job.num_stages > found[key].num_stages:
            found[key] = job
    return list(found.values())
