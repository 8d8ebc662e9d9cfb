"""Freed memory is kept, whichever thread asked for it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource
from concurrent.futures import ThreadPoolExecutor
import torch
from happycat.base.allocator import keep_freed_memory

keep_freed_memory()

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(25_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with ThreadPoolExecutor(1) as pool:
    print(*(pool.submit(faults).result() for _ in range(5)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to")
def test_a_thread_reuses_large_memory():
    """100 MB are 24,000 pages of 4 kB, or 49 of 2 MB; after the first few times they are not mapped anew."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    first, *_, last = map(int, done.stdout.split())
    assert first >= 40
    assert last < first / 4
