"""CIFAR-100: 60,000 colour images of 32 × 32 in 100 classes (Krizhevsky, 2009)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from happycat.images.datasets.archive import from_torchvision
from happycat.images.pictures import ArrayPictures, Images, Published

# The ten new classes of each stage in turn, as the paper's authors ran them; the base is labels 0…49.
NOVEL = (
    *(78, 61, 60, 91, 52, 77, 88, 81, 72, 54),
    *(83, 85, 76, 84, 68, 57, 64, 95, 98, 79),
    *(65, 80, 82, 66, 92, 70, 93, 58, 63, 75),
    *(55, 67, 90, 99, 51, 62, 87, 74, 56, 73),
    *(86, 71, 69, 59, 89, 96, 53, 50, 97, 94),
)
PUBLISHED = Published(
    protocol={"base_classes": 50, "stages": 5, "labelled_share": 0.8, "new_per_class": 400, "old_per_class": 25},
    order=(*range(50), *NOVEL),
    train=50_000,
    test=10_000,
)


def load(root: Path | str, download: bool = False) -> Images:
    """CIFAR-100 from `root/cifar-100-python`; a key is the picture's number in the archive."""
    from torchvision.datasets import CIFAR100  # torchvision takes seconds to import

    train = from_torchvision(CIFAR100, "CIFAR-100", root, download, train=True)
    test = from_torchvision(CIFAR100, "CIFAR-100", root, False, train=False)
    return Images(
        name="cifar100",
        classes=tuple(train.classes),
        train=ArrayPictures(train.data),
        train_labels=np.array(train.targets, dtype=np.int64),
        test=ArrayPictures(test.data),
        test_labels=np.array(test.targets, dtype=np.int64),
        protocol=dict(PUBLISHED.protocol),
        order=PUBLISHED.order,
    )
