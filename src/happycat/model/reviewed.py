"""The images of a discovery and the classes as they are now: which images a class is given, and those spoken of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from happycat.base.errors import InputError
from happycat.methods.calm.prediction import Decision
from happycat.model.chosen import Chosen
from happycat.model.classes import decide
from happycat.model.estimator import Happycat
from happycat.model.registry import ClassRegistry
from happycat.model.review import Review
from happycat.model.statements import as_bytes


@dataclass(frozen=True)
class ReviewedImages:
    """The images of a discovery, which was the model's `stage`, and the classes, which may be changed meanwhile."""

    registry: ClassRegistry
    review: Review
    temperature: Tensor
    slack: float  # by which the cosine of an image may be less than what is usual in its class
    stage: int

    @classmethod
    def of(cls, cat: Happycat, review: Review) -> ReviewedImages:
        """Those of a model in memory, whose registry is the one that is changed."""
        slack = float(cat.calm_.shortfall + 2 * cat.calm_.deviation)
        return cls(cat.registry_, review, cat.calm_.softmax_temperature, slack, cat.stage_)

    def __post_init__(self) -> None:
        self.review.check_fits(*self.registry.pool.vectors.shape)

    def decision(self) -> Decision:
        """The classes that the images are given, as the registry is now."""
        return decide(self.registry, self.temperature, torch.from_numpy(self.review.points), self.review.digests)

    def chosen(self, places: Sequence[int]) -> Chosen:
        """Images of the discovery, by their places."""
        number = len(self.review.keys)
        if not len(places) or len(set(places)) < len(places):
            raise InputError("give at least one image, and each once")
        if not all(0 <= place < number for place in places):
            raise InputError(f"the last discovery has {number} images, from 0 on")
        ids = [entry.id for entry in self.registry]
        points, digests = torch.from_numpy(self.review.points[list(places)]), self.review.digests[list(places)]
        assigned = decide(self.registry, self.temperature, points, digests).assigned.tolist()
        return Chosen(
            digests=as_bytes(digests),
            points=self.review.learned[list(places)],
            counted=self.review.counted[list(places)],
            given=[ids[one] if one >= 0 else None for one in assigned],
            slack=self.slack,
        )

    def members(self, which: int | str) -> list[int]:
        """The places of the images that a class is given."""
        wanted = [entry.id for entry in self.registry].index(self.registry.find(which).id)
        return np.flatnonzero(self.decision().assigned.numpy() == wanted).tolist()
