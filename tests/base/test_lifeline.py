"""Lifelines: which process has died is said, whatever else comes of it."""

from __future__ import annotations

import threading
import time

import pytest
import torch.distributed as dist

from happycat.base import lifeline
from happycat.base.lifeline import Lifeline


@pytest.fixture
def death(monkeypatch):
    """When it is set, the second process dies; this one, the first, hears of it a moment later."""
    death = threading.Event()

    def hear(*_, **__):
        death.wait(20)
        time.sleep(0.1)
        raise RuntimeError("connection closed by peer")

    for name, stub in {"get_rank": 0, "get_world_size": 2, "new_group": dist, "send": None}.items():
        monkeypatch.setattr(dist, name, lambda *_, stub=stub, **__: stub)
    monkeypatch.setattr(dist, "ProcessGroup", object)
    monkeypatch.setattr(dist, "recv", hear)
    monkeypatch.setattr(lifeline, "LAST_WORDS", 0.5)
    yield death
    death.set()


def test_an_error_that_comes_of_a_death_does_not_hide_it(death, monkeypatch, capsys):
    """As when a batch cannot be gathered, or a launcher ends the processes that are left."""
    ended = []
    monkeypatch.setattr(lifeline.os, "_exit", ended.append)
    line = Lifeline("go on with --resume")
    death.set()
    line.close(failed=True)
    assert ended == [1]
    expected = "happycat: process 2 of 2 has ended before the work was done; go on with --resume\n"
    assert capsys.readouterr().err == expected
