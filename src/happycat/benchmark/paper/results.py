"""Results of an experiment: the scores of its runs over seeds, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from happycat.base.scores import score_run
from happycat.benchmark.paper.experiments import Variant
from happycat.benchmark.paper.numbers import mean_over_stages, published
from happycat.benchmark.protocol import Split
from happycat.benchmark.record import Record
from happycat.report.tables import Cell

if TYPE_CHECKING:
    from happycat.benchmark.paper.jobs import Job

EVALUATIONS = {
    "inductive": "test images go to the nearest centre of k-means on the stage's own images",
    "transductive": "k-means runs on the test images themselves",
}
Scores = list[dict]  # of the stages of one run, Stage-0 first


@dataclass(frozen=True, kw_only=True)
class Results:
    """The finished runs of an experiment. `runs[dataset]` has, for each variant, a job for each seed."""

    runs: dict[str, list[tuple[Variant, list[Job]]]]
    paper_names: dict[str, str]  # the name that the paper knows a data set by

    @property
    def datasets(self) -> list[str]:
        return list(self.runs)

    @property
    def num_stages(self) -> int:
        return max(len(job.split.stages) for rows in self.runs.values() for _, jobs in rows for job in jobs)

    def variants(self, dataset: str) -> list[Variant]:
        return [variant for variant, _ in self.runs[dataset]]

    def records(self, dataset: str, variant: Variant) -> list[Record]:
        """The records of a variant's runs, a seed each."""
        return [Record(job.request.out) for job in self.jobs(dataset, variant)]

    def jobs(self, dataset: str, variant: Variant) -> list[Job]:
        return next(jobs for other, jobs in self.runs[dataset] if other is variant)

    def split(self, dataset: str) -> Split:
        """The split of the first variant's runs."""
        return self.runs[dataset][0][1][0].split

    def cell(
        self, dataset: str, variant: Variant, figure: Callable[[Scores], float | None], paper: float | None = None
    ) -> Cell:
        """Mean and standard deviation over seeds of a figure that a run's stage scores give."""
        return over_seeds([figure(r.stage_scores()) for r in self.records(dataset, variant)], paper)

    def evaluation_notes(self) -> tuple[str, ...]:
        """How the methods with k-means were tested, for a note below a table; none without such a method."""
        ways: dict[str, set[str]] = {}
        for rows in self.runs.values():
            for variant, (job, *_) in rows:
                if (evaluation := getattr(job.config, "evaluation", None)) is not None:
                    ways.setdefault(evaluation, set()).add(variant.method)
        return tuple(f"{', '.join(sorted(names))}: {EVALUATIONS[way]} ({way})" for way, names in ways.items())

    def published(self, table: str, metric: str, dataset: str, **where: object) -> float | None:
        return published(table, metric, dataset=self.paper_names[dataset], **where)

    def published_mean(self, table: str, metric: str, dataset: str, **where: object) -> float | None:
        return mean_over_stages(table, metric, dataset=self.paper_names[dataset], **where)


def over_seeds(values: Sequence[float | None], paper: float | None = None) -> Cell:
    """Mean and sample standard deviation of one value a seed."""
    known = [value for value in values if value is not None]
    if not known:
        return Cell(None, None, paper)
    return Cell(float(np.mean(known)), float(np.std(known, ddof=1)) if len(known) > 1 else None, paper)


def at(stage: int, metric: str) -> Callable[[Scores], float | None]:
    """A metric after a stage."""
    return lambda scores: scores[stage][metric]


def mean_of(metric: str) -> Callable[[Scores], float | None]:
    """A run's own figure, such as `mean_all` (over stages 1…T), `m_f`, `m_d`."""
    return lambda scores: score_run(scores)[metric]
