"""Research runs on one page: accuracy, forgetting, confidence, and the estimated number of classes."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import numpy as np

from happycat.base.errors import InputError
from happycat.base.scores import score_run
from happycat.base.version import __version__
from happycat.benchmark.record import Record
from happycat.report.charts import Number, Run
from happycat.report.html import Page

BINS = np.linspace(0, 1, 11)


def run_page(records: Sequence[Record]) -> Page:
    """The page of one run or of several beside each other."""
    runs = tuple(_run(record) for record in records)
    best = max(runs, key=lambda run: run.scores[-1]["all"] or 0)
    last = records[0].model(len(runs[0].scores) - 1).get("count") if len(records) == 1 else None
    whole = score_run(records[0].stage_scores())
    sentence = f"{best.name} ends at {best.scores[-1]['all']:.1f}% of all test images."
    if len(records) == 1 and whole["mean_all"] is not None:
        sentence += f" On average over its stages: All {whole['mean_all']:.1f}, Old {whole['mean_old']:.1f}, New "
        sentence += f"{whole['mean_new']:.1f}; forgetting {whole['m_f']:.1f} points."
    return Page(
        title=" · ".join(run.name for run in runs),
        sentence=sentence,
        made=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        version=__version__,
        runs=runs,
        number=Number.of(last),
    )


def _run(record: Record) -> Run:
    numbers, scores = record.metadata()["numbers"], record.stage_scores()
    if not scores:
        raise InputError(f"{record.folder} has not finished a stage yet")
    last = len(scores) - 1
    old, new = _confidence(record, last, record.split().num_seen(max(0, last - 1)))
    name = f"{numbers['method']} on {numbers['dataset']}, seed {numbers['seed']}"
    return Run(name=name, scores=tuple(scores), confidence_old=old, confidence_new=new)


def _confidence(record: Record, stage: int, num_old: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The shares of ten bins of the probability that old and new classes' test images get."""
    rows = [(row["class"] < num_old, row["probability"]) for row in record.stage(stage).rows("predictions")]
    return _shares([p for old, p in rows if old]), _shares([p for old, p in rows if not old])


def _shares(probabilities: list[float]) -> tuple[float, ...]:
    if not probabilities:
        return ()
    return tuple((np.histogram(probabilities, BINS)[0] / len(probabilities)).tolist())
