"""Supervised bounds: how well the same images can be told apart when the labels of all of them are known."""

from __future__ import annotations

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

SHRINKAGE = 0.3  # of the within-class covariance towards a sphere


def nearest_mean(points: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The class (M,) of each query, that of the nearest true class mean: argmax_c cos(x, μ_c).

    Unit points (N, d) with class ids `labels` (N,) from 0 on, each id at least once; unit queries (M, d).
    """
    sums = np.zeros((int(labels.max()) + 1, points.shape[1]))
    np.add.at(sums, labels, points)
    means = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-12)
    return (queries @ means.T).argmax(1)


def linear_discriminant(features: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The class (M,) of each query by linear discriminant analysis with a shrunk covariance.

    With S the within-class covariance, Σ = (1−s) S + s tr(S)/D I and every class as likely as any other:

        argmax_c  x·Σ⁻¹μ_c − ½ μ_c·Σ⁻¹μ_c

    Features (N, D) with class ids `labels` (N,), queries (M, D).
    """
    classes = np.unique(labels)
    model = LinearDiscriminantAnalysis(
        solver="lsqr", shrinkage=SHRINKAGE, priors=np.full(len(classes), 1 / len(classes))
    )
    return model.fit(features, labels).predict(queries)
