"""Tiny-ImageNet: 110,000 colour images of 64 × 64 in 200 classes (Stanford CS231n)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from happycat.base.errors import InputError
from happycat.images.datasets.archive import check_count, check_present, distinct, labels, picture_keys, rows, unpacked
from happycat.images.pictures import FilePictures, Images, Published

# The twenty new classes of each stage in turn, as the paper's authors ran them; the base is labels 0…99.
NOVEL = (
    *(126, 186, 102, 155, 175, 193, 116, 173, 154, 195, 153, 192, 178, 113, 107, 130, 122, 124, 133, 108),
    *(143, 162, 103, 171, 145, 148, 106, 199, 182, 176, 160, 180, 190, 168, 151, 127, 118, 156, 163, 174),
    *(101, 161, 142, 141, 104, 115, 117, 140, 138, 105, 191, 159, 100, 134, 128, 150, 111, 135, 123, 152),
    *(110, 131, 166, 157, 179, 185, 132, 184, 114, 189, 119, 129, 149, 197, 198, 169, 120, 194, 172, 177),
    *(125, 137, 181, 146, 139, 165, 158, 112, 188, 170, 187, 136, 121, 183, 109, 196, 167, 164, 147, 144),
)
PUBLISHED = Published(
    protocol={"base_classes": 100, "stages": 5, "labelled_share": 0.8, "new_per_class": 400, "old_per_class": 25},
    order=(*range(100), *NOVEL),
    train=100_000,
    test=10_000,
)


def load(root: Path | str) -> Images:
    """Tiny-ImageNet from `root/tiny-imagenet-200`; labels follow the sorted WordNet ids, test is `val`."""
    advice = f"get tiny-imagenet-200.zip from the Stanford CS231n course and unpack it in {root}"
    folder = unpacked(root, "tiny-imagenet-200", "wnids.txt", advice)
    wnids = sorted(fields[0] for fields in rows(folder / "wnids.txt", 1))
    check_count(str(folder / "wnids.txt"), len(set(wnids)), 200)
    meanings = dict(rows(folder / "words.txt", 2))
    names = [meanings.get(wnid, wnid).split(",")[0].strip() for wnid in wnids]

    train, train_labels = [], []
    for label, wnid in enumerate(wnids):
        keys = picture_keys(folder, folder / "train" / wnid / "images")
        if not keys:
            raise InputError(f"{folder / 'train' / wnid / 'images'} has no images; {advice} again")
        train += keys
        train_labels += [label] * len(keys)

    annotations = folder / "val" / "val_annotations.txt"
    table = sorted(fields[:2] for fields in rows(annotations, 3))  # file, id, box
    test = [f"val/images/{name}" for name, _ in table]
    check_present(folder, test)
    return Images(
        name="tiny_imagenet",
        classes=distinct(names, wnids),
        train=FilePictures(folder, train),
        train_labels=np.array(train_labels, dtype=np.int64),
        test=FilePictures(folder, test),
        test_labels=labels([wnid for _, wnid in table], wnids, annotations),
        protocol=dict(PUBLISHED.protocol),
        order=PUBLISHED.order,
    )
