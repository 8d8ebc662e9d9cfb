"""What was said of images: levels of statements against a plain dictionary, and what a version of a file costs."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from happycat.model import file as model_file
from happycat.model.corrections import correct, redo, undo
from happycat.model.levels import DIGEST, Level, Statement, put
from happycat.model.pool import SplitTree
from happycat.model.registry import ClassRegistry
from happycat.model.statements import Statements
from tests.helpers.models import write_classes

CLASSES = 5


def digest(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()[:DIGEST]


def some_statement(random: np.random.Generator) -> Statement:
    rejected = frozenset(random.choice(CLASSES, random.integers(3), replace=False).tolist())
    if random.random() < 0.2:
        return Statement(ignored=True, rejected=rejected)
    return Statement(cls=int(random.integers(CLASSES)), row=int(random.integers(-1, CLASSES)), rejected=rejected)


def stored(statements: Statements) -> Statements:
    return Statements.stored(statements.arrays(), CLASSES, CLASSES)


def test_levels_are_a_dictionary_however_they_are_stored_in_between():
    random, statements, expected = np.random.default_rng(0), Statements(), {}
    for _ in range(120):
        for _ in range(random.integers(1, 8)):
            key = digest(int(random.integers(60)))
            if random.random() < 0.3:
                statements.forget(key)
                expected.pop(key, None)
            else:
                statements.set(key, one := some_statement(random))
                expected[key] = one
        if random.random() < 0.7:
            statements = stored(statements)
        assert dict(statements) == expected
        assert len(statements) == len(expected)
    digests = np.frombuffer(b"".join(digest(i) for i in range(60)), np.uint8).reshape(-1, DIGEST)
    assert statements.of(digests) == {i: expected[digest(i)] for i in range(60) if digest(i) in expected}


def test_a_level_is_written_again_only_when_enough_is_new():
    levels: list[Level] = []
    written = 0
    for number in range(1024):
        changed = put(levels, {digest(number): Statement(cls=0)})
        written += sum(len(levels[level]) for level in changed)
        assert all(len(level) < 4 ** (i + 1) for i, level in enumerate(levels))
    assert sum(map(len, levels)) == 1024
    assert len(levels) == 6
    assert written < 1024 * 6 * 2.5  # not much more than twice in each level, on its way up


def test_what_is_taken_back_is_gone_for_good():
    statements = Statements()
    for number in range(100):
        statements.set(digest(number), Statement(cls=1))
    statements = stored(statements)
    statements.forget(digest(7))
    statements.forget(digest(10**6))  # never said
    assert sum(len(array) for name, array in statements.new_arrays().items() if name.startswith("said")) == 1
    again = stored(statements)
    assert again.get(digest(7)) is None
    assert len(again) == 99
    for number in range(100):
        again.forget(digest(number))
    assert len(stored(again)) == 0
    assert all(len(array) == 0 for array in again.arrays().values())


@pytest.fixture
def registry() -> ClassRegistry:
    registry = ClassRegistry()
    for i in range(CLASSES):
        registry.add(f"kind {i}", 0, SplitTree.leaf(np.eye(CLASSES)[i], 3, 0.5))
    return registry


def say(numbers: range):
    def change(registry: ClassRegistry) -> None:
        for number in numbers:
            registry.statements.set(digest(number), Statement(cls=number % CLASSES, row=number % CLASSES))

    return change


def costs(path, numbers: range) -> int:
    """By how much the file grows when something is said of so many images."""
    before = path.stat().st_size
    correct(path, "said", say(numbers))
    return path.stat().st_size - before


@pytest.mark.parametrize("images", [1, 50])
def test_a_version_costs_what_was_said_since_and_not_what_was_said_before(registry, tmp_path, images):
    few, many = tmp_path / "few.cat", tmp_path / "many.cat"
    for path, before in ((few, 1), (many, 3_000)):
        write_classes(path, registry)
        correct(path, "said", say(range(before)))
    for start in range(10**6, 10**6 + 500, images)[:10]:
        numbers = range(start, start + images)
        assert costs(many, numbers) < costs(few, numbers) + 2500  # the list of more arrays, and no statement
    size = many.stat().st_size
    assert undo(many) == 11
    assert redo(many) == 12
    assert many.stat().st_size == size
    found = model_file.read(many)
    assert len(ClassRegistry.of(found.metadata, found.arrays).statements) == 3_000 + 10 * images


def test_undo_takes_back_what_was_said(registry, tmp_path):
    path = tmp_path / "model.cat"
    write_classes(path, registry)
    for start in range(0, 40, 10):
        correct(path, "said", say(range(start, start + 10)))
    seen = []
    for _ in range(5):
        found = model_file.read(path)
        statements = ClassRegistry.of(found.metadata, found.arrays).statements
        assert all(statements.get(digest(i)).cls == i % CLASSES for i in range(len(statements)))
        seen.append(len(statements))
        if len(seen) < 5:
            undo(path)
    assert seen == [40, 30, 20, 10, 0]
