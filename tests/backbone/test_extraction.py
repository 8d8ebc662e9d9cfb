"""Feature extraction: which backbone it was, what is kept of it, and that features are those of stored tokens."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.utils.data import get_worker_info

from happycat.backbone.config import BackboneConfig
from happycat.backbone.extraction import CENTRE, VIEWS, FeatureExtractor, fill_tokens
from happycat.backbone.recipe import Recipe
from happycat.backbone.tail import Tail
from happycat.backbone.token_store import TokenStore
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import ViewPlan
from happycat.base.errors import HappycatError, InputError, NoSpaceError
from happycat.images.corruptions import CorruptedPictures
from happycat.images.pictures import ArrayPictures, FilePictures, Subset
from happycat.learning.batches import StoredViews
from tests.helpers.runs import small_vit

NAME = "test_vit"
PLAN = ViewPlan(image_size=16)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(timm.create_model(NAME, num_classes=0).state_dict(), path)
    return path


def tiny(weights, **changes) -> FeatureExtractor:
    values = {"image_size": 32, "precision": "fp32", "device": "cpu", **changes}
    return FeatureExtractor.of(BackboneConfig(name=NAME, weights=weights, **values), workers=0)


def small() -> FeatureExtractor:
    model = small_vit()
    tail = Tail(model)
    return FeatureExtractor(Trunk(model, "small", (0.5,) * 3, (0.5,) * 3), tail, PLAN, 0)


def noise(number) -> ArrayPictures:
    return ArrayPictures(np.random.default_rng(0).integers(0, 256, (number, 20, 24, 3), dtype=np.uint8))


# Fingerprint


def test_a_backbone_is_itself_in_any_precision(weights):
    one, two = (tiny(weights, precision=precision) for precision in ("fp32", "bf16"))
    assert one.fingerprint() == two.fingerprint()
    assert one.trunk.fingerprint() != two.trunk.fingerprint()  # what it computes is not the same
    assert one.recipe(noise(2)) != two.recipe(noise(2))
    two.trunk.freeze()  # once more
    assert one.fingerprint() == two.fingerprint()
    assert tiny(weights, image_size=48).fingerprint() != one.fingerprint()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "name", ["patch_embed.proj.bias", "blocks.0.attn.qkv.weight", "blocks.5.mlp.fc1.bias", "norm.bias"]
)
def test_the_fingerprint_covers_all_weights(weights, tmp_path, name, precision):
    state, other = load_file(weights), tmp_path / "other.safetensors"
    value = state[name].view(-1)
    value[-1] += 2**-20 * (value[-1].abs() + 1e-3)  # too little to be seen in bf16
    save_file(state, other)
    assert tiny(other, precision=precision).fingerprint() != tiny(weights, precision=precision).fingerprint()


def test_a_backbone_that_was_trained_since_has_another_fingerprint():
    extractor = FeatureExtractor.of(BackboneConfig(name="scratch_vit", device="cpu"))
    before = extractor.fingerprint()
    with torch.no_grad():
        extractor.trunk.model.cls_token += 1
    assert extractor.fingerprint() != before


# To the bit


@pytest.mark.parametrize("number", [11, 300])
@pytest.mark.parametrize("cached", [False, True])
def test_features_are_to_the_bit_those_of_stored_tokens(tmp_path, number, cached):
    extractor, pictures, told = small(), noise(number), []
    trunk, tail = extractor.trunk, extractor.tail
    store = TokenStore(tmp_path, Recipe.of(trunk, trunk.fingerprint(), pictures, PLAN, 2))
    fill_tokens(store, trunk, pictures, PLAN, 0)
    found = extractor.extract(pictures, VIEWS, told.append, tmp_path / "features" if cached else None)
    assert torch.equal(found, StoredViews(store, torch.device("cpu")).every(tail, 2))
    assert sum(told) == number
    assert max(told) <= 22  # of 64 views that go through the trunk at once, or a few more
    exact = tail(trunk(PLAN.centre(PLAN.resized(pictures.read(0)))[None]))
    assert not torch.equal(found[0, 0], exact[0])  # it is rounded in between
    torch.testing.assert_close(found[0, 0], exact[0], atol=2e-2, rtol=2e-2)


def test_no_pictures_have_no_features():
    assert small().extract(Subset(noise(2), []), CENTRE).shape == (0, 1, 24)


# From stored tokens


def stored(root, pictures, views, extractor=None) -> TokenStore:
    trunk = (extractor or small()).trunk
    store = TokenStore(root, Recipe.of(trunk, trunk.fingerprint(), pictures, PLAN, views))
    fill_tokens(store, trunk, pictures, PLAN, 0)
    return store


@pytest.mark.parametrize("names", [CENTRE, VIEWS])
@pytest.mark.parametrize("views", [2, 3, 5])
def test_features_are_made_of_stored_tokens_without_the_trunk(tmp_path, counted, views, names):
    pictures, told = noise(150), []
    from_pictures = small().extract(pictures, names)
    stored(tmp_path, pictures, views)
    counted.stop = counted.batches  # Ctrl-C at the next batch through the trunk
    assert torch.equal(small().extract(pictures, names, told.append, tmp_path), from_pictures)
    assert sum(told) == 150
    assert max(told) <= 64
    assert torch.equal(small().extract(pictures, names, cache_dir=tmp_path), from_pictures)  # kept as features now


def test_tokens_of_anything_else_are_not_taken(tmp_path, counted):
    pictures, extractor = noise(30), small()
    others = [
        lambda: stored(tmp_path, noise(29), 2),  # other pictures
        lambda: stored(tmp_path, pictures, 0),  # fewer views
        lambda: fill_tokens(
            TokenStore(tmp_path, Recipe.of(extractor.trunk, "another", pictures, PLAN, 2)),
            extractor.trunk,
            pictures,
            PLAN,
            0,
        ),
        lambda: stored(tmp_path, pictures, 3).folder.joinpath("00000.safetensors").unlink(),  # unfinished
    ]
    for make in others:
        make()
        assert extractor.stored_tokens(pictures, VIEWS, tmp_path) is None
    counted.pictures = 0
    extractor.extract(pictures, VIEWS, cache_dir=tmp_path)
    assert counted.pictures == 30


def test_damaged_tokens_are_not_taken(tmp_path, counted):
    pictures, store = noise(30), stored(tmp_path, noise(30), 2)
    expected, before = small().extract(pictures), counted.pictures
    path = store.folder / "00000.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    with pytest.warns(UserWarning, match="is damaged"):
        assert torch.equal(small().extract(pictures, cache_dir=tmp_path), expected)
    assert counted.pictures == before + 30


@pytest.mark.parametrize("batches", [5, 14])
def test_an_interrupted_extraction_goes_on_with_tokens_that_are_there_meanwhile(tmp_path, counted, batches):
    pictures, told = noise(300), []
    expected = small().extract(pictures)
    counted.batches, counted.stop = 0, batches
    with pytest.raises(KeyboardInterrupt):
        small().extract(pictures, cache_dir=tmp_path)
    stored(tmp_path, pictures, 2)
    counted.stop = counted.batches
    assert torch.equal(small().extract(pictures, VIEWS, told.append, tmp_path), expected)
    assert sum(told) == 300


# What is kept


@pytest.fixture
def counted(monkeypatch):
    """How many pictures of three views went through the trunk; `stop` calls Ctrl-C after so many batches."""
    through = Trunk.forward

    class Counted:
        pictures, batches, stop = 0, 0, None

    def count(self, views):
        if Counted.batches == Counted.stop:
            Counted.stop = None
            raise KeyboardInterrupt
        Counted.batches += 1
        Counted.pictures += len(views) // 3
        return through(self, views)

    monkeypatch.setattr(Trunk, "forward", count)
    return Counted


@pytest.mark.parametrize(("batches", "kept"), [(2, 0), (3, 64), (5, 64), (6, 128), (10, 192)])
def test_finished_shards_are_kept(tmp_path, counted, batches, kept):
    pictures, told = noise(230), []  # shards of 64 pictures, three batches each, and one of 38 in two
    whole = small().extract(pictures)
    counted.pictures, counted.batches, counted.stop = 0, 0, batches
    with pytest.raises(KeyboardInterrupt):
        small().extract(pictures, cache_dir=tmp_path)
    done = counted.pictures
    assert torch.equal(small().extract(pictures, VIEWS, told.append, tmp_path), whole)
    assert counted.pictures - done == 230 - kept
    assert sum(told) == 230


def test_damaged_features_are_extracted_again(tmp_path, counted):
    pictures = noise(150)
    whole = small().extract(pictures, cache_dir=tmp_path)
    path, counted.pictures = next(tmp_path.glob("*/00001.safetensors")), 0
    raw = bytearray(path.read_bytes())
    raw[-3] ^= 1
    path.write_bytes(raw)
    with pytest.warns(UserWarning, match="is damaged"):
        assert torch.equal(small().extract(pictures, cache_dir=tmp_path), whole)
    assert counted.pictures == 64
    assert torch.equal(small().extract(pictures, cache_dir=tmp_path), whole)
    assert counted.pictures == 64


def test_what_is_kept_is_used_unless_a_picture_was_replaced(tmp_path, counted):
    path, kept = tmp_path / "a.png", tmp_path / "kept"
    Image.fromarray(np.full((40, 40, 3), 90, np.uint8)).save(path)
    first = small().extract(FilePictures(tmp_path, ["a.png"]), VIEWS, cache_dir=kept)
    assert torch.equal(small().extract(FilePictures(tmp_path, ["a.png"]), VIEWS, cache_dir=kept), first)
    assert counted.batches == 1
    Image.fromarray(np.full((40, 40, 3), 200, np.uint8)).save(path)
    assert not torch.equal(small().extract(FilePictures(tmp_path, ["a.png"]), VIEWS, cache_dir=kept), first)
    assert counted.batches == 2


@pytest.mark.parametrize(
    "wrap", [lambda p: p, lambda p: Subset(p, ["a.png"]), lambda p: CorruptedPictures(p, "fog", 1)]
)
def test_the_key_of_tokens_and_features_covers_the_files_size_and_time(tmp_path, wrap):
    extractor, path = small(), tmp_path / "a.png"

    def keys():
        pictures = wrap(FilePictures(tmp_path, ["a.png"]))
        tokens = Recipe.of(extractor.trunk, "a", pictures, PLAN, 2)
        assert tokens.name != extractor.recipe(pictures).name
        return tokens.name, extractor.recipe(pictures).name

    path.write_bytes(b"12")
    os.utime(path, ns=(5, 5))
    first = keys()
    assert keys() == first
    os.utime(path, ns=(5, 6))
    later = keys()
    path.write_bytes(b"123")
    os.utime(path, ns=(5, 5))
    longer = keys()
    assert len({*first, *later, *longer}) == 6


def test_a_file_that_has_gone_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"none\.png cannot be read") as caught:
        small().recipe(FilePictures(tmp_path, ["none.png"]))
    assert "\n" not in str(caught.value)


def test_the_key_of_a_run_stays_when_a_file_is_touched_under_way(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"12")
    pictures = FilePictures(tmp_path, ["a.png"])
    before = pictures.digest()
    path.write_bytes(b"123")
    assert pictures.digest() == before  # or its tokens would never be found, and deleted


# Faults


class KillsItsReader(ArrayPictures):
    """Pictures of which one kills the process that reads it, the first time."""

    def __init__(self, pixels, mark):
        super().__init__(pixels)
        self.mark = mark

    def read(self, i, side=None):
        if i == 9 and get_worker_info() is not None and not self.mark.exists():
            self.mark.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(i, side)


@pytest.mark.skipif(os.name == "nt", reason="processes are killed otherwise there")
def test_a_reading_process_that_is_killed_is_said_and_what_is_done_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("happycat.backbone.recipe.SHARD", 3)
    extractor, pixels = small(), noise(14).pixels
    whole = extractor.extract(ArrayPictures(pixels), CENTRE)
    pictures = KillsItsReader(pixels, tmp_path / "killed")
    extractor.workers = 1
    with pytest.raises((HappycatError, RuntimeError), match="DataLoader worker"):
        extractor.extract(pictures, CENTRE, cache_dir=tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("*.partial"))
    again = extractor.extract(pictures, CENTRE, cache_dir=tmp_path / "cache")
    torch.testing.assert_close(again, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_while_features_are_kept_is_one_line(tmp_path, monkeypatch, call):
    def full(*_, **__):
        if call == "write":
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        raise OSError(28, "No space left on device")

    extractor, pictures = small(), noise(5)
    store = extractor.store(pictures, CENTRE, tmp_path)
    store._prepare(pictures.names())
    monkeypatch.setattr("happycat.backbone.tensor_file.save_file" if call == "write" else "os.fsync", full)
    with pytest.raises(NoSpaceError) as caught:
        extractor.extract(pictures, CENTRE, cache_dir=tmp_path)
    assert "\n" not in str(caught.value)
    assert "00000.safetensors" in str(caught.value)
    monkeypatch.undo()
    assert extractor.extract(pictures, CENTRE, cache_dir=tmp_path).shape == (5, 1, 24)
