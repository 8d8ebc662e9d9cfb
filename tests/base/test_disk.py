"""Files: replaced as a whole, with the permissions they had; locks: one holder at a time, and none stays behind."""

from __future__ import annotations

import errno
import getpass
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from happycat.base import disk
from happycat.base.disk import (
    delete,
    file_sha256,
    is_held,
    json_object,
    locked,
    make_folder,
    read_bytes,
    read_json,
    replacing,
    storage_errors,
    sync,
    write_json,
    write_text,
)
from happycat.base.errors import InputError, InUseError, NoSpaceError, StorageError

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
        with pytest.raises(InUseError, match=r"^the run is in use by another process; try again when that is done$"):
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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_no_space_is_an_error_of_its_own(number):
    with (
        pytest.raises(NoSpaceError, match=r"^no space left for shop\.cat; free some, or write elsewhere$"),
        storage_errors(Path("shop.cat")),
    ):
        raise OSError(number, "no")
    with (
        pytest.raises(StorageError, match=r"^cannot write shop\.cat: Is a directory$") as caught,
        storage_errors(Path("shop.cat")),
    ):
        raise OSError(errno.EISDIR, "Is a directory")
    assert not isinstance(caught.value, NoSpaceError)
    with pytest.raises(StorageError, match=r"cannot write shop\.cat: odd"), storage_errors(Path("shop.cat")):
        raise OSError("odd")


def test_a_file_is_written_under_a_hidden_name_that_tells_it_is_not_whole(tmp_path):
    def interrupted() -> None:
        with replacing(tmp_path / "file") as temporary:
            assert temporary == tmp_path / ".file.partial"
            temporary.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert list(tmp_path.iterdir()) == []
    with replacing(tmp_path / "file") as temporary:
        temporary.write_text("whole")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_process_left_is_written_over(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / ".file.partial").write_text("half of something longer")
    write_text(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_new_folders_have_the_usual_permissions_but_for_the_last(tmp_path):
    mask = os.umask(0o022)
    try:
        make_folder(tmp_path / "a/b/c", 0o700)
        make_folder(tmp_path / "d")
    finally:
        os.umask(mask)
    found = {name: (tmp_path / name).stat().st_mode & 0o7777 for name in ("a", "a/b", "a/b/c", "d")}
    assert found == {"a": 0o755, "a/b": 0o755, "a/b/c": 0o700, "d": 0o755}


def test_a_folder_that_another_process_makes_at_the_same_moment_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(Path, "exists", lambda path: path.name != "there")
    make_folder(tmp_path / "there")


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_a_file_of_somebody_else_stays_theirs_where_that_may_be(tmp_path, monkeypatch):
    path, given = tmp_path / "file", []
    path.write_text("old")
    owner = path.stat()
    monkeypatch.setattr(os, "chown", lambda *values: given.append(values[1:]))
    write_text(path, "mine")
    assert given == []  # it is ours already
    for name, other in (("geteuid", owner.st_uid + 1), ("getegid", owner.st_gid + 1)):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda other=other: other)
            write_text(path, "new")
    assert given == [(owner.st_uid, owner.st_gid)] * 2

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refused)
    monkeypatch.setattr(os, "geteuid", lambda: owner.st_uid + 1)
    write_text(path, "newer")  # only root may give files away
    assert path.read_text() == "newer"


def test_files_and_folders_are_deleted_and_what_is_not_there_is_no_error(tmp_path):
    (tmp_path / "folder/inner").mkdir(parents=True)
    (tmp_path / "folder/inner/file").write_text("")
    (tmp_path / "file").write_text("")
    for name in ("folder", "file", "nothing"):
        delete(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_syncing_leaves_no_file_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        sync(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_who_holds_a_lock_is_told_in_full(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/happycat", "fit", "a\nb", "x" * 300])
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    with locked(tmp_path / ".lock", "it", wait=False):
        held = json.loads((tmp_path / ".lock").read_text("utf-8"))
        with pytest.raises(InUseError, match=r" of ann on .* \(happycat fit a\?b x+\) since 2\d\d\d-[-:+ \d]+; try"):
            locked(tmp_path / ".lock", "it", wait=False).__enter__()
    assert held["process"] == os.getpid()
    assert len(held["command"]) == 200
    assert len(held["since"]) == len("2026-01-01 10:00:00+00:00")


def test_a_user_without_a_name_holds_a_lock(tmp_path, monkeypatch):
    def nobody():
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with (
        locked(tmp_path / ".lock", "it", wait=False),
        pytest.raises(InUseError, match="of unknown user on"),
        locked(tmp_path / ".lock", "it", wait=False),
    ):
        pass


def test_a_lock_file_that_a_killed_process_left_is_written_anew(tmp_path):
    (tmp_path / ".lock").write_text("x" * 1000)
    with locked(tmp_path / ".lock", "it", wait=False):
        assert json.loads((tmp_path / ".lock").read_text("utf-8"))["process"] == os.getpid()


def test_whether_a_lock_is_held(tmp_path):
    lock = tmp_path / ".lock"
    lock.write_text("")
    assert is_held(lock) is False
    assert not lock.exists()
    with locked(lock, "it", wait=False):
        assert is_held(lock) is True
    assert is_held(lock) is False


def test_a_lock_is_released_at_once_and_not_when_memory_is_tidied_up(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(disk, "FileLock", lambda path: kept.append(FileLock(path)) or kept[-1])
    with locked(tmp_path / ".lock", "it", wait=False):
        assert kept[0].is_locked
    assert not kept[0].is_locked


def test_no_more_of_a_file_is_read_than_can_be_json(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "LARGEST", (1 << 16) - 1)
    (tmp_path / "file").write_bytes(bytes(200_000))
    assert len(read_bytes(tmp_path / "file")) == 1 << 16
    (tmp_path / "file").write_bytes(bytes(70_000))
    monkeypatch.setattr(disk, "LARGEST", 1 << 16)
    assert len(read_bytes(tmp_path / "file")) == 70_000


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(InputError, match=r"^there is no file .*nothing$"):
        read_bytes(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)$"):
        read_bytes(tmp_path)


def test_json_of_a_file_is_an_object(tmp_path):
    write_json(tmp_path / "file", {"a": [1]})
    assert (tmp_path / "file").read_text() == '{\n "a": [\n  1\n ]\n}\n'
    assert read_json(tmp_path / "file") == {"a": [1]}
    with pytest.raises(InputError, match="the file cannot be used: it holds list where a JSON object is needed"):
        json_object(b"[]", "the file")
