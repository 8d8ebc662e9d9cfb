"""FGVC-Aircraft: 10,000 photographs of 100 variants of aircraft (Maji et al., 2013)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from happycat.images.datasets.archive import check_count, check_present, from_torchvision, labels, rows, unpacked
from happycat.images.pictures import FilePictures, Images, Published

# The known classes of the Semantic Shift Benchmark (Vaze et al., 2022), as published.
BASE = (
    *(0, 1, 2, 3, 4, 5, 10, 11, 14, 16, 17, 19, 21, 22, 23, 24, 27, 28, 29, 30, 33, 36, 37, 38, 39),
    *(41, 43, 44, 45, 46, 47, 48, 52, 53, 56, 57, 58, 63, 64, 65, 66, 67, 71, 73, 76, 77, 79, 92, 95, 99),
)
# The ten new classes of each stage in turn, in the order that the authors' program draws.
NOVEL = (
    *(70, 31, 26, 88, 8, 69, 85, 75, 59, 12),
    *(80, 82, 68, 81, 50, 18, 35, 93, 97, 72),
    *(40, 74, 78, 42, 89, 54, 90, 20, 34, 62),
    *(13, 49, 87, 98, 7, 32, 84, 61, 15, 60),
    *(83, 55, 51, 25, 86, 94, 9, 6, 96, 91),
)
PUBLISHED = Published(
    protocol={"base_classes": 50, "stages": 5, "labelled_share": 0.8, "new_per_class": 55, "old_per_class": 10},
    order=BASE + NOVEL,
    train=6_667,
    test=3_333,
)


def load(root: Path | str, download: bool = False) -> Images:
    """FGVC-Aircraft from `root/fgvc-aircraft-2013b`: variants sorted by name, `trainval` as train."""
    if download:
        from torchvision.datasets import FGVCAircraft  # torchvision takes seconds to import

        from_torchvision(FGVCAircraft, "FGVC-Aircraft", root, download)
    folder = unpacked(root, "fgvc-aircraft-2013b", "data/variants.txt", "the option download fetches it")
    classes = sorted(fields[0] for fields in rows(folder / "data" / "variants.txt", 1))
    check_count(str(folder / "data" / "variants.txt"), len(set(classes)), 100)
    train, train_labels = _part(folder, "trainval", classes)
    test, test_labels = _part(folder, "test", classes)
    return Images(
        name="aircraft",
        classes=tuple(classes),
        train=train,
        train_labels=train_labels,
        test=test,
        test_labels=test_labels,
        protocol=dict(PUBLISHED.protocol),
        order=PUBLISHED.order,
    )


def _part(folder: Path, part: str, classes: list[str]) -> tuple[FilePictures, np.ndarray]:
    """The pictures that a part's annotation file lists, and their labels."""
    annotations = folder / "data" / f"images_variant_{part}.txt"
    table = rows(annotations, 2)
    keys = [f"data/images/{number}.jpg" for number, _ in table]
    check_present(folder, keys)
    return FilePictures(folder, keys), labels([name for _, name in table], classes, annotations)
