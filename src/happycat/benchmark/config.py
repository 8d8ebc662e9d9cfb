"""Run configuration, `LoopConfig`: random seed, views, token cache, number of new classes, epoch selection, logging."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from happycat.base.config import Checked, choice, setting
from happycat.methods import COUNTERS

# What does not decide the numbers of a run. `tune_tail` does, by the values of that training, which are recorded.
PACE = ("until", "tokens", "keep_tokens", "workers", "log", "checkpoint_seconds", "tune_tail")


@dataclass(frozen=True, kw_only=True)
class LoopConfig(Checked):
    """The values of a run that belong to no method."""

    seed: int = setting(0, "random seed of training", 0)
    views: int = setting(4, "random views (crops) stored of each image; two are drawn each epoch", 2)
    view_seed: int = setting(0, "random seed of the views' crops", 0)
    fresh_views: bool = setting(False, "new random crops through the trunk each epoch, instead of stored tokens")
    cache_gb: float = setting(
        20.0, "gigabytes of tokens a stage may store at most; fewer views are stored if need be", 0
    )
    until: int | None = setting(None, "the stage to stop after; the run can be resumed from there [the last]", 0)
    num_new: str = choice("known", COUNTERS, "number of new classes of a stage, known beforehand or estimated")
    most_new: int | None = setting(None, "the most new classes that an estimate may give", 2)
    select: str = choice(
        "last", ("last", "oracle"), "which epoch is a stage's result; oracle takes the best on the test set"
    )
    tune_tail: bool = setting(
        False, "tune the tail (last block) on the labelled images before a method that tunes nothing"
    )
    tokens: Path | None = setting(None, "where tokens and features are stored [in the run folder]")
    keep_tokens: bool = setting(False, "do not delete a stage's tokens and features when it ends")
    workers: int | None = setting(
        None, "worker processes that read and crop images [half as many as cores, at most 8]", 0
    )
    log: tuple[str, ...] = setting((), "loggers besides the CSV files: tensorboard or wandb")
    checkpoint_seconds: float = setting(30.0, "seconds between two checkpoints of the stage under way", 0)

    def numbers(self) -> dict[str, Any]:
        """The values that decide the numbers of a run; the others only decide how fast it is."""
        return {k: v for k, v in asdict(self).items() if k not in PACE}
