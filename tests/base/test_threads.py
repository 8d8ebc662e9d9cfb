"""How many threads work takes: by its size, by what other processes leave free, and by what a person asked for."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from happycat.backbone.scratch import scratch_model
from happycat.base import threads

LARGE = 100 * threads.SMALL


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Four cores, four threads, nobody else; and nobody asked for anything."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "cores", lambda: 4)
    monkeypatch.setattr(threads, "load", lambda: 0.0)
    torch.set_num_threads(4)


def test_small_work_takes_one_thread():
    assert threads.suitable(threads.SMALL / 2) == 1
    assert threads.suitable(LARGE) == 4


def test_a_small_vit_is_small_and_a_usual_one_is_not():
    small = scratch_model("scratch_vit", None, torch.Generator().manual_seed(0))
    assert threads.suitable(threads.network_flops(small)) == 1
    assert threads.suitable(threads.network_flops(nn.Linear(1000, 5000))) == 4  # five million weights
    assert threads.network_flops(nn.Linear(10, 5, bias=False)) == 2 * 64 * 50
    assert threads.features_flops(torch.zeros(7, 3, 10)) == 2 * 7 * 3 * 10 * 10


@pytest.mark.parametrize(("load", "number"), [(0.3, 4), (1.0, 3), (2.2, 2), (3.9, 1), (9.0, 1)])
def test_large_work_takes_the_cores_that_are_free(monkeypatch, load, number):
    monkeypatch.setattr(threads, "load", lambda: load)
    assert threads.suitable(LARGE) == number


def test_what_a_person_asked_for_holds(monkeypatch):
    torch.set_num_threads(2)
    assert threads.suitable(LARGE) == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    torch.set_num_threads(3)  # as torch does when it is imported
    assert threads.suitable(1) == 3
    with threads.threads_for(1):
        assert torch.get_num_threads() == 3


def test_afterwards_it_is_as_before():
    def failing():
        with threads.threads_for(1):
            assert torch.get_num_threads() == 1
            with threads.at_most(3):  # within small work there is none for more
                assert torch.get_num_threads() == 1
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert torch.get_num_threads() == 4


def test_the_load_is_what_others_use_and_do_not_give_way(monkeypatch, tmp_path):
    stat = tmp_path / "stat"

    def at(user, nice, system, idle):
        stat.write_text(f"cpu  {user} {nice} {system} {idle} 5 0 0 0 0 0\ncpu0 1 2 3\n")

    def sleep(seconds):
        real(seconds)
        # Hundredths of a second: others worked 0.15 s, nice ones 9 s
        at(100 + round(15 * ticks / 100), 900 * ticks // 100, 50, 1000)

    real, ticks = time.sleep, threads.os.sysconf("SC_CLK_TCK")
    monkeypatch.undo()
    monkeypatch.setattr(threads, "STAT", stat)
    monkeypatch.setattr(threads.time, "sleep", sleep)
    at(100, 0, 50, 1000)
    threads._load.cache_clear()
    seen = threads.load()
    assert 0.5 < seen < 1.6  # 1.5 at most, less if the machine was slow to wake
    assert threads.load() == seen
    threads._load.cache_clear()
