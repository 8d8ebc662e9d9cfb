"""Matrix products in fp32 by oneDNN instead of MKL, which does not use AVX-512 on CPUs that are not Intel's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch

from happycat.base.threads import SMALL, threads_for

CPUINFO = Path("/proc/cpuinfo")
ROUNDING = 1e-5  # of a product's largest number; fp32 has 1e-7, bf16 has 4e-3


@contextmanager
def products_for(flops: float) -> Iterator[None]:
    """Products by oneDNN where these are faster, for work of so many operations a step; in fp32 either way."""
    if not are_faster_for(flops):
        yield
        return
    before = _allow("bf16")
    try:
        yield
    finally:
        _allow(before)


@contextmanager
def computing(flops: float) -> Iterator[None]:
    """Threads and products as they suit work of so many operations a step."""
    with threads_for(flops), products_for(flops):
        yield


def are_faster_for(flops: float) -> bool:
    """Whether work of so many operations a step has its products by oneDNN."""
    return flops >= SMALL and _are_faster()


def _allow(precision: str) -> str:
    """Set what precision oneDNN may use for products in fp32; returns what it was.

    If bf16 is allowed, torch leaves products to oneDNN. A CPU that multiplies bf16 in tiles (AMX) then takes it; on
    others oneDNN stays with fp32.
    """
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before, settings.fp32_precision = settings.fp32_precision, precision
    return before


@lru_cache(1)
def _are_faster() -> bool:
    """Whether this is a CPU of AMD's with AVX-512, and oneDNN's products are in fp32 there."""
    if not hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision"):
        return False  # torch before 2.9
    amd = CPUINFO.exists() and "AuthenticAMD" in CPUINFO.read_text()
    return amd and torch.backends.cpu.get_cpu_capability() == "AVX512" and _are_exact()


def _are_exact() -> bool:
    a = torch.rand(64, 256, generator=torch.Generator().manual_seed(0))
    before = _allow("bf16")
    try:
        product = a @ a.T
    finally:
        _allow(before)
    exact = a.double() @ a.double().T
    return bool((product - exact).abs().max() < ROUNDING * exact.max())
