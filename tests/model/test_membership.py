"""Corrections of images: they hold through later discoveries, and move sums exactly."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from happycat import Happycat
from happycat.base.errors import InputError
from happycat.model import file as model_file
from happycat.model.corrections import correct, correct_images, redo, undo
from happycat.model.editor import Editor
from happycat.model.pool import Pool, SplitTree, usual_cosine
from happycat.model.review import Review
from tests.helpers.vectors import KNOWN, clouds

NOISE = 0.12  # so much that some images are doubtful


def images(classes, each=20, seed=0) -> tuple[np.ndarray, np.ndarray]:
    return clouds(classes, each, NOISE, seed)


@pytest.fixture(scope="session")
def fitted() -> Happycat:
    vectors, labels = images(range(KNOWN), 30)
    return Happycat().fit(vectors, [f"c{label}" for label in labels])


@pytest.fixture
def cat(fitted, tmp_path) -> Happycat:
    fitted.save(tmp_path / "copy.cat")
    return Happycat.load(tmp_path / "copy.cat")


@pytest.fixture(scope="session")
def discovered(fitted, tmp_path_factory) -> Path:
    """A model that discovered two classes, 6 and 7, with its review beside it."""
    path = tmp_path_factory.mktemp("discovered") / "m.cat"
    fitted.save(path)
    discover(path, INBOX, 2)
    return path


INBOX = images([0, 1, KNOWN, KNOWN + 1], 20, 5)[0]


def discover(path: Path, vectors: np.ndarray, number: int | str) -> None:
    cat = Happycat.load(path)
    found = cat.discover(vectors, number)
    folder = path.with_name(f"review-{cat.stage_}")
    more = {"results": str(folder), "review": Review.of(found, cat.stage_).write(folder)}
    cat.save(path, "discover", more)


@pytest.fixture
def model(discovered, tmp_path) -> Path:
    shutil.copytree(discovered.parent, tmp_path / "folder")
    return tmp_path / "folder" / "m.cat"


def given(path: Path, vectors: np.ndarray) -> list[int | None]:
    return [row.id for row in Happycat.load(path).assign(vectors)]


# Sums


def test_a_shifted_prototype_is_the_direction_of_the_sum():
    random = np.random.default_rng(0)
    points = random.normal(size=(10, 6))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points += 2 * points[0]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    total = points[:8].sum(0)
    length = np.linalg.norm(total)
    pool = Pool()
    pool.add(SplitTree.leaf(total / length, 8, 0.3, length), 0)
    pool.shift(0, points[8] + points[9] - points[0], 1)
    wanted = points[1:].sum(0)
    assert np.allclose(pool.vectors[0], wanted / np.linalg.norm(wanted), atol=1e-6)
    assert (pool.sizes[0], pool.counts[0]) == (9, 8)
    assert pool.lengths[0] == pytest.approx(np.linalg.norm(wanted), rel=1e-6)
    more = usual_cosine(float(np.linalg.norm(wanted)), 9) - usual_cosine(float(length), 8)
    assert pool.thresholds[0] == pytest.approx(0.3 + more, abs=1e-6)


def test_a_prototype_that_lost_all_its_images_keeps_its_direction():
    pool = Pool()
    pool.add(SplitTree.leaf(np.array([0.6, 0.8]), 1, 0.3, 1.0), 0)
    pool.shift(0, -np.array([0.6, 0.8]), -1)
    assert np.allclose(pool.vectors[0], [0.6, 0.8])
    assert (pool.sizes[0], pool.lengths[0]) == (0, 0)


def test_the_usual_cosine_is_the_mean_leave_one_out_cosine_of_points_that_are_alike():
    random = np.random.default_rng(1)
    points = np.array([1.0, *[0] * 300]) + 0.06 * random.normal(size=(40, 301))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    rest = points.sum(0) - points
    mean = ((points * rest).sum(1) / np.linalg.norm(rest, axis=1)).mean()
    assert usual_cosine(float(np.linalg.norm(points.sum(0))), 40) == pytest.approx(mean, abs=2e-3)
    assert usual_cosine(1.0, 1) is None


def test_an_image_that_is_moved_is_learned_as_if_it_had_been_labelled_so(cat):
    """Moving an image from one labelled class to another gives the mean of the labels as corrected."""
    vectors, _ = images([0], 3, 9)
    entry, before = cat.find("c1"), cat.registry_.pool.sum(cat.find("c1").rows[0])
    cat.move(vectors, "c1")
    points = cat.calm_.space(torch.nn.functional.normalize(torch.from_numpy(vectors).float(), dim=-1)).numpy()
    pool = cat.registry_.pool
    assert np.allclose(pool.sum(entry.rows[0]), before + points.sum(0), atol=1e-4)
    assert pool.sizes[entry.rows[0]] == 33
    cat.move(vectors[:1], "c2")
    assert np.allclose(pool.sum(entry.rows[0]), before + points[1:].sum(0), atol=1e-4)
    cat.move(vectors[1:], "c2")
    assert np.allclose(pool.sum(entry.rows[0]), before, atol=1e-4)
    cat.move(vectors, "c2")  # again: nothing is counted twice
    assert pool.sizes[cat.find("c2").rows[0]] == 33


def test_images_of_a_discovery_are_counted_once(model):
    editor = Editor(model)
    sizes = editor.registry.pool.sizes
    row = editor.registry.entries[KNOWN].rows[0]
    counted = editor.review.counted.tolist()
    mine = [i for i, place in enumerate(counted) if place == row]
    assert sizes[row] == len(mine)
    kept = [i for i in mine if editor.assigned()[i].id == KNOWN]
    editor.confirm(kept)
    assert editor.registry.pool.sizes[row] == len(mine)  # they were in the sum already
    editor.move(kept[:3], KNOWN + 1)
    assert editor.registry.pool.sizes[row] == len(mine) - 3
    editor.reject(kept[:2])
    other = editor.registry.entries[KNOWN + 1].rows[0]
    assert editor.registry.pool.sizes[other] == counted.count(other) + 1


# They hold


def test_what_is_said_holds_through_a_discovery_and_a_reload(model):
    editor = Editor(model)
    first = editor.assigned()
    moved, confirmed, rejected, ignored = (
        [i for i, row in enumerate(first) if row.id == wanted][:3] for wanted in (0, KNOWN, 1, KNOWN + 1)
    )
    editor.move(moved, "c5")
    editor.confirm(confirmed)
    editor.reject(rejected)
    editor.ignore(ignored)

    def check() -> None:
        rows = Happycat.load(model).assign(INBOX)
        assert {rows[i].label for i in moved} == {"c5"}
        assert {rows[i].id for i in confirmed} == {KNOWN}
        assert {rows[i].said for i in [*moved, *confirmed]} == {"confirmed"}
        assert all(rows[i].probability == 1 and not rows[i].unsure for i in moved)
        assert 1 not in {rows[i].id for i in rejected}
        assert {rows[i].id for i in ignored} == {None}
        assert {rows[i].said for i in ignored} == {"ignored"}
        proba = Happycat.load(model).predict_proba(INBOX)
        assert np.allclose(proba.sum(1), 1)
        assert (proba[moved, 5] == 1).all()
        assert (proba[rejected, 1] == 0).all()

    check()
    discover(model, np.concatenate([INBOX, images([KNOWN + 2], 20, 6)[0]]), 2)
    check()


def test_ignored_and_confirmed_images_found_no_class(cat):
    """Twenty images of something new that are to be left alone are not discovered again, nor what looks like them."""
    new, _ = images([KNOWN], 20, 3)
    fresh, _ = images([KNOWN], 20, 4)
    assert len(Happycat().fit(*_labelled()).discover(new).new) == 1
    cat.ignore(new)
    assert cat.discover(new).new == []
    assert cat.discover(np.concatenate([new[:5], fresh])).new == []
    assert set(cat.predict(fresh)) == {"unknown"}
    cat.unignore(new)
    assert not cat.registry_.statements
    assert len(cat.discover(np.concatenate([new, fresh])).new) == 1


def test_ignored_things_of_several_kinds_are_told_apart(cat):
    """Of each of two kinds a direction is kept; of a single image only its checksum."""
    odd, _ = images([KNOWN + 2], 1, 3)
    cat.ignore(odd)
    assert not any(entry.ignored for entry in cat.registry_.entries)
    both, _ = images([KNOWN, KNOWN + 1], 15, 3)
    cat.ignore(both)
    kept = [entry for entry in cat.registry_.entries if entry.ignored]
    assert [cat.registry_.pool.sizes[entry.rows[0]] for entry in kept] == [15, 15]
    fresh, _ = images([KNOWN, KNOWN + 1], 15, 8)
    assert cat.discover(fresh).new == []
    assert cat.find("c0").alive
    assert {entry.state for entry in kept} == {"ignored"}
    with pytest.raises(InputError, match="is no class: a person said that its 15 images are to be left alone"):
        cat.find(kept[0].id)


def test_a_class_that_a_person_rejects_for_images_is_free_to_be_discovered(cat):
    near, _ = images([0], 25, 11)
    assert set(cat.predict(near)) <= {"c0", "unknown"}
    assert cat.discover(near).new == []
    cat.reject(near[[row.id == 0 for row in cat.assign(near)]])
    found = cat.discover(near)
    assert len(found.new) == 1
    assert sum(row.id == found.new[0] for row in found.assigned) > 15


def _labelled():
    vectors, labels = images(range(KNOWN), 30)
    return vectors, [f"c{label}" for label in labels]


def test_the_last_word_counts(cat):
    image, _ = images([0], 1, 9)
    cat.move(image, "c1")
    cat.reject(image)
    assert cat.predict(image)[0] != "c1"
    cat.move(image, "c1")
    assert cat.predict(image)[0] == "c1"
    cat.ignore(image)
    assert cat.predict(image)[0] == "unknown"
    cat.unignore(image)
    with pytest.raises(InputError, match="1 of 1 images are not ignored"):
        cat.unignore(image)


def test_a_statement_follows_its_class_through_merges_and_drops(cat):
    image, _ = images([0], 1, 9)
    cat.move(image, "c1")
    cat.merge("c2", "c1")
    assert cat.predict(image)[0] == "c2"
    cat.split("c2")
    assert cat.predict(image)[0] == "c1"
    cat.drop("c1")
    assert cat.predict(image)[0] == "unknown"


def test_classes_that_are_held_apart_are_not_merged(cat):
    cat.hold_apart("c0", "c1")
    with pytest.raises(InputError, match="c0 and c1 are held apart"):
        cat.merge("c0", "c1")
    cat.merge("c2", "c1")
    with pytest.raises(InputError, match="c2 and c0 are held apart"):
        cat.merge("c2", "c0")
    with pytest.raises(InputError, match="from itself"):
        cat.hold_apart("c3", "c3")


# New classes


def test_a_class_of_images(cat):
    new, _ = images([KNOWN], 20, 3)
    entry = cat.new_class(new[:10], "fox")
    assert entry.name == "fox"
    assert (cat.predict(new) == "fox").mean() > 0.8  # those that nobody spoke of, too
    with pytest.raises(InputError, match="class 6 already"):
        cat.new_class(new[:1], "fox")


TWO_KINDS = images([KNOWN, KNOWN + 1], 12, 3)


def halves(cat: Happycat, which: int | str) -> list[set[int]]:
    """Split a class; the kinds of the images that each part is given, of those of two kinds."""
    parts = [entry.id for entry in cat.split(which)]
    given = np.array([row.id for row in cat.assign(TWO_KINDS[0])])
    assert set(given) == set(parts)
    return [set(TWO_KINDS[1][given == part].tolist()) for part in parts]


@pytest.mark.parametrize("taught", [True, False])
def test_a_class_that_a_person_made_is_split_and_its_images_go_with_their_half(cat, tmp_path, taught):
    vectors, _ = TWO_KINDS
    entry = cat.teach(vectors, ["both"] * len(vectors)).added[0] if taught else cat.new_class(vectors, "both")
    assert set(cat.predict(vectors)) == {"both"}
    cat.save(tmp_path / "split.cat")
    again = Happycat.load(tmp_path / "split.cat")
    assert sorted(halves(again, "both"), key=min) == [{KNOWN}, {KNOWN + 1}]
    assert again.find("both").id == entry.id
    pool, registry = again.registry_.pool, again.registry_
    assert sum(pool.sizes[row] for one in (entry.id, entry.id + 1) for row in registry.entries[one].rows) == 24


def test_confirmed_images_of_a_discovered_class_go_with_their_half(cat):
    vectors, _ = TWO_KINDS
    found = cat.discover(vectors, 1)
    cat.move(vectors, found.new[0])
    pool = cat.registry_.pool
    rows = pool.children[cat.find(found.new[0]).rows[0]]
    nearer = (found.learned.numpy() @ pool.vectors[rows].T).argmax(1)
    parts = cat.split(found.new[0])
    assert [entry.rows for entry in parts] == [(rows[0],), (rows[1],)]
    assert [row.id for row in cat.assign(vectors)] == [parts[half].id for half in nearer]
    sizes = pool.sizes[rows]
    cat.move(vectors[:1], "c0")  # taken from the half that counted it in, and from no other
    assert (sizes - pool.sizes[rows]).tolist() == [1 - nearer[0], nearer[0]]


def test_a_class_of_too_few_images_says_what_can_be_done(cat):
    cat.new_class(TWO_KINDS[0][:3], "few")
    with pytest.raises(InputError, match=r"its 3 images were too few.* split it by examples of its parts"):
        cat.split("few")


def test_teaching_known_new_and_discovered_classes(cat):
    known, _ = images([0], 10, 21)
    cat.discover(images([KNOWN], 20, 3)[0], 1)
    found, _ = images([KNOWN], 10, 22)
    new, _ = images([KNOWN + 1], 10, 23)
    labels = ["c0"] * 10 + ["fox"] * 10 + ["owl"] * 10
    taught = cat.teach(np.concatenate([known, found, new]), labels)
    assert [e.name for e in taught.extended] == ["c0"]
    assert [(e.id, e.name) for e in taught.joined] == [(KNOWN, "fox")]
    assert [e.name for e in taught.added] == ["owl"]
    assert cat.taught_ == {0: 10, KNOWN: 10, KNOWN + 1: 10}
    assert (cat.predict(images([KNOWN + 1], 20, 24)[0]) == "owl").mean() > 0.7
    assert cat.registry_.pool.sizes[cat.find("c0").rows[0]] == 40
    assert cat.find("owl").labelled


def test_teaching_without_joining(cat):
    cat.discover(images([KNOWN], 20, 3)[0], 1)
    taught = cat.teach(images([KNOWN], 10, 22)[0], ["fox"] * 10, join=False)
    assert [e.name for e in taught.added] == ["fox"]
    assert cat.find(KNOWN).name is None


def test_numbers_of_discovered_classes_stay_when_numbers_are_taught():
    vectors, labels = images(range(KNOWN), 30)
    cat = Happycat().fit(vectors, labels)
    cat.discover(images([KNOWN], 20, 3)[0], 1)
    assert cat.classes_.tolist() == [0, 1, 2, 3, 4, 5, 6]
    cat.teach(images([KNOWN + 1], 10, 23)[0], [-7] * 10)
    assert cat.classes_.tolist() == [0, 1, 2, 3, 4, 5, 6, -7]


def test_a_class_is_split_by_examples(model):
    editor = Editor(model)
    editor.merge(KNOWN, KNOWN + 1)
    rows = editor.assigned()
    truth = np.repeat([0, 1, KNOWN, KNOWN + 1], 20)
    both = [i for i, row in enumerate(rows) if row.id == KNOWN]
    examples = [[i for i in both if truth[i] == kind][:2] for kind in (KNOWN, KNOWN + 1)]
    kept, new = editor.split_by(KNOWN, examples)
    assert (kept.id, new.id) == (KNOWN, KNOWN + 2)
    after = editor.assigned()
    right = sum(after[i].id == (KNOWN if truth[i] == KNOWN else new.id) for i in both)
    assert right > 0.85 * len(both)
    assert all(after[i].said == "confirmed" for group in examples for i in group)
    with pytest.raises(InputError, match="not of"):
        editor.split_by(KNOWN, [examples[0], [0]])


# Versions


def test_every_correction_is_a_version_that_can_be_undone_and_redone(model):
    editor = Editor(model)
    start, rows = editor.version, editor.assigned()
    first = [i for i, row in enumerate(rows) if row.id == KNOWN]
    states = [rows]
    for act in (
        lambda: editor.move(first[:2], "c0"),
        lambda: editor.confirm(first[2:4]),
        lambda: editor.reject(first[4:6]),
        lambda: editor.ignore(first[6:8]),
        lambda: editor.unignore(first[6:7]),
        lambda: editor.new_class(first[8:11], "fox"),
        lambda: editor.apart("fox", KNOWN),
        lambda: editor.split(KNOWN + 1),
    ):
        act()
        states.append(editor.assigned())
        counts = editor.registry.counts
        assert counts.exact
        ids = [row.id for row in states[-1]]
        assert {number: ids.count(number) for number in counts.by_id} == dict(counts.by_id)
    assert editor.version == start + 8
    assert [one.get("images") for one in editor.history[start:]] == [2, 2, 2, 2, 1, 3, None, None]
    for state in reversed(states[:-1]):
        editor.undo()
        assert editor.assigned() == state
    for state in states[1:]:
        editor.redo()
        assert editor.assigned() == state
    assert editor.go_to(start) == start
    assert editor.assigned() == rows
    assert len(editor.history) == start + 8


def test_two_editors_see_each_other(model):
    one, two = Editor(model), Editor(model)
    one.name(KNOWN, "fox")
    assert two.refresh()
    assert two.registry.entries[KNOWN].name == "fox"
    two.move([0], "fox")
    assert two.version == one.version + 1
    assert not two.refresh()
    one.drop("fox")  # it reads the file first
    assert one.version == two.version + 1


def test_nothing_is_changed_by_a_mistake(model):
    editor = Editor(model)
    before = model.read_bytes()
    for wrong in (
        lambda: editor.move([0, 0], "c1"),
        lambda: editor.move([], "c1"),
        lambda: editor.move([99999], "c1"),
        lambda: editor.move([-1], "c1"),
        lambda: editor.move([0], "lynx"),
        lambda: editor.split_by(KNOWN, [[0]]),
        lambda: editor.redo(),
        lambda: editor.go_to(99),
    ):
        with pytest.raises(InputError):
            wrong()
    assert model.read_bytes() == before


def test_a_correction_of_images_costs_kilobytes(model):
    editor, size = Editor(model), model.stat().st_size
    for i in range(5):
        editor.move([i], "c3")
    assert model.stat().st_size - size < 5 * 8_000


def test_candidates_and_ranked_images(model):
    editor = Editor(model)
    rows = editor.assigned()
    best = editor.candidates(0, 3)
    assert best[0][2] >= best[1][2] >= best[2][2]
    if rows[0].id is not None:
        assert best[0][0] == rows[0].id
    ranked = editor.ranked(KNOWN)
    assert not {i for i, row in enumerate(rows) if row.id == KNOWN} & set(ranked)
    editor.confirm([i for i in ranked if rows[i].id is not None][:1])
    assert len(editor.ranked(KNOWN)) == len(ranked) - 1


def test_a_split_hands_moved_images_down(model):
    editor = Editor(model)
    row = editor.registry.entries[KNOWN].rows[0]
    editor.move([0, 1], KNOWN)
    total, size = editor.registry.pool.sum(row), editor.registry.pool.sizes[row]
    parts = editor.split(KNOWN)
    rows = [one for part in parts for one in part.rows]
    pool = editor.registry.pool
    assert sum(pool.sizes[one] for one in rows) == size
    halves = sum(pool.sum(one) for one in rows)
    assert halves @ total / np.linalg.norm(halves) / np.linalg.norm(total) > 0.999


def test_statements_that_were_tampered_with_are_refused(model):
    Editor(model).move([0, 1], "c3")
    file = model_file.read(model)
    from happycat.base.errors import StorageError
    from happycat.model.registry import ClassRegistry

    level = max(int(name.split(".")[1]) for name in file.arrays if name.startswith("said."))
    said = file.arrays[f"said.{level}"]
    assert said.shape == (2, 7)

    def changed(column: int | slice, value: int) -> np.ndarray:
        bad = said.copy()
        bad[:, column] = value
        return bad

    for name, bad in (
        ("said", changed(slice(0, 4), 0)),  # one digest twice
        ("said", changed(4, 99)),  # a class that is not there
        ("said", changed(5, 10**6)),  # a row of the pool
        ("said", changed(6, 3)),
        ("said", said[:, :6]),
        ("said", said.astype(np.int64)),
        ("rejected", np.array([[5, 0]], np.int32)),
        ("rejected", np.array([[0, 99]], np.int32)),
    ):
        with pytest.raises(StorageError, match="cannot be used"):
            ClassRegistry.of(file.metadata, {**dict(file.arrays), f"{name}.{level}": bad})


def test_undo_and_redo_of_a_file(model):
    correct(model, "name", lambda registry: registry.name(KNOWN, "fox").id)
    undo(model)
    assert redo(model) == 3
    done = correct_images(model, "move", lambda c: c.chosen([0]).given[0], images=1)
    assert done.result in (0, None)


def test_images_that_were_spoken_of_are_neither_the_most_typical_nor_doubtful(model):
    """A doubtful image that a person confirmed has the probability 1; that does not make it typical."""
    editor = Editor(model)
    before = next(one for one in editor.summaries() if one.id == KNOWN)
    assert before.doubtful
    editor.confirm(before.doubtful)
    after = next(one for one in editor.summaries() if one.id == KNOWN)
    assert not set(before.doubtful) & {*after.typical, *after.doubtful}


def test_a_loaded_model_knows_which_images_its_last_discovery_counted(model):
    cat = Happycat.load(model)
    row = cat.registry_.entries[KNOWN].rows[0]
    size = cat.registry_.pool.sizes[row]
    mine = INBOX[[one.id == KNOWN for one in cat.assign(INBOX)]]
    cat.confirm(mine)
    assert cat.registry_.pool.sizes[row] == size  # they were in the sum already
