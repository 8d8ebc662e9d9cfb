"""Held-out classes: the labelled images alone as a data set, to choose a method's values without test images.

Some of the labelled classes lose their labels and are met as new ones, stage after stage; a part of every labelled
class's images takes the place of the test images. Whatever is chosen here has not seen an image of a new class, nor a
test image.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from happycat.base.errors import InputError
from happycat.benchmark.protocol import Split, make_split
from happycat.images.pictures import Images, Subset

TEST_SHARE = 0.2  # of a class's labelled images
FEWEST = 4  # labelled classes: two that stay labelled, and two to meet


def with_held_out(images: Images) -> Images:
    """The data set for runs on held-out classes: what is tested on are images of the training set, too."""
    return replace(images, name=f"{images.name}-held-out", test=images.train, test_labels=images.train_labels)


def held_out_split(images: Images, split: Split) -> Split:
    """A split of the labelled images of another, by its protocol: as large a share of their classes is labelled.

    Images are those of `with_held_out`. The classes that stay labelled are the first ones in the split's order; how
    many images of the others are served follows from how many there are.
    """
    base = split.protocol.base_classes
    if base < FEWEST:
        raise InputError(f"{base} labelled classes are too few to hold some out; it takes {FEWEST}")
    tested = {name: max(1, round(TEST_SHARE * len(keys))) for name, keys in split.labelled.items()}
    test = {name: keys[: tested[name]] for name, keys in split.labelled.items()}
    train = {name: keys[tested[name] :] for name, keys in split.labelled.items()}
    protocol = replace(
        split.protocol,
        base_classes=max(2, round(base * base / len(split.classes))),
        new_per_class=None,
        old_per_class=None,
        order_seed=None,
    )
    alone = replace(
        images,
        classes=tuple(split.labelled),
        train=Subset(images.train, [key for keys in train.values() for key in keys]),
        train_labels=_labels(train),
        test=Subset(images.train, [key for keys in test.values() for key in keys]),
        test_labels=_labels(test),
    )
    return make_split(alone, protocol, split.classes[:base])


def _labels(by_class: dict[str, list[str]]) -> np.ndarray:
    return np.repeat(np.arange(len(by_class)), [len(keys) for keys in by_class.values()])
