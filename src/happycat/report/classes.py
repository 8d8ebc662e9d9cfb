"""Summary of a class, as it is shown on the page, in a table and in a gallery: size, confidence, separation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SEPARATION = (
    "Separation: the share of a class's images that are more like the rest of it than like any other class, less what "
    "falls apart as a second group. It is no accuracy: look first at the classes where it is low."
)
CONFIDENCE = "Confidence: the mean probability that the model gives to the class of its images."
Kind = Literal["labelled", "found", "new", "dropped"]


@dataclass(frozen=True, kw_only=True)
class ClassSummary:
    """One class: `images` of these ones, learned from `total` in all.

    What confidence and separation are is said in `CONFIDENCE` and `SEPARATION`; None where nothing can be said.
    `typical` and `doubtful` are places in the list of images. `match` is the true class that most of the images belong
    to and its share in per cent (None if unknown), or None where there is no truth.
    """

    id: int
    label: str
    name: str | None = None
    kind: Kind
    stage: int
    images: int
    total: int = 0
    confidence: float | None = None
    separation: float | None = None
    nearest: tuple[tuple[int, str, float], ...] = ()  # id, label, similarity
    typical: tuple[int, ...] = ()
    doubtful: tuple[int, ...] = ()
    match: tuple[str, float | None] | None = None
