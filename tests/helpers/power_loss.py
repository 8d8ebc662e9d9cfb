"""Simulated power loss: what a disk has of a folder, followed from fsync to fsync, and the states it may wake up in.

What a file system promises: the content that a file had at its last fsync, and the entries that a folder had at its
last fsync, are there. Newer content may be lost, and newer entries (a rename, a deletion) may be there or not, whatever
became of the content.
"""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

State = dict[str, bytes | None]  # content by path below the folder; None for a folder


class Disk:
    """The disk below a folder, while something is done there."""

    def __init__(self, root: Path, skip: int | None = None):
        """`skip` is the number of an fsync that is left out."""
        self.root, self.skip, self.random = Path(root), skip, random.Random(0)
        self.content: dict[int, bytes] = {}  # by inode, as of the last fsync
        self.entries: dict[int, dict[str, int]] = {}
        self.states: list[State] = []
        self.syncs = 0
        self._open: dict[int, int] = {}  # handles, so that no inode is used again
        for folder, _, files in os.walk(self.root):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                self._record(self._handle(path))

    def watch(self, act: Callable[[], object]) -> list[State]:
        """Do something; the states that a power failure may leave once it is done."""
        calls = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "unlink")}

        def sync(handle: int) -> None:
            self._look()
            if self.syncs != self.skip:
                calls["fsync"](handle)
                self._record(handle)
            self.syncs += 1

        def noticed(name: str) -> Callable[..., None]:
            def call(*args: object, **kwargs: object) -> None:
                self._look()
                calls[name](*args, **kwargs)

            return call

        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(os, "fsync", sync))
            for name in ("replace", "rename", "unlink"):
                patches.enter_context(mock.patch.object(os, name, noticed(name)))
            act()
        last = self._look()
        for handle in self._open.values():
            os.close(handle)
        return last

    def _handle(self, path: str) -> int:
        inode = os.stat(path).st_ino
        if inode not in self._open:
            self._open[inode] = os.open(path, os.O_RDONLY)
        return self._open[inode]

    def _record(self, handle: int) -> None:
        """Note what a file or folder has now: it is on the disk."""
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            self.entries[status.st_ino] = {entry.name: entry.inode() for entry in os.scandir(handle)}
        else:
            self.content[status.st_ino] = os.pread(handle, status.st_size, 0)

    def _look(self) -> list[State]:
        """Add the states that the disk may be in now, and return them."""
        for folder, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                self._handle(os.path.join(folder, name))
        found = []
        for newer in (lambda: False, lambda: True, lambda: self.random.random() < 0.5):
            state: State = {}
            self._walk(os.stat(self.root).st_ino, "", newer, state)
            found.append(state)
        self.states += [state for state in found if state not in self.states[-3:]]
        return found

    def _walk(self, inode: int, path: str, newer: Callable[[], bool], state: State) -> None:
        entries = self.entries.get(inode, {})
        if newer():
            entries = {entry.name: entry.inode() for entry in os.scandir(self._open[inode])}
        for name, child in entries.items():
            place = f"{path}/{name}" if path else name
            if child in self._open and stat.S_ISDIR(os.fstat(self._open[child]).st_mode):
                state[place] = None
                self._walk(child, place, newer, state)
            else:
                state[place] = self.content.get(child, b"")


def put(state: State, folder: Path) -> Path:
    """A folder as it is after the power failure."""
    for place, content in state.items():
        path = folder / place
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    folder.mkdir(exist_ok=True)
    return folder
