import doctest
import itertools

import numpy as np
import pytest

from happycat.base import matching, metrics
from happycat.base.errors import InputError
from happycat.base.metrics import Accuracy

# Three classes (0 and 1 old), four images each; heads 0, 1, 2.
TARGETS = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
PREDICTIONS = np.array([0, 0, 0, 1, 1, 1, 2, 0, 2, 2, 0, 0])


def best_by_search(targets, predictions):
    """Eq. 13 by trying every one-to-one mapping; spare heads go to ids that no image has."""
    size = max(targets.max(), predictions.max()) + 1
    return max(100 * np.mean(np.array(p)[predictions] == targets) for p in itertools.permutations(range(size)))


def test_examples_in_docstrings():
    result = doctest.testmod(metrics)
    assert result.attempted >= 7
    assert result.failed == 0


def test_clustering_accuracy_by_hand():
    # The identity is the best matching: 3 of class 0, 2 of class 1, 2 of class 2.
    assert matching.hungarian(TARGETS, PREDICTIONS).tolist() == [0, 1, 2]
    found = metrics.clustering_accuracy(TARGETS, PREDICTIONS, num_old=2)
    assert found == pytest.approx(Accuracy(all=100 * 7 / 12, old=62.5, new=50.0))


@pytest.mark.parametrize(("classes", "heads"), [(4, 4), (3, 5), (5, 3), (1, 3)])
def test_clustering_accuracy_is_the_best_of_all_mappings(classes, heads):
    random = np.random.default_rng(classes * 10 + heads)
    for _ in range(5):
        targets, predictions = random.integers(classes, size=30), random.integers(heads, size=30)
        found = metrics.clustering_accuracy(targets, predictions, num_old=classes)
        assert found.all == pytest.approx(best_by_search(targets, predictions))


def test_renamed_heads_change_strict_accuracy_only():
    renamed = np.array([1, 2, 0])[PREDICTIONS]
    assert metrics.clustering_accuracy(TARGETS, renamed, 2) == metrics.clustering_accuracy(TARGETS, PREDICTIONS, 2)
    assert metrics.strict_accuracy(TARGETS, renamed, 2) != metrics.strict_accuracy(TARGETS, PREDICTIONS, 2)


def test_strict_accuracy_by_hand():
    # Heads 0 and 1 are known and swapped: one image of class 0 is right. Head 3 found class 2.
    targets, predictions = np.array([0, 0, 0, 1, 1, 2, 2, 2]), np.array([1, 1, 0, 0, 0, 3, 3, 2])
    found = metrics.strict_accuracy(targets, predictions, num_known=2)
    assert found == pytest.approx(Accuracy(all=37.5, old=20.0, new=100 * 2 / 3))
    # A new head never counts for an old class, whatever it took of it.
    assert metrics.strict_accuracy(np.array([0, 0, 1]), np.array([2, 2, 1]), num_known=2).old == pytest.approx(100 / 3)


def test_strict_accuracy_is_never_above_the_hungarian_one():
    random = np.random.default_rng(0)
    for _ in range(20):
        targets, predictions = random.integers(5, size=40), random.integers(6, size=40)
        strict = metrics.strict_accuracy(targets, predictions, num_known=3)
        assert strict.all <= metrics.clustering_accuracy(targets, predictions, num_old=3).all


def test_strict_mapping_keeps_what_an_earlier_stage_fixed():
    # Stage 1 found class 2 with head 3 and class 3 with head 2; class 4 is new and head 5 finds it.
    first = matching.strict_mapping(np.array([0, 1, 2, 3]), np.array([0, 1, 3, 2]), [0, 1])
    assert first.tolist() == [0, 1, 3, 2]
    targets, predictions = np.array([0, 1, 2, 2, 3, 4]), np.array([0, 1, 3, 2, 2, 5])
    assert matching.strict_mapping(targets, predictions, first).tolist() == [0, 1, 3, 2, -1, 4]
    found = metrics.strict_accuracy(targets, predictions, num_known=4, identities=first)
    assert found == pytest.approx(Accuracy(all=100 * 5 / 6, old=80.0, new=100.0))


def test_strict_accuracy_when_no_image_went_to_a_new_head():
    found = metrics.strict_accuracy(np.array([0, 1, 2]), np.array([0, 1, 1]), num_known=2)
    assert found == pytest.approx(Accuracy(all=200 / 3, old=100.0, new=0.0))


def test_a_head_that_the_mapping_does_not_know_is_wrong():
    found = metrics.accuracy(np.array([0, 1, 1]), np.array([0, 1, 3]), num_old=1, mapping=np.array([0, 1]))
    assert found == pytest.approx(Accuracy(all=200 / 3, old=100.0, new=50.0))


def test_identities_of_other_heads_are_refused():
    with pytest.raises(InputError, match="1 identities for 2 known heads"):
        metrics.strict_accuracy(TARGETS, PREDICTIONS, num_known=2, identities=[0])


def test_per_class_accuracy_by_hand():
    mapping = matching.hungarian(TARGETS, PREDICTIONS)
    assert metrics.per_class_accuracy(TARGETS, PREDICTIONS, 4, mapping) == [75.0, 50.0, 50.0, None]


def test_nmi_and_ari():
    assert metrics.nmi(TARGETS, (TARGETS + 1) % 3) == pytest.approx(1)
    assert metrics.ari(TARGETS, (TARGETS + 1) % 3) == pytest.approx(1)
    # y splits 4 images in halves, ŷ splits each half again: I = log 2, H(y) = log 2, H(ŷ) = log 4.
    assert metrics.nmi(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3])) == pytest.approx(2 / 3)
    assert metrics.ari(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])) == pytest.approx(-0.5)


def test_forgetting_and_discovery():
    assert metrics.forgetting([90, 92, 95]) == -2
    assert metrics.forgetting([90]) is None
    assert metrics.discovery([50, None, 40]) == 45
    assert metrics.discovery([]) is None


def test_probability_gap_by_hand():
    probabilities = np.array([[0.5, 0.3, 0.2], [0.1, 0.5, 0.4]])
    assert metrics.probability_gap(probabilities, num_old=2) == pytest.approx(40.0)  # (0.3 + 0.4) − 0.3
    assert metrics.probability_gap(probabilities, num_old=3) == pytest.approx(100.0)


def test_new_as_old_looks_at_heads_and_new_images_only():
    assert metrics.new_as_old(TARGETS, PREDICTIONS, num_old=2) == 50.0
    assert metrics.new_as_old(TARGETS, PREDICTIONS, num_old=2, num_known=3) == 100.0
    assert metrics.new_as_old(TARGETS, PREDICTIONS, num_old=3) is None


def test_variance_and_hardest_of_the_base_classes():
    per_class = [90.0, 80.0, None, 70.0, 0.0]
    assert metrics.base_variance(per_class, num_base=4) == pytest.approx(200 / 3)
    assert metrics.hardest_accuracy(per_class, num_base=4) == 70.0
    assert metrics.base_variance([None], num_base=1) is None
    assert metrics.hardest_accuracy([None], num_base=1) is None


def test_calibration_error_by_hand_and_by_a_loop():
    # Two bins: (0.5, 1] has confidences 0.9, 0.6 and one hit of two; (0, 0.5] has 0.4 and a miss.
    probabilities = np.array([[0.9, 0.1, 0.0], [0.2, 0.6, 0.2], [0.4, 0.3, 0.3]])
    found = metrics.calibration_error(probabilities, np.array([0, 0, 1]), np.array([0, 1, 2]), bins=2)
    assert found == pytest.approx(100 * (2 / 3 * abs(0.5 - 0.75) + 1 / 3 * 0.4))

    random = np.random.default_rng(1)
    probabilities, targets = random.dirichlet(np.ones(4), size=60), random.integers(4, size=60)
    mapping = np.array([2, 0, -1])  # head 3 is not in it
    total = 0.0
    for b in range(15):
        hits, confidences = [], []
        for p, y in zip(probabilities, targets, strict=True):
            if b / 15 < p.max() <= (b + 1) / 15:
                hits.append({0: 2, 1: 0}.get(int(p.argmax())) == y)
                confidences.append(p.max())
        if hits:
            total += len(hits) / 60 * abs(np.mean(hits) - np.mean(confidences))
    assert metrics.calibration_error(probabilities, targets, mapping) == pytest.approx(100 * total)


def test_calibration_error_keeps_neighbouring_bins_apart():
    """What is too sure in one bin does not make up for what is not sure enough in the next."""
    middles = (np.arange(15) + 0.5) / 15
    edges, wrong = np.array([0.0, 0.2, 1.0, 1 + 1e-9]), np.array([1, 1, 0, 1])  # of bins 0, 2, 14 and, by rounding, 14
    confidence = np.concatenate([np.repeat(middles, 40), edges])
    targets = np.concatenate([np.repeat(np.arange(15) % 2, 40), wrong])  # head 0 is class 0: right in every other bin
    gaps = 40 * np.where(np.arange(15) % 2, -middles, 1 - middles)
    np.add.at(gaps, [0, 2, 14, 14], 1 - wrong - edges)
    found = metrics.calibration_error(confidence[:, None], targets, np.array([0]))
    assert found == pytest.approx(100 * np.abs(gaps).sum() / len(targets))


def test_roc_area_by_hand_and_by_a_loop():
    assert metrics.roc_area(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == 100.0
    assert metrics.roc_area(np.array([1.0, 2.0]), np.array([3.0])) == 0.0
    assert metrics.roc_area(np.array([1.0]), np.array([])) is None
    assert metrics.roc_area(np.array([]), np.array([1.0])) is None
    random = np.random.default_rng(2)
    known, unknown = random.integers(0, 6, 30) + 1.0, random.integers(0, 6, 20) + 0.0  # some are the same
    pairs = [(k > u) + (k == u) / 2 for k in known for u in unknown]
    assert metrics.roc_area(known, unknown) == pytest.approx(100 * np.mean(pairs))


def test_the_balanced_gap_is_0_without_bias_whatever_the_share_of_new_images():
    old, new = [0.9, 0.1], [0.1, 0.9]
    for num_new in (1, 5):
        targets, probabilities = np.array([0] * 5 + [1] * num_new), np.array([old] * 5 + [new] * num_new)
        assert metrics.balanced_probability_gap(targets, probabilities, 1) == pytest.approx(0)
    biased = np.array([old] * 5 + [old] * 5)
    assert metrics.balanced_probability_gap(targets, biased, 1) == pytest.approx(80)
    assert metrics.balanced_probability_gap(np.zeros(5, int), biased[:5], 1) is None
