"""What is printed of a discovery: how many new classes, how sure that is, and why it may be rough."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from happycat.cli.output import found_sentence, print_rows
from happycat.images.sources import VectorRows
from happycat.methods.calm.number import Count
from happycat.model.results import Assignment, Discovery

ROWS = [Assignment("a.png", 0, "ant", 0.9, False), Assignment("b.png", None, "unknown", 0.4, True)]


def discovery(number: int, low: int, high: int, doubt: str = "", smallest: int | None = None) -> Discovery:
    return Discovery(
        assigned=ROWS,
        new=list(range(7, 7 + number)),
        count=Count(number, low, high, [number], [1.0], smallest=smallest),
        doubt=doubt,
        points=torch.zeros(2, 3),
        learned=torch.zeros(2, 3),
        digests=np.zeros((2, 16), np.uint8),
        counted=np.full(2, -1),
        pictures=VectorRows(torch.zeros(2, 3).numpy()),
    )


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((3, 3, 3), "3 new classes"),
        ((3, 2, 5), "3 new classes (between 2 and 5)"),
        ((3, 2, 3), "3 new classes (2 or 3)"),
        ((0, 0, 0), "no new class"),
        ((0, 0, 1), "no new class (0 or 1: perhaps nothing is new)"),
        ((1, 0, 1), "1 new class (0 or 1: perhaps nothing is new)"),
        ((0, 0, 3), "no new class (between 0 and 3: perhaps nothing is new)"),
        ((1, 0, 3), "1 new class (between 0 and 3: perhaps nothing is new)"),
        ((1, 1, 2), "1 new class (1 or 2)"),
    ],
)
def test_the_number_and_what_else_is_plausible(numbers, said):
    assert found_sentence(discovery(*numbers)) == f"2 images: {said}; 1 images it is unsure about"


def test_a_rough_number_is_said_with_the_flag_that_helps():
    said = found_sentence(discovery(2, 1, 4, "Little is known: the number is rough."))
    assert said.splitlines()[1] == "Little is known: the number is rough. If you know it, give --new K."


def test_which_classes_are_too_small_to_be_noticed_is_said():
    said = found_sentence(discovery(2, 1, 4, smallest=8)).splitlines()
    assert said[1:] == ["A new class of fewer than about 8 images would hardly be noticed, and is not counted."]
    assert len(found_sentence(discovery(2, 1, 4, smallest=1)).splitlines()) == 1


def test_a_spreadsheet_runs_nothing_that_is_predicted(capsys):
    rows = [Assignment("=cmd|x!A.png", 0, "@ant", 0.9, False), Assignment("b.png", None, -1, 0.4, True)]
    print_rows(rows, as_json=False, as_csv=True)
    _, first, second = capsys.readouterr().out.splitlines()
    assert first == "'=cmd|x!A.png,0,'@ant,0.9000,"
    assert second == "b.png,,-1,0.4000,yes"
