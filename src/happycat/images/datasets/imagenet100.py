"""ImageNet-100: a hundred classes of ImageNet-1k (Deng et al., 2009)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from happycat.base.errors import InputError
from happycat.images.datasets.archive import picture_keys, rows, subfolders
from happycat.images.datasets.cifar100 import NOVEL  # the same: both have 50 new classes, drawn with the same seed
from happycat.images.pictures import FilePictures, Images, Published

# The hundred among the 1,000 sorted WordNet ids that the paper's authors took.
SUBSET = (
    *(1, 14, 27, 31, 45, 55, 77, 103, 108, 141, 142, 175, 196, 202, 230, 231, 236, 239, 247, 251),
    *(252, 261, 262, 264, 267, 270, 272, 279, 295, 298, 299, 306, 310, 311, 316, 319, 331, 366, 367, 386),
    *(389, 408, 412, 413, 432, 452, 456, 481, 485, 494, 496, 497, 501, 531, 553, 558, 568, 569, 576, 578),
    *(582, 587, 601, 614, 635, 638, 643, 644, 654, 672, 693, 698, 706, 710, 736, 738, 740, 760, 783, 784),
    *(788, 790, 796, 819, 823, 859, 862, 874, 883, 906, 909, 918, 923, 926, 957, 971, 982, 987, 993, 996),
)
PUBLISHED = Published(
    protocol={"base_classes": 50, "stages": 5, "labelled_share": 0.8, "new_per_class": 1000, "old_per_class": 60},
    order=(*range(50), *NOVEL),
    train=128_000,  # about: its classes have 732 to 1,300
    test=5_000,
)


def load(root: Path | str, classes: str | None = None) -> Images:
    """ImageNet-100 from `root/{train,val}/<wnid>/`; labels follow the sorted WordNet ids, test is `val`.

    `classes` is a text file with a hundred ids, one a line. Without it, `root/train` has either exactly those
    hundred folders, or all thousand of ImageNet-1k, of which the paper's hundred are taken.
    """
    root = Path(root).expanduser()
    for part in ("train", "val"):
        if not (root / part).is_dir():
            raise InputError(
                f"ImageNet: {root / part} is missing; unpack ILSVRC2012 as {root}/{{train,val}}/<wnid>/*.JPEG"
            )
    wnids = _listed(Path(classes)) if classes else _found(root / "train")
    train, train_labels = _part(root, "train", wnids)
    test, test_labels = _part(root, "val", wnids)
    return Images(
        name="imagenet100",
        classes=tuple(wnids),
        train=train,
        train_labels=train_labels,
        test=test,
        test_labels=test_labels,
        protocol=dict(PUBLISHED.protocol),
        order=PUBLISHED.order,
    )


def _listed(path: Path) -> list[str]:
    """The ids in a person's list, sorted."""
    if not path.is_file():
        raise InputError(f"class list {path} is missing; give a text file with 100 WordNet ids, one a line")
    wnids = sorted({fields[0].split()[0] for fields in rows(path, 1)})
    if len(wnids) != 100:
        raise InputError(f"class list {path} has {len(wnids)} different ids; give 100, one a line")
    return wnids


def _found(folder: Path) -> list[str]:
    """The ids of the class folders there, sorted: all of a hundred, or the paper's hundred of a thousand."""
    wnids = subfolders(folder)
    if len(wnids) == 1000:
        return [wnids[i] for i in SUBSET]
    if len(wnids) != 100:
        raise InputError(
            f"{folder} has {len(wnids)} class folders, neither 100 nor 1000; "
            "give classes=FILE, a text file with 100 WordNet ids, one a line"
        )
    return wnids


def _part(root: Path, part: str, wnids: list[str]) -> tuple[FilePictures, np.ndarray]:
    """The pictures of `root/part` and their labels, class by class."""
    keys, labels = [], []
    for label, wnid in enumerate(wnids):
        found = picture_keys(root, root / part / wnid)
        if not found:
            raise InputError(f"no images in {root / part / wnid}; put the class's .JPEG files there")
        keys += found
        labels += [label] * len(found)
    return FilePictures(root, keys), np.array(labels, dtype=np.int64)
