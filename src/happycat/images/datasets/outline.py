"""Data sets by their published sizes, without their files: enough to plan what a run will take."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from happycat.images.datasets import cifar100, tiny_imagenet
from happycat.images.pictures import Images, Pictures


class Outline(NamedTuple):
    """How many images each class has to train and to test with, the protocol, and the published class order."""

    train: int
    test: int
    protocol: dict
    order: tuple[int, ...]


OUTLINES = {
    "cifar100": Outline(500, 100, cifar100.PROTOCOL, cifar100.ORDER),
    "tiny_imagenet": Outline(500, 50, tiny_imagenet.PROTOCOL, tiny_imagenet.ORDER),
}


class Absent(Pictures):
    """Pictures of which only the number is known; they cannot be read."""

    source = "absent"


def outline(name: str) -> Images:
    """The data set of that name, of whose pictures only the number is known."""
    known = OUTLINES[name]
    number = len(known.order)
    labels = [np.repeat(np.arange(number), each) for each in (known.train, known.test)]
    train, test = (Absent([str(i) for i in range(len(ids))]) for ids in labels)
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
