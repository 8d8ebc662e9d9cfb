"""The command `cache`: what is stored, whether it is whole, and removing it."""

from __future__ import annotations

import os
import time

import pytest
import torch

from happycat.backbone.recipe import Recipe
from happycat.backbone.token_store import TokenStore
from tests.cli.test_practitioner import say


@pytest.fixture
def store(tmp_path) -> TokenStore:
    recipe = Recipe(
        kind="tokens", backbone="b", precision="torch.float32", pictures="p", num_pictures=70,
        view_names=("centre", "1"), image_size=16, crop_share=0.875, mirror=True, view_seed=0, num_tokens=5, dim=24,
    )  # fmt: skip
    store = TokenStore(tmp_path / "run/tokens", recipe)
    store.adopt(torch.randn(140, 5, 24).bfloat16(), torch.randn(140, 24))
    return store


def test_stores_are_listed_and_foreign_files_are_not(tmp_path, store):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/recipe.json").write_text('{"flour": 500}')
    code, out, _ = say("cache", tmp_path)
    assert code == 0
    assert "tokens, float32" in out
    assert " 70 " in out
    assert "1 store, 0.00 GB" in out
    assert say("cache", tmp_path / "mine")[1] == "no tokens or features are stored here\n"
    assert store.folder.exists()


def test_damage_is_found(tmp_path, store):
    assert "whole" in say("cache", tmp_path, "--check")[1]
    path = store.folder / "00001.safetensors"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert "1 damaged" in say("cache", tmp_path, "--check")[1]
    path.unlink()
    out = say("cache", tmp_path, "--check")[1]
    assert "unfini" in out  # the column is narrow
    assert "64 of 70" in out


def test_what_is_old_is_removed(tmp_path, store):
    store._held.close()  # its process is done with it
    assert "no tokens" in say("cache", tmp_path, "--older-than", 1, "--remove")[1]
    assert store.folder.exists()
    long_ago = time.time() - 3 * 86400
    for path in [*store.folder.iterdir(), store.folder]:
        os.utime(path, (long_ago, long_ago))
    assert "1 store, 0.00 GB removed" in say("cache", tmp_path, "--older-than", 1, "--remove")[1]
    assert not store.folder.exists()
    assert (tmp_path / "run/tokens").exists()


def test_a_folder_that_is_not_there(tmp_path):
    assert say("cache", tmp_path / "none")[0] == 2


def test_files_that_were_never_finished_are_listed_and_removed(tmp_path):
    (tmp_path / "run/stages/.1.partial").mkdir(parents=True)
    (tmp_path / "run/stages/.1.partial/model.safetensors").write_bytes(bytes(10**6))
    (tmp_path / "run/.run.json.partial").write_text("{")
    for path in (tmp_path / "run").rglob(".*.partial"):
        os.utime(path, (0, 0))
    code, out, _ = say("cache", tmp_path)
    assert code == 0
    assert f"never finished: {tmp_path}/run/.run.json.partial (0.0 MB)\n" in out
    assert f"never finished: {tmp_path}/run/stages/.1.partial (1.0 MB)\n" in out
    assert out.endswith("0 stores, 0.00 GB\n")
    assert say("cache", tmp_path, "--remove")[0] == 0
    assert [path.name for path in (tmp_path / "run").rglob("*")] == ["stages"]


def test_what_is_in_use_is_not_removed(tmp_path, store):
    assert "1 in use are left" in say("cache", tmp_path, "--remove")[1]
    assert store.folder.exists()


def test_whose_it_is_is_said(tmp_path, store):
    assert "nobody" not in say("cache", tmp_path)[1]
    TokenStore(tmp_path / "run/tokens", store.recipe, tmp_path / "gone")._prepare()
    assert "nobody" in say("cache", tmp_path)[1]
