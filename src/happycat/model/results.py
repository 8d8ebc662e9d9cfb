"""Results of fit, discover and predict: the fit's report, the discovery, and the class of each image."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from happycat.images.collecting import Skipped
from happycat.images.sources import Label

if TYPE_CHECKING:
    from torch import Tensor

    from happycat.images.pictures import Pictures
    from happycat.methods.calm.number import Count


CONFIRMED, IGNORED = "confirmed", "ignored"  # what a person can have said of an image's place


class Assignment(NamedTuple):
    """The class of an image: its id, or None where no class fits; its probability; whether that is unsure.

    `said` is empty where the model decides, or what a person said: "confirmed" or "ignored".
    """

    image: str
    id: int | None
    label: Label
    probability: float
    unsure: bool
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """The report of `fit`: what was read, and the accuracy (%) on held-out images, by class."""

    images: int
    held_out: int
    accuracy: float | None
    by_class: dict[Label, float | None]
    skipped: list[Skipped] = field(default_factory=list)
    duplicates: int = 0


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """The result of `discover`: the class of each image, which classes are new, and the estimate of their number."""

    assigned: list[Assignment]
    new: list[int]  # ids
    count: Count | None  # None: the number was given
    doubt: str  # why the estimate is rough, a sentence; empty if it is not, or if the number was given
    points: Tensor  # (N, d): the images' centre views in the discriminant space, which the assignments are made of
    learned: Tensor  # (N, d): the means over views, which prototypes are made of
    digests: np.ndarray  # (N, 16): of the images' content
    counted: np.ndarray  # (N,): the row of the pool that counts each image in, or −1
    pictures: Pictures
    skipped: list[Skipped] = field(default_factory=list)
    duplicates: int = 0

    @property
    def unsure(self) -> int:
        """How many images have an unsure class, or none."""
        return sum(row.unsure for row in self.assigned)
