"""Products by oneDNN: in fp32 as ever, for large work only, and only for as long as it was asked."""

from __future__ import annotations

import pytest
import torch

from happycat.base import products
from happycat.base.products import products_for
from happycat.base.threads import SMALL

pytestmark = pytest.mark.skipif(
    not hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision"), reason="torch before 2.9"
)


def allowed() -> str:
    return torch.backends.mkldnn.matmul.fp32_precision


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(products, "_are_faster", lambda: True)


def test_large_work_is_left_to_onednn_for_its_time(fast):
    before = allowed()
    with products_for(SMALL):
        assert allowed() == "bf16"
    assert allowed() == before


def test_an_error_ends_it_too(fast):
    before = allowed()
    with pytest.raises(KeyError), products_for(SMALL):
        raise KeyError
    assert allowed() == before


def test_small_work_and_other_machines_are_left_as_they_are(fast, monkeypatch):
    before = allowed()
    with products_for(SMALL / 2):
        assert allowed() == before
    monkeypatch.setattr(products, "_are_faster", lambda: False)
    with products_for(SMALL):
        assert allowed() == before


@pytest.mark.parametrize(
    ("maker", "instructions", "exact", "faster"),
    [
        ("AuthenticAMD", "AVX512", True, True),
        ("AuthenticAMD", "AVX512", False, False),  # in tiles, what is allowed would be done
        ("AuthenticAMD", "AVX2", True, False),
        ("GenuineIntel", "AVX512", True, False),
    ],
)
def test_which_cpus_they_are_for(tmp_path, monkeypatch, maker, instructions, exact, faster):
    (tmp_path / "cpuinfo").write_text(f"vendor_id\t: {maker}\n")
    monkeypatch.setattr(products, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
    monkeypatch.setattr(products, "_are_exact", lambda: exact)
    assert products._are_faster.__wrapped__() is faster


def test_whatever_is_chosen_is_exact_to_fp32():
    a = torch.randn(300, 700, generator=torch.Generator().manual_seed(0))
    with products_for(SMALL):
        product = a @ a.T
    torch.testing.assert_close(product.double(), a.double() @ a.double().T, atol=1e-3, rtol=1e-5)
