"""Handwritten digits, bundled with scikit-learn: 1,797 real 8 × 8 grey images of ten classes."""

from __future__ import annotations

import numpy as np

from happycat.images.pictures import ArrayPictures, Images, Published

PUBLISHED = Published(
    protocol={"base_classes": 6, "stages": 2, "labelled_share": 0.8, "new_per_class": 100, "old_per_class": 25},
    order=tuple(range(10)),
    train=1_352,
    test=445,
)


def load() -> Images:
    """The digits; every fourth image of a class is test."""
    from sklearn.datasets import load_digits  # slow to import

    bunch = load_digits()
    pixels = np.clip(bunch.images * (255 / 16), 0, 255).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    nth = np.zeros(len(labels), dtype=np.int64)  # the how-manieth of its class
    for c in range(10):
        nth[labels == c] = np.arange((labels == c).sum())
    test = nth % 4 == 3
    return Images(
        name="digits",
        classes=tuple(str(c) for c in range(10)),
        train=ArrayPictures(pixels[~test]),
        train_labels=labels[~test],
        test=ArrayPictures(pixels[test]),
        test_labels=labels[test],
        protocol=dict(PUBLISHED.protocol),
        order=PUBLISHED.order,
        mirror=False,
        crop_share=0.75,  # a pixel of shift is nothing to a photograph and much to a picture of 8 × 8
    )
