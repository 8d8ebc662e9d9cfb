"""Hungarian matching of predicted with true class ids, and strict matching, in which a known head keeps its class.

Pure functions on numpy arrays; what ids, heads and known heads are is said in `metrics.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from happycat.base.errors import InputError


def hungarian(targets: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """The one-to-one mapping from predicted to true ids that makes most images right.

    ACC = max_p 1/M Σ_i 1(y_i = p(ŷ_i)) (Eq. 13): this returns p, found once over all classes, as an array
    (largest predicted id + 1,) whose entry is a true id. The table may be rectangular. A predicted id without
    a partner, or whose partner shares no image with it, has −1.

    >>> hungarian(np.array([0, 0, 1, 1]), np.array([2, 2, 0, 1])).tolist()
    [1, -1, 0]
    """
    targets, predictions = checked_ids(targets, predictions)
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
    targets, predictions = checked_ids(targets, predictions)
    known = np.asarray(identities, dtype=np.int64)
    table = _table(targets, predictions)[len(known) :]
    table[:, known[(known >= 0) & (known < table.shape[1])]] = 0
    return np.concatenate([known, _match(table)])


def apply_mapping(mapping: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """The true id of each prediction; −1 for a head that the mapping does not know."""
    padded = np.append(np.asarray(mapping, dtype=np.int64), -1)
    return padded[np.minimum(predictions, len(padded) - 1)]


def given_identities(num_known: int, identities: Sequence[int] | None) -> Sequence[int]:
    """The true id that each known head stands for, checked: 0…num_known−1 unless others are given."""
    identities = range(num_known) if identities is None else identities
    if len(identities) != num_known:
        raise InputError(f"{len(identities)} identities for {num_known} known heads; give one for each")
    return identities


def checked_ids(targets: np.ndarray, predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as int64 arrays of the same positive length, checked."""
    targets, predictions = np.asarray(targets), np.asarray(predictions)
    if targets.ndim != 1 or targets.shape != predictions.shape or len(targets) == 0:
        raise InputError(f"targets {targets.shape} and predictions {predictions.shape} must be (N,) each, N > 0")
    for what, ids in (("targets", targets), ("predictions", predictions)):
        if ids.dtype.kind not in "iu" or ids.min() < 0:
            raise InputError(f"{what} must be class ids from 0 on; got {ids.dtype}, least {ids.min()}")
    return targets.astype(np.int64), predictions.astype(np.int64)


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
