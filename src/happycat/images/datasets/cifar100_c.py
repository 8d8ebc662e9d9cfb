"""CIFAR-100-C: CIFAR-100 with test images corrupted in one of 19 ways (Hendrycks and Dietterich, 2019)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from happycat.base.errors import InputError
from happycat.images.datasets import cifar100
from happycat.images.datasets.archive import unpacked
from happycat.images.pictures import ArrayPictures, Images

CORRUPTIONS = (
    *("brightness", "contrast", "defocus_blur", "elastic_transform", "fog", "frost", "gaussian_blur"),
    *("gaussian_noise", "glass_blur", "impulse_noise", "jpeg_compression", "motion_blur", "pixelate"),
    *("saturate", "shot_noise", "snow", "spatter", "speckle_noise", "zoom_blur"),
)
SEVERITIES = 5


def load(root: Path | str, corruption: str = "gaussian_noise", severity: int = 1, download: bool = False) -> Images:
    """Train images of CIFAR-100, test images of `root/CIFAR-100-C/<corruption>.npy` at one severity, 1 to 5.

    `download` fetches CIFAR-100 only. The name holds the corruption and the severity, because the test keys
    are those of CIFAR-100.
    """
    if corruption not in CORRUPTIONS:
        raise InputError(f"no corruption {corruption!r} in CIFAR-100-C; take one of: {', '.join(CORRUPTIONS)}")
    if severity not in range(1, SEVERITIES + 1):
        raise InputError(f"severity of CIFAR-100-C is {severity!r}; give a whole number from 1 to {SEVERITIES}")
    advice = f"unpack CIFAR-100-C.tar (https://zenodo.org/records/3555552) in {root}"
    folder = unpacked(root, "CIFAR-100-C", "labels.npy", advice)
    pixels, labels = (_array(folder / f"{name}.npy", advice) for name in (corruption, "labels"))
    if pixels.shape[1:] != (32, 32, 3) or pixels.dtype != np.uint8 or labels.shape != (len(pixels),):
        raise InputError(
            f"{folder / corruption}.npy is {pixels.dtype} {pixels.shape} with {labels.size} labels, "
            f"expected uint8 (50000, 32, 32, 3) and 50000; {advice} again"
        )
    each = len(pixels) // SEVERITIES  # 10,000: all test images at severity 1, then all at 2, …
    chosen = slice((severity - 1) * each, severity * each)
    return replace(
        cifar100.load(root, download),
        name=f"cifar100_c-{corruption}-{severity}",
        test=ArrayPictures(pixels[chosen]),
        test_labels=np.array(labels[chosen], dtype=np.int64),
    )


def _array(path: Path, advice: str) -> np.ndarray:
    """The array on disk, memory-mapped."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path} is missing; {advice}") from None
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read as an array ({error}); {advice} again") from error
