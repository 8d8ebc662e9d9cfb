"""Fuzzing of what people give: weights, features, label tables, class orders and images. One line, or it works."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import save
from torch import Tensor, nn

from happycat.backbone.weights import read_weights, with_weights
from happycat.base.errors import HappycatError
from happycat.benchmark.paper.check_data import read_features
from happycat.benchmark.protocol import Protocol, make_split, read_order
from happycat.images.collecting import gather, gather_labelled, listed_labels
from happycat.images.decoding import picture_or_reason, read_picture, reason_against
from happycat.images.pictures import ArrayPictures, Images
from tests.helpers.damage import ODD_TEXT, damaged, in_one_line, try_many

FEW, MANY = 20, 10_000  # inputs of each reader in the usual run, and in the long one
NUMBERS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.slow)]


# Weights

STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}


def as_pickle() -> bytes:
    file = io.BytesIO()
    torch.save({"state_dict": STATE}, file)
    return file.getvalue()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(("name", "whole"), [("w.safetensors", save(STATE)), ("w.pt", as_pickle())])
def test_weights(tmp_path, name, whole, number):
    path = tmp_path / name

    def check(content: bytes) -> None:
        path.write_bytes(content)
        with in_one_line():
            found = read_weights(path)
            assert all(isinstance(key, str) and isinstance(value, Tensor) for key, value in found.items())
            with_weights(nn.Linear(3, 2), "linear", path, None)

    path.write_bytes(whole)
    assert with_weights(nn.Linear(3, 2), "linear", path, None) is not None
    try_many(damaged(whole), check, number)


# Features


def as_npz(compressed: bool) -> bytes:
    file, write = io.BytesIO(), np.savez_compressed if compressed else np.savez
    names = np.repeat(["a", "b", "c", "d"], 4)
    write(file, X=np.arange(48.0).reshape(16, 3), cls=names, part=np.tile(["train", "train", "test", "train"], 4))
    return file.getvalue()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("compressed", [False, True])
def test_features(tmp_path, compressed, number):
    path, whole = tmp_path / "features.npz", as_npz(compressed)

    def check(content: bytes) -> None:
        path.write_bytes(content)
        with in_one_line():
            images = read_features(path)
            assert np.isfinite(images.train.vectors).all()
            assert len(images.train) == len(images.train_labels)

    path.write_bytes(whole)
    assert read_features(path).classes == ("a", "b", "c", "d")
    try_many(damaged(whole), check, number)


@pytest.mark.parametrize("number", NUMBERS)
def test_features_of_any_arrays(tmp_path, number):
    """A whole file with arrays of other types, shapes and values."""
    kinds = st.sampled_from(["f4", "f8", "f2", "i8", "u1", "?", "U3", "S2", "c8", "M8[s]"])
    shapes = st.lists(st.sampled_from([0, 1, 2, 4, 5]), max_size=3).map(tuple)
    numbers = st.sampled_from([0, 1, -1, 1e30, 1e-30, float("nan"), float("inf")])
    arrays = st.builds(lambda kind, shape, value: np.full(shape, value).astype(kind), kinds, shapes, numbers)
    texts = st.lists(st.sampled_from(["train", "test", "a", "b", "c", "d", ""]), min_size=4, max_size=6).map(np.array)

    def check(content: dict[str, np.ndarray]) -> None:
        np.savez(tmp_path / "features.npz", **content)
        with in_one_line():
            assert np.isfinite(read_features(tmp_path / "features.npz").train.vectors).all()

    with np.errstate(all="ignore"):
        try_many(st.fixed_dictionaries({"X": arrays, "cls": arrays | texts, "part": arrays | texts}), check, number)


# Tables of labels


@pytest.fixture
def table(tmp_path) -> Path:
    for i in range(3):
        Image.fromarray(np.full((4, 4, 3), 60 * i, np.uint8)).save(tmp_path / f"{i}.png")
    (tmp_path / "labels.csv").write_bytes(b'path,label\n0.png,cat\n"1.png","a ""dog"""\n2.png,\'=1\n')
    return tmp_path / "labels.csv"


def read_table(table: Path, content: bytes) -> None:
    table.write_bytes(content)
    for read in (gather_labelled, gather, listed_labels):
        with in_one_line():
            found = read(table)
            for skipped in () if isinstance(found, list) else found.skipped:
                assert isinstance(skipped.reason, str)


@pytest.mark.parametrize("number", NUMBERS)
def test_tables_of_labels(table, number):
    assert gather_labelled(table).labels == ["cat", 'a "dog"', "=1"]
    try_many(damaged(table.read_bytes()), lambda content: read_table(table, content), number)


@pytest.mark.parametrize("number", NUMBERS)
def test_tables_of_any_cells(table, number):
    cells = st.one_of(ODD_TEXT, st.sampled_from(["0.png", "1.png", "path", "label", '"', '""', "/dev/zero", "."]))
    rows = st.lists(st.lists(cells, max_size=4).map(",".join), max_size=5).map("\n".join)
    starts = st.sampled_from(["path,label\n", "label,path\n", "\ufeffpath,label\r\n", ""])
    texts = st.tuples(starts, rows).map(lambda parts: "".join(parts).encode("utf-8", "surrogatepass"))
    try_many(texts, lambda content: read_table(table, content), number)


# Class orders


@pytest.mark.parametrize("number", NUMBERS)
def test_class_orders(tmp_path, number):
    names = ("ant", "bee", "crow", "dog")
    labels = np.repeat(np.arange(4), 3)
    pictures = ArrayPictures(np.zeros((12, 2, 2, 3), np.uint8))
    images = Images(
        name="four", classes=names, train=pictures, train_labels=labels, test=pictures, test_labels=labels, protocol={}
    )
    protocol = Protocol(base_classes=2, stages=2)

    def check(content: bytes) -> None:
        (tmp_path / "order.txt").write_bytes(content)
        with in_one_line():
            split = make_split(images, protocol, read_order(tmp_path / "order.txt"))
            assert set(split.classes) <= set(names)

    words = st.lists(ODD_TEXT | st.sampled_from(names), max_size=6).map(
        lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass")
    )
    try_many(words | damaged("\n".join(names).encode()), check, number)


# Images


def pictures() -> dict[str, bytes]:
    """A small picture in every usual format."""
    random, found = np.random.default_rng(0), {}
    colour = Image.fromarray(random.integers(0, 255, (12, 9, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned
    for name, options in {
        "jpeg": {"exif": exif}, "png": {}, "gif": {}, "webp": {}, "tiff": {"compression": "tiff_lzw"}, "bmp": {},
        "ppm": {}, "tga": {}, "ico": {}, "jpeg2000": {},
    }.items():  # fmt: skip
        file = io.BytesIO()
        colour.save(file, name, **options)
        found[name] = file.getvalue()
    deep = io.BytesIO()
    Image.fromarray(random.integers(0, 65535, (7, 7)).astype(np.uint16)).save(deep, "png")
    return {**found, "deep png": deep.getvalue()}


PICTURES = pictures()
LONG = [pytest.param(MANY // 5, id="many", marks=pytest.mark.slow)]


@pytest.mark.parametrize("number", [pytest.param(4, id="few"), *LONG])
@pytest.mark.parametrize("kind", PICTURES)
def test_images(tmp_path, kind, number):
    paths = (tmp_path / f"picture{i}" for i in itertools.count())

    def check(content: bytes) -> None:
        path = next(paths)
        path.write_bytes(content)
        found = picture_or_reason(path)
        if isinstance(found, str):
            assert found.strip()
            assert "\n" not in found
            with pytest.raises(HappycatError):
                read_picture(path)
        else:
            assert found.mode == "RGB"
            assert np.asarray(found).shape == (found.height, found.width, 3)
            assert read_picture(path, 4).mode == "RGB"
        assert isinstance(reason_against(path), str | None)
        path.unlink()

    assert not isinstance(picture_or_reason_of(tmp_path, PICTURES[kind]), str)
    try_many(damaged(PICTURES[kind]), check, number)


def picture_or_reason_of(folder: Path, content: bytes) -> Image.Image | str:
    (folder / "whole").write_bytes(content)
    return picture_or_reason(folder / "whole")
