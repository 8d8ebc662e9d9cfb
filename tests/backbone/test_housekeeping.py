"""What commands leave behind: whose it is, whether it is in use, and who deletes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from happycat.backbone.housekeeping import delete_stale, delete_stores, in_use, partial_files, stores_below
from happycat.backbone.recipe import Recipe
from happycat.backbone.store import FeatureStore
from happycat.base.disk import locked, make_folder

HOLD = """
import os, sys
from pathlib import Path
from happycat.base.disk import locked
with locked(Path(sys.argv[1]), "it", wait=False):
    if sys.argv[2] == "die":
        os._exit(9)  # as if killed
    print("held", flush=True)
    sys.stdin.read()
"""


def recipe(pictures: str) -> Recipe:
    return Recipe(
        kind="features", backbone="b", precision="torch.float32", pictures=pictures, num_pictures=3,
        view_names=("centre",), image_size=16, crop_share=0.875, mirror=True, view_seed=0, num_tokens=1, dim=4,
    )  # fmt: skip


def filled(root: Path, pictures: str, owner: Path | None = None) -> FeatureStore:
    store = FeatureStore(root, recipe(pictures), owner)
    store.fill(lambda shards: ({"features": torch.ones(len(shard), 1, 4)} for shard in shards))
    return store


def names(root: Path) -> set[str]:
    return {store.recipe.pictures for store in stores_below(root)}


def test_what_its_run_does_not_want_any_more_is_deleted(tmp_path):
    root, runs = tmp_path / "tokens", {"wanted": tmp_path / "one", "over": tmp_path / "two"}
    for name, owner in {**runs, "kept": None}.items():
        filled(root, name, owner)
    (root / "letter.txt").write_text("dear cat")
    deleted = delete_stale(root, lambda run: run == tmp_path / "one")
    assert [store.recipe.pictures for store in deleted] == ["over"]
    assert names(root) == {"wanted", "kept"}
    assert (root / "letter.txt").exists()


def test_what_is_in_use_stays(tmp_path):
    store = filled(tmp_path, "used", tmp_path / "gone")
    assert in_use(store.folder)
    assert delete_stale(tmp_path, lambda _: False) == []
    delete_stores(tmp_path)
    assert names(tmp_path) == {"used"}
    del store
    assert len(delete_stale(tmp_path, lambda _: False)) == 1
    assert names(tmp_path) == set()


def test_what_another_living_process_holds_stays_and_what_a_dead_one_held_goes(tmp_path):
    folder = filled(tmp_path, "a", tmp_path / "gone").folder
    lock = folder / ".0123.lock"
    subprocess.run([sys.executable, "-c", HOLD, lock, "die"], check=False, env=os.environ)
    assert lock.exists()
    assert not in_use(folder)
    assert not lock.exists()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, lock, "live"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        assert in_use(folder)
        assert delete_stale(tmp_path, lambda _: False) == []
        process.stdin.close()
    assert len(delete_stale(tmp_path, lambda _: False)) == 1


def test_a_store_that_is_kept_later_has_no_owner_any_more(tmp_path):
    assert filled(tmp_path, "a", tmp_path / "run").owner() == tmp_path / "run"
    assert filled(tmp_path, "a").owner() is None


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
def test_stores_are_their_users_alone(tmp_path):
    store = filled(tmp_path / "tokens", "a")
    for folder in (store.folder, tmp_path / "tokens"):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_damaged_recipe_is_written_again(tmp_path):
    store = filled(tmp_path, "a")
    path = store.folder / "recipe.json"
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    assert names(tmp_path) == set()
    filled(tmp_path, "a")
    assert path.read_bytes() == whole


def test_partial_files_of_living_processes_are_not_listed(tmp_path):
    run = tmp_path / "run"
    make_folder(run / "stages")
    (run / "stages" / ".1.partial").mkdir()
    (run / ".checkpoint.safetensors.partial").write_bytes(b"?")
    (run / "my.partial").write_bytes(b"of somebody else's")
    assert partial_files(tmp_path) == []  # somebody may be writing them
    for path in run.rglob("*.partial"):
        os.utime(path, (0, 0))
    with locked(run / ".lock", "the run", wait=False):
        assert partial_files(tmp_path) == []
    assert partial_files(tmp_path) == [run / ".checkpoint.safetensors.partial", run / "stages" / ".1.partial"]
