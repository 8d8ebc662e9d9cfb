"""Metrics of stages and runs: clustering accuracy (All, Old, New), forgetting, NMI, ARI, calibration error, ROC area.

Pure functions on numpy arrays.

Class ids are positions in the order of discovery: the base classes are 0…num_base−1, then those of stage 1,
and so on. `targets` (N,) are true ids; at a stage a true id below `num_old` is old, any other is new.
`predictions` (N,) are ids of heads; a head below `num_known` existed before the stage. With a known number
of classes `num_known` equals `num_old`; with an estimated one a method may have more heads than there are
classes, or fewer.

Units: accuracies, shares, probabilities, the calibration error and the ROC area are per cent (0–100), `var_0` is
per cent squared, NMI and ARI keep their usual scale (at most 1). A number that no image can give is None, which
JSON can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, roc_auc_score

from happycat.base.matching import apply_mapping, checked_ids, given_identities, hungarian, strict_mapping


class Accuracy(NamedTuple):
    """Per cent of the images that are right: of all, of the old classes, of the new classes."""

    all: float | None
    old: float | None
    new: float | None


def accuracy(targets: np.ndarray, predictions: np.ndarray, num_old: int, mapping: np.ndarray) -> Accuracy:
    """The accuracy of `predictions` once `mapping` (heads,) has turned them into true ids."""
    targets, predictions = checked_ids(targets, predictions)
    right = apply_mapping(mapping, predictions) == targets
    old = targets < num_old
    return Accuracy(_per_cent(right), _per_cent(right[old]), _per_cent(right[~old]))


def clustering_accuracy(targets: np.ndarray, predictions: np.ndarray, num_old: int) -> Accuracy:
    """The paper's All, Old and New: one Hungarian matching over all classes, then each group's share of hits.

    Where several matchings are best, All is the same for each of them but Old and New may not be.

    >>> clustering_accuracy(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1]), num_old=1)
    Accuracy(all=75.0, old=100.0, new=50.0)
    """
    return accuracy(targets, predictions, num_old, hungarian(targets, predictions))


def strict_accuracy(
    targets: np.ndarray,
    predictions: np.ndarray,
    num_known: int,
    num_old: int | None = None,
    identities: Sequence[int] | None = None,
) -> Accuracy:
    """All, Old and New when heads keep their identity: no credit for an old class that moved to another head.

    The matching is `strict_mapping`. `identities` defaults to 0…num_known−1, which holds when all known heads
    were trained with labels (stages 0 and 1). From stage 2 on the order of discovered heads is arbitrary:
    pass what they were matched with when they were found. `num_old` defaults to `num_known`.

    >>> strict_accuracy(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), num_known=2)
    Accuracy(all=0.0, old=0.0, new=None)
    """
    mapping = strict_mapping(targets, predictions, given_identities(num_known, identities))
    return accuracy(targets, predictions, num_known if num_old is None else num_old, mapping)


def per_class_accuracy(
    targets: np.ndarray, predictions: np.ndarray, num_classes: int, mapping: np.ndarray
) -> list[float | None]:
    """The accuracy of each true class 0…num_classes−1 under `mapping`; None for a class without images."""
    targets, predictions = checked_ids(targets, predictions)
    right = apply_mapping(mapping, predictions) == targets
    return [_per_cent(right[targets == c]) for c in range(num_classes)]


def nmi(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Normalised mutual information of the two partitions, I(y; ŷ) / ½(H(y) + H(ŷ)), 0–1."""
    return float(normalized_mutual_info_score(*checked_ids(targets, predictions)))


def ari(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Adjusted Rand index of the two partitions: 1 for the same one, 0 on average for a random one."""
    return float(adjusted_rand_score(*checked_ids(targets, predictions)))


def forgetting(initial_accuracies: Sequence[float]) -> float | None:
    """M_f = max_{t ≥ 1} (ACC_init^0 − ACC_init^t) (Eq. 16), in points; None without a stage after stage 0.

    `initial_accuracies` (1 + T,) are the accuracies on the base classes after stages 0…T. Negative if these
    stayed above where they began.

    >>> forgetting([90.0, 85.0, 80.0, 82.0])
    10.0
    """
    first, *later = initial_accuracies
    return float(first - min(later)) if later else None


def discovery(new_accuracies: Sequence[float | None]) -> float | None:
    """M_d = 1/T Σ_{t ≥ 1} ACC_new^t (Eq. 17); `new_accuracies` (T,) are New after stages 1…T.

    Stages without new classes (None) are left out.
    """
    return mean_over_stages(new_accuracies)


def mean_over_stages(values: Sequence[float | None]) -> float | None:
    """The mean of the stages' numbers; those that have none are left out, and without any it is None."""
    return float(np.mean(_known(values))) if _known(values) else None


def probability_gap(probabilities: np.ndarray, num_old: int) -> float:
    """Δp = p̄_old − p̄_new with p̄ = 1/N Σ_i p_i, summed over the old heads and over the new ones.

    `probabilities` (N, K) sum to 1 in each row; the first `num_old` columns are the old heads. From −100 (all
    on new heads) to 100 (all on old heads), on the test images.

    >>> probability_gap(np.array([[0.75, 0.25], [0.25, 0.75]]), num_old=1)
    0.0
    """
    marginal = np.asarray(probabilities, dtype=np.float64).mean(axis=0)  # (K,)
    return float(100 * (marginal[:num_old].sum() - marginal[num_old:].sum()))


def balanced_probability_gap(
    targets: np.ndarray, probabilities: np.ndarray, num_old: int, num_known: int | None = None
) -> float | None:
    """Δp with the images of old and of new classes weighing alike: 0 if both get their own share, without bias.

    The mean of Δp over the images of old classes and Δp over those of new ones; None without images of both. Over all
    test images Δp depends on how many of them are new: where these are a sixth, it is 66.7 without any bias.

    >>> balanced_probability_gap(np.array([0, 0, 1]), np.array([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]]), num_old=1)
    0.0
    """
    old = np.asarray(targets) < num_old
    if old.all() or not old.any():
        return None
    probabilities, num_known = np.asarray(probabilities), num_old if num_known is None else num_known
    return (probability_gap(probabilities[old], num_known) + probability_gap(probabilities[~old], num_known)) / 2


def new_as_old(
    targets: np.ndarray, predictions: np.ndarray, num_old: int, num_known: int | None = None
) -> float | None:
    """Δr: the share of the new classes' images that went to a head known before the stage.

    It looks at heads, before any matching: Δr = |{i: y_i ≥ num_old, ŷ_i < num_known}| / |{i: y_i ≥ num_old}|.
    `num_known` defaults to `num_old`.
    """
    targets, predictions = checked_ids(targets, predictions)
    return _per_cent(predictions[targets >= num_old] < (num_old if num_known is None else num_known))


def base_variance(per_class: Sequence[float | None], num_base: int) -> float | None:
    """Var_0: the population variance of the base classes' accuracies, in per cent squared.

    The paper gives 23.04 without a unit. With its hardest class at 65.10 all accuracies lie in 65–100, where
    neither a standard deviation in per cent (at most 17.5) nor a variance of fractions can be 23: per cent
    squared is left. These are all the base classes, not a sample of them: hence the division by their number.
    """
    values = _known(per_class[:num_base])
    return float(np.var(values)) if values else None


def hardest_accuracy(per_class: Sequence[float | None], num_base: int) -> float | None:
    """Acc_h: the accuracy of the base class with the lowest one."""
    return min(_known(per_class[:num_base]), default=None)


def calibration_error(probabilities: np.ndarray, targets: np.ndarray, mapping: np.ndarray, bins: int = 15) -> float:
    """The expected calibration error of the largest probability, with heads matched by `mapping`.

    ECE = Σ_b |B_b|/N · |acc(B_b) − conf(B_b)| over `bins` equally wide bins of confidence, in per cent.
    `probabilities` (N, K), `targets` (N,).

    >>> calibration_error(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]), np.array([0, 1]))
    25.0
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    targets, predictions = checked_ids(targets, probabilities.argmax(axis=1))
    confidence = probabilities.max(axis=1)
    right = apply_mapping(mapping, predictions) == targets
    place = np.clip(np.ceil(confidence * bins) - 1, 0, bins - 1).astype(np.int64)  # bin b is (b/bins, (b+1)/bins]
    gap = np.bincount(place, weights=right - confidence, minlength=bins)  # |B_b| (acc − conf)
    return float(100 * np.abs(gap).sum() / len(targets))


def roc_area(known: np.ndarray, unknown: np.ndarray) -> float | None:
    """Open-set AUROC: how often an image of a known class has a higher score than one of an unknown class.

    `known` (N,) and `unknown` (M,) are the scores of the images; two that are the same count half. None if N or M is 0.

    >>> roc_area(np.array([0.75, 0.5]), np.array([0.25, 0.5]))
    87.5
    """
    if not len(known) or not len(unknown):
        return None
    is_known = np.repeat([True, False], [len(known), len(unknown)])
    return float(100 * roc_auc_score(is_known, np.concatenate([known, unknown])))


def _per_cent(right: np.ndarray) -> float | None:
    return float(100 * right.mean()) if len(right) else None


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
