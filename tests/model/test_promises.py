"""What scikit-learn promises of an estimator, and what people who know it expect."""

from __future__ import annotations

import copy
import doctest
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_score

import happycat
from happycat import Happycat
from happycat.backbone.extraction import FeatureExtractor
from happycat.backbone.views import ViewDataset
from happycat.base.errors import HappycatError, InputError
from happycat.base.progress import Progress
from happycat.methods import pretraining
from happycat.methods.calm import CalmConfig
from happycat.model import embedding, estimator, fitting
from happycat.model import file as model_file
from tests.helpers.vectors import clouds

X, Y = clouds(range(3), each=6, noise=0.03)
X = X[:, :8]
STRANGE = -X[:3]
SHADES = np.repeat(np.array([20, 120, 220], np.uint8), 6)
PICTURES = np.clip(SHADES[:, None, None] + np.random.default_rng(0).integers(-15, 15, (18, 16, 16)), 0, 255).astype(
    np.uint8
)


@pytest.fixture(scope="module", autouse=True)
def hardly_calibrated():
    """One episode: what is promised here does not depend on how good a model is."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (fitting, embedding):
            patch.setattr(module, "CalmConfig", partial(CalmConfig, episodes=1))
        yield


@pytest.fixture
def hardly_trained(monkeypatch):
    monkeypatch.setitem(pretraining.SMALL_VIT, "base_epochs", 1)


@pytest.fixture(scope="module")
def once() -> Happycat:
    return Happycat().fit(X, Y)


@pytest.fixture
def fitted(once) -> Happycat:
    """A model of three classes, to be changed."""
    return copy.deepcopy(once)


def test_fit_changes_no_parameter_and_gives_itself():
    made = Happycat("scratch_vit", random_state=3)
    before = made.get_params()
    assert made.fit(X, Y) is made
    assert made.get_params() == before
    assert made.backbone_ == "vectors"
    assert clone(made).get_params() == before
    assert not hasattr(clone(made), "classes_")


def test_vectors_can_have_patches_behind_a_class_token():
    both = np.concatenate([X, np.random.default_rng(0).normal(size=X.shape)], 1)  # patches that tell nothing
    assert not Happycat(class_token=8).fit(both, Y).calm_.space.projection[8:].any()
    assert Happycat().fit(both, Y).calm_.space.projection[8:].any()
    for wrong in (0, 17, "8", True):
        with pytest.raises(InputError, match=r"how many of the 16 numbers of a vector are of it"):
            Happycat(class_token=wrong).fit(both, Y)
    with pytest.raises(InputError, match="class_token is for vectors"):
        Happycat("scratch_vit", class_token=8).fit(PICTURES, SHADES)


def test_another_kind_of_input_can_be_fitted_next(hardly_trained):
    cat = Happycat("scratch_vit").fit(X, Y)
    cat.fit(PICTURES, SHADES)
    assert cat.backbone_ == "scratch_vit"
    assert cat.predict_proba(PICTURES).shape == (18, 3)
    cat.fit(X[:, :5], Y)
    assert (cat.backbone_, cat.n_features_in_) == ("vectors", 5)
    assert cat.transform(X[:, :5]).shape == (18, 5)


@pytest.mark.parametrize(
    "use",
    [
        lambda cat: cat.predict(X),
        lambda cat: cat.predict_proba(X),
        lambda cat: cat.transform(X),
        lambda cat: cat.assign(X),
        lambda cat: cat.discover(X),
        lambda cat: cat.score(X, Y),
        lambda cat: cat.name(0, "a"),
        lambda cat: cat.merge(0, 1),
        lambda cat: cat.split(0),
        lambda cat: cat.drop(0),
        lambda cat: cat.find(0),
        lambda cat: cat.save("never.cat"),
        lambda cat: cat.append("never.cat", "x"),
        lambda cat: cat.extractor(),
        lambda cat: cat.rule(),
        lambda cat: cat.classes_,
    ],
)
def test_before_fit_there_is_nothing(use):
    with pytest.raises(NotFittedError):
        use(Happycat())


@pytest.mark.parametrize(
    ("labels", "kind", "unknown"),
    [
        (Y.tolist(), "i", -1),
        (Y.astype(np.int16), "i", -1),
        (Y > 0, "i", -1),
        (Y * 2.0, "f", -1),
        (np.array(["ant", "bee", "cat"])[Y], "U", "unknown"),
        (list(np.array(["ant", "bee", "cat"])[Y]), "U", "unknown"),
        (torch.tensor(Y) - 5, "i", -6),
    ],
    ids=["list of int", "int16", "bool", "float", "text", "list of text", "tensor with negative ones"],
)
def test_labels_keep_their_kind(labels, kind, unknown):
    cat = Happycat().fit(X, labels)
    predicted = cat.predict(X)
    assert predicted.dtype.kind == cat.classes_.dtype.kind == kind
    assert accuracy_score(labels, predicted) == cat.score(X, labels) > 0.6
    assert set(predicted.tolist()) <= {*np.unique(np.asarray(labels)).tolist(), unknown}
    assert cat.registry_.unknown == unknown
    assert cat.classes_.tolist() == sorted(set(np.asarray(labels).tolist()))


def test_another_model_is_not_saved_over_one_that_is_there(once, fitted, tmp_path):
    path = tmp_path / "m.cat"
    fitted.save(path)
    before = path.read_bytes()
    stranger, loaded = copy.deepcopy(once), Happycat.load(path)
    stranger.drop(1)
    with pytest.raises(InputError, match="holds another model"):
        stranger.save(path)
    stranger.save(tmp_path / "other.cat")
    with pytest.raises(InputError, match="holds another model"):
        stranger.save(path)
    with model_file.locked(tmp_path / "third.cat", new=True), pytest.raises(InputError, match="is in use by"):
        stranger.save(tmp_path / "third.cat")
    assert path.read_bytes() == before
    assert not (tmp_path / "third.cat").exists()
    assert loaded.save(path) == 2


def test_discovered_classes_are_numbers_above_the_labels(tmp_path):
    cat = Happycat().fit(X, Y + 7)
    assert cat.predict(STRANGE).tolist() == [-1] * 3
    cat.discover(np.concatenate([X, STRANGE]), 1)
    assert cat.classes_.tolist() == [7, 8, 9, 10]
    assert cat.predict(STRANGE).tolist() == [10] * 3
    cat.save(tmp_path / "m.cat")
    again = Happycat.load(tmp_path / "m.cat")
    assert again.classes_.dtype.kind == "i"
    assert again.classes_.tolist() == [7, 8, 9, 10]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([None, *Y[1:]], "1 of 18 labels are missing .None or NaN., at 0;"),
        ([np.nan, np.nan, *Y[2:]], "2 of 18 labels are missing .None or NaN., at 0, 1;"),
        (["unknown", *map(str, Y[1:])], "unknown"),
        (["class 10", *map(str, Y[1:])], "class 10"),
    ],
)
def test_labels_that_are_no_names_are_refused(labels, message):
    with pytest.raises(InputError, match=message) as caught:
        Happycat().fit(X, labels)
    assert "\n" not in str(caught.value)


def test_probabilities_sum_to_one_after_a_drop(fitted):
    fitted.drop(1)
    dropped = fitted.predict_proba(X[Y == 1])
    assert dropped.shape == (6, 2)
    np.testing.assert_allclose(dropped.sum(1), 1, atol=1e-6)
    assert (fitted.predict(X[Y == 1]) == -1).all()
    assert fitted.classes_.tolist() == [0, 2]


@pytest.mark.parametrize(
    "kind",
    [np.ndarray.tolist, lambda x: x.astype(np.float16), torch.tensor, lambda x: torch.tensor(x).requires_grad_()],
)
def test_vectors_of_any_kind_are_predicted(once, kind):
    np.testing.assert_allclose(once.predict_proba(kind(X)), once.predict_proba(X), atol=0.05)


def test_lists_are_fitted(once):
    listed = Happycat().fit(X.tolist(), Y.tolist())
    np.testing.assert_array_equal(listed.predict_proba(X), once.predict_proba(X))


def test_whole_numbers_are_vectors():
    whole = np.round(X * 100).astype(np.int64)
    assert Happycat().fit(whole, Y).score(whole, Y) > 0.6


@pytest.mark.parametrize("scale", [1e25, 1e-25])
def test_vectors_that_float32_cannot_square_are_learned_as_well_as_others(scale):
    digits, labels = load_digits(return_X_y=True)
    some = np.flatnonzero(labels < 3)
    learned, others = some[:60], some[60:160]
    usual = Happycat().fit(digits[learned], labels[learned]).score(digits[others], labels[others])
    scaled = Happycat().fit(digits[learned] * scale, labels[learned])
    assert usual > 0.7
    assert scaled.score(digits[others] * scale, labels[others]) == pytest.approx(usual, abs=0.02)
    assert scaled.score(digits[others], labels[others]) == pytest.approx(usual, abs=0.02)


def test_data_frames_are_taken():
    pd = pytest.importorskip("pandas")
    frame, labels = pd.DataFrame(X), pd.Series(np.array(["ant", "bee", "cat"])[Y])
    assert Happycat().fit(frame, labels).score(frame, labels) > 0.6


def test_embeddings_of_vectors_are_the_unit_vectors(fitted):
    np.testing.assert_allclose(fitted.transform(X), X / np.linalg.norm(X, axis=1, keepdims=True), atol=1e-6)
    assert fitted.n_features_in_ == X.shape[1]


def test_it_is_a_classifier_that_can_be_cross_validated():
    assert is_classifier(Happycat())
    assert cross_val_score(Happycat(), X, Y, cv=2).mean() > 0.3
    assert cross_val_score(Happycat(), *clouds(range(3), each=30, noise=0.03), cv=2).mean() > 0.8


def test_the_random_state_is_a_number_and_none_is_zero(once):
    zero = Happycat(random_state=0).fit(X, Y)
    np.testing.assert_array_equal(once.predict_proba(X), zero.predict_proba(X))
    with pytest.raises(InputError, match="random_state is a whole number or None"):
        Happycat(random_state="7").fit(X, Y)


class Steps(Progress):
    """Progress that remembers its steps."""

    def __init__(self):
        self.titles: list[str] = []

    def step(self, title, total=None):
        self.titles.append(title)
        return super().step(title, total)

    def close(self):
        self.titles.append("closed")


def test_progress_is_told_and_embeddings_are_kept_where_the_caller_says(hardly_trained, tmp_path, monkeypatch):
    steps = Steps()
    cat = Happycat("scratch_vit", progress=steps, cache_dir=str(tmp_path / "kept")).fit(PICTURES, SHADES)
    assert {"reading", "extracting features", "learning"} <= set(steps.titles)
    assert steps.titles[-1] == "closed"
    assert clone(cat).progress is steps
    first = cat.transform(PICTURES)
    assert list((tmp_path / "kept").iterdir())
    monkeypatch.delattr(ViewDataset, "__getitem__")  # nothing can be extracted any more
    np.testing.assert_array_equal(cat.transform(PICTURES), first)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"backbone": "no_such_vit"}, "no_such_vit"),
        ({"backbone": "vit_tiny_patch16_224", "weights": "/no/such/file"}, "/no/such/file"),
        ({"backbone": "scratch_vit", "image_size": -1}, "image_size|image size"),
        ({"backbone": "scratch_vit", "random_state": 0.5}, "random_state"),
    ],
)
def test_parameters_are_judged_before_an_image_is_read(params, message, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("an image was read")

    monkeypatch.setattr(estimator, "read_labelled", never)
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    with pytest.raises(HappycatError, match=message) as caught:
        Happycat(**params).fit(tmp_path)
    assert "--" not in str(caught.value)


@pytest.mark.parametrize("classes", ["", "a"])
def test_a_folder_without_two_classes_is_refused_before_weights_are_fetched(classes, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("a backbone was built")

    monkeypatch.setattr(estimator, "extractor_of", never)
    for name in classes:
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").touch()
    with pytest.raises(InputError, match=r"no image can be used|one class only"):
        Happycat().fit(tmp_path)


@pytest.mark.parametrize("wrong", [-1, "many", 2.5, True, None])
def test_a_wrong_number_is_judged_before_an_image_is_read(fitted, wrong, monkeypatch):
    monkeypatch.delattr(estimator, "read")
    with pytest.raises(InputError, match="num_new is a whole number from 0 on, or 'auto'"):
        fitted.discover(X, wrong)


def test_more_classes_than_files_are_refused_before_an_image_is_read(tmp_path, monkeypatch):
    cat = Happycat("scratch_vit", mirror=False)
    with monkeypatch.context() as patch:
        patch.setitem(pretraining.SMALL_VIT, "base_epochs", 1)
        cat.fit(PICTURES, SHADES)
    for i in range(3):
        Image.fromarray(PICTURES[i]).save(tmp_path / f"{i}.png")
    (tmp_path / "broken.png").touch()
    with pytest.raises(InputError, match="3 images cannot form 4 new classes; give a smaller number, or 'auto'"):
        cat.discover(tmp_path, num_new=4)  # which only reading them tells
    monkeypatch.setattr("happycat.images.collecting.reason_against", lambda path: pytest.fail(f"{path} was read"))
    monkeypatch.setattr(Happycat, "extractor", lambda self: pytest.fail("a backbone was built"))
    for source in (tmp_path, sorted(tmp_path.iterdir())):
        with pytest.raises(InputError, match="4 images cannot form 5 new classes; give a smaller number, or 'auto'"):
            cat.discover(source, num_new=5)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            np.zeros((60, 64)),
            "the features of all 60 images are zero, so no class can be told from another",
        ),
        (np.full((60, 64), 3.0), "the features of all 60 images are the same, up to their length"),
        (np.arange(1, 61)[:, None] * np.ones((60, 64)), "the features of all 60 images are the same"),
    ],
)
def test_features_that_are_all_the_same_are_one_line(features, message):
    with pytest.raises(InputError, match=message) as caught:
        Happycat().fit(features, np.repeat(range(6), 10))
    assert "\n" not in str(caught.value)


def test_pictures_that_are_all_the_same_are_one_line(monkeypatch):
    same = np.full((12, 16, 16), 7, np.uint8)
    monkeypatch.setitem(pretraining.SMALL_VIT, "base_epochs", 1)
    with pytest.raises(InputError, match="all 12 images are the same"):
        Happycat("scratch_vit", mirror=False).fit(same, np.repeat([0, 1], 6))


def test_features_that_are_not_finite_are_one_line(monkeypatch):
    monkeypatch.setitem(pretraining.SMALL_VIT, "base_epochs", 1)
    cat, extract = Happycat("scratch_vit", mirror=False).fit(PICTURES, SHADES), FeatureExtractor.extract

    def broken(self, *more):
        features = extract(self, *more)
        features[:2, 0, 0] = torch.nan
        return features

    monkeypatch.setattr(FeatureExtractor, "extract", broken)
    for verb in (lambda: cat.predict(PICTURES), lambda: cat.discover(PICTURES), lambda: cat.fit(PICTURES, SHADES)):
        with pytest.raises(InputError, match="features of 2 of 18 images are not finite numbers, as scratch_vit"):
            verb()


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (np.repeat(np.eye(8)[:2], 10, 0), np.repeat([0, 1], 10)),  # no scatter within a class
        (np.tile(np.eye(8)[:2], (10, 1)), np.repeat([0, 1], 10)),  # none between them
        (np.random.default_rng(0).normal(size=(6, 300)), np.arange(6)),  # an image of each
        (np.random.default_rng(0).normal(size=(2, 8)), np.arange(2)),
        (np.random.default_rng(0).normal(size=(20, 1)), np.repeat([0, 1], 10)),  # a single dimension
        (np.concatenate([np.zeros((10, 8)), np.eye(8)]), np.repeat([0, 1], [10, 8])),  # a class of zeros
    ],
)
def test_poor_features_are_learned_all_the_same(features, labels):
    cat = Happycat().fit(features, labels)
    probabilities = cat.predict_proba(features)
    assert np.isfinite(probabilities).all()
    cat.discover(features, 1)
    cat.discover(np.zeros_like(features[:2]))  # one that has no direction
    assert np.isfinite(cat.predict_proba(features)).all()


def test_the_example_of_the_class_is_true():
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(Happycat, "Happycat", globs={})
    assert len(example.examples) > 5
    assert doctest.DocTestRunner().run(example).failed == 0


def test_what_is_exported_is_imported_when_it_is_used():
    for name in happycat.__all__:
        assert getattr(happycat, name) is not None
    assert set(happycat.__all__) == {
        "Assignment", "ClassEntry", "Discovery", "FitReport", "Happycat", "HappycatError", "__version__",
    }  # fmt: skip
    light = "import sys, happycat; happycat.Discovery, happycat.ClassEntry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", light]).returncode == 0


def test_a_step_that_is_interrupted_is_not_ended_as_if_it_were_done(monkeypatch):
    class Watch(Progress):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    watch = Watch()
    monkeypatch.setattr(fitting, "embed", stop)
    with pytest.raises(KeyboardInterrupt):
        Happycat(progress=watch).fit(*clouds(range(3)))
    assert watch.closed == 0


def test_labels_that_leave_no_number_for_a_new_class_are_refused():
    X, y = clouds(range(3))
    with pytest.raises(InputError, match="too large"):
        Happycat().fit(X, np.where(y == 2, 1e17, y))
