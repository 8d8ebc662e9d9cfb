"""Stanford Cars: 16,185 photographs of 196 models of car (Krause et al., 2013)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from happycat.base.errors import InputError
from happycat.images.datasets.archive import check_count, check_present, unpacked
from happycat.images.pictures import FilePictures, Images, Published

# The known classes of the Semantic Shift Benchmark (Vaze et al., 2022), as published.
BASE = (
    *(1, 11, 25, 38, 46, 50, 53, 75, 84, 100, 105, 117, 123, 129, 133, 134, 135, 136, 137, 138),
    *(140, 144, 145, 146, 147, 149, 150, 151, 153, 160, 161, 162, 163, 164, 167, 168, 169, 174, 175, 180),
    *(185, 186, 187, 192, 193, 0, 81, 97, 104, 122, 139, 141, 142, 143, 148, 152, 154, 155, 156, 157),
    *(158, 159, 165, 166, 170, 171, 172, 173, 176, 177, 181, 184, 188, 191, 194, 195, 2, 7, 9, 16),
    *(20, 26, 28, 44, 54, 95, 98, 102, 127, 178, 182, 22, 41, 82, 93, 112, 125, 189),
)
# The new classes: 19 in each stage and 22 in the last, in the order that the authors' program draws.
NOVEL = (
    *(39, 118, 5, 74, 91, 114, 27, 109, 73, 89, 72, 126, 96, 21, 13, 45, 34, 36, 49),
    *(14, 62, 85, 6, 121, 64, 67, 12, 190, 111, 106, 80, 110, 119, 131, 70, 40, 30, 76),
    *(86, 101, 4, 83, 61, 60, 8, 24, 29, 59, 57, 10, 124, 79, 3, 51, 42, 69, 18),
    *(52, 35, 71, 17, 47, 116, 77, 107, 48, 128, 23, 103, 31, 43, 68, 179, 183, 92, 32),
    *(130, 99, 108, 37, 56, 113, 65, 58, 88, 78, 19, 94, 120, 55, 33, 115, 15, 132, 90, 87, 66, 63),
)
PUBLISHED = Published(
    protocol={"base_classes": 98, "stages": 5, "labelled_share": 0.8, "new_per_class": 30, "old_per_class": 6},
    order=BASE + NOVEL,
    train=8_144,
    test=8_041,
)
ADVICE = "it cannot be downloaded any more; put a copy in torchvision's layout (devkit/, cars_train/, cars_test/)"


def load(root: Path | str, download: bool = False) -> Images:
    """Stanford Cars from `root/stanford_cars`; `download` is refused unless the files are there already.

    98 new classes in five stages: 19 a stage, and 22 in the last.
    """
    folder = unpacked(root, "stanford_cars", "devkit/cars_meta.mat", f"{ADVICE} in {root}/stanford_cars")
    classes = [str(name) for name in _entry(folder / "devkit" / "cars_meta.mat", "class_names")]
    check_count(str(folder / "devkit" / "cars_meta.mat"), len(classes), 196)
    # The test labels were published apart from the devkit; people keep them beside it or in it.
    beside, inside = (folder / place / "cars_test_annos_withlabels.mat" for place in (".", "devkit"))
    train, train_labels = _part(folder, "cars_train", folder / "devkit" / "cars_train_annos.mat")
    test, test_labels = _part(folder, "cars_test", inside if inside.is_file() else beside)
    return Images(
        name="cars",
        classes=tuple(classes),
        train=train,
        train_labels=train_labels,
        test=test,
        test_labels=test_labels,
        protocol=dict(PUBLISHED.protocol),
        order=PUBLISHED.order,
    )


def _part(folder: Path, images: str, annotations: Path) -> tuple[FilePictures, np.ndarray]:
    """The pictures that an annotation file lists, and their labels."""
    table = _entry(annotations, "annotations")
    if not {"fname", "class"} <= set(table.dtype.names or ()):
        raise InputError(f"{annotations} has no file names and classes; take the one with labels")
    keys = [f"{images}/{name}" for name in table["fname"]]
    check_present(folder, keys)
    return FilePictures(folder, keys), np.array(table["class"].tolist(), dtype=np.int64) - 1


def _entry(path: Path, name: str) -> np.ndarray:
    """One named array of a Matlab file."""
    from scipy.io import loadmat  # slow to import

    if not path.is_file():
        raise InputError(f"{path} is missing; {ADVICE}")
    try:
        return np.atleast_1d(loadmat(path, squeeze_me=True, variable_names=[name])[name])
    except Exception as error:  # scipy has no common class for what a damaged file raises
        raise InputError(f"{path} cannot be read as Matlab data ({error}); replace it") from error
