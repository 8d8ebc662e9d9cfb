"""Lifelines between processes that compute together: when one of them dies, the others notice at once and end, too."""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

DONE, FAILED = 0, -1  # what a process says when it ends; more: the process of that number, less 1, has died
PATIENCE = timedelta(days=20)  # of a connection on which nothing is said; about as much as its clock can count
LAST_WORDS = 5.0  # seconds in which the first process says why it ends
NOTICED = 1.0  # seconds in which it is noticed that another process has died


class Lifeline:
    """A connection of each process with the first one, open until both say that they are done.

    A process that is killed closes its connections. The first notices, says which it was, and ends all the others;
    where it is the first that died, the others notice.
    """

    def __init__(self, advice: str):
        """`advice` is what to do when a process has died."""
        self.rank, self.size, self.advice = dist.get_rank(), dist.get_world_size(), advice
        group = dist.new_group(backend="gloo", timeout=PATIENCE)
        assert isinstance(group, dist.ProcessGroup)  # this process is in it
        self._group = group
        self._peers = range(1, self.size) if self.rank == 0 else range(1)
        self._watchers = [threading.Thread(target=self._watch, args=(peer,), daemon=True) for peer in self._peers]
        self._said = threading.Event()  # the first process has said why it ends
        self._lost = threading.Event()  # a process has died; it is about to be said
        for watcher in self._watchers:
            watcher.start()

    def close(self, failed: bool = False) -> None:
        """Say that this process ends, well or because of an error; if well, wait until the others say so, too.

        An error, or a signal of the launcher, may come of another process's death: then that is what is said.
        """
        if failed and self._lost.wait(NOTICED):
            time.sleep(LAST_WORDS)  # a watcher ends this process meanwhile
        self._say(FAILED if failed else DONE)
        if not failed:
            for watcher in self._watchers:
                watcher.join()

    def first_has_said_why(self) -> bool:
        """Whether the first process ends with an error, and so has said what is wrong; waits a little for it."""
        return self._said.wait(LAST_WORDS)

    def _say(self, word: int) -> None:
        for peer in self._peers:
            try:
                dist.send(torch.tensor([word]), peer, group=self._group)
            except RuntimeError:  # that one is gone already
                continue

    def _watch(self, peer: int) -> None:
        """Wait for the last word of a process; if it is not that all is done, end this process as well."""
        word = torch.tensor([peer + 1])
        try:
            dist.recv(word, peer, group=self._group)
        except RuntimeError:
            word = torch.tensor([peer + 1])
        if int(word) == DONE:
            return
        if int(word) == peer + 1:
            self._lost.set()
        self._said.set()
        time.sleep(2 * LAST_WORDS if int(word) == FAILED else 0)  # this process may be about to end by itself
        if self.rank == 0:
            self._say(int(word))
        if int(word) == peer + 1:
            line = f"process {peer + 1} of {self.size} has ended before the work was done; {self.advice}"
            print(f"happycat: {line}", file=sys.stderr, flush=True)
        os._exit(2 if int(word) == FAILED else 1)
