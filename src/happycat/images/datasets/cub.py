"""CUB-200-2011: 11,788 photographs of 200 bird species (Wah et al., 2011)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from happycat.base.errors import InputError
from happycat.images.datasets.archive import check_count, check_present, numbers, rows, unpacked
from happycat.images.pictures import FilePictures, Images, Published

# The known classes of the Semantic Shift Benchmark (Vaze et al., 2022), as published.
BASE = (
    *(150, 70, 34, 178, 199, 131, 129, 147, 134, 11, 26, 93, 95, 121, 123, 99, 149, 167, 18, 31),
    *(69, 198, 116, 158, 126, 17, 5, 179, 111, 163, 184, 81, 174, 42, 53, 89, 77, 55, 23, 48),
    *(43, 44, 56, 28, 193, 143, 0, 176, 84, 15, 38, 154, 141, 190, 172, 124, 189, 19, 80, 157),
    *(12, 9, 79, 30, 94, 67, 197, 97, 168, 137, 119, 76, 98, 88, 40, 106, 171, 87, 166, 186),
    *(27, 51, 144, 135, 161, 64, 177, 7, 146, 61, 50, 162, 133, 82, 39, 74, 72, 91, 196, 136),
)
# The twenty new classes of each stage in turn, as the paper's authors ran them.
NOVEL = (
    *(52, 170, 3, 109, 148, 185, 32, 142, 108, 188, 107, 183, 153, 24, 13, 59, 45, 47, 63, 14),
    *(86, 118, 4, 139, 92, 101, 10, 195, 160, 151, 115, 156, 181, 130, 104, 54, 35, 110, 120, 145),
    *(2, 117, 85, 83, 6, 29, 33, 78, 73, 8, 182, 114, 1, 65, 57, 103, 21, 66, 46, 105),
    *(20, 60, 127, 112, 155, 169, 62, 165, 25, 180, 36, 58, 102, 192, 194, 132, 37, 187, 140, 152),
    *(49, 71, 159, 96, 75, 125, 113, 22, 175, 138, 173, 68, 41, 164, 16, 191, 128, 122, 100, 90),
)
PUBLISHED = Published(
    protocol={"base_classes": 100, "stages": 5, "labelled_share": 0.8, "new_per_class": 25, "old_per_class": 5},
    order=BASE + NOVEL,
    train=5_994,
    test=5_794,
)


def load(root: Path | str) -> Images:
    """CUB from `root/CUB_200_2011`, with its published train and test images."""
    advice = f"get CUB_200_2011.tgz from the Caltech data repository and unpack it in {root}"
    folder = unpacked(root, "CUB_200_2011", "images.txt", advice)
    classes = [name for _, name in rows(folder / "classes.txt", 2)]
    check_count(str(folder / "classes.txt"), len(classes), 200)

    keys = {number: f"images/{path}" for number, path in rows(folder / "images.txt", 2)}
    label = _by_image(folder / "image_class_labels.txt", keys)
    is_train = _by_image(folder / "train_test_split.txt", keys)
    check_present(folder, list(keys.values()))
    pictures: dict[str, FilePictures] = {}
    labels: dict[str, np.ndarray] = {}
    for part, flag in (("train", "1"), ("test", "0")):
        chosen = [number for number in keys if is_train[number] == flag]
        pictures[part] = FilePictures(folder, [keys[number] for number in chosen])
        labels[part] = numbers((label[number] for number in chosen), folder / "image_class_labels.txt") - 1
    return Images(
        name="cub",
        classes=tuple(name.split(".", 1)[-1].replace("_", " ") for name in classes),
        train=pictures["train"],
        train_labels=labels["train"],
        test=pictures["test"],
        test_labels=labels["test"],
        protocol=dict(PUBLISHED.protocol),
        order=PUBLISHED.order,
        method_values={"parametric": {"base_entropy_weight": 2.0, "epochs": 20}},
    )


def _by_image(path: Path, images: dict[str, str]) -> dict[str, str]:
    """The second field of each image's line, by the image's number."""
    table = dict(rows(path, 2))
    missing = [number for number in images if number not in table]
    if missing:
        raise InputError(f"{path} has no line for image {missing[0]}; unpack the archive again")
    return table
