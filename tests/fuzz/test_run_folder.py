"""Damaged run folders: every reader refuses in one line what is damaged; no flipped bit goes unnoticed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from happycat.base.disk import file_sha256
from happycat.base.errors import HappycatError
from happycat.base.sealed import read_sealed, sealed_file, write_sealed
from happycat.benchmark.drawings import count_panels
from happycat.benchmark.page import run_page
from happycat.benchmark.record import Record
from tests.helpers.records import COUNT, open_record, write_record

# What is a copy for people, and never read
COPIES = {"stages.jsonl"}
ODD = [None, True, -1, 10**18, 1e300, "", "x" * 1000, "\u202e", [], {}, [[]], {"a": {}}, ["a", "b", "c", "d"]]


def read_all(folder: Path) -> None:
    """All that `report`, `--resume`, `--from` and `paper` read of a run folder."""
    record = Record(folder)
    run_page([record])
    count_panels(record, len(record.stages()))
    for number, stage in enumerate(record.stages()):
        stage.rows("assigned")
        stage.rows("predictions")
        record.load_state(number)
        [c["stage"] for c in record.model(number)["classes"]]
    record.load_checkpoint(len(record.stages()))
    with open_record(folder, resume=True):
        pass


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in COPIES)


def delete(path: Path, chance: random.Random) -> None:
    path.unlink()


def truncate(path: Path, chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content))] if content else b"")


def flip(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def overwrite(path: Path, chance: random.Random) -> None:
    path.write_bytes(
        chance.choice([b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 10**5, b'{"a":' * 10**5, bytes(200)])
    )


def make_a_folder(path: Path, chance: random.Random) -> None:
    path.unlink()
    path.mkdir()


def exchange(path: Path, chance: random.Random) -> None:
    """Put another file of the same folder in its place; if there is no other, delete it."""
    other = chance.choice(files_of(path.parent))
    if other == path:
        path.unlink()
    else:
        shutil.copyfile(other, path)


def change_and_seal(path: Path, chance: random.Random) -> None:
    """Another value somewhere in a JSON file, with a checksum that holds: not damage, but somebody's work."""
    if path.suffix != ".json":
        flip(path, chance)
        return
    content = json.loads(path.read_text("utf-8"))
    content.pop("sha256", None)
    place, keys = content, list(content)
    while keys:
        key = chance.choice(keys)
        inner = place[key]
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner))) if isinstance(inner, list) else []
        if not keys or chance.random() < 0.4:
            if isinstance(place, dict) and chance.random() < 0.3:
                del place[key]
            else:
                place[key] = chance.choice(ODD)
            break
        place = inner
    path.write_bytes(sealed_file(content))
    if path.name == "scores.json":
        model = path.with_name("model.json")
        found = read_sealed(model)
        found["files"][path.name] = file_sha256(path).hex()
        write_sealed(model, found)


DAMAGES: list[Callable[[Path, random.Random], None]] = [
    delete,
    truncate,
    flip,
    overwrite,
    make_a_folder,
    exchange,
    change_and_seal,
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    write_record(folder, until=2)
    read_all(folder)
    return folder


def tried(whole: Path, folder: Path, damage: Callable, chance: random.Random) -> bool:
    """Whether a damaged copy was refused; anything but one clear line is an error of the test."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    path = chance.choice([path for path in files_of(folder) if damage is not flip or path.stat().st_size])
    damage(path, chance)
    try:
        read_all(folder)
    except HappycatError as error:
        return is_one_line(error)
    return False


def is_one_line(error: HappycatError) -> bool:
    assert "\n" not in str(error), error
    return True


def damage_many(whole: Path, folder: Path, number: int, seed: int) -> int:
    """Damage so many copies; returns how many were refused."""
    refused = 0
    for i in range(number):
        damage = DAMAGES[i % len(DAMAGES)]
        try:
            refused += tried(whole, folder, damage, random.Random(f"{seed} {i}"))
        except Exception as error:
            raise AssertionError(f"{damage.__name__}, input {i} of seed {seed}: {error!r}") from error
    print(f"{number} damaged run folders, {refused} of them refused")
    return refused


def test_damaged_run_folders_are_refused_in_one_line(whole, tmp_path):
    assert damage_many(whole, tmp_path / "run", 140, seed=0) > 80


@pytest.mark.slow
def test_many_damaged_run_folders(whole, tmp_path):
    damage_many(whole, tmp_path / "run", 20_000, seed=1)


@pytest.mark.parametrize(
    "odd", [{"a": {}}, {**COUNT, "curve": [1.0]}, {**COUNT, "numbers": ["1", "2"]}, {**COUNT, "measure": 3}]
)
def test_an_estimate_of_another_shape_is_refused_in_one_line(whole, tmp_path, odd):
    shutil.copytree(whole, tmp_path / "run")
    path = tmp_path / "run/stages/1/model.json"
    write_sealed(path, {**read_sealed(path), "count": odd})
    with pytest.raises(HappycatError, match=r"'count' of .*model\.json") as error:
        read_all(tmp_path / "run")
    assert is_one_line(error.value)


def flip_many(whole: Path, folder: Path, number: int, seed: int) -> None:
    chance = random.Random(seed)
    for i in range(number):
        assert tried(whole, folder, flip, chance), f"flip {i} of seed {seed} went unnoticed"
    print(f"{number} flipped bits, all noticed")


def test_every_flipped_bit_is_noticed(whole, tmp_path):
    flip_many(whole, tmp_path / "run", 100, seed=0)


@pytest.mark.slow
def test_many_flipped_bits_are_noticed(whole, tmp_path):
    flip_many(whole, tmp_path / "run", 10_000, seed=1)
