"""Tables with a row for each image: in memory if they are small, else in a temporary file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

from happycat.base import tables
from happycat.base.errors import NoSpaceError


@pytest.fixture
def on_disk(monkeypatch):
    """Every table is large, and rows are computed with three at a time."""
    monkeypatch.setattr(tables, "IN_MEMORY", 0)
    monkeypatch.setattr(tables, "ROWS", 3)


def mapped_files(folder: Path) -> list[str]:
    """The files in a folder, those without a name among them, that this process has mapped into its memory."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in maps if str(folder) in line]


def test_a_small_table_is_in_memory(tmp_path):
    table = tables.empty((5, 2), torch.zeros(0, dtype=torch.int64), tmp_path)
    assert table.shape == (5, 2)
    assert table.dtype is torch.int64
    assert not mapped_files(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_a_large_table_is_a_file_that_goes_with_it(tmp_path, on_disk):
    table = tables.empty((5, 2, 3), torch.zeros(0), tmp_path)
    assert table.shape == (5, 2, 3)
    assert table.dtype is torch.float32
    assert mapped_files(tmp_path)
    assert not list(tmp_path.iterdir())  # it has no name: nobody else finds it, and it never stays behind
    view = table[1:]
    del table
    view.fill_(2.0)
    assert view.sum() == 48
    del view
    assert not mapped_files(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.bfloat16])
def test_rows_come_back_as_they_were(tmp_path, on_disk, dtype):
    rows = torch.arange(14).view(7, 2).to(dtype)
    table = tables.joined([rows[:3], rows[3:3], rows[3:]], 7, tmp_path)
    assert torch.equal(table, rows)
    assert torch.equal(tables.taken(table, torch.tensor([6, 0, 5, 0])), rows[[6, 0, 5, 0]])
    copy = tables.copied(table)
    copy[:] = 0
    assert torch.equal(table, rows)


def test_a_function_of_the_rows_that_are_taken(on_disk):
    rows = torch.arange(7.0)[:, None]
    assert torch.equal(tables.taken(rows, torch.tensor([5, 1, 2, 6]), lambda some: -some), -rows[[5, 1, 2, 6]])


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve room on disk")
def test_a_full_disk_is_said_at_once(tmp_path, on_disk):
    with pytest.raises(NoSpaceError, match="no space left"):
        tables.empty((2 * shutil.disk_usage(tmp_path).total,), torch.zeros(0, dtype=torch.uint8), tmp_path)
