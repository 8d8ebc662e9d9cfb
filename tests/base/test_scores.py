import json

import numpy as np
import pytest

from happycat.base.errors import InputError
from happycat.base.scores import score_run, score_stage

# Three classes (0 and 1 old), four images each; heads 0, 1, 2.
TARGETS = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
PREDICTIONS = np.array([0, 0, 0, 1, 1, 1, 2, 0, 2, 2, 0, 0])


def probabilities_of(predictions, heads, confidence=0.7):
    probabilities = np.full((len(predictions), heads), (1 - confidence) / (heads - 1))
    probabilities[np.arange(len(predictions)), predictions] = confidence
    return probabilities


def test_score_stage_tells_seen_classes_from_unseen_ones():
    seen, unseen = np.linspace(0.4, 1, len(TARGETS)), np.array([0.1, 0.45])
    scores = score_stage(
        TARGETS,
        probabilities_of(PREDICTIONS, 3),
        PREDICTIONS,
        2,
        2,
        2,
        familiarity=seen,
        unseen_familiarity=unseen,
    )
    assert scores["roc"] == pytest.approx(100 * (1 - 1 / 24))  # one of the pairs stands the wrong way round


def test_score_stage_0_has_no_new_class():
    scores = score_stage(TARGETS, probabilities_of(PREDICTIONS, 3), PREDICTIONS, 3, 3, 3)
    assert scores["all"] == scores["old"] == scores["base"] == scores["strict_all"] == pytest.approx(100 * 7 / 12)
    assert [scores[key] for key in ("new", "strict_new", "delta_p", "delta_p_balanced", "delta_r")] == [None] * 5
    assert scores["identities"] == [0, 1, 2]
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores


def test_score_stage_refuses_probabilities_of_other_images():
    with pytest.raises(InputError, match="11 rows of probabilities for 12 targets"):
        score_stage(TARGETS, probabilities_of(PREDICTIONS[1:], 3), PREDICTIONS, 3, 3, 3)


def test_score_stage_1_by_hand():
    scores = score_stage(TARGETS, probabilities_of(PREDICTIONS, 4), PREDICTIONS, 2, 2, 2)
    accuracies = {"all", "old", "new", "strict_all", "strict_old", "strict_new", "base", "per_class"}
    others = {"nmi", "ari", "delta_p", "delta_p_balanced", "delta_r", "var_0", "acc_h", "ece", "roc", "identities"}
    assert set(scores) == accuracies | others
    assert (scores["new"], scores["base"], scores["delta_r"]) == (50.0, 62.5, 50.0)
    # 9 images have 0.7 + 0.1 on heads 0 and 1, 3 have 0.1 + 0.1.
    assert scores["delta_p"] == pytest.approx(100 * (2 * (9 * 0.8 + 3 * 0.2) / 12 - 1))
    assert (scores["var_0"], scores["acc_h"]) == (156.25, 50.0)
    assert scores["ece"] == pytest.approx(100 * (0.7 - 5 / 8))  # of the old classes' eight images
    assert scores["roc"] is None  # nothing is said of images of unseen classes
    assert scores["per_class"] == [75.0, 50.0, 50.0]
    assert scores["identities"] == [0, 1, 2, -1]
    json.dumps(scores, allow_nan=False)


def test_score_stage_2_needs_the_identities_of_stage_1():
    targets, predictions = np.array([0, 1, 2, 3, 4]), np.array([0, 1, 3, 2, 4])
    given = targets, probabilities_of(predictions, 5), predictions
    with pytest.raises(InputError, match="identities"):
        score_stage(*given, 2, 4, 4)
    assert score_stage(*given, 2, 4, 4, identities=[0, 1, 3, 2])["strict_all"] == 100.0
    assert score_stage(*given, 2, 4, 4, identities=[0, 1, 2, 3])["strict_all"] == 60.0


def test_score_run_by_hand():
    stages = [
        {"all": 90.0, "old": 90.0, "new": None, "base": 90.0},
        {"all": 80.0, "old": 84.0, "new": 60.0, "base": 85.0},
        {"all": 70.0, "old": 74.0, "new": 50.0, "base": 78.0},
    ]
    assert score_run(stages) == {
        "mean_all": 75.0,
        "mean_old": 79.0,
        "mean_new": 55.0,
        "final_all": 70.0,
        "m_f": 12.0,
        "m_d": 55.0,
    }
    alone = score_run(stages[:1])
    assert alone["final_all"] == 90.0
    assert alone["mean_all"] is alone["m_f"] is alone["m_d"] is None
    with pytest.raises(InputError, match="no stage has been scored yet"):
        score_run([])
