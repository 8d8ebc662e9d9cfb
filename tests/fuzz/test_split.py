"""Hostile split files: one line, at once, in little memory."""

from __future__ import annotations

import copy
import json
import random
import tracemalloc

import pytest

from happycat.base.errors import InputError
from happycat.base.strict_json import as_json
from happycat.benchmark.protocol import Split
from tests.helpers.records import SPLIT

ODD = [
    None,
    True,
    0,
    -1,
    10**9,
    1e300,
    0.5,
    "",
    "a",
    "x" * 1000,
    [],
    {},
    [[]],
    {"a": 1},
    [None],
    ["a", "a"],
    {"a": ["1"]},
]


def read(tmp_path, content: bytes) -> Split:
    (tmp_path / "split.json").write_bytes(content)
    return Split.read(tmp_path / "split.json")


def whole() -> dict:
    return as_json(SPLIT.content())


def refused(tmp_path, content: bytes) -> bool:
    try:
        split = read(tmp_path, content)
    except InputError as error:
        return is_one_line(error)
    assert split.num_seen(len(split.stages)) == len(split.classes)
    return False


def is_one_line(error: InputError) -> bool:
    assert "split.json" in str(error)
    assert "\n" not in str(error)
    return True


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("protocol", "base_classes"), 10**9, "base_classes does not fit: 1000000000, where the lists say 2"),
        (("protocol", "base_classes"), 2.0, "base_classes must be a whole number, got 2.0"),
        (("protocol", "base_classes"), True, "base_classes does not fit"),
        (("protocol", "stages"), 10**9, "stages does not fit"),
        (("protocol", "labelled_share"), "0.8", "labelled_share must be a number"),
        (("protocol", "labelled_share"), [], "labelled_share must be a number"),
        (("protocol", "overlap"), 1, "overlap must be true or false"),
        (("protocol", "more"), 1, "more"),
        (("classes",), ["a", "b", "c", "c"], "classes has 'c' twice"),
        (("classes",), ["a", "b", "c", "d", "e"], "classes of the stages does not fit"),
        (("classes",), ["a", "b", "c", 4], "a part of classes is int, not str"),
        (("labelled", "z"), [], "the class 'z'"),
        (("labelled", "a"), {"1": 1}, "is dict, not list"),
        (("labelled", "a"), ["1", "1"], "labelled has '1' twice"),
        (("stages", 0, "new"), ["d"], "stage 1: new does not fit"),
        (("stages", 0, "images"), {"d": ["9"]}, "stage 1: images has the class 'd'"),
        (("stages", 0), [], "stage 1 is list, not dict"),
        (("stages",), {}, "stages is dict, not list"),
        (("test", "a"), None, "NoneType, not list"),
        (("dataset",), 3, "dataset is int"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, place, value, reason):
    data = whole()
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"split\.json is not a split file \(.*{reason}"):
        read(tmp_path, json.dumps(data).encode())
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    "content", [b"[" * 10**5, b'{"stages":' * 10**5, b"\xff", b'{"format": 1, "format": 1}', b"[]"]
)
def test_what_is_no_json_object(tmp_path, content):
    assert refused(tmp_path, content)


def mutated(chance: random.Random) -> bytes:
    """A split with something else somewhere, or with a few bytes changed."""
    data = whole()
    for _ in range(chance.randint(1, 3)):
        place, key = data, chance.choice(list(data))
        while chance.random() < 0.7 and isinstance(place[key], dict | list) and place[key]:
            place = place[key]
            key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        action = chance.random()
        if action < 0.5:
            place[key] = copy.deepcopy(chance.choice(ODD))
        elif action < 0.7:
            del place[key]
        elif isinstance(place, dict):
            place[chance.choice(["a", "z", "", "format", "new"])] = copy.deepcopy(chance.choice(ODD))
        else:
            place.append(copy.deepcopy(chance.choice(ODD)))
        if not data:
            break
    content = bytearray(json.dumps(data).encode())
    if chance.random() < 0.3:
        content[chance.randrange(len(content))] = chance.randrange(256)
    return bytes(content)


def read_many(tmp_path, number: int, seed: int) -> int:
    found = sum(refused(tmp_path, mutated(random.Random(f"{seed} {i}"))) for i in range(number))
    print(f"{number} split files, {found} of them refused")
    return found


def test_mutated_splits_are_refused_in_one_line(tmp_path):
    assert read_many(tmp_path, 1000, seed=0) > 700


@pytest.mark.slow
def test_many_mutated_splits(tmp_path):
    read_many(tmp_path, 200_000, seed=1)
