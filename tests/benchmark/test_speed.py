"""The meter of the throughput benchmark: rates of one process, and of several together."""

from __future__ import annotations

import itertools
import time

import pytest
import torch
from torch import Tensor

from happycat.base.ranks import ALONE, Ranks
from happycat.benchmark.speed import Meter

CPU = torch.device("cpu")


def naps(views: float):
    """Steps of a hundredth of a second."""
    while True:
        time.sleep(0.01)
        yield views


class Three(Ranks):
    """The first of three processes that do the same."""

    size = 3

    def sum(self, tensor: Tensor) -> Tensor:
        return 3 * tensor


class Second(Ranks):
    """The second of two processes; the first goes on for five steps, and has computed nothing."""

    rank, size = 1, 2

    def __init__(self):
        self.first_says = itertools.chain([1.0] * 5, itertools.repeat(0.0))

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor + next(self.first_says)


def test_the_rate_of_one_process():
    assert 0 < Meter(0.1, CPU).rate(naps(5)) <= 500


def test_the_rates_of_processes_are_added_up(monkeypatch):
    clock = itertools.count()  # a second between any two looks
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    alone, three = (Meter(10, CPU, ranks).rate(itertools.repeat(4), warm_up=0) for ranks in (ALONE, Three()))
    assert three == pytest.approx(3 * alone)


def test_a_process_takes_as_many_steps_as_the_first(monkeypatch):
    taken = []
    Meter(0, CPU, Second()).rate((taken.append(step) or 1.0 for step in itertools.count()), warm_up=2)
    assert len(taken) == 2 + 5
