"""Locks: one holder at a time however often the lock file is deleted, and none that stays behind; checksums."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from happycat.base.disk import file_sha256, locked
from happycat.base.errors import InUseError, StorageError

COUNT = """
import sys
from pathlib import Path
from happycat.base.disk import locked
folder = Path(sys.argv[1])
for _ in range(60):
    with locked(folder / ".lock", "the count", wait=True):
        number = int((folder / "count").read_text())
        (folder / "count").write_text(str(number + 1))
"""


def test_several_processes_take_turns(tmp_path):
    (tmp_path / "count").write_text("0")
    run = [sys.executable, "-c", COUNT, str(tmp_path)]
    processes = [subprocess.Popen(run, env=os.environ) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "180"
    assert [path.name for path in tmp_path.iterdir()] == ["count"]


def test_a_lock_that_is_held_is_refused_and_free_again_afterwards(tmp_path):
    lock = tmp_path / ".lock"
    with locked(lock, "the run", wait=False):
        with pytest.raises(InUseError, match=rf"^the run is in use by process {os.getpid()} of "):
            locked(lock, "the run", wait=False).__enter__()
        assert lock.exists()
    assert not lock.exists()
    with pytest.raises(ZeroDivisionError), locked(lock, "the run", wait=False):
        raise ZeroDivisionError
    assert not lock.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"process": 1}'])
def test_a_holder_that_cannot_be_read_is_another_process(tmp_path, content):
    lock = tmp_path / ".lock"
    with locked(lock, "the run", wait=False):
        lock.write_text(content)
        with pytest.raises(InUseError, match="in use by another process"):
            locked(lock, "the run", wait=False).__enter__()


def test_a_lock_that_cannot_be_written_is_an_error_of_storage(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        locked(tmp_path / "file" / ".lock", "the run", wait=False).__enter__()


@pytest.mark.parametrize("size", [0, 3, 1 << 20, (1 << 20) + 5, 3 << 20])
def test_the_checksum_of_a_file_of_any_number_of_blocks(tmp_path, size):
    content = bytes(i % 251 for i in range(1000)) * (size // 1000 + 1)
    (tmp_path / "file").write_bytes(content[:size])
    assert file_sha256(tmp_path / "file") == hashlib.sha256(content[:size]).digest()
