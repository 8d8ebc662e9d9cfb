"""The number of threads: one for small work, otherwise one for each core that no other process keeps busy.

An operation on several threads ends when the last of them does. If another process has that one's core, all wait for
it, operation after operation, and small work takes ten times as long as on one thread. Who sets OMP_NUM_THREADS
decides alone. Sums depend on the number of threads in their last bits: the same number gives the same bits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits
from torch import nn

SMALL = 1e8  # floating-point operations of a step; a core does that many in about two milliseconds
STEP_VIEWS = 64  # views that a step of a network is reckoned with
SAMPLE = 0.1  # seconds over which the other processes are watched
VALID = 30  # seconds for which what was seen is taken to hold
STAT = Path("/proc/stat")


def network_flops(network: nn.Module) -> float:
    """Floating-point operations of a step of a network, at the least: every weight is used once for each view."""
    return 2.0 * STEP_VIEWS * sum(p.numel() for p in network.parameters())


def features_flops(features: torch.Tensor) -> float:
    """Floating-point operations of one linear map of features (…, D) into a space of as many dimensions."""
    return 2.0 * features.numel() * features.shape[-1]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """How many cores other processes keep busy, without those that give way to every other one (`nice`)."""
    return _load(int(time.monotonic() // VALID))


@lru_cache(1)
def _load(_: int) -> float:
    if not STAT.exists():  # no Linux: the mean over a minute, in which everything counts
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    started, busy, own = time.monotonic(), _busy_seconds(), time.process_time()
    time.sleep(SAMPLE)
    others = _busy_seconds() - busy - (time.process_time() - own)
    return max(0.0, others / (time.monotonic() - started))


def _busy_seconds() -> float:
    """Processor time of all processes since the machine was started, without nice ones."""
    user, _, system, _, _, irq, softirq, steal = map(int, STAT.read_text().split()[1:9])
    return (user + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def suitable(flops: float) -> int:
    """How many threads work of so many floating-point operations a step takes now; never more than torch has."""
    if os.environ.get("OMP_NUM_THREADS"):
        return torch.get_num_threads()
    return 1 if flops < SMALL else max(1, min(torch.get_num_threads(), round(cores() - load())))


def threads_for(flops: float) -> AbstractContextManager[None]:
    """As many threads as are suitable for the work; afterwards it is as before."""
    return at_most(suitable(flops))


@contextmanager
def at_most(number: int) -> Iterator[None]:
    """Have torch and the linear algebra of NumPy and SciPy use so many threads, or as many as they have if fewer.

    With OMP_NUM_THREADS set, everything stays as it is.
    """
    before = torch.get_num_threads()
    if os.environ.get("OMP_NUM_THREADS") or number >= before:
        yield
        return
    with threadpool_limits(number):
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)
