"""Atomic file writes and file locks: a temporary name, fsync, rename, so that no file is ever half-written."""

from __future__ import annotations

import datetime
import errno
import getpass
import hashlib
import json
import os
import platform
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, SoftFileLock, Timeout

from happycat.base.errors import HappycatError, InputError, InUseError, NoSpaceError, StorageError
from happycat.base.strict_json import LARGEST, json_bytes, parse_json

PARTIAL = ".partial"  # how the name of a file ends that is not whole yet


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
    temporary = path.with_name(f".{path.name}{PARTIAL}")
    make_folder(path.parent)
    with storage_errors(path):
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


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder that is still there after a power failure, and those above it; one that is there stays as it is."""
    path = Path(path)
    with storage_errors(path):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode if folder == path else 0o777, exist_ok=True)
            sync(folder.parent)


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


def delete(path: Path) -> None:
    """Delete a file or a folder with all that is in it."""
    with storage_errors(path):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


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


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock file `path`; one that a killed process left is removed."""
    try:
        with locked(path, str(path), wait=False):
            return False
    except HappycatError:  # it is in use, or another user's
        return True


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
        content = parse_json(Path(path).read_bytes(), str(path))
        words = {key: "".join(c if c.isprintable() else "?" for c in str(content[key])) for key in _myself()}
    except (OSError, HappycatError, KeyError, TypeError):  # it has just begun or ended, or the system does not show it
        return "another process"
    return "process {process} of {user} on {host} ({command}) since {since}".format_map(words)


def write_bytes(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def read_bytes(path: Path) -> bytes:
    """The content of a file that is there; of one that is too large to be JSON, the beginning."""
    content = bytearray()
    try:
        with open(path, "rb") as file:
            while len(content) <= LARGEST and (block := file.read(1 << 16)):
                content += block
        return bytes(content)
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error})") from error


def write_json(path: Path, data: object) -> None:
    write_bytes(path, json_bytes(data, indent=1) + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    return json_object(read_bytes(path), str(path))


def json_object(text: bytes, what: str) -> dict[str, Any]:
    """The JSON object that a text holds."""
    found = parse_json(text, what)
    if not isinstance(found, dict):
        raise InputError(f"{what} cannot be used: it holds {type(found).__name__} where a JSON object is needed")
    return found
