"""The images that a person speaks of: their points, and what the model makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The images that a person speaks of: their digests, points, and what the model makes of them."""

    digests: Sequence[bytes]
    points: np.ndarray  # (n, d), those that prototypes are made of
    counted: np.ndarray  # (n,) the row of the pool that their discovery counted each in, or −1
    given: Sequence[int | None]  # the ids of the classes that they are given now; None: no class fits
    slack: float  # by which the cosine of an image may be less than what is usual in its class

    def __len__(self) -> int:
        return len(self.digests)

    def some(self, places: Sequence[int]) -> Chosen:
        """Some of the images, by their places among these."""
        return Chosen(
            digests=[self.digests[i] for i in places],
            points=self.points[list(places)],
            counted=self.counted[list(places)],
            given=[self.given[i] for i in places],
            slack=self.slack,
        )
