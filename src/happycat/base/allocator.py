"""Memory allocator settings (glibc malloc): freed memory is kept for reuse."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -4, -8  # glibc's malloc.h


def keep_freed_memory() -> None:
    """Have glibc reuse large blocks instead of giving them back; other systems stay as they are.

    A training step frees and allocates hundreds of megabytes. Given back, each page of them is cleared and
    mapped anew at every step, which takes longer than the arithmetic on it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_ARENA_MAX, 1)  # a thread's own arena ends at 64 MB, and what is larger would be given back after all
    mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
