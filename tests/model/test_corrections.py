"""Corrections of a file: random sequences of them against a plain model of who owns which image, and their cost."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from happycat.base.errors import InputError
from happycat.model import file as model_file
from happycat.model.corrections import correct, undo
from happycat.model.file import Part
from happycat.model.registry import ClassRegistry, SplitTree
from tests.helpers.models import write_classes

HEAVY = ("torch", "sklearn", "scipy", "matplotlib", "timm", "pandas")
CHOICE = st.integers(0, 3)  # few classes, so that one correction often meets another of the same class


@dataclass
class Group:
    """Images, and the two groups that they would be split into."""

    images: frozenset[int]
    halves: tuple[Group, Group] | None = None


@dataclass
class Kind:
    """A class as a person thinks of it: its name, its images, and what it took in, merge by merge."""

    id: int
    name: str | None
    group: Group
    merges: list[list[Kind]] = field(default_factory=list)

    def everyone(self) -> list[Kind]:
        return [self, *(one for merge in self.merges for kind in merge for one in kind.everyone())]

    def images(self) -> frozenset[int]:
        return frozenset().union(*(kind.group.images for kind in self.everyone()))


def grouped(images: list[int], depth: int) -> Group:
    if depth == 0 or len(images) < 2:
        return Group(frozenset(images))
    middle = (len(images) + 1) // 2
    return Group(frozenset(images), (grouped(images[:middle], depth - 1), grouped(images[middle:], depth - 1)))


def tree_of(group: Group) -> tuple[SplitTree, list[frozenset[int]]]:
    """The split tree of a group, and the images of each of its nodes."""
    nodes, children = [group], [[-1, -1]]
    for i, node in enumerate(nodes):  # grows meanwhile
        if node.halves:
            children[i] = [len(nodes), len(nodes) + 1]
            nodes += node.halves
            children += [[-1, -1], [-1, -1]]
    counts = np.array([len(node.images) for node in nodes])
    tree = SplitTree(np.ones((len(nodes), 3)), counts, np.zeros(len(nodes)), np.array(children))
    return tree, [node.images for node in nodes]


class Corrections(RuleBasedStateMachine):
    """A file that is corrected, beside a list of kinds that is."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("happycat.base.disk.sync", lambda path: None)  # the disk is not what is tested
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "m.cat"
        self.living: list[Kind] = []
        self.dropped: list[Kind] = []
        self.rows: list[frozenset[int]] = []
        self.num_images, self.next_id = 0, 0
        self.past: list[tuple] = []
        registry = ClassRegistry()
        for name in ("lion", "tiger", "crab", "fox", "owl", "elk"):
            self._add(registry, name, 0, 9, 2)
        write_classes(self.path, registry)

    def teardown(self) -> None:
        self.patch.undo()
        self.folder.cleanup()

    def _add(self, registry: ClassRegistry, name: str | None, stage: int, number: int, depth: int) -> None:
        group = grouped(list(range(self.num_images, self.num_images + number)), depth)
        tree, images = tree_of(group)
        entry = registry.add(name, stage, tree)
        assert entry.id == self.next_id
        self.living.append(Kind(entry.id, name, group))
        self.rows += images
        self.num_images += number
        self.next_id += 1

    def _remember(self) -> None:
        self.past.append(copy.deepcopy((self.living, self.dropped, self.rows)))

    def _kind(self, i: int) -> Kind:
        return self.living[i % len(self.living)]

    def _refused(self, change) -> None:
        before = self.path.read_bytes()
        with pytest.raises(InputError):
            correct(self.path, "x", change)
        assert self.path.read_bytes() == before

    @rule(number=st.integers(1, 9), depth=st.integers(0, 3), new=st.integers(0, 2))
    def discover(self, number, depth, new):
        self._remember()
        model = model_file.read(self.path)
        registry = ClassRegistry.of(model.metadata, model.arrays)
        for _ in range(new):
            self._add(registry, None, len(self.past), number, depth)
        version = Part({**model.metadata, **registry.metadata()}, {**model.arrays, **registry.arrays()})
        model_file.append(self.path, version, model.tag, "discover")

    @rule(i=CHOICE, name=st.sampled_from(["lion", "crab", "1", "4"]))
    def name(self, i, name):
        kind = self._kind(i)
        others = [one for root in self.living for one in root.everyone() if one is not kind]
        if any(one.name == name for one in others):
            return self._refused(lambda registry: registry.name(f"#{kind.id}", name))
        self._remember()
        correct(self.path, "name", lambda registry: str(registry.name(f"#{kind.id}", name)))
        kind.name = name

    @rule(i=CHOICE, others=st.lists(CHOICE, min_size=1, max_size=2))
    def merge(self, i, others):
        kinds = [self._kind(j) for j in (i, *others)]
        words = [f"#{kind.id}" for kind in kinds]
        if len(set(words)) < len(words):
            return self._refused(lambda registry: registry.merge(*words))
        self._remember()
        correct(self.path, "merge", lambda registry: str(registry.merge(*words)))
        into, *rest = kinds
        into.merges.append(rest)
        self.living = [kind for kind in self.living if kind not in rest]

    @rule(i=CHOICE)
    def split(self, i):
        kind = self._kind(i)
        if not kind.merges and kind.group.halves is None:
            return self._refused(lambda registry: registry.split(f"#{kind.id}"))
        self._remember()
        told: list[int] = []
        correct(self.path, "split", lambda r: str(told.extend(entry.id for entry in r.split(f"#{kind.id}"))))
        if kind.merges:
            back = kind.merges.pop()
        else:
            kind.group, other = kind.group.halves
            back, self.next_id = [Kind(self.next_id, None, other)], self.next_id + 1
        self.living += back
        assert sorted(told) == sorted([kind.id, *(one.id for one in back)])

    @rule(i=CHOICE)
    def drop(self, i):
        kind = self._kind(i)
        if len(self.living) == 1:
            return self._refused(lambda registry: registry.drop(f"#{kind.id}"))
        self._remember()
        correct(self.path, "drop", lambda registry: str(registry.drop(f"#{kind.id}")))
        self.living.remove(kind)
        self.dropped.append(kind)

    @precondition(lambda self: self.past)
    @rule()
    def undo(self):
        self.living, self.dropped, self.rows = self.past.pop()
        assert undo(self.path) == len(self.past) + 1

    @rule(i=CHOICE)
    def find(self, i):
        """A plain name finds its class, unless it is another's number, too."""
        kind = self._kind(i)
        model = model_file.read(self.path)
        registry = ClassRegistry.of(model.metadata, model.arrays)
        assert registry.find(f"id:{kind.id}").name == kind.name
        if kind.name is not None:
            assert registry.find(f"name:{kind.name}").id == kind.id
        numbers = {str(one.id) for one in self._everyone()} - {str(kind.id)}
        if kind.name in numbers:
            with pytest.raises(InputError, match="is both the number of"):
                registry.find(kind.name)

    def _everyone(self) -> list[Kind]:
        return [one for root in (*self.living, *self.dropped) for one in root.everyone()]

    @invariant()
    def everybody_has_id_name_and_images(self):
        model = model_file.read(self.path)
        registry = ClassRegistry.of(model.metadata, model.arrays)
        assert {e.id: e.name for e in registry} == {kind.id: kind.name for kind in self.living}
        ids, owned = [entry.id for entry in registry], {}
        for row, owner in zip(*registry.active(), strict=True):
            owned.setdefault(ids[owner] if owner >= 0 else None, []).extend(self.rows[row])
        nobody = [image for kind in self.dropped for image in kind.images()]
        expected = {kind.id: sorted(kind.images()) for kind in self.living} | ({None: sorted(nobody)} if nobody else {})
        assert {key: sorted(images) for key, images in owned.items()} == expected
        for entry in registry:
            assert registry.learned_from(entry) == len(expected[entry.id])
        assert {e.id: e.name for e in registry.entries if e.rows} == {kind.id: kind.name for kind in self._everyone()}


TestCorrections = Corrections.TestCase
TestCorrections.settings = settings(
    max_examples=20, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.fixture
def path(tmp_path) -> Path:
    """The file of a hundred classes in 384 dimensions."""
    registry, random = ClassRegistry(), np.random.default_rng(0)
    for i in range(100):
        tree, _ = tree_of(grouped(list(range(8)), 3))
        registry.add(f"species {i}", 0, tree._replace(vectors=random.normal(size=(len(tree.counts), 384))))
    made = tmp_path / "shop.cat"
    write_classes(made, registry)
    return made


def test_a_correction_costs_kilobytes_and_keeps_the_rest(path):
    size, before = path.stat().st_size, dict(model_file.read(path).arrays)
    assert size > 2e6
    done = correct(path, "name", lambda registry: registry.name("species 3", "fox").name)
    assert (done.result, done.version) == ("fox", 2)
    assert path.stat().st_size - size < 10_000
    model = model_file.read(path)
    assert model.metadata["stage"] == 0
    assert all(np.array_equal(model.arrays[name], array) for name, array in before.items())


def test_a_correction_that_is_refused_changes_nothing(path):
    before = path.read_bytes()
    with pytest.raises(InputError, match="at least two"):
        correct(path, "merge", lambda registry: str(registry.merge("species 1")))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["shop.cat"]  # no lock stays, either


def test_no_heavy_library_is_imported():
    script = f"""
import json, sys, types
sys.modules["happycat.cli.research"] = types.ModuleType("research")  # the other commands are another matter
sys.modules["happycat.cli.research"].main = None
import happycat.cli.corrections
print(json.dumps([name for name in {HEAVY} if name in sys.modules]))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == []
