"""A run folder of a few kilobytes, written without training anything."""

from __future__ import annotations

from pathlib import Path

import torch

from happycat.benchmark.protocol import Protocol, Split
from happycat.benchmark.record import Record, prediction_rows

SPLIT = Split(
    dataset="tiny",
    protocol=Protocol(base_classes=2, stages=2),
    classes=("a", "b", "c", "d"),
    labelled={"a": ["1"], "b": ["2", "3"]},
    stages=(
        {"new": ["c"], "images": {"c": ["4"], "a": ["5"]}},
        {"new": ["d"], "images": {"d": ["6"], "c": ["7"]}},
    ),
    test={name: [str(i)] for i, name in enumerate("abcd")},
)
METADATA = {
    "happycat": "0",
    "numbers": {"method": "happy", "config": {"rate": 0.1}, "dataset": "tiny", "seed": 0, "trunk": "0123"},
    "threads": 1,
}
COUNT = {"number": 1, "low": 1, "high": 2, "numbers": [1, 2], "curve": [0.75, 0.25], "measure": "probability"}


def open_record(folder: Path, resume: bool = False) -> Record:
    return Record.open(folder, METADATA, SPLIT, resume)


def stage_parts(stage: int) -> dict:
    """What a finished stage has."""
    scores = dict.fromkeys(("all", "strict_all", "nmi", "base", "old", "new", "ece", "roc"), 50.0 + stage)
    count = None if stage == 0 else COUNT
    rows = prediction_rows(["x", "y"], torch.tensor([0, 1]).numpy(), torch.tensor([0.5, 0.25]).numpy())
    return {
        "states": {"model": {"weight": torch.full((2, 3), float(stage))}},
        "model": {"method": "happy", "config": {}, "classes": [{"id": 0, "stage": 0}], "count": count},
        "scores": {**scores, "per_class": [50.0, None], "identities": [0, 1]},
        "assigned": rows,
        "predictions": [{"class": 0, **row} for row in rows],
    }


def checkpoint(epoch: int) -> dict[str, torch.Tensor]:
    return {"epoch": torch.tensor(epoch), "net/weight": torch.full((3,), float(epoch))}


def write_record(folder: Path, until: int = 1) -> None:
    """A run that was interrupted in that stage, after two of its epochs."""
    with open_record(folder) as record:
        for stage in range(until):
            for epoch in (1, 2):
                record.epoch(stage, epoch, {"fit": 1.0 / epoch})
            record.finish_stage(stage, **stage_parts(stage))
        for epoch in (1, 2):
            record.epoch(until, epoch, {"fit": 1.0 / epoch, "size": 1e-07})
            record.save_checkpoint(until, checkpoint(epoch))
