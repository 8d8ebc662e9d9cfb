"""Fit, discover, predict, correct, save, load: on vectors whose classes are known, and on pictures."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from happycat import Happycat
from happycat.base.errors import InputError, StorageError
from happycat.base.progress import Advance, Progress
from happycat.methods import pretraining
from happycat.methods.calm import mixture
from happycat.methods.calm.candidates import find_groups
from happycat.model import file as model_file
from happycat.model.splitting import LEVELS
from tests.helpers.vectors import KNOWN, clouds


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The file of a model that knows six classes."""
    path = tmp_path_factory.mktemp("model") / "shop.cat"
    X, y = clouds(range(KNOWN))
    Happycat().fit(X, [f"c{label}" for label in y]).save(path)
    return path


@pytest.fixture
def cat(model) -> Happycat:
    return Happycat.load(model)


def purity(found, labels) -> float:
    """The share of images whose class holds mostly images of their kind."""
    ids = np.array([-1 if row.id is None else row.id for row in found.assigned])
    return sum(np.bincount(labels[ids == i]).max() for i in np.unique(ids) if i >= 0) / len(ids)


def test_held_out_vectors_are_told_apart():
    X, y = clouds(range(KNOWN))
    fitted = Happycat().fit(X, y).fitted_
    assert (fitted.images, fitted.held_out) == (180, 36)
    assert fitted.accuracy == 100
    assert fitted.by_class == dict.fromkeys(range(KNOWN), 100.0)


def test_known_vectors_are_predicted_and_others_are_unknown(cat):
    X, y = clouds(range(KNOWN), each=10, seed=1)
    assert (cat.predict(X) == [f"c{label}" for label in y]).mean() > 0.9
    probabilities = cat.predict_proba(X)
    assert probabilities.shape == (60, KNOWN)
    assert (cat.classes_[probabilities.argmax(1)] == [f"c{label}" for label in y]).all()
    other, _ = clouds([20], each=10)
    assert (cat.predict(other) == "unknown").all()


def test_new_classes_are_counted_found_and_known_from_then_on(cat):
    X, y = clouds([0, 1, 6, 7, 8], seed=2)
    found = cat.discover(X)
    assert found.count.number == 3
    assert found.new == [6, 7, 8]
    assert purity(found, y) > 0.9
    again, labels = clouds([6, 7, 8], each=10, seed=3)
    given = cat.predict(again)
    assert set(given) <= {"class 6", "class 7", "class 8", "unknown"}
    assert all(len(set(given[labels == c]) - {"unknown"}) == 1 for c in (6, 7, 8))
    second = cat.discover(clouds([2, 7, 9], seed=4)[0])
    assert second.new == [9]


def test_nothing_new_is_an_answer(cat):
    found = cat.discover(clouds(range(KNOWN), each=8, seed=5)[0])
    assert (found.count.number, found.new) == (0, [])
    assert len(cat.registry_) == KNOWN


def test_a_number_that_is_told_is_taken(cat):
    found = cat.discover(clouds([6, 7], seed=2)[0], 2)
    assert found.count is None
    assert len(found.new) == 2
    with pytest.raises(InputError, match="cannot form 1000"):
        cat.discover(clouds([6, 7], seed=2)[0], 1000)


def test_the_same_seed_gives_the_same(model):
    X, _ = clouds([0, 6, 7], seed=2)
    one, two = (Happycat.load(model).discover(X) for _ in range(2))
    assert one.assigned == two.assigned


def test_a_discovery_says_what_predict_says(cat):
    X, _ = clouds([0, 6, 7], noise=0.12, seed=2)
    found = cat.discover(X, 2)
    assert found.assigned == cat.assign(X)
    assert list(cat.predict(X)) == [row.label for row in found.assigned]
    for new in found.new:
        assert cat.registry_.counts.by_id[new] == sum(row.id == new for row in found.assigned)
    assert {row.id for row in found.assigned} >= {None, 6, 7}  # some are rejected, and have probabilities all the same
    np.testing.assert_allclose(cat.predict_proba(X).sum(1), 1, atol=1e-6)


# Corrections


@pytest.fixture
def grown(cat) -> Happycat:
    cat.discover(clouds([0, 6, 7, 8], seed=2)[0], 3)
    return cat


def test_a_name_is_kept(grown, tmp_path):
    grown.name(7, "red panda")
    assert grown.find("red panda").id == 7
    grown.save(tmp_path / "new.cat")
    assert "red panda" in Happycat.load(tmp_path / "new.cat").classes_
    with pytest.raises(InputError, match="is class 7 already"):
        grown.name(8, "red panda")
    with pytest.raises(InputError, match="no class 'blue'"):
        grown.name("blue", "x")
    with pytest.raises(InputError, match="at least one letter"):
        grown.name(8, "  ")


def of_classes(cat: Happycat, *ids: int, each: int, seed: int) -> np.ndarray:
    """Other vectors of the clouds that were found as these classes."""
    ids_of, places = [entry.id for entry in cat.registry_], []
    for cloud in (6, 7, 8):
        found = cat.predict_proba(clouds([cloud], each=10, seed=9)[0]).mean(0).argmax()
        places.append(ids_of[found])
    assert sorted(places) == [6, 7, 8]
    return clouds([6 + places.index(i) for i in ids], each=each, seed=seed)[0]


def test_merged_classes_are_one_and_come_apart_again(grown):
    X = of_classes(grown, 6, 7, each=10, seed=3)
    apart = [grown.registry_.counts.by_id[c] for c in (6, 7)]
    merged = grown.merge(6, 7)
    assert grown.registry_.counts.by_id[merged.id] == sum(apart) > 50
    assert set(grown.predict(X)) <= {"class 6", "unknown"}
    with pytest.raises(InputError, match="merged into class 6"):
        grown.name(7, "x")
    one, two = grown.split(6)
    assert (one.id, two.id) == (6, 7)
    assert set(grown.predict(X)) - {"unknown"} == {"class 6", "class 7"}


def test_a_class_that_holds_two_is_split_without_its_images(cat):
    X, y = clouds([6, 7], seed=2)
    found = cat.discover(X, 1)
    assert found.new == [6]
    one, two = cat.split(6)
    assert (one.id, two.id) == (6, 7)
    given = cat.predict_proba(X)[:, -2:].argmax(1)
    assert (given[y == 6] == given[0]).all()
    assert (given[y == 7] != given[0]).all()
    counts = [cat.registry_.counts.by_id[entry.id] for entry in (one, two)]
    assert counts == [sum(row.id == entry.id for row in cat.assign(X)) for entry in (one, two)]
    assert min(counts) > 20
    third = cat.split(7)[1]  # a half can be split again
    assert third.id == 8
    assert set(cat.predict(X)) >= {"class 6", "class 7", "class 8"}


def test_what_was_dropped_is_not_found_again(grown):
    X = of_classes(grown, 8, each=30, seed=6)
    grown.drop(8)
    assert "class 8" not in grown.classes_
    assert (grown.predict(X) == "unknown").all()
    assert grown.discover(np.concatenate([X, clouds([0], seed=6)[0]])).new == []
    with pytest.raises(InputError, match="was dropped"):
        grown.drop(8)


def test_identities_last(grown, tmp_path):
    grown.merge(6, 7)
    grown.drop(8)
    new = grown.discover(clouds([0, 9], seed=7)[0], 1).new
    assert new == [9]
    grown.save(tmp_path / "m.cat")
    again = Happycat.load(tmp_path / "m.cat")
    assert [c.id for c in again.registry_] == [0, 1, 2, 3, 4, 5, 6, 9]


@pytest.mark.parametrize("wrong", [(6,), (6, 6), (6, 99)])
def test_nothing_to_merge(grown, wrong):
    with pytest.raises(InputError):
        grown.merge(*wrong)


# On disk


def test_a_loaded_model_predicts_the_same(cat, grown, tmp_path):
    path = tmp_path / "m.cat"
    assert grown.save(path) == 1
    assert grown.save(path, "once more") == 2
    X, _ = clouds(range(9), each=5, seed=8)
    np.testing.assert_array_equal(Happycat.load(path).predict_proba(X), grown.predict_proba(X))
    assert model_file.history(path)[1]["what"] == "once more"


def test_a_model_grows_by_its_classes_only(cat):
    """A class has as many prototypes as it can be split into, however many images it has."""
    for c, each in ((6, 40), (7, 400)):
        before = len(cat.registry_.pool)
        cat.discover(clouds([0, c], each=each, seed=2)[0], 1)
        assert 1 < len(cat.registry_.pool) - before <= 2 ** (LEVELS + 1) - 1


def test_only_what_was_loaded_or_saved_gets_a_next_version(cat, model, tmp_path):
    path = tmp_path / "m.cat"
    path.write_bytes(model.read_bytes())
    one, two = Happycat.load(path), Happycat.load(path)
    one.name(0, "zero")
    assert one.save(path, "name") == 2
    with pytest.raises(InputError, match="changed since"):
        two.save(path)
    X, y = clouds(range(2), each=4)
    with pytest.raises(InputError, match="holds another model"):
        one.fit(X, y).save(path)  # fitted anew, it is another model
    assert Happycat.load(path).classes_[0] == "zero"


def test_a_file_from_elsewhere_is_data(tmp_path):
    (tmp_path / "bad.cat").write_bytes(b"\x80\x04cposix\nsystem\n")
    with pytest.raises(InputError, match="not a happycat model"):
        Happycat.load(tmp_path / "bad.cat")


def test_a_cut_file(model, tmp_path):
    cut = tmp_path / "cut.cat"
    cut.write_bytes(model.read_bytes()[:-10])
    with pytest.raises(StorageError, match="damaged from its first version"):
        Happycat.load(cut)


# What is given


@pytest.fixture(scope="module")
def painter(tmp_path_factory):
    """A model of pictures in three colours, hardly trained, and the folder of the pictures."""
    folder = tmp_path_factory.mktemp("colours")
    random = np.random.default_rng(0)
    for c, colour in enumerate([(200, 30, 30), (30, 200, 30), (30, 30, 200)]):
        (folder / f"[{c}]").mkdir()
        for k in range(6):
            pixels = np.clip(np.array(colour) + random.integers(-20, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"[{c}]" / f"{9 - k}.png")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pretraining.SMALL_VIT, "base_epochs", 5)
        return Happycat("scratch_vit").fit(folder), folder


def test_predictions_are_in_the_order_of_the_images(painter):
    cat, folder = painter
    paths = [folder / "[2]/9.png", folder / "[0]/4.png", folder / "[1]/8.png", folder / "[0]/4.png"]
    alone = np.concatenate([cat.predict_proba([path]) for path in paths])
    np.testing.assert_allclose(cat.predict_proba(paths), alone, atol=1e-5)
    assert [row.image for row in cat.assign(paths)] == [path.as_posix() for path in paths]
    assert list(cat.predict([str(p) for p in paths])) == [cat.predict([p])[0] for p in paths]


def test_the_same_content_twice_is_predicted_twice(painter, tmp_path):
    cat, folder = painter
    copy = tmp_path / "a copy.png"
    copy.write_bytes((folder / "[2]/9.png").read_bytes())
    one, two = cat.predict_proba([copy, folder / "[2]/9.png"])
    np.testing.assert_array_equal(one, two)


def test_no_prediction_is_taken_for_another_images(painter, tmp_path):
    cat, folder = painter
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no image")
    paths = [broken, folder / "[0]/4.png"]
    for use in (cat.predict, cat.predict_proba):
        with pytest.raises(InputError, match="1 images cannot be read"):
            use(paths)
    assert [row.image for row in cat.assign(paths)] == [paths[1].as_posix()]
    assert len(cat.skipped_) == 1


def test_wrong_things(cat):
    X, _ = clouds(range(3))
    with pytest.raises(InputError, match="one class only"):
        Happycat().fit(X, ["a"] * len(X))
    with pytest.raises(InputError, match="90 images but 3 labels"):
        Happycat().fit(X, ["a", "b", "c"])
    with pytest.raises(InputError, match="the vectors have 5 numbers"):
        cat.predict(np.ones((2, 5)))
    with pytest.raises(InputError, match="made with vectors"):
        cat.predict(np.zeros((2, 8, 8), np.uint8))


def test_two_classes_of_two_vectors_are_enough():
    X = np.eye(8)[[0, 0, 1, 1]] + 0.01 * np.random.default_rng(0).normal(size=(4, 8))
    cat = Happycat().fit(X, ["a", "a", "b", "b"])
    assert cat.fitted_.accuracy is None
    assert list(cat.predict_proba(X).argmax(1)) == [0, 0, 1, 1]


def test_counting_and_discovering_look_for_groups_of_images_once(cat, monkeypatch):
    looked = []
    monkeypatch.setattr(mixture, "find_groups", lambda *given: looked.append(given) or find_groups(*given))
    found = cat.discover(clouds([0, 6, 7], seed=2)[0])
    assert len(found.new) == 2
    assert len(looked) == 1


def test_learning_and_counting_have_totals():
    class Bars(Progress):
        def __init__(self) -> None:
            self.done: dict[str, list[int]] = {}

        def step(self, title: str, total: int | None = None) -> Advance:
            done = self.done[title] = [0, total or 0]

            def advance(steps: int, total: int | None = None, loss: float | None = None) -> None:
                done[0], done[1] = done[0] + steps, total or done[1]

            return advance

    bars = Bars()
    cat = Happycat(progress=bars).fit(*clouds(range(KNOWN)))
    cat.discover(clouds([0, 6, 7], seed=2)[0])
    assert bars.done["learning"] == [50, 50]  # five episodes: three exponents at three temperatures, the penalty
    assert bars.done["counting new classes"] == [89, 89]  # of 90 images
