"""Power loss while a file is written: it is the old one or the new one, and the new one once that was said."""

from __future__ import annotations

import shutil

import pytest

from happycat.base.disk import make_folder, read_json, write_json
from happycat.base.errors import HappycatError
from happycat.base.sealed import read_sealed, write_sealed
from tests.helpers.power_loss import Disk, put

OLD, NEW = {"version": 1}, {"version": 2, "more": [1, 2, 3]}


@pytest.mark.parametrize(("write", "read"), [(write_json, read_json), (write_sealed, read_sealed)])
def test_a_file_is_the_old_one_or_the_new_one(tmp_path, write, read):
    (tmp_path / "disk").mkdir()
    write(tmp_path / "disk/file.json", OLD)
    disk = Disk(tmp_path / "disk")
    last = disk.watch(lambda: write(tmp_path / "disk/file.json", NEW))
    found = [read(put(state, tmp_path / str(i)) / "file.json") for i, state in enumerate(disk.states)]
    assert [content for content in found if content not in (OLD, NEW)] == []
    assert OLD in found
    assert [read(put(state, tmp_path / f"last{i}") / "file.json") for i, state in enumerate(last)] == [NEW] * len(last)


def test_a_new_file_in_new_folders_is_there_when_that_was_said(tmp_path):
    (tmp_path / "disk").mkdir()
    for state in Disk(tmp_path / "disk").watch(lambda: write_json(tmp_path / "disk/a/b/file.json", NEW)):
        shutil.rmtree(tmp_path / "after", ignore_errors=True)
        assert read_json(put(state, tmp_path / "after") / "a/b/file.json") == NEW


def number_of_syncs(tmp_path) -> int:
    (tmp_path / "counted").mkdir()
    disk = Disk(tmp_path / "counted")
    disk.watch(lambda: write_json(tmp_path / "counted/a/b/file.json", NEW))
    return disk.syncs


def test_every_fsync_is_needed(tmp_path):
    """Without any one of them, a power failure could lose or tear the file."""
    assert number_of_syncs(tmp_path) == 4  # two new folders, the file, its folder
    for skipped in range(4):
        root = tmp_path / f"disk{skipped}"
        root.mkdir()
        disk, bad = Disk(root, skipped), 0
        last = disk.watch(lambda root=root: write_json(root / "a/b/file.json", NEW))
        for i, state in enumerate(last):
            try:
                bad += read_json(put(state, tmp_path / f"after{skipped}-{i}") / "a/b/file.json") != NEW
            except HappycatError:
                bad += 1
        assert bad, f"fsync {skipped} could be left out and nobody would notice"


def test_a_folder_that_is_there_stays_as_it_is(tmp_path):
    (tmp_path / "there").mkdir(mode=0o755)
    make_folder(tmp_path / "there", 0o700)
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o755
    make_folder(tmp_path / "new/one", 0o700)
    assert (tmp_path / "new/one").stat().st_mode & 0o777 == 0o700
