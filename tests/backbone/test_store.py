"""The token store: what it holds, what a kill leaves, and what it refuses."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from happycat.backbone import extraction, recipe
from happycat.backbone import store as tokens
from happycat.backbone.extraction import fill_tokens
from happycat.backbone.recipe import Recipe, affordable_views
from happycat.backbone.tail import Tail
from happycat.backbone.token_store import TokenStore, token_tensors
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import ViewPlan
from happycat.base.errors import InputError, StorageError
from happycat.base.ranks import Ranks
from happycat.base.sealed import read_sealed, write_sealed
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
    fill_tokens(store, trunk, pictures, PLAN, 0, told.append)
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
        rounded = got.normalised.float()
        assert torch.equal(rounded, rounded.bfloat16().float())  # it was stored in bf16
        torch.testing.assert_close(rounded, want.normalised, atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(got.cls, want.cls, atol=1e-5, rtol=1e-5)


def test_size_is_what_the_recipe_says(tmp_path, trunk, pictures):
    store = store_of(tmp_path, trunk, pictures)
    fill(store, trunk, pictures)
    assert store.recipe.total_bytes == 11 * 4 * (5 * 24 * 2 + 24 * 4)
    on_disk = sum(path.stat().st_size for path in store.folder.glob("*.safetensors"))
    assert 0 < on_disk - store.recipe.total_bytes < 1000  # the names of the tensors, their shapes and the checksum


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of two pictures: 11 pictures make six."""
    monkeypatch.setattr(recipe, "SHARD", 2)


def content(store) -> list[bytes]:
    return [path.read_bytes() for path in sorted(store.folder.glob("*.safetensors"))]


@pytest.mark.parametrize("damage", ["torn", "flipped bit", "lost", "of another size", "not a file of tensors"])
def test_a_damaged_shard_is_computed_again_and_no_other(tmp_path, trunk, pictures, small_shards, damage):
    store = store_of(tmp_path, trunk, pictures)
    fill(store, trunk, pictures)
    before, path = content(store), store.folder / "00003.safetensors"
    assert len(before) == 6
    if damage == "torn":
        path.write_bytes(path.read_bytes()[:-5])
    elif damage == "flipped bit":
        raw = bytearray(path.read_bytes())
        raw[-3] ^= 1
        path.write_bytes(raw)
    elif damage == "lost":
        path.unlink()
    elif damage == "of another size":
        path.write_bytes((store.folder / "00005.safetensors").read_bytes())  # of one picture
    else:
        path.write_bytes(b"?")
    again, computed = store_of(tmp_path, trunk, pictures), []

    def extract(shards):
        for shard in shards:
            computed.append(shard)
            yield token_tensors(join([expected(trunk, pictures, i, slot) for i in shard for slot in range(4)]))

    if damage == "lost":
        tokens.Store.fill(again, extract)
    else:
        with pytest.warns(UserWarning, match="is damaged") as said:
            tokens.Store.fill(again, extract)
        assert len(said) == 1
    assert computed == [range(6, 8)]
    fill(store_of(tmp_path, trunk, pictures), trunk, pictures)  # all of them are whole


def join(said) -> Tokens:
    return Tokens(*(torch.cat(part) for part in zip(*said, strict=True)))


def test_what_a_kill_leaves_is_no_shard(tmp_path, trunk, pictures, small_shards, monkeypatch):
    whole = store_of(tmp_path / "whole", trunk, pictures)
    fill(whole, trunk, pictures)
    store = store_of(tmp_path / "killed", trunk, pictures)
    save, saved = tokens.save_tensors, []

    def killed(path, tensors):
        save(path, tensors)
        saved.append(path)
        if len(saved) == 4:  # the pictures' names, and two shards before
            raise KeyboardInterrupt  # before the file has its name

    monkeypatch.setattr(tokens, "save_tensors", killed)
    with pytest.raises(KeyboardInterrupt):
        fill(store, trunk, pictures)
    monkeypatch.setattr(tokens, "save_tensors", save)
    assert store.recorded() == 4
    assert not list(store.folder.glob("0*.lock"))
    fill(store_of(tmp_path / "killed", trunk, pictures), trunk, pictures)
    assert content(store) == content(whole)


def test_a_full_store_is_not_extracted_again(tmp_path, trunk, pictures):
    fill(store_of(tmp_path, trunk, pictures), trunk, pictures)
    told = []

    def extract(shards):
        assert not list(shards)
        yield from ()

    store_of(tmp_path, trunk, pictures).fill(extract, told.append)
    assert told == [11]


def test_nobody_is_started_to_read_pictures_where_all_tokens_are_there(tmp_path, trunk, pictures, monkeypatch):
    fill(store_of(tmp_path, trunk, pictures), trunk, pictures)
    loaders = []
    monkeypatch.setattr(extraction, "view_loader", lambda *args: loaders.append(args) or iter(()))
    assert fill(store_of(tmp_path, trunk, pictures), trunk, pictures) == [11]
    assert not loaders


def test_two_at_once_share_the_work(tmp_path, trunk, pictures, small_shards):
    """The first stops within a shard; the second does all the others, then waits for that one."""
    within, go_on, done = threading.Event(), threading.Event(), {"first": [], "second": []}

    def extract(name):
        def extracted(shards):
            for shard in shards:
                done[name].append(shard.start)
                if name == "first":
                    within.set()
                    assert go_on.wait(20)
                elif len(done[name]) == 5:
                    go_on.set()
                rows = [expected(trunk, pictures, i, slot) for i in shard for slot in range(4)]
                yield token_tensors(join(rows))

        return extracted

    stores = {name: store_of(tmp_path, trunk, pictures) for name in done}
    threads = {name: threading.Thread(target=stores[name].fill, args=(extract(name),)) for name in done}
    threads["first"].start()
    assert within.wait(20)
    threads["second"].start()
    for thread in threads.values():
        thread.join(20)
        assert not thread.is_alive()
    assert done["first"] == [0]
    assert sorted(done["second"]) == [2, 4, 6, 8, 10]
    assert stores["second"].open()


class Half(Ranks):
    """The second of two processes, alone: the first does nothing and is not waited for."""

    rank, size = 1, 2


def test_a_process_begins_with_its_share_and_does_what_others_leave(tmp_path, trunk, pictures, small_shards):
    order = []

    def extract(shards):
        for shard in shards:
            order.append(shard.start // 2)
            yield token_tensors(join([expected(trunk, pictures, i, slot) for i in shard for slot in range(4)]))

    store_of(tmp_path, trunk, pictures).fill(extract, ranks=Half())
    assert order == [3, 4, 5, 2, 1, 0]


def test_a_folder_that_is_not_shared_is_said(tmp_path, trunk, pictures, small_shards):
    class Elsewhere(Half):
        def wait(self):
            next(tmp_path.glob("*/00000.safetensors")).unlink()  # it is on another machine's disk

    with pytest.raises(StorageError, match=r"2 of 11 pictures are not in .* share the folder"):
        fill_tokens(store_of(tmp_path, trunk, pictures), trunk, pictures, PLAN, 0, ranks=Elsewhere())


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
    write_sealed(path, {**read_sealed(path), "num_pictures": 12})
    with pytest.raises(StorageError, match="something else"):
        fill(store_of(tmp_path, trunk, pictures), trunk, pictures)


def test_too_little_space_is_said_before_work_begins(tmp_path, trunk, pictures, monkeypatch):
    monkeypatch.setattr(tokens.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 100}))
    monkeypatch.setattr(Trunk, "forward", lambda *_: pytest.fail("worked"))
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
    one, two = first.tokens.normalised.float().chunk(2)
    assert not torch.equal(one, two)
    back = torch.argsort(first.images), torch.argsort(second.images)
    assert not torch.equal(one[back[0]], second.tokens.normalised.float()[:11][back[1]])


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
