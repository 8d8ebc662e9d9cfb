"""Data sets by their published sizes, without their files: enough to plan what a run will take."""

from __future__ import annotations

import numpy as np

from happycat.images.datasets import PUBLISHED
from happycat.images.pictures import Images, Pictures

PARTS = ("train", "test")


class Absent(Pictures):
    """Pictures of which only the number is known; they cannot be read."""

    source = "absent"


def outline(name: str) -> Images:
    """The data set of that name, of whose pictures only the number is known: about as many for each class."""
    known = PUBLISHED[name]
    number = len(known.order)
    labels = [np.arange(images) * number // images for images in (known.train, known.test)]
    train, test = (Absent([f"{part}/{i}" for i in range(len(ids))]) for part, ids in zip(PARTS, labels, strict=True))
    return Images(
        name=name,
        classes=tuple(str(c) for c in range(number)),
        train=train,
        train_labels=labels[0],
        test=test,
        test_labels=labels[1],
        protocol=dict(known.protocol),
        order=known.order,
    )
