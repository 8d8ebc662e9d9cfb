"""The check of Calm on feature vectors: bounds, feature files, splits, scores, and the command."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from happycat import Happycat
from happycat.base.errors import InputError
from happycat.base.metrics import Accuracy
from happycat.benchmark.paper import check
from happycat.benchmark.paper.bound import SHRINKAGE, linear_discriminant, nearest_mean
from happycat.benchmark.paper.check import OrderCheck, Scores, StageCheck, check_order
from happycat.benchmark.paper.check_data import CheckConfig, digits_as_vectors, read_features, read_sets, splits
from happycat.benchmark.paper.check_report import CheckResults, summary
from happycat.cli import display, main
from happycat.methods.calm.number import Count

CLASSES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen")
TRAIN, TEST = 15, 4  # images a class
QUICK = ("--stages", "2", "--new-images", "10", "--old-images", "3")


def made_arrays(noise: float = 0.05, seed: int = 0) -> dict[str, np.ndarray]:
    """Eight classes of vectors around orthogonal means, not in alphabetical order."""
    random = np.random.default_rng(seed)
    number = TRAIN + TEST
    kind = np.repeat(np.arange(len(CLASSES)), number)
    features = np.eye(12)[kind] + noise * random.normal(size=(len(kind), 12))
    part = np.tile(np.repeat(["train", "test"], [TRAIN, TEST]), len(CLASSES))
    mixed = random.permutation(len(kind))
    return {"X": features[mixed].astype(np.float16), "cls": np.array(CLASSES)[kind[mixed]], "part": part[mixed]}


@pytest.fixture
def features(tmp_path) -> Path:
    path = tmp_path / "made.npz"
    np.savez(path, key=np.arange(3), **made_arrays())
    return path


# Bounds


def labelled_points(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of four classes of different sizes, and queries."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(4), [3, 9, 5, 7])
    points = random.normal(size=(4, 6))[labels] + random.normal(size=(len(labels), 6)) * random.uniform(0.2, 2, 6)
    return points, labels, random.normal(size=(200, 6))


def test_the_nearest_mean_is_that_of_a_plain_loop():
    points, labels, queries = labelled_points()
    points, queries = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (points, queries))
    for query, found in zip(queries, nearest_mean(points, labels, queries), strict=True):
        cosines = []
        for c in range(4):
            mean = sum(point for point, label in zip(points, labels, strict=True) if label == c)
            cosines.append(sum(q * m for q, m in zip(query, mean, strict=True)) / np.sqrt(sum(m * m for m in mean)))
        assert found == max(range(4), key=cosines.__getitem__)


def test_the_linear_discriminant_is_that_of_its_equation():
    points, labels, queries = labelled_points()
    means, within = [], np.zeros((6, 6))
    for c in range(4):
        own = points[labels == c]
        means.append(own.mean(0))
        within += sum(np.outer(one - own.mean(0), one - own.mean(0)) for one in own) / len(own) / 4
    sigma = (1 - SHRINKAGE) * within + SHRINKAGE * np.trace(within) / 6 * np.eye(6)
    inverse = np.linalg.inv(sigma)
    for query, found in zip(queries, linear_discriminant(points, labels, queries), strict=True):
        scores = [query @ inverse @ mean - mean @ inverse @ mean / 2 for mean in means]
        assert found == int(np.argmax(scores))


# Feature files


def test_a_feature_file_is_read(features):
    images, arrays = read_features(features), made_arrays()
    assert images.name == "made"
    assert images.classes == CLASSES
    train = arrays["part"] == "train"
    for pictures, labels, rows in (
        (images.train, images.train_labels, train),
        (images.test, images.test_labels, ~train),
    ):
        assert pictures.vectors.dtype == np.float32
        assert np.array_equal(pictures.vectors, arrays["X"][rows])
        assert [CLASSES[c] for c in labels] == arrays["cls"][rows].tolist()


def with_nan(arrays):
    arrays["X"][3, 2] = np.nan


def without_test_images(arrays):
    arrays["part"][arrays["cls"] == "dog"] = "train"


def one_train_image(arrays):
    rows = np.flatnonzero((arrays["cls"] == "gnu") & (arrays["part"] == "train"))
    arrays["part"][rows[1:]] = "test"


def three_classes(arrays):
    kept = np.isin(arrays["cls"], CLASSES[:3])
    arrays.update({name: array[kept] for name, array in arrays.items()})


MISTAKES = {
    "no array": (lambda a: a.pop("part"), "has no array 'part'; it needs X, cls, part"),
    "lengths": (lambda a: a.update(cls=a["cls"][1:]), "cls has the shape (151,) for 152 rows of X"),
    "dimensions": (lambda a: a.update(X=a["X"][:, 0]), "X is an array (152,) of float16"),
    "text": (lambda a: a.update(X=a["X"].astype(str)), "give (N, D) numbers"),
    "numbers for names": (lambda a: a.update(cls=np.arange(152)), "cls is an array of int64; give it as text"),
    "objects": (lambda a: a.update(cls=a["cls"].astype(object)), "cannot be read"),
    "part": (lambda a: a.update(part=np.where(a["part"] == "test", "val", "train")), "part has 'val'"),
    "not finite": (with_nan, "1 of 152 vectors have numbers that are not finite (first: row 3)"),
    "class token": (lambda a: a.update(class_token=np.array(13)), "class_token is 13; it is how many of the 12"),
    "few classes": (three_classes, "3 classes are too few"),
    "no test": (without_test_images, "1 classes have no test image (first: 'dog')"),
    "one image": (one_train_image, "class 'gnu' has 1 training images"),
    "empty": (lambda a: a.update({name: array[:0] for name, array in a.items()}), "there are no images"),
}


@pytest.fixture
def say(monkeypatch, capsys, tmp_path):
    """Run `happycat paper calm-check` in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(display.results, "width", 200)

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["happycat", "paper", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return run


def is_mistake(result: tuple[int, str, str], text: str) -> None:
    """One line on stderr that has the text, exit code 2."""
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("happycat: ")
    assert text in err


@pytest.mark.parametrize("what", MISTAKES)
def test_a_wrong_feature_file_is_one_line(say, tmp_path, what):
    change, message = MISTAKES[what]
    arrays = made_arrays()
    change(arrays)
    np.savez(tmp_path / "wrong.npz", **arrays)
    is_mistake(say("calm-check", "wrong.npz", "--stages", 2), message)
    assert not Path("calm-check").exists()


def test_what_is_no_feature_file_is_one_line(say, tmp_path, features):
    Path("words.npz").write_text("not an archive")
    np.save("one.npy", np.eye(4))
    Path("cut.npz").write_bytes(features.read_bytes()[:500])
    Path("empty.npz").write_bytes(b"")
    for name in ("words.npz", "one.npy", "cut.npz", "empty.npz", str(tmp_path)):
        is_mistake(say("calm-check", name), name)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "made.npz").write_bytes(features.read_bytes())
    is_mistake(say("calm-check", "made.npz", "other/made.npz"), "two files are called made.npz")


def test_wrong_values_are_one_line(say, features):
    is_mistake(say("calm-check", features, "--orders", 0), "orders must be at least 1")
    is_mistake(say("calm-check", features, "--stages", 5), "leave 4 new classes for 5 stages")
    is_mistake(say("calm-check", features, "--base", 8), "none is new")
    is_mistake(say("--out", "x", "calm-check"), "calm-check comes first")
    is_mistake(say("table-9"), "calm-check")


def test_the_digits_are_there_without_a_file():
    (images,) = read_sets([])
    assert images.name == digits_as_vectors().name == "digits"
    assert images.train.vectors.shape[1] == 64
    assert len(images.train) + len(images.test) == 1797
    assert 0 < images.train.vectors.max() <= 1


def test_a_file_that_unpacks_to_far_more_than_it_is_is_refused_unread(tmp_path):
    arrays = {**made_arrays(), "X": np.zeros((152, 4096))}
    np.savez_compressed(tmp_path / "packed.npz", **arrays)
    with pytest.raises(InputError, match=r"would unpack to 4,9\d\d,\d{3} bytes, which no file of features does"):
        read_features(tmp_path / "packed.npz")


# Splits


def test_orders_are_alphabetical_then_shuffled_by_the_seed(features):
    images = read_features(features)
    first, second, third = (split.classes for split in splits(images, CheckConfig(orders=3, stages=2)))
    assert first == CLASSES
    assert sorted(second) == sorted(third) == list(CLASSES)
    assert len({first, second, third}) == 3
    again = [split.classes for split in splits(images, CheckConfig(orders=2, stages=2))]
    other = [split.classes for split in splits(images, CheckConfig(orders=2, stages=2, seed=1))]
    assert again == [first, second]
    assert other[1] != second


def test_the_images_of_a_split(features):
    config = CheckConfig(orders=1, stages=2, new_images=10, old_images=3)
    (split,) = splits(read_features(features), config)
    assert set(split.labelled) == set(CLASSES[:4])
    assert {len(keys) for keys in split.labelled.values()} == {12}
    for stage, new in zip(split.stages, (CLASSES[4:6], CLASSES[6:]), strict=True):
        assert tuple(stage["new"]) == new
        for name, keys in stage["images"].items():
            assert len(keys) == len(set(keys)) == (10 if name in new else 3)
            assert not set(keys) & set(split.labelled.get(name, []))


def test_new_classes_can_be_of_very_different_sizes(features):
    config = CheckConfig(orders=2, stages=2, new_images=10, old_images=3, size_ratio=5)
    for split, even in zip(
        splits(read_features(features), config),
        splits(read_features(features), replace(config, size_ratio=1)),
        strict=True,
    ):
        assert split.labelled == even.labelled
        sizes = []
        for stage, whole in zip(split.stages, even.stages, strict=True):
            for name, keys in stage["images"].items():
                assert keys == whole["images"][name][: len(keys)]
                if name in stage["new"]:
                    sizes.append(len(keys))
                else:
                    assert len(keys) == 3
        assert 2 <= min(sizes) < max(sizes) <= 10


# The run


class Recording(Happycat):
    """The estimator; it writes down what it is given, copies of it too."""

    calls: ClassVar[list[tuple[str, np.ndarray, object]]] = []

    def fit(self, X, y=None):
        self.calls.append(("fit", X, y))
        return super().fit(X, y)

    def discover(self, X, num_new="auto"):
        self.calls.append(("discover", X, num_new))
        return super().discover(X, num_new)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The calls and the results of a run on well separated classes, with the data set and the split."""
    path = tmp_path_factory.mktemp("features") / "made.npz"
    np.savez(path, **made_arrays())
    images, told = read_features(path), []
    (split,) = splits(images, CheckConfig(orders=1, stages=2, new_images=10, old_images=3))
    Recording.calls.clear()
    done = check_order(Recording, images, split, 0, lambda steps, **_: told.append(steps))
    return images, split, done, list(Recording.calls), told


def class_counts(images, vectors: np.ndarray) -> dict[str, int]:
    """How many of the vectors belong to each class; each is one of the training images."""
    rows = [int(np.flatnonzero((images.train.vectors == vector).all(1))[0]) for vector in vectors]
    names, numbers = np.unique([images.classes[images.train_labels[row]] for row in rows], return_counts=True)
    return dict(zip(names.tolist(), numbers.tolist(), strict=True))


def test_what_the_estimator_is_given(run):
    images, _, _, calls, told = run
    verb, vectors, names = calls[0]
    assert verb == "fit"
    assert class_counts(images, vectors) == dict.fromkeys(CLASSES[:4], 12)
    assert set(names) == set(CLASSES[:4])
    expected = [
        *((dict.fromkeys(CLASSES[:4], 3), "auto"),),
        *(({**dict.fromkeys(CLASSES[:4], 3), "eel": 10, "fox": 10}, number) for number in (2, "auto")),
        *((dict.fromkeys(CLASSES[:6], 3), "auto"),),
        *(({**dict.fromkeys(CLASSES[:6], 3), "gnu": 10, "hen": 10}, number) for number in (2, "auto")),
    ]
    assert [(class_counts(images, vectors), number) for _, vectors, number in calls[1:]] == expected
    assert told == [1, 1, 1]


def test_well_separated_classes_are_found(run):
    _, _, done, _, _ = run
    assert done.fit_images == 48
    assert done.base.all == 100
    for stage, seen in zip(done.stages, (6, 8), strict=True):
        assert stage.new_classes == 2
        assert stage.test_images == seen * TEST
        assert stage.known.all == stage.known.old == stage.known.new == 100
        assert stage.mean_bound == stage.lda_bound == Accuracy(100, 100, 100)
        assert stage.roc_cosine > 99
        assert 0 <= stage.known.ece <= 100
        assert stage.known.discover_seconds > 0
        assert stage.known.predict_seconds > 0


def test_classes_that_cannot_be_told_apart_have_a_low_bound(tmp_path):
    arrays = made_arrays()
    arrays["X"] = np.random.default_rng(1).normal(size=arrays["X"].shape)
    np.savez(tmp_path / "noise.npz", **arrays)
    images = read_features(tmp_path / "noise.npz")
    (split,) = splits(images, CheckConfig(orders=1, stages=1))
    (stage,) = check_order(Happycat, images, split, 0).stages
    assert stage.mean_bound.all < 50
    assert stage.lda_bound.all < 50
    assert stage.known.all < 60
    assert 20 < stage.roc_cosine < 80


# The report


def scores(every: float, old: float, new: float) -> Scores:
    return Scores(all=every, old=old, new=new, ece=2.0, discover_seconds=1.0, predict_seconds=0.5)


def made_stage(number: int, count: Count, quiet: Count, known: float, bound: float) -> StageCheck:
    return StageCheck(
        stage=number,
        new_classes=10,
        large_enough=9,
        images=100,
        test_images=50,
        known=scores(known, known + 5, known - 5),
        estimated=scores(known - 10, known, known - 20),
        count=count,
        nothing_new=quiet,
        mean_bound=Accuracy(bound, bound, bound),
        lda_bound=Accuracy(bound - 10, bound - 10, bound - 10),
        roc_cosine=80.0,
        roc_probability=70.0,
    )


def made_order(order: int = 0) -> OrderCheck:
    stages = [
        made_stage(1, Count(8, 6, 9, [8], [1.0]), Count(0, 0, 1, [0], [1.0]), 80, 90),
        made_stage(2, Count(11, 10, 14, [11], [1.0], smallest=7), Count(1, 0, 2, [1], [1.0]), 70, 80),
    ]
    base = Scores(all=90, old=90, new=None, ece=1.0, discover_seconds=0.0, predict_seconds=0.1)
    return OrderCheck(order=order, classes=CLASSES, fit_images=100, fit_seconds=3.0, base=base, stages=stages)


def test_the_summary_by_hand():
    made = summary(made_order())
    expected = {
        **{"known_all": 75, "known_old": 80, "known_new": 70, "known_last": 70, "known_ece": 2},
        **{"estimated_all": 65, "estimated_old": 75, "estimated_new": 55, "estimated_last": 60},
        **{"mean_bound_all": 85, "lda_bound_all": 75, "known_share_of_mean_bound": 100 * 75 / 85},
        **{"known_share_of_lda_bound": 100, "known_share_of_bound": 100 * 75 / 85},
        **{"estimated_share_of_bound": 100 * 65 / 85, "relative_error": (20 + 10) / 2},
        **{"coverage": 50, "noticed_coverage": 50},
        **{"nothing_new_right": 50, "roc_cosine": 80, "roc_probability": 70, "fit_seconds": 3},
    }
    assert {key: made[key] for key in expected} == pytest.approx(expected)


def test_the_tables_have_each_order_and_their_mean():
    results = CheckResults(CheckConfig(), {"made": [made_order(0), made_order(1)], "other": [made_order(0)]})
    tables = results.tables()
    assert [labels for labels, _ in tables["check"].rows][::2] == [
        *(("made", "0", "known"), ("made", "1", "known"), ("made", "mean", "known"), ("other", "0", "known")),
    ]
    assert [labels for labels, _ in tables["check-number"].rows] == [
        *(("made", "0"), ("made", "1"), ("made", "mean"), ("other", "0")),
    ]
    assert "in 3 of 6 stages" in tables["check-number"].notes[0]
    assert [cell.mean for cell in tables["check-stages"].rows[1][1]] == [10, 7, 9, 11, 10, 14, 1, 2]


# The command


def test_the_command_prints_and_writes_the_tables(say, features, run):
    code, out, err = say("calm-check", features, *QUICK, "--orders", 1, "--out", "found")
    assert code == 0, err
    assert "share of the supervised bounds" in out
    assert "with nothing new" in out
    assert "made, order 0" in err
    written = {path.name for path in Path("found").iterdir()}
    ends = ("csv", "md", "tex")
    assert written == {"check.json", *(f"check{table}.{end}" for table in ("", "-number", "-stages") for end in ends)}
    numbers = json.loads(Path("found/check.json").read_text("utf-8"))
    assert numbers["protocol"]["stages"] == 2
    (order,) = numbers["sets"]["made"]
    assert order["classes"] == list(CLASSES)
    for stage, same in zip(order["stages"], run[2].stages, strict=True):  # the same seed, the same numbers
        assert stage["count"] == same.count._asdict()
        assert stage["mean_bound"] == same.mean_bound._asdict()
        assert (stage["known"]["ece"], stage["roc_probability"]) == (same.known.ece, same.roc_probability)
        assert [stage["estimated"][group] for group in ("all", "old", "new")] == [
            *(same.estimated.all, same.estimated.old, same.estimated.new),
        ]
    with open("found/check.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["column"] == "All"]
    assert [(row["order"], row["K"]) for row in rows] == [("0", "known"), ("0", "estimated")]
    assert float(rows[0]["mean"]) == order["summary"]["known_all"] == 100


def test_an_interruption_keeps_the_orders_that_are_done(say, features, monkeypatch):
    def interrupted(make, images, split, order, advance):
        if order == 1:
            raise KeyboardInterrupt
        return made_order(order)

    monkeypatch.setattr(check, "check_order", interrupted)
    code, _, err = say("calm-check", features, *QUICK, "--out", "found")
    assert code == 130
    assert "the class orders that were finished are in found" in err
    orders = json.loads(Path("found/check.json").read_text("utf-8"))["sets"]["made"]
    assert [one["order"] for one in orders] == [0]


def test_the_help_of_paper_names_it(say):
    code, out, _ = say("--help")
    assert code == 0
    assert "calm-check" in out
    code, out, _ = say("calm-check", "--help")
    assert code == 0
    assert "happycat paper calm-check [OPTIONS]" in out
    assert "--labelled-share" in out
