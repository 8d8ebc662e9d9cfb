"""Feature vectors for `calm-check`: NumPy files or scikit-learn's digits, and their splits, one a class order."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from happycat.base.config import Checked, setting
from happycat.base.errors import InputError
from happycat.benchmark.protocol import Protocol, Split, check_split, make_split
from happycat.images.pictures import ArrayPictures, Images, Pictures
from happycat.images.sources import VectorRows, accepted

ARRAYS = ("X", "cls", "part")
TOKEN = "class_token"
PARTS = ("train", "test")
FEWEST_CLASSES = 4
MOST_PACKED = 100  # times as many bytes in memory as in the file; features are packed to a half at best
UNREADABLE = (  # what NumPy and zipfile make of a file that is damaged, or no such file
    *(OSError, ValueError, EOFError, TypeError, AttributeError, RuntimeError, MemoryError),
    *(BadZipFile, zlib.error),
)


@dataclass(frozen=True, kw_only=True)
class CheckConfig(Checked):
    """The protocol of the check: class orders, and the images that are labelled and served."""

    orders: int = setting(3, "class orders: the first is alphabetical, the others are shuffled", 1)
    base: int | None = setting(None, "base classes: how many are labelled [half of them]", 2)
    stages: int = setting(5, "how many stages follow Stage-0", 1)
    labelled_share: float = setting(0.8, "share of a base class's training images that are labelled", 0.01, 0.99)
    new_images: int = setting(25, "images of each new class at its stage, at most", 1)
    size_ratio: float = setting(
        1.0, "how many times as large as the smallest new class the largest may be (sizes even by their logarithm)", 1
    )
    old_images: int = setting(5, "images of each earlier class at every stage, at most", 1)
    seed: int = setting(0, "random seed of the class orders, of the images drawn, and of the estimator", 0)


def read_features(path: Path) -> Images:
    """The data set in a NumPy file: `X` (N, D) numbers, `cls` (N,) class names, `part` (N,) "train" or "test".

    There may be a `class_token`: how many numbers, the first ones, are a ViT's class token, if patch tokens follow.
    """
    features, names, parts, token = _arrays(path)
    if features.ndim != 2 or features.dtype.kind not in "iuf":
        raise InputError(f"{path}: X is an array {features.shape} of {features.dtype}; give (N, D) numbers")
    for what, array in (("cls", names), ("part", parts)):
        if array.shape != (len(features),):
            raise InputError(f"{path}: {what} has the shape {array.shape} for {len(features)} rows of X; give one each")
        if array.dtype.kind != "U":
            raise InputError(f"{path}: {what} is an array of {array.dtype}; give it as text")
    if odd := set(parts.tolist()) - {*PARTS}:
        raise InputError(f"{path}: part has {min(odd)!r}; an image is of the part {' or '.join(PARTS)}")
    if not len(features):
        raise InputError(f"{path}: there are no images in it")
    try:
        vectors = accepted(features)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    assert isinstance(vectors, VectorRows)
    classes, labels = np.unique(names, return_inverse=True)
    if len(classes) < FEWEST_CLASSES:
        raise InputError(f"{path}: {len(classes)} classes are too few to check on; give {FEWEST_CLASSES} or more")
    train, class_token = parts == PARTS[0], _class_token(path, token, features.shape[1])
    return Images(
        name=path.stem,
        classes=tuple(classes.tolist()),
        train=VectorRows(vectors.vectors[train], class_token),
        train_labels=labels[train],
        test=VectorRows(vectors.vectors[~train], class_token),
        test_labels=labels[~train],
    )


def _class_token(path: Path, token: np.ndarray | None, dim: int) -> int | None:
    if token is None:
        return None
    if token.shape != () or token.dtype.kind not in "iu" or not 1 <= token <= dim:
        raise InputError(f"{path}: {TOKEN} is {token}; it is how many of the {dim} numbers in a row of X are of it")
    return int(token)


def class_token_of(images: Images) -> int | None:
    """How many numbers of the data set's vectors are a class token; None where that is not known."""
    return images.train.class_token if isinstance(images.train, VectorRows) else None


def _arrays(path: Path) -> list[Any]:
    """The arrays of the file that are needed, and the class token's size or None; nothing in it is ever executed."""
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        with ZipFile(path) as packed:
            unpacked = sum(one.file_size for one in packed.infolist())
        if unpacked > MOST_PACKED * path.stat().st_size:
            raise InputError(
                f"{path} would unpack to {unpacked:,} bytes, which no file of features does; make it again"
            )
        with np.load(path, allow_pickle=False) as file:
            if missing := [name for name in ARRAYS if name not in file]:
                raise InputError(f"{path} has no array {missing[0]!r}; it needs {', '.join(ARRAYS)}")
            return [*(file[name] for name in ARRAYS), file.get(TOKEN)]
    except UNREADABLE as error:
        raise InputError(f"{path} cannot be read as a NumPy file of several arrays (.npz): {error}") from error


def digits_as_vectors() -> Images:
    """Scikit-learn's handwritten digits, each the vector of its 64 pixels."""
    from happycat.images.datasets.digits import load

    images = load()
    return replace(images, train=_pixels(images.train), test=_pixels(images.test), protocol={}, order=None)


def _pixels(pictures: Pictures) -> VectorRows:
    assert isinstance(pictures, ArrayPictures)
    return VectorRows(pictures.pixels.reshape(len(pictures), -1).astype(np.float32) / 255)


def read_sets(paths: list[Path]) -> list[Images]:
    """The data sets of the files, or the digits if there is none; their names differ."""
    sets = [read_features(path) for path in paths] or [digits_as_vectors()]
    names = [images.name for images in sets]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"two files are called {twice[0]}.npz; rename one, so that their results can be told apart")
    return sets


def splits(images: Images, config: CheckConfig) -> Iterator[Split]:
    """The data set's split for each class order; an image is drawn for its class by the seed alone."""
    protocol = Protocol(
        base_classes=config.base or len(images.classes) // 2,
        stages=config.stages,
        labelled_share=config.labelled_share,
        new_per_class=config.new_images,
        old_per_class=config.old_images,
        split_seed=config.seed,
    )
    for number in range(config.orders):
        order = list(images.classes)
        if number:
            order = [order[i] for i in np.random.default_rng([config.seed, number]).permutation(len(order))]
        split = make_split(images, protocol, tuple(order))
        check_split(split, batch_size=1)
        yield uneven(split, config.size_ratio, np.random.default_rng([config.seed, number, 1]))


def uneven(split: Split, ratio: float, random: np.random.Generator) -> Split:
    """The split with fewer images of most new classes: 1 to 1/ratio of them, drawn evenly by the logarithm.

    Two images at least are left of each. What earlier classes are served with stays as it is.
    """
    if ratio == 1:
        return split
    stages = []
    for stage in split.stages:
        images = dict(stage["images"])
        for name in stage["new"]:
            images[name] = images[name][: max(2, round(len(images[name]) * ratio ** -random.random()))]
        stages.append({**stage, "images": images})
    return replace(split, stages=tuple(stages))
