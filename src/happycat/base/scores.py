"""Scores of a stage and of a run: all metrics of the one, and their means, forgetting and discovery over the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from happycat.base.errors import InputError
from happycat.base.matching import checked_ids, given_identities, hungarian, strict_mapping
from happycat.base.metrics import (
    accuracy,
    ari,
    balanced_probability_gap,
    base_variance,
    calibration_error,
    discovery,
    forgetting,
    hardest_accuracy,
    mean_over_stages,
    new_as_old,
    nmi,
    per_class_accuracy,
    probability_gap,
    roc_area,
)


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
    targets, predictions = checked_ids(targets, predictions)
    if np.shape(probabilities)[0] != len(targets):
        raise InputError(f"{np.shape(probabilities)[0]} rows of probabilities for {len(targets)} targets")
    if identities is None and num_known > num_base:
        raise InputError(
            f"{num_known - num_base} known heads were discovered, so strict accuracy needs their identities; "
            "pass the previous stage's scores['identities']"
        )
    identities = given_identities(num_known, identities)
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
        **{f"mean_{group}": mean_over_stages([scores[group] for scores in later]) for group in ("all", "old", "new")},
        "final_all": stage_scores[-1]["all"],
        "m_f": forgetting([scores["base"] for scores in stage_scores]),
        "m_d": discovery([scores["new"] for scores in later]),
    }
