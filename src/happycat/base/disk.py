"""Atomic file writes and file locks: a temporary name, fsync, rename, so that no file is ever half-written."""

from __future__ import annotations

import datetime
import errno
import getpass
import hashlib
import json
import os
import platform
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

from happycat.base.errors import InputError, InUseError, NoSpaceError, StorageError


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpaceError(f"no space left for {path}; free some, or write elsewhere") from error
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def file_sha256(path: Path) -> bytes:
    """The SHA-256 of a file's content, 32 bytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


@contextmanager
def replacing(path: Path, like: Path | None = None) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes the place of `path` when the block ends well.

    Who may read it is as it was from the first byte on, or as it is with the file `like`.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.partial")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            before = _owner_and_mode(like or path)
            if before is not None:
                temporary.unlink(missing_ok=True)  # of a process that was killed
                os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            yield temporary
            if before is not None:
                _give(temporary, before)
            sync(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync(path.parent)


def _owner_and_mode(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _give(path: Path, before: os.stat_result) -> None:
    """Let those read and write a file who could before."""
    if os.name != "nt" and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(OSError):  # only root may
            os.chown(path, before.st_uid, before.st_gid)
    os.chmod(path, stat.S_IMODE(before.st_mode))


def sync(path: Path) -> None:
    """Have the system write a file or folder out to the disk."""
    if os.name == "nt" and Path(path).is_dir():
        return  # Windows neither can nor needs to
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, what: str, wait: bool) -> Iterator[None]:
    """Hold the lock file `path`, which stands for `what`; if another process does, wait, or say who it is.

    The system frees the lock of a process that is killed; its file goes when the next one is done. It is deleted while
    it is held, which is safe: a lock on a deleted file counts for nothing (filelock looks at its number of links).
    """
    lock = FileLock(path)
    with storage_errors(path):
        try:
            lock.acquire(blocking=wait)
        except Timeout:
            raise InUseError(f"{what} is in use by {_holder(path)}; try again when that is done") from None
        except PermissionError as error:
            if os.path.exists(path):
                raise InUseError(
                    f"{what} is locked by {_holder(path)}; if that has ended, have its user delete {path}"
                ) from error
            raise StorageError(f"{what} cannot be changed: nothing can be written to {path.parent}") from error
    try:
        by_name = not isinstance(lock, SoftFileLock)  # such a lock, for want of a better one, is its file
        if by_name:
            with storage_errors(path), open(path, "r+", encoding="utf-8") as file:
                file.truncate()
                file.write(json.dumps(_myself()))
        yield
    finally:
        if by_name:
            with suppress(OSError):  # Windows does not delete what is open; filelock does it there
                Path(path).unlink()
        lock.release()


def _myself() -> dict[str, str | int]:
    """Who holds a lock: process, user, machine, command, and since when."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name, as in some containers
        user = "unknown user"
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]
    since = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    return {"process": os.getpid(), "user": user, "host": platform.node(), "command": command, "since": since}


def _holder(path: Path) -> str:
    """Who holds a lock, in words."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        words = {key: "".join(c if c.isprintable() else "?" for c in str(content[key])) for key in _myself()}
    except (OSError, ValueError, KeyError, TypeError):  # it has just begun or ended, or the system does not show it
        return "another process"
    return "process {process} of {user} on {host} ({command}) since {since}".format_map(words)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, data: object) -> None:
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict:
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error})") from error
