"""Vectors whose classes are known: noise around a direction for each class."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

DIM, KNOWN = 32, 6


def clouds(classes: Iterable[int], each: int = 30, noise: float = 0.06, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (N, D) around a direction for each class, and their classes."""
    directions = np.linalg.qr(np.random.default_rng(7).normal(size=(DIM, DIM)))[0]
    labels = np.repeat(list(classes), each)
    random = np.random.default_rng(seed)
    return directions[labels] + noise * random.normal(size=(len(labels), DIM)), labels
