"""How much a model knows of what classes look like: calibration of the number of new classes needs labelled ones."""

from __future__ import annotations

from typing import NamedTuple

from happycat.model.registry import ClassRegistry

CLASSES, IMAGES = 10, 5  # labelled classes, and images of each, from which the number of new classes is calibrated


class Knowledge(NamedTuple):
    """How many classes were labelled, and about how many images of each there were."""

    classes: int
    images: int

    @classmethod
    def of(cls, registry: ClassRegistry) -> Knowledge:
        """What a model was told at first; corrections of its labelled classes make no difference."""
        counts = registry.pool.labelled_counts()
        return cls(len(counts), round(float(counts.mean())))

    @property
    def doubt(self) -> str:
        """Why an estimate of the number of new classes is rough, in a sentence; empty if enough is known."""
        few = []
        if self.classes < CLASSES:
            few.append(f"{self.classes} labelled {'class' if self.classes == 1 else 'classes'}")
        if self.images < IMAGES:
            few.append(f"about {self.images} images of a class" if self.images != 1 else "one image of a class")
        known = ", ".join(few)
        return f"Little is known of what a class looks like here ({known}): the number is rough." if few else ""
