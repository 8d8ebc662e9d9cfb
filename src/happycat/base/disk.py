"""Writing so that nothing is ever half there: a temporary name, fsync, rename."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: processes do not notice each other there
    fcntl = None

from happycat.base.errors import InputError, NoSpaceError, StorageError


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into one clear line."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpaceError(f"no space left for {path}; free some, or write elsewhere") from error
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes the place of `path` when the block ends well."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.partial")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            sync(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        sync(path.parent)


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
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds the lock file, then hold it."""
    with open(path, "w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, data) -> None:
    write_text(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict:
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error})") from error
