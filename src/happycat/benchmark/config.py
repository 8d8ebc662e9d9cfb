"""Run configuration, `LoopConfig`: random seed, views, token cache, number of new classes, epoch selection, logging."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from happycat.backbone.views import DEFAULT_WORKERS
from happycat.base.config import Checked, choice, setting
from happycat.methods.counting import COUNTERS

# What does not decide the numbers of a run. `tune_tail` does, by the values of that training, which are recorded.
PACE = ("until", "tokens", "keep_tokens", "workers", "log", "checkpoint_seconds", "tune_tail")


@dataclass(frozen=True, kw_only=True)
class LoopConfig(Checked):
    """How a run goes about it. None of this belongs to a method."""

    seed: int = setting(0, "of everything random in training", 0)
    views: int = setting(4, "random views stored of each image; two are drawn each epoch", 2)
    view_seed: int = setting(0, "of the views' crops", 0)
    fresh_views: bool = setting(False, "new crops each epoch, through the trunk, instead of stored tokens")
    cache_gb: float = setting(20.0, "most gigabytes of tokens a stage may store; fewer views are stored if need be", 0)
    until: int | None = setting(None, "the stage to stop after; a resumed run goes on from there [the last]", 0)
    num_new: str = choice("known", COUNTERS, "how many new classes a stage has: known beforehand, or estimated")
    most_new: int | None = setting(None, "the most new classes that an estimate may give", 2)
    select: str = choice("last", ("last", "oracle"), "the epoch that is a stage's result; oracle looks at the test set")
    tune_tail: bool = setting(False, "tune the tail on the labelled images before a method that tunes nothing")
    tokens: Path | None = setting(None, "where tokens and features are stored [in the run folder]")
    keep_tokens: bool = setting(False, "do not delete a stage's tokens and features when it ends")
    workers: int = setting(DEFAULT_WORKERS, "processes that read and crop images", 0)
    log: tuple[str, ...] = setting((), "follow the run in tensorboard or wandb, besides the CSV files")
    checkpoint_seconds: float = setting(30.0, "how often the stage under way is put on disk", 0)

    def numbers(self) -> dict[str, Any]:
        """The values that decide the numbers of a run; the others only decide how fast it is."""
        return {k: v for k, v in asdict(self).items() if k not in PACE}
