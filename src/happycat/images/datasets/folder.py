"""Your own pictures: one folder per class."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from happycat.base.errors import InputError
from happycat.images.datasets.archive import SUFFIXES, picture_keys, subfolders
from happycat.images.pictures import FilePictures, Images


def load(root: Path | str, test_share: float = 0.2) -> Images:
    """The pictures below `root`: `train/CLASS/…` and `test/CLASS/…` (or `val/`), or just `CLASS/…`.

    Without a test folder, `test_share` of each class is held out: round(share · n) pictures, at least one
    and never the last one, those whose keys have the smallest SHA-256. So the choice is the same on every
    machine. Classes are sorted by name; files that are no pictures, and hidden ones, are left out.
    """
    root = Path(root).expanduser()
    if not root.is_dir():
        raise InputError(f"{root} is not a folder; give one that holds a folder of images per class")
    if not 0 < test_share < 1:
        raise InputError(f"test_share is {test_share}; give a number between 0 and 1")
    test_folder = next((name for name in ("test", "val") if (root / name).is_dir()), None)
    if test_folder and (root / "train").is_dir():
        train = _by_class(root, root / "train")
        test = _by_class(root, root / test_folder)
        unknown = sorted(test.keys() - train.keys())
        if unknown:
            raise InputError(
                f"{root / test_folder} has {len(unknown)} classes that train has not (first: {unknown[0]}); "
                "add them to train or remove them"
            )
    else:
        everything = _by_class(root, root)
        test = {name: _held_out(keys, test_share) for name, keys in everything.items()}
        train = {name: sorted(set(keys) - set(test[name])) for name, keys in everything.items()}
    classes = _checked_classes(root, train)
    train_keys, train_labels = _flat(classes, train)
    test_keys, test_labels = _flat(classes, test)
    _check_readable(root, train_keys + test_keys)
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
    )


def _by_class(root: Path, folder: Path) -> dict[str, list[str]]:
    """The keys of each class folder in `folder`."""
    return {name: picture_keys(root, folder / name) for name in subfolders(folder)}


def _held_out(keys: list[str], share: float) -> list[str]:
    """The test part of one class, sorted; empty if the class has a single picture."""
    count = min(max(1, round(share * len(keys))), len(keys) - 1)
    by_hash = sorted(keys, key=lambda key: hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest())
    return sorted(by_hash[: max(0, count)])


def _checked_classes(root: Path, train: dict[str, list[str]]) -> tuple[str, ...]:
    """The class names, of which there must be two, each with a train picture."""
    if len(train) < 2:
        found = f"one class folder ({next(iter(train))})" if train else "no class folders"
        raise InputError(f"{root} has {found}; give at least two, each with its images")
    empty = [name for name, keys in train.items() if not keys]
    if empty:
        raise InputError(
            f"{len(empty)} of {len(train)} classes below {root} have no train images (first: {empty[0]}); "
            f"add some ({', '.join(sorted(suffix[1:] for suffix in SUFFIXES))}) or remove the folder"
        )
    return tuple(sorted(train))


def _flat(classes: tuple[str, ...], by_class: dict[str, list[str]]) -> tuple[list[str], np.ndarray]:
    """All keys, class by class, and their labels, (N,)."""
    keys = [key for name in classes for key in by_class.get(name, [])]
    sizes = [len(by_class.get(name, [])) for name in classes]
    return keys, np.repeat(np.arange(len(classes), dtype=np.int64), sizes)


def _check_readable(root: Path, keys: list[str]) -> None:
    """Raises if the beginning of any file is not that of an image; the pixels are not decoded."""
    with ThreadPoolExecutor() as pool:
        complaints = pool.map(lambda key: _complaint(root / key), keys)
        bad = [(key, complaint) for key, complaint in zip(keys, complaints, strict=True) if complaint]
    if bad:
        key, complaint = bad[0]
        raise InputError(
            f"{len(bad)} of {len(keys)} images below {root} cannot be read (first: {key}: {complaint}); "
            "remove or replace them"
        )


def _complaint(path: Path) -> str | None:
    """What is wrong with the file, or None."""
    try:
        if path.stat().st_size == 0:
            return "file is empty"
        with Image.open(path):
            return None
    except UnidentifiedImageError:
        return "not an image"
    except OSError as error:
        return error.strerror or str(error)
    except Exception as error:  # a damaged header can make a decoder raise anything
        return str(error) or type(error).__name__
