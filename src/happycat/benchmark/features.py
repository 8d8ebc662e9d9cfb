"""Features of a data set's images as one NumPy file, as `paper calm-check` and other programs read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from happycat.backbone.extraction import CENTRE, FeatureExtractor
from happycat.backbone.patches import vectors_of
from happycat.base.disk import replacing
from happycat.base.progress import Progress
from happycat.base.ranks import Helped
from happycat.benchmark.paper.check_data import PARTS, TOKEN
from happycat.images.pictures import Images


def write_features(
    path: Path, images: Images, extractor: FeatureExtractor, progress: Progress, cache_dir: Path
) -> tuple[int, int]:
    """Write X, cls, part and key: features (N, D) of the centre view of every image; returns N and D.

    `key` (N,) is what each image is called in the data set; `class_token` is how many numbers, the first ones, are a
    ViT's class token, where patch tokens follow. What is extracted is kept in `cache_dir` meanwhile.
    Several processes share this work; the first one writes, the others are done with it (`Helped`).
    """
    sides = (images.train, images.train_labels), (images.test, images.test_labels)
    advance = progress.step("extracting features", len(images.train) + len(images.test))
    features = [extractor.extract(pictures, CENTRE, advance, cache_dir)[:, 0].numpy() for pictures, _ in sides]
    if not extractor.ranks.first:
        raise Helped
    made = {
        "X": np.concatenate(features),
        "cls": np.array(images.classes)[np.concatenate([labels for _, labels in sides])],
        "part": np.repeat(PARTS, [len(pictures) for pictures, _ in sides]),
        "key": np.array([key for pictures, _ in sides for key in pictures.keys]),
    }
    if (token := vectors_of(extractor.tail).class_token) < extractor.dim:
        made[TOKEN] = np.array(token)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, allow_pickle=False, **made)
    return made["X"].shape
