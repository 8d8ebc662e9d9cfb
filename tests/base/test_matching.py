import doctest

import numpy as np
import pytest

from happycat.base import matching
from happycat.base.errors import InputError


def test_examples_in_docstrings():
    result = doctest.testmod(matching)
    assert result.attempted >= 2
    assert result.failed == 0


def test_mapping_is_one_to_one_and_spare_heads_have_no_partner():
    mapping = matching.hungarian(np.array([0, 0, 0, 1]), np.array([5, 5, 2, 0]))
    assert mapping.tolist() == [1, -1, -1, -1, -1, 0]


def test_strict_mapping_of_heads_without_a_class_and_of_classes_without_images():
    """−1 is no class, least of all the last one; a class that no image has here takes nothing away."""
    targets = np.array([0, 1, 2])
    assert matching.strict_mapping(targets, np.array([0, 1, 3]), [0, 1, -1]).tolist() == [0, 1, -1, 2]
    assert matching.strict_mapping(targets, np.array([0, 1, 3]), [0, 1, 3]).tolist() == [0, 1, 3, 2]


def test_strict_mapping_gives_no_known_class_to_a_new_head():
    assert matching.strict_mapping(np.array([0, 0, 1, 1]), np.array([2, 2, 3, 3]), [0, 1]).tolist() == [0, 1, -1, -1]


def test_known_heads_stand_for_the_first_classes_unless_others_are_given():
    assert list(matching.given_identities(2, None)) == [0, 1]
    assert list(matching.given_identities(2, [1, 0])) == [1, 0]
    with pytest.raises(InputError, match="1 identities for 2 known heads; give one for each"):
        matching.given_identities(2, [0])


def test_a_head_that_a_mapping_does_not_know_has_no_class():
    assert matching.apply_mapping(np.array([1, 0]), np.array([0, 1, 2, 7])).tolist() == [1, 0, -1, -1]


def test_one_image_is_enough():
    assert matching.hungarian(np.array([1]), np.array([0])).tolist() == [1]


@pytest.mark.parametrize(
    ("targets", "predictions", "said"),
    [
        ([], [], r"targets \(0,\) and predictions \(0,\) must be \(N,\) each"),
        ([0, 1], [0], "must be"),
        ([[0]], [[0]], "must be"),
        ([0, 1], [0, -1], "^predictions must be class ids from 0 on; got int64, least -1"),
        ([0.0, 1.0], [0, 1], "^targets must be class ids from 0 on; got float64, least 0.0"),
    ],
)
def test_unusable_ids_are_refused(targets, predictions, said):
    with pytest.raises(InputError, match=said):
        matching.hungarian(np.array(targets), np.array(predictions))
