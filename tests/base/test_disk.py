"""Locks: one holder at a time however often the lock file is deleted, and none that stays behind; checksums."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import pytest
from filelock import FileLock

from happycat.base.disk import file_sha256, locked, replacing
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


def test_another_users_lock_and_a_folder_that_cannot_be_written_are_one_line_each(tmp_path, monkeypatch):
    """Root may do anything, so the system's refusal is simulated."""

    def refused(self, **_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(FileLock, "acquire", refused)
    lock = tmp_path / ".shop.cat.lock"
    with pytest.raises(StorageError, match=r"shop.cat cannot be changed: nothing can be written to"):
        locked(lock, "shop.cat", wait=False).__enter__()
    lock.write_text(json.dumps({"process": 7, "user": "ann", "host": "h", "command": "happycat app", "since": "9:00"}))
    with pytest.raises(InUseError, match=r"shop.cat is locked by process 7 of ann .* have its user delete"):
        locked(lock, "shop.cat", wait=False).__enter__()


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path):
    secret, copy = tmp_path / "secret", tmp_path / "copy"
    secret.write_text("old")
    secret.chmod(0o640)
    with replacing(secret) as temporary:
        assert temporary.stat().st_mode & 0o777 == 0o600  # nobody else reads it meanwhile
        temporary.write_text("new")
    assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("new", 0o640)
    with replacing(copy, like=secret) as temporary:
        temporary.write_text("copy")
    assert copy.stat().st_mode & 0o777 == 0o640
