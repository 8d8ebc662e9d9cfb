"""Model files of a registry alone: what else a version holds is there, and stands for nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from happycat.model import file as model_file
from happycat.model.file import Part
from happycat.model.registry import ClassRegistry
from happycat.model.schema import SCALARS


def write_classes(path: Path, registry: ClassRegistry, what: str = "fit", backbone: str = "vectors") -> None:
    """Write a new model file whose classes are those of the registry."""
    dim = registry.pool.vectors.shape[1]
    arrays = {name: np.array(0.1, np.float32) for name in SCALARS}
    arrays |= {"space.mean": np.zeros(dim, np.float32), "space.projection": np.eye(dim, dtype=np.float32)}
    arrays["number_values"] = np.zeros((2, 5), np.float32)
    base = {"backbone": backbone, "weights": None, "precision": None, "views": 3}
    metadata = {"stage": 0, "mean_cosine": 0.5, "random_state": 0}
    version = Part({**metadata, **registry.metadata()}, {**arrays, **registry.arrays()})
    model_file.create(path, Part(base, {}), version, what)
