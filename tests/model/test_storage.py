"""What a version of a model file holds: it belongs to the format's number, and what lacks something is refused."""

from __future__ import annotations

import numpy as np
import pytest

from happycat import Happycat
from happycat.base.errors import StorageError
from happycat.model import file as model_file
from happycat.model.blobs import FORMAT
from happycat.model.file import Part
from happycat.model.storage import base_part, version_part

# Whoever changes this changes FORMAT, too: an older file is refused by its number, in one line that says what to do.
HELD = {
    4: (
        {"apart", "chunks", "classes", "counts", "mean_cosine", "next_id", "numbering", "random_state", "stage"},
        {
            *("deviation", "duplicate_cosine", "exponent", "number_values", "shortfall", "softmax_temperature"),
            *("space.mean", "space.projection", "temperature", "said.0", "rejected.0"),
            *(f"pool.0.{column}" for column in ("vectors", "counts", "thresholds", "children", "sizes", "lengths")),
            *(f"changed.{column}" for column in ("rows", "vectors", "thresholds", "sizes", "lengths")),
        },
    )
}


@pytest.fixture(scope="module")
def cat() -> Happycat:
    kind = np.repeat(np.arange(4), 12)
    vectors = np.eye(8)[kind] + 0.05 * np.random.default_rng(0).normal(size=(48, 8))
    cat = Happycat().fit(vectors, np.array(list("abcd"))[kind])
    cat.move(vectors[:1], "b")
    return cat


def test_what_a_version_holds_is_that_of_its_format(cat):
    part = version_part(cat._state())
    assert (set(part.metadata), set(part.arrays)) == HELD[FORMAT]


@pytest.mark.parametrize("missing", ["shortfall", "space.mean", "mean_cosine", "random_state"])
def test_a_file_that_lacks_something_is_refused_in_one_line(cat, missing, tmp_path):
    metadata, arrays = version_part(cat._state())
    for part in (metadata, arrays):
        part.pop(missing, None)
    path = tmp_path / "old.cat"
    model_file.create(path, base_part(None, None, None, 3), Part(metadata, arrays), "fit")
    with pytest.raises(
        StorageError, match=rf"has no '{missing}', .* another one made it; fit the model again"
    ) as error:
        Happycat.load(path)
    assert "\n" not in str(error.value)
