"""The class registry: ids for ever, names, merging, splitting, dropping, and what is stored of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from happycat.base.errors import InputError, StorageError
from happycat.model.registry import ClassRegistry, SplitTree

NAMES = ["lion", "tiger", "crab"]


def tree(count: int = 8, depth: int = 2, dim: int = 4) -> SplitTree:
    """A class of `count` images that can be halved `depth` times, the larger half first."""
    counts, children = [count], [[-1, -1]]

    def halve(node: int, left: int) -> None:
        if left and counts[node] >= 2:
            half = counts[node] // 2
            children[node] = [len(counts), len(counts) + 1]
            counts.extend([counts[node] - half, half])
            children.extend([[-1, -1], [-1, -1]])
            for child in children[node]:
                halve(child, left - 1)

    halve(0, depth)
    vectors = np.random.default_rng(count).normal(size=(len(counts), dim))
    return SplitTree(vectors, np.array(counts), np.full(len(counts), 0.5), np.array(children))


@pytest.fixture
def registry() -> ClassRegistry:
    """Three labelled classes and two discovered ones."""
    made = ClassRegistry()
    for i, name in enumerate(NAMES):
        made.add(name, 0, tree(10 + i))
    for i in range(2):
        made.add(None, 1, tree(20 + i))
    return made


def again(registry: ClassRegistry) -> ClassRegistry:
    """The registry through JSON and arrays."""
    return ClassRegistry.of(json.loads(json.dumps(registry.metadata())), registry.arrays())


def labels(registry: ClassRegistry) -> list:
    return [registry.label(entry) for entry in registry]


def test_what_was_merged_comes_apart_with_id_name_and_images(registry):
    before, images = registry.entries.copy(), [registry.learned_from(entry) for entry in registry]
    tiger = registry.merge("tiger", "crab")
    assert (tiger.id, registry.learned_from(tiger)) == (1, 11 + 12)
    assert labels(registry) == ["lion", "tiger", "class 3", "class 4"]
    assert [entry.id for entry in registry.split("tiger")] == [1, 2]
    assert registry.entries == before
    assert [registry.learned_from(entry) for entry in registry] == images


def test_one_command_comes_apart_together_and_the_last_one_first(registry):
    registry.merge("lion", "tiger", "crab")
    registry.merge("lion", 3)
    assert [entry.id for entry in registry.split("lion")] == [0, 3]
    assert [entry.id for entry in registry.split("lion")] == [0, 1, 2]


def test_merged_chains(registry):
    registry.merge("tiger", "crab")
    registry.merge("lion", "tiger")
    assert registry.learned_from(registry.find("lion")) == 10 + 11 + 12
    assert registry.root(registry.entries[2]).id == 0
    registry.split("lion")
    assert registry.learned_from(registry.find("tiger")) == 11 + 12


def test_a_half_is_split_again_and_the_counts_are_those_of_the_halves(registry):
    one, two = registry.split("lion")
    assert (one.id, one.name, two.id, two.name, two.stage) == (0, "lion", 5, None, 0)
    assert (registry.learned_from(one), registry.learned_from(two)) == (5, 5)
    three, four = registry.split("#5")
    assert (three.id, four.id) == (5, 6)
    assert (registry.learned_from(three), registry.learned_from(four)) == (3, 2)
    with pytest.raises(InputError, match="class 6 cannot be split: its 2 images were too few"):
        registry.split(6)


def test_rows_of_living_and_dropped_classes(registry):
    registry.merge("lion", "crab")
    registry.drop("tiger")
    rows, owner = registry.active()
    firsts = [entry.rows[0] for entry in registry.entries]
    assert rows.tolist() == firsts
    assert owner.tolist() == [0, -1, 0, 1, 2]
    registry.drop("lion")
    assert registry.active().owner.tolist() == [-1, -1, -1, 0, 1]
    registry.drop(3)
    with pytest.raises(InputError, match="class 4 is the last class"):
        registry.drop(4)


def test_a_digit_name_is_not_an_id(registry):
    registry.name(3, "4")
    with pytest.raises(InputError, match="'4' is both the number of class 4 and the name of class 3; write #4 or"):
        registry.name("4", "x")
    assert registry.name("#4", "x").id == registry.name("id:4", "y").id == registry.name("class 4", "z").id == 4
    assert registry.name("name:4", "w").id == 3
    assert labels(registry)[3:] == ["w", "z"]
    registry.name(3, "4")
    with pytest.raises(InputError, match=r"'4' is both the number of class 4 \(z\) and"):
        registry.find(4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("  ", "at least one letter"),
        ("unknown", "happycat itself"),
        ("Class 12", "happycat itself"),
        ("#3", "happycat itself"),
        ("a\x1b[2J", r"a\\x1b\[2J' has control"),
        ("a\u202eb", "control characters"),
        ("x" * 201, "at most 200"),
        (float("nan"), "finite"),
        (None, "not by None"),
        ("lion", "'lion' is class 0 already"),
    ],
)
def test_what_is_no_name(registry, name, message):
    with pytest.raises(InputError, match=message):
        registry.name(3, name)
    if name is not None:
        with pytest.raises(InputError, match=message):
            registry.add(name, 0, tree())
    assert labels(registry) == [*NAMES, "class 3", "class 4"]


def test_hidden_names_stay_taken_and_those_of_dropped_classes_are_free(registry):
    registry.merge("tiger", "crab")
    with pytest.raises(InputError, match=r"'crab' is class 2, which is part of tiger \(class 1\); split that first"):
        registry.name(3, "crab")
    with pytest.raises(InputError, match="crab was merged into tiger"):
        registry.find("crab")
    registry.drop("tiger")
    with pytest.raises(InputError, match="crab was dropped"):
        registry.find("crab")
    assert registry.name(3, "crab").id == registry.find("crab").id == 3
    with pytest.raises(InputError, match="was dropped"):
        registry.find("#2")


def test_who_is_not_there(registry):
    with pytest.raises(InputError, match=r"there is no class 'tigr'; is 'tiger' meant\?$"):
        registry.find("tigr")
    with pytest.raises(InputError, match=r"there is no class 99; there are 0 \(lion\), 1 \(tiger\)"):
        registry.find(99)
    for beyond in (5, -1):
        with pytest.raises(InputError, match=f"there is no class {beyond}"):
            registry.find(beyond)
    with pytest.raises(InputError, match="by its id or its name"):
        registry.find(1.5)
    assert registry.find(np.int64(1)).name == "tiger"


@pytest.mark.parametrize("wrong", [("lion",), ("lion", "lion"), ("lion", 1, "tiger")])
def test_nothing_to_merge(registry, wrong):
    before = registry.metadata()
    with pytest.raises(InputError, match="at least two different"):
        registry.merge(*wrong)
    assert registry.metadata() == before


@pytest.mark.parametrize(
    ("names", "new", "unknown"),
    [
        ([1, 5], [6, 7], -1),
        ([-3, 2], [3, 4], -4),
        ([0.5, 2.5], [4, 5], -1),
        (["1", "5"], ["class 2", "class 3"], "unknown"),
    ],
)
def test_numbers_stay_numbers(names, new, unknown):
    registry = ClassRegistry()
    for name in names:
        registry.add(name, 0, tree())
    for _ in new:
        registry.add(None, 1, tree())
    registry = again(registry)
    assert labels(registry) == names + new
    assert [type(label) for label in labels(registry)[:2]] == [type(name) for name in names]
    assert registry.unknown == unknown


def test_numbers_of_new_classes_do_not_change_and_are_not_taken():
    registry = ClassRegistry()
    for name in (1, 5):
        registry.add(name, 0, tree())
    registry.add(None, 1, tree())
    registry.name("name:5", 4)
    assert labels(registry) == [1, 4, 6]
    assert registry.find(6).id == 2
    for taken in (7, "7", -1):
        with pytest.raises(InputError, match="a number that happycat gives"):
            registry.name("name:1", taken)
    with pytest.raises(InputError, match=r"'4\.0' is class 1 already"):
        registry.name("name:6", "4.0")


def test_everything_is_stored(registry):
    registry.name(4, "fox")
    registry.merge("lion", "crab", 3)
    registry.split("tiger")
    registry.drop("fox")
    other = again(registry)
    assert other.entries == registry.entries
    assert other.metadata() == registry.metadata()
    for name, array in registry.arrays().items():
        assert np.array_equal(other.arrays()[name], array)
    assert np.array_equal(other.pool.children, registry.pool.children)
    other.add(None, 2, tree())
    assert set(other.arrays()) - set(registry.arrays()) == {
        f"pool.2.{name}" for name in ("vectors", "counts", "thresholds", "children", "sizes", "lengths")
    }
    assert (other.pool.children[: len(registry.pool)] == registry.pool.children).all()


def test_ids_of_undone_versions_are_not_given_again(registry):
    other = ClassRegistry.of({**registry.metadata(), "next_id": 7}, registry.arrays())
    assert other.add(None, 2, tree()).id == 7
    assert len(other) == 6
    with pytest.raises(InputError, match="no class 5"):
        other.find(5)
    assert again(other).entries == other.entries


@pytest.mark.parametrize(
    "change",
    [
        {"classes": None},
        {"classes": [{"name": "a", "stage": 0, "rows": [999]}]},
        {"classes": [{"name": "a", "stage": 0, "rows": [0]}, {"name": "b", "stage": 0, "rows": [0]}]},
        {"classes": [{"name": "a", "stage": 0, "rows": [0], "merged_into": 0, "merge": 0}]},
        {"classes": [{"name": "a", "stage": 0, "rows": [0], "merged_into": 5, "merge": 0}]},
        {"classes": [{"name": ["a"], "stage": 0, "rows": [0]}]},
        {"classes": [{"name": "a", "stage": "0", "rows": [0]}]},
        {"next_id": 10**12},
        {"chunks": 3},
        {"numbering": [1, 2]},
    ],
)
def test_a_table_that_was_changed_is_refused(registry, change):
    with pytest.raises(StorageError, match="cannot be used"):
        ClassRegistry.of({**registry.metadata(), **change}, registry.arrays())


def test_a_tree_that_is_none_is_refused(registry):
    good = tree()
    for change in (
        {"children": np.zeros_like(good.children)},
        {"vectors": good.vectors[1:]},
        {"vectors": good.vectors[:, :2]},
        {"counts": -good.counts},
        {"vectors": good.vectors * np.nan},
    ):
        with pytest.raises(InputError):
            registry.add(None, 1, good._replace(**change))
    assert len(registry.entries) == 5


@pytest.mark.parametrize("name", ["name:14", "Name: x", 10**30, -(10**30), 2.0**53, float("1e17")])
def test_names_that_could_not_be_told_apart_later_are_refused(registry, name):
    with pytest.raises(InputError, match=r"happycat itself|too large"):
        registry.name(3, name)


def test_spaces_around_a_typed_name_do_not_count(registry):
    assert registry.name(3, " fox ").name == "fox"
    with pytest.raises(InputError, match="'fox' is class 3 already"):
        registry.name(4, "fox ")


def counted(registry: ClassRegistry) -> dict[int, int]:
    assert registry.counts is not None
    return dict(registry.counts.by_id)


def test_images_are_counted_by_the_places_of_living_classes(registry):
    registry.drop("tiger")
    registry.count([0, 0, 1, 3, -1, -1, 2], stage=4)
    assert counted(registry) == {0: 2, 2: 1, 3: 1, 4: 1}
    assert (registry.counts.stage, registry.counts.total, registry.counts.exact) == (4, 7, True)
    registry.count([], stage=5)
    assert set(counted(registry).values()) == {0}


def test_corrections_make_estimates_of_the_counts(registry):
    registry.count([0] * 10 + [1] * 4 + [3] * 7, stage=1)
    registry.name("lion", "cat")
    assert registry.counts.exact
    registry.merge("cat", "tiger")
    assert counted(registry) == {0: 14, 2: 0, 3: 7, 4: 0}
    assert not registry.counts.exact
    registry.split("cat")  # by what each had learned: 10 and 11 images
    assert counted(registry) == {0: 7, 1: 7, 2: 0, 3: 7, 4: 0}
    registry.drop("cat")
    assert counted(registry) == {1: 7, 2: 0, 3: 7, 4: 0}
    registry.forget(registry.find(3))
    assert counted(registry) == {1: 7, 2: 0, 4: 0}
    registry.add("fox", 2, tree())
    assert registry.counts is None
    registry.split("fox")  # nothing is counted: nothing to divide
    assert registry.counts is None


def test_a_class_that_is_forgotten_was_never_there(registry):
    registry.forget(registry.find(3))
    with pytest.raises(InputError, match="no class 3"):
        registry.find(3)
    assert (registry.entries[3].rows, registry.entries[3].dropped) == ((), True)
    assert registry.add(None, 2, tree()).id == 5
    assert len(again(registry)) == 5


def test_classes_that_are_held_apart_are_never_merged(registry):
    registry.hold_apart("tiger", "lion")
    assert registry.apart == {(0, 1)}
    registry.hold_apart("lion", "tiger")
    assert again(registry).apart == {(0, 1)}
    lion, tiger, crab = registry.entries[:3]
    assert registry.held_apart(lion, tiger)
    assert registry.held_apart(tiger, lion)
    assert not registry.held_apart(lion, crab)
    assert registry.held_apart_from(lion) == {1}
    assert registry.held_apart_from(crab) == set()
    with pytest.raises(InputError, match="tiger and lion are held apart"):
        registry.merge("crab", "tiger", "lion")
    registry.merge("crab", "tiger")  # whoever takes one in is held apart, too
    assert registry.held_apart_from(lion) == {2}
    with pytest.raises(InputError, match="lion and crab are held apart"):
        registry.merge("lion", "crab")
    with pytest.raises(InputError, match="crab cannot be held apart from itself; split it"):
        registry.hold_apart("crab", "#2")


def test_classes_held_apart_that_were_merged_before_count_for_nothing(registry):
    registry.merge("lion", "tiger")
    registry.apart.add((0, 1))
    assert registry.held_apart_from(registry.find("lion")) == set()


def test_merges_are_numbered_over_all_classes(registry):
    registry.merge("lion", "tiger")
    registry.merge("crab", 3)
    assert [entry.merge for entry in registry.entries] == [None, 0, None, 1, None]
    registry.split("lion")
    registry.merge("crab", 4)
    assert [entry.merge for entry in registry.entries] == [None, None, None, 1, 2]


def test_a_half_of_a_class_whose_rows_are_several_is_the_last_of_them(registry):
    """A class that was made of rows of others, as a person's examples are."""
    rows = tuple(registry.find(i).rows[0] for i in range(3))
    registry.entries[0] = replace(registry.find("lion"), rows=rows)
    for i in (1, 2):
        registry.entries[i] = replace(registry.entries[i], rows=(), dropped=True)
    kept, new = registry.split("lion")
    assert (kept.rows, new.rows, new.id, new.stage) == (rows[:2], rows[2:], 5, 0)


def test_what_moved_images_changed_goes_to_a_half_once(registry):
    pool = registry.pool
    row = registry.find("lion").rows[0]
    halves = pool.children[row].tolist()
    change, before = 3.0 * pool.vectors[halves[1]].astype(np.float64), [pool.sum(half) for half in halves]
    pool.shift(row, change, 3)
    registry.split("lion")
    np.testing.assert_allclose(pool.sum(halves[1]) - before[1], change, atol=1e-5)
    np.testing.assert_array_equal(pool.sum(halves[0]), before[0])
    rows = (*registry.find("tiger").rows, *registry.find("crab").rows)
    registry.entries[1], registry.entries[2] = (
        replace(registry.entries[1], rows=rows),
        replace(registry.entries[2], rows=(), dropped=True),
    )
    halves = pool.children[rows[0]].tolist()
    pool.shift(rows[0], change, 3)
    before = [pool.sum(half) for half in halves]
    registry.split("tiger")  # its rows part: none is divided
    np.testing.assert_array_equal([pool.sum(half) for half in halves], before)


def test_why_a_class_cannot_be_split_depends_on_who_made_it(registry):
    registry.add("fox", 1, tree(1), taught=True)
    with pytest.raises(
        InputError, match=r"its 1 images were too few.*move some of them to another class, or split it by"
    ):
        registry.split("fox")
    registry.add(None, 1, tree(1))
    with pytest.raises(InputError, match="go back before they were discovered and ask for more classes"):
        registry.split("#6")


def test_ignored_images_are_no_class(registry):
    registry.add(None, 1, tree(6), ignored=True, dropped=True)
    with pytest.raises(InputError, match="class 5 is no class: a person said that its 6 images are to be left alone"):
        registry.find("#5")
    assert len(registry) == 5


def test_taught_numbers_do_not_change_the_numbers_of_discovered_classes():
    registry = ClassRegistry()
    for name in (1, 5):
        registry.add(name, 0, tree())
    registry.add(None, 1, tree())
    registry.add(3, 0, tree(), taught=True)
    registry.add(4, 1, tree())
    assert labels(registry) == [1, 5, 6, 3, 4]


def test_what_is_stored_of_a_table(registry):
    registry.hold_apart(3, 2)
    registry.hold_apart(1, 0)
    stored = registry.metadata()
    assert stored["next_id"] == 5
    assert stored["apart"] == [(0, 1), (2, 3)]
    assert stored["counts"] is None
    registry.count([0, 1], stage=0)
    assert again(registry).counts == registry.counts
    assert set(registry.new_arrays()) <= set(registry.arrays())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"apart": [[0, 9]]}, "held apart that are not there"),
        ({"apart": [[0, 5]]}, "held apart that are not there"),
        ({"apart": [[1, 0]]}, "held apart that are not there"),
        ({"apart": [[1, 1]]}, "held apart that are not there"),
        ({"apart": [[-1, 1]]}, "apart of the table"),
        ({"classes": [{"name": "a", "stage": 0, "rows": [0], "dropped": True}]}, "no class"),
        (
            {"classes": [{"name": "a", "stage": 0, "rows": [0]}, {"name": "b", "stage": 0, "rows": []}]},
            "no class, or one",
        ),
        ({"classes": [{"name": "a", "stage": 0, "rows": [0]}, {"name": "a", "stage": 0, "rows": [1]}]}, "of one name"),
        ({"classes": [{"name": 1, "stage": 0, "rows": [0]}, {"name": 1.0, "stage": 0, "rows": [1]}]}, "of one name"),
        ({"classes": [{"name": "1", "stage": 0, "rows": [0]}, {"name": 1, "stage": 0, "rows": [1]}]}, "of one name"),
        ({"classes": [{"name": "a", "stage": 0, "rows": [-1]}]}, "rows|-1"),
    ],
)
def test_why_a_table_is_refused(registry, change, reason):
    with pytest.raises(StorageError, match=reason):
        ClassRegistry.of({**registry.metadata(), **change, "next_id": 2}, registry.arrays())


def test_a_dropped_class_leaves_its_name_to_another_in_what_is_stored(registry):
    classes = [
        {"name": "a", "stage": 0, "rows": [0], "dropped": True},
        {"name": "a", "stage": 0, "rows": [1]},
        {"name": "b", "stage": 0, "rows": [2], "merged_into": 0, "merge": 0},
        {"name": "b", "stage": 0, "rows": [3]},
    ]
    found = ClassRegistry.of({**registry.metadata(), "classes": classes, "next_id": 4}, registry.arrays())
    assert [entry.id for entry in found] == [1, 3]


def test_merges_in_a_circle_and_very_deep_ones_are_refused(registry):
    def chain(number: int, last: dict) -> list[dict]:
        merged = [
            {"name": None, "stage": 0, "rows": [], "dropped": True, "merged_into": i + 1, "merge": i}
            for i in range(number)
        ]
        return [*merged, last]

    living = {"name": "a", "stage": 0, "rows": [0]}
    for classes in (
        [living, {"name": "b", "stage": 0, "rows": [1], "merged_into": 2, "merge": 0},
         {"name": "c", "stage": 0, "rows": [2], "merged_into": 1, "merge": 0}],
        chain(1002, living),
    ):  # fmt: skip
        stored = {**registry.metadata(), "classes": classes, "next_id": len(classes)}
        with pytest.raises(StorageError, match="is part of"):
            ClassRegistry.of(stored, registry.arrays())
    deep = chain(900, living)
    assert len(ClassRegistry.of({**registry.metadata(), "classes": deep, "next_id": 901}, registry.arrays())) == 1


def test_hints_name_at_most_five_classes(registry):
    with pytest.raises(InputError, match=r"4 \(class 4\)$"):
        registry.find("zzzz")
    registry.add("wolf", 0, tree())
    with pytest.raises(InputError, match=r"4 \(class 4\), …$"):
        registry.find("zzzz")


def test_rows_and_images_of_a_class_with_what_was_merged_into_it(registry):
    registry.merge("tiger", "crab")
    registry.merge("lion", "tiger")
    rows = [registry.entries[i].rows[0] for i in range(3)]
    assert registry.owned(registry.find("lion")) == rows
    assert registry.owned(registry.find(3)) == list(registry.entries[3].rows)


def test_typed_words_are_numbers_only_where_names_are_numbers(registry):
    assert registry.typed("12") == "12"
    numbered = ClassRegistry()
    for name in (1, 5):
        numbered.add(name, 0, tree())
    assert numbered.typed("12") == 12
    assert numbered.typed("cat") == "cat"
    assert numbered.called(numbered.entries[0]) == "1"


def test_names_of_dropped_classes(registry):
    for number in (3, 4):
        registry.name(number, "fox")
        registry.drop("fox")
    with pytest.raises(InputError, match="fox was dropped; only going back"):
        registry.find("fox")
    registry.drop("lion")
    registry.name("tiger", "lion")
    with pytest.raises(InputError, match="'lion' is class 1 already"):
        registry.name("crab", "lion")


def test_a_row_beyond_the_last_is_refused(registry):
    classes = [{"name": "a", "stage": 0, "rows": [len(registry.pool)]}]
    with pytest.raises(StorageError, match="rows that are not there"):
        ClassRegistry.of({**registry.metadata(), "classes": classes, "next_id": 1}, registry.arrays())


def test_a_class_that_is_part_of_one_just_beyond_the_last_is_refused(registry):
    classes = [
        {"name": "a", "stage": 0, "rows": [0]},
        {"name": "b", "stage": 0, "rows": [1], "merged_into": 2, "merge": 0},
    ]
    with pytest.raises(StorageError, match="class 1 is part of 2"):
        ClassRegistry.of({**registry.metadata(), "classes": classes, "next_id": 2}, registry.arrays())
