"""The token store: what it holds, what a kill leaves, and what it refuses."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
import torch

from happycat.backbone import points
from happycat.backbone import store as tokens
from happycat.backbone.store import Recipe, TokenStore, affordable_views
from happycat.backbone.tail import Tail
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import ViewPlan
from happycat.base.errors import InputError, StorageError
from happycat.images.pictures import ArrayPictures
from happycat.learning.batches import FreshViews, Labelled, StoredViews, Unlabelled
from tests.helpers.runs import small_vit

PLAN = ViewPlan(image_size=16)


@pytest.fixture(scope="module")
def trunk() -> Trunk:
    return Trunk(small_vit(), "small", (0.5,) * 3, (0.5,) * 3)


@pytest.fixture(scope="module")
def pictures() -> ArrayPictures:
    return ArrayPictures(np.random.default_rng(0).integers(0, 256, (11, 20, 24, 3), dtype=np.uint8))


def store_of(root, trunk, pictures, views=3) -> TokenStore:
    return TokenStore(root, Recipe.of(trunk, trunk.fingerprint(), pictures, PLAN, views))


def fill(store, trunk, pictures) -> list[int]:
    told = []
    store.fill(trunk, pictures, PLAN, 0, told.append)
    return told


def expected(trunk, pictures, i, slot):
    resized = PLAN.resized(pictures.read(i))
    view = PLAN.random(resized, pictures.keys[i], str(slot)) if slot else PLAN.centre(resized)
    with torch.inference_mode():
        return trunk(view[None])


def test_holds_what_the_trunk_says(tmp_path, trunk, pictures):
    store = store_of(tmp_path, trunk, pictures)
    assert sum(fill(store, trunk, pictures)) == 11
    for i, slot in ((0, 0), (3, 1), (10, 3)):
        got, want = store.views(torch.tensor([i]), torch.tensor([slot])), expected(trunk, pictures, i, slot)
        assert got.normalised.dtype == torch.bfloat16
        torch.testing.assert_close(got.normalised.float(), want.normalised, atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(got.cls, want.cls, atol=1e-5, rtol=1e-5)


def test_size_is_what_the_recipe_says(tmp_path, trunk, pictures):
    store = store_of(tmp_path, trunk, pictures)
    fill(store, trunk, pictures)
    on_disk = sum((store.folder / name).stat().st_size for name in ("tokens.bin", "cls.bin"))
    assert on_disk == store.recipe.total_bytes == 11 * 4 * (5 * 24 * 2 + 24 * 4)


@pytest.mark.parametrize("damage", ["torn tail", "flipped bit", "lost point", "torn point"])
def test_goes_on_after_an_interruption(tmp_path, trunk, pictures, monkeypatch, damage):
    monkeypatch.setattr(points, "POINT_SECONDS", -1)
    monkeypatch.setattr(tokens, "TRUNK_BATCH", 8)  # two pictures a batch
    whole = store_of(tmp_path / "whole", trunk, pictures)
    fill(whole, trunk, pictures)
    store = store_of(tmp_path / "damaged", trunk, pictures)
    fill(store, trunk, pictures)
    data, log = store.folder / "tokens.bin", store.folder / "points.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    assert len(lines) == 6
    kept = {"torn tail": 5, "flipped bit": 2, "lost point": 3, "torn point": 4}[damage]
    if damage == "torn tail":
        data.write_bytes(data.read_bytes()[:-5])
    elif damage == "flipped bit":
        raw = bytearray(data.read_bytes())
        raw[5 * store.recipe.sizes["tokens.bin"]] ^= 1
        data.write_bytes(raw)
    elif damage == "lost point":
        log.write_text("".join(lines[:3]))
    else:
        log.write_text("".join(lines[:4]) + lines[4][:9])
    damaged = damage in ("torn tail", "flipped bit")  # behind the last point lies only what a kill left
    with pytest.warns(UserWarning, match="is damaged") if damaged else nullcontext():
        told = fill(store_of(tmp_path / "damaged", trunk, pictures), trunk, pictures)
    assert told[0] == min(11, 2 * kept)
    assert data.read_bytes() == (whole.folder / "tokens.bin").read_bytes()
    assert (store.folder / "cls.bin").read_bytes() == (whole.folder / "cls.bin").read_bytes()


def test_a_full_store_is_not_extracted_again(tmp_path, trunk, pictures, monkeypatch):
    fill(store_of(tmp_path, trunk, pictures), trunk, pictures)
    monkeypatch.setattr(TokenStore, "_extract", lambda *_: pytest.fail("extracted again"))
    assert fill(store_of(tmp_path, trunk, pictures), trunk, pictures) == [11]


def test_the_name_depends_on_everything_that_matters(trunk, pictures):
    other = ArrayPictures(255 - pictures.pixels)
    plans = (PLAN, ViewPlan(image_size=16, seed=1), ViewPlan(image_size=16, mirror=False))
    recipes = [Recipe.of(trunk, "a", pictures, plan, 3) for plan in plans]
    recipes += [Recipe.of(trunk, "b", pictures, PLAN, 3), Recipe.of(trunk, "a", pictures, PLAN, 2)]
    recipes += [Recipe.of(trunk, "a", other, PLAN, 3)]
    assert len({recipe.name for recipe in recipes}) == len(recipes)


def test_a_foreign_folder_is_refused(tmp_path, trunk, pictures):
    store = store_of(tmp_path, trunk, pictures)
    fill(store, trunk, pictures)
    path = store.folder / "recipe.json"
    path.write_text(path.read_text().replace('"num_pictures": 11', '"num_pictures": 12'))
    with pytest.raises(StorageError, match="something else"):
        fill(store_of(tmp_path, trunk, pictures), trunk, pictures)


def test_too_little_space_is_said_before_work_begins(tmp_path, trunk, pictures, monkeypatch):
    monkeypatch.setattr(tokens.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 100}))
    monkeypatch.setattr(TokenStore, "_extract", lambda *_: pytest.fail("worked"))
    with pytest.raises(StorageError, match="GB free"):
        fill(store_of(tmp_path, trunk, pictures), trunk, pictures)


def test_views_shrink_to_the_budget(trunk, pictures):
    def recipe_of(views):
        return Recipe.of(trunk, "a", pictures, PLAN, views)

    assert affordable_views(recipe_of, 8, recipe_of(8).total_bytes) == 8
    assert affordable_views(recipe_of, 8, recipe_of(8).total_bytes - 1) == 7
    with pytest.raises(InputError, match="cache_gb"):
        affordable_views(recipe_of, 8, recipe_of(2).total_bytes - 1)


def test_delete_leaves_nothing(tmp_path, trunk, pictures):
    store = store_of(tmp_path, trunk, pictures)
    fill(store, trunk, pictures)
    store.delete()
    assert not store.folder.exists()


def served(tmp_path, trunk, pictures, kind):
    if kind == "fresh":
        return Unlabelled(FreshViews(trunk, pictures, PLAN, workers=0))
    store = store_of(tmp_path, trunk, pictures)
    fill(store, trunk, pictures)
    return Unlabelled(StoredViews(store, torch.device("cpu")))


@pytest.mark.parametrize("kind", ["stored", "fresh"])
def test_an_epoch_serves_every_image_at_most_once_in_full_batches(tmp_path, trunk, pictures, kind):
    data = served(tmp_path, trunk, pictures, kind)
    batches = list(data.batches(4, torch.Generator().manual_seed(0)))
    assert [len(batch.images) for batch in batches] == [4, 4]
    assert len({int(i) for batch in batches for i in batch.images}) == 8
    assert all(batch.tokens.normalised.shape == (8, 5, 24) for batch in batches)


@pytest.mark.parametrize("kind", ["stored", "fresh"])
def test_the_two_views_differ_and_the_epochs_do_too(tmp_path, trunk, pictures, kind):
    data, generator = served(tmp_path, trunk, pictures, kind), torch.Generator().manual_seed(0)
    first, second = (next(iter(data.batches(11, generator))) for _ in range(2))
    one, two = first.tokens.normalised.chunk(2)
    assert not torch.equal(one, two)
    back = torch.argsort(first.images), torch.argsort(second.images)
    assert not torch.equal(one[back[0]], second.tokens.normalised[:11][back[1]])


@pytest.mark.parametrize("kind", ["stored", "fresh"])
def test_frozen_features_are_those_of_the_batch(tmp_path, trunk, pictures, kind):
    tail = Tail(small_vit(seed=1))
    data = served(tmp_path, trunk, pictures, kind)
    frozen = data.views.frozen(tail)
    for batch in data.batches(5, torch.Generator().manual_seed(0)):
        got = frozen(batch)
        assert not got.requires_grad
        torch.testing.assert_close(got, tail(batch.tokens).detach(), atol=1e-5, rtol=1e-5)


def test_slots_are_drawn_without_replacement(tmp_path, trunk, pictures):
    data = served(tmp_path, trunk, pictures, "stored")
    for batch in data.batches(11, torch.Generator().manual_seed(3)):
        one, two = batch.slots.chunk(2)
        assert (one != two).all()
        assert batch.slots.min() >= 1
        assert batch.slots.max() <= 3


def test_unlabelled_has_no_labels(tmp_path, trunk, pictures):
    data = served(tmp_path, trunk, pictures, "stored")
    assert not [name for name in vars(data) if "label" in name]
    with pytest.raises(AttributeError):
        _ = data.labels
    assert len(Labelled(data.views, torch.zeros(11)).labels) == 11
