"""Hold-out validation: the accuracy on some labelled images, measured before the model learns from them, too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from happycat.images.collecting import Gathered
from happycat.images.sources import Label
from happycat.learning.batches import Labelled
from happycat.methods.calm.method import Calm
from happycat.model.results import FitReport

HELD_OUT = 0.2  # of a class's images


def held_out(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Which images are held out, (N,) bool: a share of each class, but none of a class with fewer than five."""
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for c in labels.unique():
        members = (labels == c).nonzero()[:, 0]
        number = round(HELD_OUT * len(members)) if len(members) >= 5 else 0
        chosen[members[torch.randperm(len(members), generator=generator)[:number]]] = True
    return chosen


def validate(calm: Calm, held: Labelled, gathered: Gathered, names: Sequence[Label]) -> FitReport:
    """The accuracy of Calm's predictions for images that it has not learned from."""
    labels = held.labels
    predicted = calm.classify(held)[0] if len(labels) else labels
    right = (predicted == labels).double() * 100
    accuracy = [right[labels == c].mean().item() for c in range(len(names))]
    return FitReport(
        images=len(gathered.pictures),
        held_out=len(labels),
        accuracy=right.mean().item() if len(labels) else None,
        by_class={name: None if np.isnan(a) else a for name, a in zip(names, accuracy, strict=True)},
        skipped=gathered.skipped,
        duplicates=len(gathered.duplicates),
    )
