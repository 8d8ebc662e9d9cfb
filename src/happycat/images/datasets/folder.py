"""Image folders as a data set: one folder of images per class, with or without a test folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from happycat.base.errors import InputError
from happycat.base.text import shown
from happycat.images.collecting import Gathered, gather_labelled
from happycat.images.finding import Skipped
from happycat.images.pictures import FilePictures, Images

ByClass = dict[str, list[str]]  # the keys of each class, sorted


def load(root: Path | str, test_share: float = 0.2, keep_duplicates: bool = True) -> Images:
    """The pictures below `root`: `train/CLASS/…` and `test/CLASS/…` (or `val/`), or just `CLASS/…`.

    Without a test folder, `test_share` of each class is held out: round(share · n) pictures, at least one
    and never the last one, those whose keys have the smallest SHA-256. So the choice is the same on every
    machine. Classes are sorted by name. The files are read like those of any labelled folder (`collecting`);
    `skipped` lists what is left out. A benchmark is used as it was published, with the duplicates that it may have:
    without `keep_duplicates`, each content is kept once, in train rather than in test, and one that lies in two
    classes is left out.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise InputError(f"{shown(root)} is not a folder; give one that holds a folder of images per class")
    if not 0 < test_share < 1:
        raise InputError(f"test_share is {test_share}; give a number between 0 and 1")
    test_folder = next((name for name in ("test", "val") if (root / name).is_dir()), None)
    if test_folder and (root / "train").is_dir():
        gathered = gather_labelled(root, parts=("train", test_folder), keep_duplicates=keep_duplicates)
        train, test = _by_class(gathered, "train/"), _by_class(gathered, f"{test_folder}/")
        _check_known(root / test_folder, test, train)
    else:
        gathered = gather_labelled(root, keep_duplicates=keep_duplicates)
        everything = _by_class(gathered, "")
        test = {name: _held_out(keys, test_share) for name, keys in everything.items()}
        train = {name: sorted(set(keys) - set(test[name])) for name, keys in everything.items()}
    skipped = _skipped(gathered)
    classes = _checked_classes(root, train, skipped)
    train_keys, train_labels = _flat(classes, train)
    test_keys, test_labels = _flat(classes, test)
    base = len(classes) // 2
    return Images(
        name=root.resolve().name,
        classes=classes,
        train=FilePictures(root, train_keys),
        train_labels=train_labels,
        test=FilePictures(root, test_keys),
        test_labels=test_labels,
        protocol={
            "base_classes": base,
            "stages": min(5, len(classes) - base),
            "labelled_share": 0.8,
            "new_per_class": None,
            "old_per_class": None,
        },
        skipped=skipped,
    )


def _by_class(gathered: Gathered, start: str) -> ByClass:
    """The keys of each class that begin so."""
    by_class: ByClass = {}
    for key, label in zip(gathered.pictures.keys, gathered.labels or (), strict=True):
        if key.startswith(start):
            by_class.setdefault(label, []).append(key)
    return by_class


def _skipped(gathered: Gathered) -> tuple[Skipped, ...]:
    """All that was left out, duplicates too, sorted by path."""
    twice = [Skipped(key, shown(f"same content as {kept}")) for key, kept in gathered.duplicates.items()]
    return tuple(sorted(gathered.skipped + twice))


def _check_known(folder: Path, test: ByClass, train: ByClass) -> None:
    """Raises if there are test pictures of a class that has no train pictures."""
    unknown = sorted(test.keys() - train.keys())
    if unknown:
        raise InputError(
            f"{shown(folder)} has {len(unknown)} classes of which train has no usable images "
            f"(first: {shown(unknown[0])}); add them to train or remove them"
        )


def _held_out(keys: list[str], share: float) -> list[str]:
    """The test part of one class, sorted; empty if the class has a single picture."""
    count = min(max(1, round(share * len(keys))), len(keys) - 1)
    by_hash = sorted(keys, key=lambda key: hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest())
    return sorted(by_hash[: max(0, count)])


def _checked_classes(root: Path, train: ByClass, skipped: tuple[Skipped, ...]) -> tuple[str, ...]:
    """The class names, sorted, of which there must be two."""
    if len(train) < 2:
        found = f"images of one class only ({shown(next(iter(train)))})" if train else "no train images"
        left_out = f", {len(skipped)} files left out, first: {shown(': '.join(skipped[0]))}" if skipped else ""
        raise InputError(f"{shown(root)} has {found}{left_out}; give at least two class folders with their images")
    return tuple(sorted(train))


def _flat(classes: tuple[str, ...], by_class: ByClass) -> tuple[list[str], np.ndarray]:
    """All keys, class by class, and their labels, (N,)."""
    keys = [key for name in classes for key in by_class.get(name, [])]
    sizes = [len(by_class.get(name, [])) for name in classes]
    return keys, np.repeat(np.arange(len(classes), dtype=np.int64), sizes)
