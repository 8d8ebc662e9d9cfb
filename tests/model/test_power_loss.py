"""Power loss while a model file is written: whatever of it reached the disk, no version is lost and no file is torn.

The order of fsync and rename is recorded; then every state of the disk is made that a crash may leave. What was written
to a file and not synced may be there in part; a rename before its folder was synced may have happened or not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from happycat.base import disk
from happycat.base.errors import HappycatError
from happycat.model import file as model_file
from happycat.model.file import Part

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells which file is synced")


class Event(NamedTuple):
    """A file was synced, its content then; or a folder was; or a file took the place of another, with that content."""

    kind: str  # "file", "folder", "rename"
    path: Path
    content: bytes = b""
    source: Path | None = None


def recorded(act: Callable[[], object]) -> list[Event]:
    """What reaches the disk, in order, while something is done."""
    events: list[Event] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(handle: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        events.append(Event("folder", path) if path.is_dir() else Event("file", path, path.read_bytes()))
        fsync(handle)

    def watched_replace(source: Path, target: Path) -> None:
        events.append(Event("rename", Path(target), Path(source).read_bytes(), Path(source)))
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", watched_fsync)
        patch.setattr(os, "replace", watched_replace)
        act()
    return events


def states(events: list[Event], before: bytes | None) -> Iterator[bytes | None]:
    """What a file may hold after a crash at any moment; None: it is not there."""
    for number in range(len(events) + 1):
        synced: dict[Path, bytes] = {}
        possible, newest = [before], [before]
        for event in events[:number]:
            if event.kind == "file":
                synced[event.path] = event.content
            elif event.kind == "rename":
                whole, sure = event.content, event.source is not None and synced.get(event.source) == event.content
                newest = [whole] if sure else [b"", whole[: len(whole) // 2], whole]
                possible = [*possible, *newest]
            else:
                possible = newest
        yield from possible


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "shop.cat"


def part(number: int) -> Part:
    return Part({"number": number}, {"x": np.full(100, float(number))})


def version_in(path: Path, content: bytes | None) -> int | None:
    """The version that a file of this content is at, all of which is whole; None if there is no file."""
    if content is None:
        return None
    path.write_bytes(content)
    model = model_file.read(path)
    assert model.arrays["x"].tolist() == [float(model.metadata["number"])] * 100
    return model.number


def changes(path: Path) -> list[tuple[Callable[[], object], int | None, int]]:
    """What is done to a file, the version before it and the one after it."""
    return [
        (lambda: model_file.create(path, Part({}, {}), part(1), "fit"), None, 1),
        (lambda: model_file.append(path, part(2), model_file.read(path).tag, "correct"), 1, 2),
        (lambda: model_file.undo(path), 2, 1),
        (lambda: model_file.redo(path), 1, 2),
    ]


def test_no_crash_loses_a_version_or_tears_the_file(path, tmp_path):
    for act, old, new in changes(path):
        before = path.read_bytes() if path.exists() else None
        events = recorded(act)
        found = [version_in(tmp_path / "crashed.cat", content) for content in states(events, before)]
        assert set(found) == {old, new}
        assert events[-1] == Event("folder", path.parent)  # what was said to be done is done
        assert found[-1] == new


def test_without_a_sync_before_the_rename_a_crash_would_tear_it(path, tmp_path, monkeypatch):
    """That the test above can fail."""
    (act, *_), *_ = changes(path)
    sync = disk.sync
    monkeypatch.setattr(disk, "sync", lambda one: sync(one) if Path(one).is_dir() else None)
    after = states(recorded(act), None)
    with pytest.raises(HappycatError):
        [version_in(tmp_path / "crashed.cat", content) for content in after]


def test_without_a_sync_of_the_folder_a_version_could_be_lost(path, monkeypatch):
    (act, *_), *_ = changes(path)
    sync = disk.sync
    monkeypatch.setattr(disk, "sync", lambda one: None if Path(one).is_dir() else sync(one))
    assert list(states(recorded(act), None))[-2] is None  # the file may not be there although all was done
