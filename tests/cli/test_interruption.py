"""Ctrl-C and a full disk: what is kept and what to do."""

from __future__ import annotations

import errno
import os
from dataclasses import asdict

import pytest
import torch
import typer

from happycat.backbone.recipe import Recipe
from happycat.backbone.store import FeatureStore
from happycat.base.disk import storage_errors
from happycat.base.errors import InputError, NoSpaceError
from happycat.base.sealed import write_sealed
from happycat.cli import commands
from happycat.cli.display import Display
from happycat.cli.interruption import EXTRACTION, TAG, interruptible, keeping, kept_so_far


def test_ctrl_c_is_one_line_and_code_130(capsys):
    with pytest.raises(typer.Exit) as stop, interruptible("the same command goes on from here"):
        raise KeyboardInterrupt
    assert stop.value.exit_code == 130
    assert capsys.readouterr().err == "happycat: interrupted; the same command goes on from here\n"


def test_a_full_disk_names_only_what_the_command_has(tmp_path):
    with (
        pytest.raises(NoSpaceError) as full,
        interruptible(lambda: "the same command goes on from there"),
        storage_errors(tmp_path),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(full.value) == (
        f"no space left for {tmp_path}; free some, or write elsewhere; the same command goes on from there"
    )


def test_the_cache_goes_when_the_work_is_done(tmp_path):
    with keeping(tmp_path / "shop.cat") as cache:
        (cache / "some.safetensors").write_bytes(b"")
        assert cache == tmp_path / "shop.cat.cache"
        assert os.name == "nt" or cache.stat().st_mode & 0o777 == 0o700
    assert not cache.exists()


def test_the_cache_stays_when_there_is_something_in_it(tmp_path):
    with pytest.raises(KeyboardInterrupt), keeping(tmp_path / "shop.cat") as cache:
        raise KeyboardInterrupt
    assert not cache.exists()
    cache.mkdir()
    for name in (TAG, "some.safetensors"):
        (cache / name).write_bytes(b"")
    with pytest.raises(KeyboardInterrupt), keeping(tmp_path / "shop.cat"):
        raise KeyboardInterrupt
    assert sorted(path.name for path in cache.iterdir()) == [TAG, "some.safetensors"]
    with keeping(tmp_path / "shop.cat") as cache:  # the same command again
        assert (cache / "some.safetensors").exists()


def test_a_cache_whose_command_was_killed_before_it_was_tagged_is_in_nobodys_way(tmp_path):
    (tmp_path / "shop.cat.cache").mkdir()
    with keeping(tmp_path / "shop.cat") as cache:
        assert (cache / TAG).is_file()
    assert not cache.exists()


def test_a_folder_of_somebody_else_is_not_taken_for_the_cache(tmp_path):
    other = tmp_path / "shop.cat.cache" / "letter.txt"
    other.parent.mkdir()
    other.write_text("dear cat")
    with pytest.raises(InputError, match="is in the way"), keeping(tmp_path / "shop.cat"):
        pass
    assert other.exists()


def test_what_is_kept_is_counted(tmp_path):
    display = Display()
    assert kept_so_far(display, tmp_path) == "nothing is embedded yet; the same command begins again"
    recipe = Recipe(
        kind="features", backbone="b", precision="torch.float32", pictures="p", num_pictures=1000,
        view_names=("centre",), image_size=16, crop_share=0.875, mirror=True, view_seed=0, num_tokens=1, dim=4,
    )  # fmt: skip
    store = FeatureStore(tmp_path, recipe)
    write_sealed(store.folder / "recipe.json", asdict(recipe))
    with display:
        display.step(EXTRACTION, 1000)(300)
        display.step("learning")
    assert kept_so_far(display, tmp_path) == "nothing is embedded yet; the same command begins again"
    store._write(3, {"features": torch.zeros(64, 1, 4)})  # a shard
    assert kept_so_far(display, tmp_path) == (
        f"64 of 1,000 images are embedded and kept in {tmp_path}; the same command goes on from there"
    )


def test_ctrl_c_before_the_command_begins(monkeypatch, capsys):
    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "app", stop)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "happycat: interrupted\n"
