"""Image counts: how many images of the last batch, a discovery's or those of fit, the model gives to each class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from happycat.model.schema import COUNTS, check_keys


@dataclass(frozen=True, kw_only=True)
class ImageCounts:
    """The counts of a batch's images by the ids of the living classes.

    They are exact where they were measured by predicting the batch. A correction changes the prediction of images of
    any class; until the batch is predicted again, they are estimates.
    """

    stage: int  # of the batch; 0: the labelled images
    total: int  # images in the batch, those that fit no class included
    by_id: Mapping[int, int]
    exact: bool = True

    def merged(self, into: int, others: Iterable[int]) -> ImageCounts:
        """Estimates after classes became part of another."""
        gone = set(others)
        counts = {number: images for number, images in self.by_id.items() if number not in gone}
        return self._estimates({**counts, into: sum(self.by_id[number] for number in (into, *gone))})

    def divided(self, number: int, shares: Mapping[int, float]) -> ImageCounts:
        """Estimates after a class was split; `shares` are the parts' of its images, its own included."""
        images = self.by_id[number]
        return self._estimates({**self.by_id, **{part: round(images * share) for part, share in shares.items()}})

    def without(self, number: int) -> ImageCounts:
        """Estimates after a class was dropped."""
        return self._estimates({other: images for other, images in self.by_id.items() if other != number})

    def _estimates(self, by_id: Mapping[int, int]) -> ImageCounts:
        return ImageCounts(stage=self.stage, total=self.total, by_id=by_id, exact=False)

    def packed(self) -> dict[str, Any]:
        """The counts for JSON."""
        return {"stage": self.stage, "total": self.total, "by_id": sorted(self.by_id.items()), "exact": self.exact}

    @classmethod
    def unpacked(cls, packed: dict[str, Any], living: Iterable[int]) -> ImageCounts:
        """The counts that were packed; a ValueError, KeyError or TypeError if they are not those of the classes."""
        check_keys(packed, COUNTS, None, "the counts of images")
        by_id = dict(packed["by_id"])
        if len(by_id) < len(packed["by_id"]) or set(by_id) != set(living):
            raise ValueError("counts of other classes")
        return cls(stage=packed["stage"], total=packed["total"], by_id=by_id, exact=packed["exact"])


def in_words(images: int) -> str:
    """How many images, in words."""
    return "1 image" if images == 1 else f"{images:,} images"
