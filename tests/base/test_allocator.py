"""Freed memory is kept, whichever thread asks for it next."""

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

def faults(megabytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(megabytes * 250_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with ThreadPoolExecutor(1) as pool:
    print(faults(200), pool.submit(faults, 100).result())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told to")
def test_a_thread_takes_what_another_has_freed():
    """200 MB are 49,000 pages of 4 kB, or 98 of 2 MB; the 100 MB that come after them need no new ones."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    first, later = map(int, done.stdout.split())
    assert first >= 90
    assert later < first / 4
