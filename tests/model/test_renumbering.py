"""Another number of new classes: what a discovery with that number finds, what it changes, and what it leaves alone."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from happycat import Happycat
from happycat.base.errors import InputError
from happycat.model import file as model_file
from happycat.model.editor import Editor
from happycat.model.renumbering import Renumbering, renumber
from happycat.model.review import Review
from tests.helpers.vectors import KNOWN, clouds

INBOX = clouds([0, 1, 20, 21, 22, 23], 20, noise=0.07, seed=3)[0]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A model of six classes that discovered four among vectors."""
    folder = tmp_path_factory.mktemp("first")
    X, y = clouds(range(KNOWN))
    Happycat().fit(X, [f"c{label}" for label in y]).save(folder / "shop.cat")
    discover(folder / "shop.cat", 4)
    return folder


@pytest.fixture
def model(first, tmp_path):
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    return tmp_path / "shop.cat"


def discover(model, number):
    cat = Happycat.load(model)
    found = cat.discover(INBOX, number)
    folder = model.with_name(f"shop-{cat._tag.number + 1}")
    folder.mkdir()
    review = Review.of(found, cat.stage_)
    more = {"found": {"images": len(INBOX), "new": found.new}, "results": str(folder), "review": review.write(folder)}
    cat.save(model, "discover", {**more, "images": len(INBOX)})
    return found


def groups(rows):
    """The images of each class, however the classes are numbered."""
    by_class = {}
    for i, row in enumerate(rows):
        by_class.setdefault(row.id, set()).add(i)
    return sorted(map(sorted, by_class.values()))


@pytest.mark.parametrize("number", [0, 2, 3, 4, 6])
def test_the_result_is_what_a_discovery_with_that_number_finds(model, number):
    assert renumber(model, number) == 3
    editor = Editor(model)
    new = [entry for entry in editor.registry if entry.stage == 1]
    wanted = Happycat.load(_before(model))
    found = wanted.discover(INBOX, number)
    assert len(new) == len(found.new) == number
    rows = [entry.rows[0] for entry in new]
    other = [wanted.registry_.entries[one].rows[0] for one in found.new]
    np.testing.assert_array_equal(editor.registry.pool.vectors[rows], wanted.registry_.pool.vectors[other])
    np.testing.assert_array_equal(editor.registry.pool.thresholds[rows], wanted.registry_.pool.thresholds[other])
    assert groups(editor.assigned()) == groups(found.assigned)
    places = np.isin(editor.review.counted, rows)
    np.testing.assert_array_equal(places, found.counted >= 0)


def _before(model):
    copy = model.with_name("before.cat")
    shutil.copyfile(model, copy)
    with model_file.locked(copy):
        model_file.go_to(copy, 1)
    return copy


def test_it_can_be_undone_and_corrected(model):
    before = [row[:2] for row in Editor(model).assigned()]
    renumber(model, 6)
    editor = Editor(model)
    assert editor.history[-1]["what"] == "discover again with 6 new classes"
    assert not {row.id for row in editor.assigned()} & {6, 7, 8, 9}  # ids are never given again
    image = next(i for i, row in enumerate(editor.assigned()) if row.id == 10)
    editor.move([image], 11)
    assert editor.assigned()[image].id == 11
    assert (model.with_name("shop-3") / "page.html").is_file()
    editor.go_to(2)
    assert [row[:2] for row in editor.assigned()] == before


def test_what_a_person_said_stays(model):
    editor = Editor(model)
    rows = editor.assigned()
    own = [i for i, row in enumerate(rows) if row.id == 6]
    other = next(i for i, row in enumerate(rows) if row.id == 7)
    editor.name(6, "fox")
    editor.confirm([other])
    again = Renumbering(Happycat.load(model), editor.review)
    assert (again.kept, again.open, again.now) == ([6, 7], [8, 9], 4)
    renumber(model, 3)
    editor.refresh()
    new = [entry.id for entry in editor.registry if entry.stage == 1]
    assert new[:2] == [6, 7]
    assert len(new) == 3
    assert [editor.assigned()[i].id for i in own] == [6] * len(own)
    assert editor.assigned()[other][1] == 7
    with pytest.raises(InputError, match="there can be 2 to"):
        renumber(model, 1)


def test_the_changes_are_those_that_come_true(model):
    editor = Editor(model)
    again = Renumbering(Happycat.load(model), editor.review)
    assert again.changes(4) == []
    fewer = again.changes(3)
    (joined,) = [change for change in fewer if "become one" in change.text]
    assert len(joined.classes) == 2
    assert set(joined.classes) < {6, 7, 8, 9}
    more = again.changes(7)
    (split,) = [change for change in more if "becomes two" in change.text]
    assert len(split.parts) == 2
    renumber(model, 7)
    rows = Editor(model).assigned()
    parts = [{rows[i].id for i in part} for part in split.parts]
    assert [len(part) for part in parts] == [1, 1]
    assert parts[0] != parts[1]


def test_with_no_class_left_their_images_go_elsewhere(model):
    again = Renumbering(Happycat.load(model), Editor(model).review)
    changes = again.changes(0)
    assert {number for change in changes for number in change.classes} == {6, 7, 8, 9}
    assert all("is no class any more" in change.text for change in changes)
