"""What can be given as images, vectors and labels, and what is refused, each with its own message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from happycat.base.errors import InputError
from happycat.images import sources
from happycat.images.pictures import ArrayPictures
from happycat.images.sources import VectorRows, accepted, checked_labels, in_order, read, read_labelled

ROWS = [[1, 2, 3], [4, 5, 6]]


def nobody(steps: int, **_) -> None:
    pass


@pytest.mark.parametrize(
    "given",
    [
        ROWS,
        [tuple(row) for row in ROWS],
        np.array(ROWS),
        np.array(ROWS, np.uint8),
        np.array(ROWS, np.float16),
        np.array(ROWS, np.float64)[:, ::-1][:, ::-1],
        np.array(ROWS, object),
        [np.array(row) for row in ROWS],
        [torch.tensor(row) for row in ROWS],
        torch.tensor(ROWS),
        torch.tensor(ROWS, dtype=torch.bfloat16),
        torch.tensor(ROWS, dtype=torch.float32, requires_grad=True),
    ],
    ids=lambda given: f"{type(given).__name__} {getattr(given, 'dtype', '')}",
)
def test_numbers_in_rows_are_vectors(given):
    found = accepted(given)
    assert isinstance(found, VectorRows)
    assert found.vectors.dtype == np.float32
    np.testing.assert_array_equal(found.vectors, ROWS)


def test_of_many_vectors_some_are_looked_at_together(monkeypatch):
    monkeypatch.setattr(sources, "ROWS", 2)
    vectors = np.ones((5, 3), np.float32)
    assert accepted(vectors).vectors is vectors  # none is copied
    vectors[4, 1] = np.nan
    with pytest.raises(InputError, match=r"1 of 5 vectors have numbers that are not finite \(first: row 4"):
        accepted(vectors)


@pytest.mark.parametrize("scale", [1e300, 1e30, 1e19, 1e-19, 1e-30, 1e-300])
def test_vectors_whose_squares_are_no_float32_are_scaled(scale):
    rows = np.array([[3.0, -4.0], [0.3, 0.4], [0.0, 0.0]])
    found = accepted(np.concatenate([rows * scale, rows])).vectors
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[3:], rows.astype(np.float32))  # usual ones are taken as they are
    lengths = np.sqrt((found[:2] ** 2).sum(1))
    np.testing.assert_allclose(found[:2] / lengths[:, None], [[0.6, -0.8], [0.6, 0.8]], rtol=1e-6)
    assert not found[2].any()


@pytest.mark.parametrize("shape", [(2, 8, 8), (2, 8, 8, 3)])
def test_bytes_are_pictures(shape):
    assert isinstance(accepted(np.zeros(shape, np.uint8)), ArrayPictures)
    assert isinstance(accepted(torch.zeros(shape, dtype=torch.uint8)), ArrayPictures)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1.0, np.nan], [1.0, 2.0]], "1 of 2 vectors have numbers that are not finite .first: row 0"),
        (np.array([[1.0, 2.0], [np.inf, 2.0]]), "first: row 1"),
        ([[1.0, None]], "not finite"),
        (np.zeros((0, 3)), "there is nothing"),
        (np.zeros((3, 0)), "there is nothing"),
        ([], "there is nothing"),
        (np.zeros(5), "one dimension"),
        ([1, 2, 3], "one dimension"),
        ([[1, 2], [3]], "between 1 and 2 numbers"),
        ([[1, 2], 3], "between 0 and 2 numbers"),
        ([["a", "b"]], "neither paths nor numbers"),
        (["a.png", 3], "neither paths nor numbers|between"),
        (np.zeros((2, 8, 8)), "neither pictures"),
        (np.zeros((2, 8, 8, 4), np.uint8), "neither pictures"),
        (np.zeros((2, 3), complex), "array of complex128"),
        ({"a": 1}, "dict cannot be used"),
        (7, "int cannot be used"),
        ("/no/such/folder", "there is no folder or file"),
    ],
)
def test_what_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        accepted(given)


@pytest.fixture
def files(tmp_path) -> list[Path]:
    paths = [tmp_path / f"{name}.png" for name in ("c", "a", "b")]
    for shade, path in enumerate(paths):
        Image.new("RGB", (8, 8), (shade * 50,) * 3).save(path)
    return paths


@pytest.mark.parametrize("kind", [list, lambda paths: np.array([str(path) for path in paths])])
def test_paths_keep_their_order_and_their_labels(files, kind):
    source = accepted(kind(files))
    found, labels = read_labelled(source, [3, 1, 2], nobody)
    assert dict(zip(found.pictures.keys, labels, strict=True)) == {
        path.as_posix(): label for path, label in zip(files, [3, 1, 2], strict=True)
    }
    assert [key for key, _ in in_order(source, found)] == [path.as_posix() for path in files]


def test_the_same_content_twice_has_two_places_in_the_order(files, tmp_path):
    copy = tmp_path / "d.png"
    copy.write_bytes(files[0].read_bytes())
    source = accepted([copy, *files])
    order = in_order(source, read(source, nobody))
    assert [key for key, _ in order] == [path.as_posix() for path in (copy, *files)]
    assert order[0][1] == order[1][1]
    with pytest.raises(InputError, match="1 of 4 images cannot be read or are there twice"):
        read_labelled(source, [1, 1, 2, 3], nobody)


def test_a_folder_beside_labels_is_no_image(files):
    with pytest.raises(InputError, match="lies in a folder"):
        read_labelled(accepted([files[0].parent]), ["a"], nobody)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([3, 1], [3, 1]),
        (np.array([3, 1], np.uint8), [3, 1]),
        ([np.int32(3), 1], [3, 1]),
        ([True, False], [1, 0]),
        (np.array([True, False]), [1, 0]),
        ([0.5, 2], [0.5, 2.0]),
        (np.array([1.0, 2.0], np.float32), [1.0, 2.0]),
        (["b", "a"], ["b", "a"]),
        (np.array(["b", "a"]), ["b", "a"]),
        (torch.tensor([3, 1]), [3, 1]),
    ],
    ids=str,
)
def test_labels_stay_of_their_kind(given, expected):
    labels = checked_labels(accepted(ROWS), given)
    assert labels == expected
    assert [type(label) for label in labels] == [type(label) for label in expected]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a", None], "1 of 2 labels are missing .None or NaN., at 1;"),
        ([np.nan, np.nan], "2 of 2 labels are missing .None or NaN., at 0, 1;"),
        (np.array([1.0, np.nan]), "1 of 2 labels are missing"),
        ([1, "a"], "some labels are text and some are numbers"),
        ([1, np.inf], "text or a number, not inf"),
        (np.array([1, 2**63], np.uint64), "beyond"),
        ([b"a", b"b"], "text or a number, not b'a'"),
        ([1, 2, 3], "2 images but 3 labels"),
        (np.zeros((2, 2)), "one for each image"),
        (None, "need labels"),
    ],
    ids=str,
)
def test_labels_that_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        checked_labels(accepted(ROWS), given)


def test_what_pandas_holds(files):
    pd = pytest.importorskip("pandas")
    for frame in (
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS, dtype="Float64"),
        pd.DataFrame({"a": [1, 4], "b": [2.0, 5.0], "c": [3, 6]}),
    ):
        found = accepted(frame)
        assert isinstance(found, VectorRows)
        np.testing.assert_array_equal(found.vectors, ROWS)
    assert accepted(pd.Series([str(path) for path in files])) == files
    with pytest.raises(InputError, match="one dimension"):
        accepted(pd.Series([1.0, 2.0]))
    for labels in (
        pd.Series(["b", "a"]),
        pd.Series(["b", "a"], dtype="category"),
        pd.Series([3, 1]),
        pd.DataFrame({"y": [3, 1]}),
    ):
        assert checked_labels(accepted(ROWS), labels) in (["b", "a"], [3, 1])
    for missing in (pd.Series([1, None], dtype="Int64"), pd.Series(["a", None])):
        with pytest.raises(InputError, match="1 of 2 labels are missing"):
            checked_labels(accepted(ROWS), missing)


def test_a_folder_says_the_labels_itself(tmp_path):
    with pytest.raises(InputError, match="says the labels itself"):
        checked_labels(accepted(tmp_path), ["a"])
    assert checked_labels(accepted(tmp_path), None) is None


def test_a_vector_is_known_by_its_numbers():
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    rows = VectorRows(vectors)
    assert [row.tobytes() for row in rows.contents()] == [rows.content(i) for i in range(5)]
    assert np.array_equal(VectorRows(vectors[[3, 1]]).contents(), rows.contents()[[3, 1]])
    assert len(np.unique(rows.contents(), axis=0)) == 5
    assert VectorRows(vectors[:0]).contents().shape == (0, 16)
