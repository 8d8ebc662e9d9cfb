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

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score, roc_auc_score

from happycat.base.errors import InputError


class Accuracy(NamedTuple):
    """Per cent of the images that are right: of all, of the old classes, of the new classes."""

    all: float | None
    old: float | None
    new: float | None


def hungarian(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """The one-to-one mapping from predicted to true ids that makes most images right.

    ACC = max_p 1/M Σ_i 1(y_i = p(ŷ_i)) (Eq. 13): this returns p, found once over all classes, as an array
    (largest predicted id + 1,) whose entry is a true id. The table may be rectangular. A predicted id without
    a partner, or whose partner shares no image with it, has −1.

    >>> hungarian(np.array([0, 0, 1, 1]), np.array([2, 2, 0, 1])).tolist()
    [1, -1, 0]
    """
    targets, predictions = _ids(targets, predictions)
    return _match(_table(targets, predictions))


def strict_mapping(targets: np.ndarray, predictions: np.ndarray, identities: Sequence[int]) -> np.ndarray:
    """The mapping in which a known head keeps its class, and only the heads found since may be matched.

    `identities` (num_known,) is the true id that each known head stands for, −1 for none. Heads from
    num_known on are matched (Hungarian) with the true classes that no known head stands for. Returns an array
    (heads,): passed as the next stage's `identities` it fixes what was found now, so a head gets its class
    once and for good.

    >>> strict_mapping(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 3]), identities=[0, 1]).tolist()
    [0, 1, -1, 2]
    """
    targets, predictions = _ids(targets, predictions)
    known = np.asarray(identities, dtype=np.int64)
    table = _table(targets, predictions)[len(known) :]
    table[:, known[(known >= 0) & (known < table.shape[1])]] = 0
    return np.concatenate([known, _match(table)])


def accuracy(targets: np.ndarray, predictions: np.ndarray, num_old: int, mapping: np.ndarray) -> Accuracy:
    """The accuracy of `predictions` once `mapping` (heads,) has turned them into true ids."""
    targets, predictions = _ids(targets, predictions)
    right = _apply(mapping, predictions) == targets
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
    mapping = strict_mapping(targets, predictions, _identities(num_known, identities))
    return accuracy(targets, predictions, num_known if num_old is None else num_old, mapping)


def per_class_accuracy(
    targets: np.ndarray, predictions: np.ndarray, num_classes: int, mapping: np.ndarray
) -> list[float | None]:
    """The accuracy of each true class 0…num_classes−1 under `mapping`; None for a class without images."""
    targets, predictions = _ids(targets, predictions)
    right = _apply(mapping, predictions) == targets
    return [_per_cent(right[targets == c]) for c in range(num_classes)]


def nmi(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Normalised mutual information of the two partitions, I(y; ŷ) / ½(H(y) + H(ŷ)), 0–1."""
    return float(normalized_mutual_info_score(*_ids(targets, predictions)))


def ari(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Adjusted Rand index of the two partitions: 1 for the same one, 0 on average for a random one."""
    return float(adjusted_rand_score(*_ids(targets, predictions)))


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
    return _mean(new_accuracies)


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
    targets, predictions = _ids(targets, predictions)
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
    targets, predictions = _ids(targets, probabilities.argmax(axis=1))
    confidence = probabilities.max(axis=1)
    right = _apply(mapping, predictions) == targets
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


def score_stage(
    targets: np.ndarray,
    probabilities: np.ndarray,
    predictions: np.ndarray,
    num_base: int,
    num_old: int,
    num_known: int,
    identities: Sequence[int] | None = None,
    familiarity: np.ndarray | Sequence[float] = (),
    unseen_familiarity: np.ndarray | Sequence[float] = (),
) -> dict[str, Any]:
    """All of a stage's numbers, ready for JSON.

    `targets` (N,), `probabilities` (N, heads), `predictions` (N,). At stage 0 pass num_old = num_known =
    num_base: there is no new class, and `new`, `strict_new`, `delta_p`, `delta_p_balanced` and `delta_r` are None.
    From stage 2 on pass as `identities` the list that the previous stage's scores hold under that key. `base` is
    ACC_init; it, `per_class`, `var_0`, `acc_h` and `ece` use the Hungarian matching of `all`. `ece` is that of the
    old classes' images. `roc` is the ROC area with which `familiarity` (N,) tells the images from those of classes
    that come in later stages, whose is `unseen_familiarity` (M,); None if nothing is left to come.
    """
    targets, predictions = _ids(targets, predictions)
    if np.shape(probabilities)[0] != len(targets):
        raise InputError(f"{np.shape(probabilities)[0]} rows of probabilities for {len(targets)} targets")
    if identities is None and num_known > num_base:
        raise InputError(
            f"{num_known - num_base} known heads were discovered, so strict accuracy needs their identities; "
            "pass the previous stage's scores['identities']"
        )
    identities = _identities(num_known, identities)
    mapping, fixed = hungarian(targets, predictions), strict_mapping(targets, predictions, identities)
    plain = accuracy(targets, predictions, num_old, mapping)
    strict = accuracy(targets, predictions, num_old, fixed)
    per_class = per_class_accuracy(targets, predictions, max(num_old, int(targets.max()) + 1), mapping)
    unused = np.full(max(0, np.shape(probabilities)[1] - len(fixed)), -1)  # heads that no test image went to
    has_new, old = plain.new is not None, targets < num_old
    return {
        **plain._asdict(),
        **{f"strict_{group}": value for group, value in strict._asdict().items()},
        "base": accuracy(targets, predictions, num_base, mapping).old,
        "nmi": nmi(targets, predictions),
        "ari": ari(targets, predictions),
        "delta_p": probability_gap(probabilities, num_known) if has_new else None,
        "delta_p_balanced": balanced_probability_gap(targets, probabilities, num_old, num_known),
        "delta_r": new_as_old(targets, predictions, num_old, num_known) if has_new else None,
        "var_0": base_variance(per_class, num_base),
        "acc_h": hardest_accuracy(per_class, num_base),
        "ece": calibration_error(probabilities[old], targets[old], mapping) if old.any() else None,
        "roc": roc_area(np.asarray(familiarity), np.asarray(unseen_familiarity)),
        "per_class": per_class,
        "identities": np.concatenate([fixed, unused]).tolist(),
    }


def score_run(stage_scores: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """A run's numbers from its stages' scores, stage 0 first: means over stages 1…T, last All, M_f, M_d."""
    if not stage_scores:
        raise InputError("no stage has been scored yet; run at least stage 0")
    later = stage_scores[1:]
    return {
        **{f"mean_{group}": _mean([scores[group] for scores in later]) for group in ("all", "old", "new")},
        "final_all": stage_scores[-1]["all"],
        "m_f": forgetting([scores["base"] for scores in stage_scores]),
        "m_d": discovery([scores["new"] for scores in later]),
    }


def _ids(targets: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as int64 arrays of the same positive length, checked."""
    targets, predictions = np.asarray(targets), np.asarray(predictions)
    if targets.ndim != 1 or targets.shape != predictions.shape or len(targets) == 0:
        raise InputError(f"targets {targets.shape} and predictions {predictions.shape} must be (N,) each, N > 0")
    for what, ids in (("targets", targets), ("predictions", predictions)):
        if ids.dtype.kind not in "iu" or ids.min() < 0:
            raise InputError(f"{what} must be class ids from 0 on; got {ids.dtype}, least {ids.min()}")
    return targets.astype(np.int64), predictions.astype(np.int64)


def _identities(num_known: int, identities: Sequence[int] | None) -> Sequence[int]:
    identities = range(num_known) if identities is None else identities
    if len(identities) != num_known:
        raise InputError(f"{len(identities)} identities for {num_known} known heads; give one for each")
    return identities


def _table(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """How many images of each true id went to each predicted id: (predicted, true); whole numbers.

    Of the type that the matching takes: with 10,000 classes a table has 800 MB, and any other would be copied.
    """
    table = np.zeros((predictions.max() + 1, targets.max() + 1))
    np.add.at(table, (predictions, targets), 1)
    return table


def _match(table: np.ndarray) -> np.ndarray:
    """The column for each row in the best one-to-one matching; −1 where they share nothing."""
    mapping = np.full(len(table), -1, dtype=np.int64)
    rows, columns = linear_sum_assignment(table, maximize=True)
    shared = table[rows, columns] > 0
    mapping[rows[shared]] = columns[shared]
    return mapping


def _apply(mapping: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """The true id of each prediction; −1 for a head that the mapping does not know."""
    padded = np.append(np.asarray(mapping, dtype=np.int64), -1)
    return padded[np.minimum(predictions, len(padded) - 1)]


def _per_cent(right: np.ndarray) -> float | None:
    return float(100 * right.mean()) if len(right) else None


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Sequence[float | None]) -> float | None:
    return float(np.mean(_known(values))) if _known(values) else None
