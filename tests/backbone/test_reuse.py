"""What another store in the folder has is copied; what is not the same, or not whole, never is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from happycat.backbone import recipe as recipes
from happycat.backbone.extraction import FeatureExtractor, fill_tokens
from happycat.backbone.recipe import Recipe
from happycat.backbone.tail import Tail
from happycat.backbone.token_store import TokenStore
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import ViewPlan
from happycat.base.errors import NoSpaceError
from happycat.images.pictures import ArrayPictures, FilePictures, Pictures, Subset
from tests.helpers.runs import small_vit

PLAN = ViewPlan(image_size=16)
FIRST, SECOND = ["3", "1", "4", "0", "9"], ["2", "4", "6", "1", "8", "0"]  # they share 4, 1 and 0


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(recipes, "SHARD", 2)


class Counting(Trunk):
    """A trunk that counts the views it is shown."""

    seen = 0

    def forward(self, views: torch.Tensor) -> Tokens:
        self.seen += len(views)
        return super().forward(views)


@pytest.fixture
def trunk() -> Counting:
    return Counting(small_vit(), "small", (0.5,) * 3, (0.5,) * 3)


@pytest.fixture
def pictures() -> ArrayPictures:
    return ArrayPictures(np.random.default_rng(0).integers(0, 256, (11, 20, 24, 3), dtype=np.uint8))


def filled(
    root: Path, trunk: Trunk, pictures: Pictures, views: int = 2, plan: ViewPlan = PLAN, owner: Path | None = None
) -> TokenStore:
    store = TokenStore(root, Recipe.of(trunk, trunk.fingerprint(), pictures, plan, views), owner)
    told: list[int] = []
    fill_tokens(store, trunk, pictures, plan, 0, told.append)
    assert sum(told) == len(pictures)
    return store


def everything(store: TokenStore) -> Tokens:
    number, views = store.recipe.num_pictures, len(store.recipe.view_names)
    return store.views(torch.arange(number).repeat_interleave(views), torch.arange(views).repeat(number))


def assert_same(store: TokenStore, alone: TokenStore) -> None:
    got, want = everything(store), everything(alone)
    torch.testing.assert_close(got.normalised.float(), want.normalised.float(), atol=0.02, rtol=0.02)
    torch.testing.assert_close(got.cls, want.cls, atol=1e-4, rtol=1e-4)


def test_only_what_no_other_store_has_goes_through_the_trunk(tmp_path, trunk, pictures):
    filled(tmp_path / "shared", trunk, Subset(pictures, FIRST))
    trunk.seen = 0
    store = filled(tmp_path / "shared", trunk, Subset(pictures, SECOND))
    assert trunk.seen == 3 * 3  # centre and two random views of 2, 6 and 8
    assert_same(store, filled(tmp_path / "alone", trunk, Subset(pictures, SECOND)))


def test_what_is_copied_is_copied_to_the_bit(tmp_path, trunk, pictures):
    first = filled(tmp_path, trunk, Subset(pictures, FIRST))
    second = filled(tmp_path, trunk, Subset(pictures, SECOND))
    for key in ("4", "1", "0"):
        theirs, ours = (
            s.views(torch.full((3,), k.index(key)), torch.arange(3)) for s, k in ((first, FIRST), (second, SECOND))
        )
        assert torch.equal(theirs.normalised.float(), ours.normalised.float())
        assert torch.equal(theirs.cls, ours.cls)


def test_a_store_of_some_of_the_pictures_and_views_is_only_copied(tmp_path, trunk, pictures):
    filled(tmp_path / "shared", trunk, pictures, views=3)
    trunk.seen = 0
    some = filled(tmp_path / "shared", trunk, Subset(pictures, SECOND), views=1)
    assert trunk.seen == 0
    assert_same(some, filled(tmp_path / "alone", trunk, Subset(pictures, SECOND), views=1))


def test_fewer_views_are_not_enough(tmp_path, trunk, pictures):
    filled(tmp_path, trunk, Subset(pictures, FIRST), views=1)
    trunk.seen = 0
    filled(tmp_path, trunk, Subset(pictures, SECOND), views=2)
    assert trunk.seen == 6 * 3


@pytest.mark.parametrize("change", ["other crops", "other weights", "other pictures"])
def test_what_is_not_the_same_is_not_copied(tmp_path, trunk, pictures, change):
    filled(tmp_path, trunk, Subset(pictures, FIRST))
    plan = replace(PLAN, seed=1) if change == "other crops" else PLAN
    if change == "other weights":
        torch.nn.init.normal_(trunk.model.patch_embed.proj.weight)
    if change == "other pictures":
        pictures = ArrayPictures(255 - pictures.pixels)
    trunk.seen = 0
    filled(tmp_path, trunk, Subset(pictures, SECOND), plan=plan)
    assert trunk.seen == 6 * 3


@pytest.mark.parametrize("damage", ["flipped bit", "lost", "names"])
def test_what_is_damaged_is_not_copied(tmp_path, trunk, pictures, damage):
    first = filled(tmp_path, trunk, Subset(pictures, FIRST))
    path = first.folder / ("names.tensors" if damage == "names" else "00001.safetensors")  # pictures 4 and 0
    if damage == "lost":
        path.unlink()
    else:
        raw = bytearray(path.read_bytes())
        raw[-3] ^= 1
        path.write_bytes(raw)
    trunk.seen = 0
    store = filled(tmp_path, trunk, Subset(pictures, SECOND))
    assert trunk.seen == (6 if damage == "names" else 5) * 3
    assert_same(store, filled(tmp_path / "alone", trunk, Subset(pictures, SECOND)))


@pytest.mark.parametrize("owned", ["the one that has them", "the one that wants them"])
def test_what_is_deleted_with_its_stage_is_neither_copied_nor_made_of_copies(tmp_path, trunk, pictures, owned):
    """A run that was killed and goes on would differ in its last bits by what happens to be there still."""
    filled(
        tmp_path, trunk, Subset(pictures, FIRST), owner=tmp_path / "run" if owned == "the one that has them" else None
    )
    trunk.seen = 0
    filled(
        tmp_path, trunk, Subset(pictures, SECOND), owner=tmp_path / "run" if owned != "the one that has them" else None
    )
    assert trunk.seen == 6 * 3


def test_a_copy_that_cannot_be_written_leaves_no_lock(tmp_path, trunk, pictures, monkeypatch):
    filled(tmp_path, trunk, pictures)
    wanted = Subset(pictures, SECOND)
    store = TokenStore(tmp_path, Recipe.of(trunk, trunk.fingerprint(), wanted, PLAN, 2))

    def full(*_):
        raise NoSpaceError("no space left")

    monkeypatch.setattr(store, "_write", full)
    with pytest.raises(NoSpaceError) as caught:
        fill_tokens(store, trunk, wanted, PLAN, 0)
    assert list(store.folder.glob("0*.lock")) == []
    del caught


def test_features_are_copied_too(tmp_path, trunk, pictures):
    extractor = FeatureExtractor(trunk, Tail(small_vit()), PLAN, 0)
    extractor.extract(Subset(pictures, FIRST), cache_dir=tmp_path)
    trunk.seen = 0
    got = extractor.extract(Subset(pictures, SECOND), ("centre", "2"), cache_dir=tmp_path)
    assert trunk.seen == 3 * 2
    torch.testing.assert_close(got, extractor.extract(Subset(pictures, SECOND), ("centre", "2")), atol=1e-4, rtol=1e-4)


def test_a_file_that_was_replaced_has_another_name(tmp_path):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"one")
    before = FilePictures(tmp_path, ["a.png", "b.png"]).names()
    (tmp_path / "a.png").write_bytes(b"other")
    after = FilePictures(tmp_path, ["b.png", "a.png"]).names()
    assert before[1] == after[0]  # in whatever company
    assert len({*before.tolist(), *after.tolist()}) == 3
