"""The check of Calm on feature vectors: stages of a class order with the number of new classes known and estimated.

It runs the estimator as everybody has it, and nothing in it can be set: what it prints cannot be tuned to. Beside it
are the supervised bounds of the same images (`bound`), the same stages with nothing new in them, and times.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from happycat.base.matching import hungarian
from happycat.base.metrics import Accuracy, accuracy, calibration_error, roc_area
from happycat.base.progress import Advance, nobody
from happycat.benchmark.paper.bound import linear_discriminant, nearest_mean
from happycat.benchmark.protocol import Split
from happycat.images.pictures import Images
from happycat.images.sources import VectorRows
from happycat.methods.calm.method import Calm
from happycat.methods.calm.number import Count
from happycat.methods.calm.prediction import PredictionRule, nearest


class Discovered(Protocol):
    """What `discover` returns, as far as the check looks at it."""

    @property
    def count(self) -> Count | None: ...


class Estimator(Protocol):
    """The estimator on vectors, as far as the check uses it: `happycat.Happycat`."""

    calm_: Calm

    def fit(self, X: Any, y: Any) -> object: ...

    def discover(self, X: Any, num_new: int | str) -> Discovered: ...

    def predict_proba(self, X: Any) -> np.ndarray: ...

    def transform(self, X: Any) -> np.ndarray: ...

    def rule(self) -> PredictionRule: ...


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Test images of the classes seen so far: accuracy (%), ECE (%) of the old classes' images, seconds taken."""

    all: float | None
    old: float | None
    new: float | None
    ece: float
    discover_seconds: float
    predict_seconds: float


@dataclass(frozen=True, kw_only=True)
class StageCheck:
    """The numbers of one stage. ROC areas (%) are those of old against new classes' images, before the stage."""

    stage: int
    new_classes: int
    large_enough: int  # new classes of at least as many images as are noticed (`Count.smallest`)
    images: int
    test_images: int
    known: Scores  # with the number of new classes given
    estimated: Scores
    count: Count  # the estimate
    nothing_new: Count  # the estimate when only the images of old classes are served
    mean_bound: Accuracy  # nearest true mean in Calm's space
    lda_bound: Accuracy
    roc_cosine: float
    roc_probability: float


@dataclass(frozen=True, kw_only=True)
class OrderCheck:
    """The numbers of one class order; `base` are those of the base classes' test images after `fit`."""

    order: int
    classes: tuple[str, ...]
    fit_images: int
    fit_seconds: float
    base: Scores
    stages: list[StageCheck]


class StagedVectors:
    """Feature vectors with class ids by the order of a split: a class's id is its place there."""

    def __init__(self, images: Images, split: Split):
        assert isinstance(images.train, VectorRows)
        assert isinstance(images.test, VectorRows)
        place = np.array([split.classes.index(name) for name in images.classes])
        self.split = split
        self.train, self.train_ids = images.train.vectors, place[images.train_labels]
        self.test, self.test_ids = images.test.vectors, place[images.test_labels]

    def labelled(self) -> np.ndarray:
        """The labelled rows of `train`."""
        return _rows(self.split.labelled)

    def served(self, stage: int) -> np.ndarray:
        """The rows of `train` that a stage serves, in an order that says nothing about their classes."""
        rows = _rows(self.split.stages[stage - 1]["images"])
        return np.random.default_rng([self.split.protocol.split_seed, stage]).permutation(rows)

    def tested(self, stage: int) -> np.ndarray:
        """The rows of `test` whose classes have been seen after a stage."""
        return np.flatnonzero(self.test_ids < self.split.num_seen(stage))


def _rows(keys: dict[str, list[str]]) -> np.ndarray:
    """The rows of keys by class, ascending; the key of a vector is its row."""
    return np.array(sorted(int(key) for some in keys.values() for key in some), dtype=np.int64)


def check_order(
    make: Callable[[], Estimator], images: Images, split: Split, order: int, advance: Advance = nobody
) -> OrderCheck:
    """Fit an estimator on the base classes, serve it the stages, and score it; `advance` is told of fit and stages."""
    data = StagedVectors(images, split)
    known, rows = make(), data.labelled()
    started = time.perf_counter()
    known.fit(data.train[rows], np.array(split.classes)[data.train_ids[rows]])
    fit_seconds = time.perf_counter() - started
    base_rows = data.tested(0)
    base = score(known, data.test[base_rows], data.test_ids[base_rows], split.num_seen(0))
    bounds = Bounds(known, data)
    estimated = copy.deepcopy(known)
    advance(1)
    stages = []
    for stage in range(1, len(split.stages) + 1):
        stages.append(check_stage(known, estimated, data, bounds, stage))
        advance(1)
    return OrderCheck(
        order=order,
        classes=split.classes,
        fit_images=len(rows),
        fit_seconds=fit_seconds,
        base=base,
        stages=stages,
    )


def check_stage(known: Estimator, estimated: Estimator, data: StagedVectors, bounds: Bounds, stage: int) -> StageCheck:
    """Serve a stage to two estimators, one of which is told the number of new classes, and score both."""
    num_old, num_new = data.split.num_seen(stage - 1), data.split.num_new(stage)
    rows, tested = data.served(stage), data.tested(stage)
    test, ids = data.test[tested], data.test_ids[tested]
    roc_cosine, roc_probability = roc_areas(known, test, ids < num_old)
    old_rows = rows[data.train_ids[rows] < num_old]
    nothing_new = copy.deepcopy(known).discover(data.train[old_rows], "auto").count
    started = time.perf_counter()
    known.discover(data.train[rows], num_new)
    discovered = time.perf_counter()
    count = estimated.discover(data.train[rows], "auto").count
    estimated_too = time.perf_counter()
    assert count is not None
    assert nothing_new is not None
    mean_bound, lda_bound = bounds.after(stage)
    return StageCheck(
        stage=stage,
        new_classes=num_new,
        large_enough=int((np.bincount(data.train_ids[rows])[num_old:] >= (count.smallest or 1)).sum()),
        images=len(rows),
        test_images=len(tested),
        known=score(known, test, ids, num_old, discovered - started),
        estimated=score(estimated, test, ids, num_old, estimated_too - discovered),
        count=count,
        nothing_new=nothing_new,
        mean_bound=mean_bound,
        lda_bound=lda_bound,
        roc_cosine=roc_cosine,
        roc_probability=roc_probability,
    )


def score(
    estimator: Estimator, vectors: np.ndarray, ids: np.ndarray, num_old: int, discover_seconds: float = 0.0
) -> Scores:
    """The accuracy of the likeliest classes, matched with the true ones (Hungarian), and the calibration error.

    An image that is rejected counts as its likeliest class: whether it is rejected makes no difference here.
    """
    started = time.perf_counter()
    probabilities = estimator.predict_proba(vectors)
    seconds = time.perf_counter() - started
    predictions = probabilities.argmax(1)
    mapping, old = hungarian(ids, predictions), ids < num_old
    return Scores(
        **accuracy(ids, predictions, num_old, mapping)._asdict(),
        ece=calibration_error(probabilities[old], ids[old], mapping),
        discover_seconds=discover_seconds,
        predict_seconds=seconds,
    )


def roc_areas(estimator: Estimator, vectors: np.ndarray, known: np.ndarray) -> tuple[float, float]:
    """ROC areas (%) with which rejection and the largest probability tell `known` images (N,) from others.

    An image is rejected by its cosine with the nearest class, less that class's threshold.
    """
    points, rule = estimator.calm_.space(torch.from_numpy(estimator.transform(vectors))), estimator.rule()
    cosine, row = nearest(points, rule.prototypes)
    cosines = (cosine - rule.thresholds[row]).numpy()
    probabilities = estimator.predict_proba(vectors).max(1)
    by_cosine, by_probability = (roc_area(score[known], score[~known]) for score in (cosines, probabilities))
    assert by_cosine is not None  # a stage has old classes and new ones
    assert by_probability is not None
    return by_cosine, by_probability


class Bounds:
    """Supervised bounds on the images that were labelled or served up to a stage, all with their true labels."""

    def __init__(self, fitted: Estimator, data: StagedVectors):
        self.data = data
        self.train, self.test = fitted.transform(data.train), fitted.transform(data.test)
        space = fitted.calm_.space
        self.train_points, self.test_points = (space(torch.from_numpy(a)).numpy() for a in (self.train, self.test))

    def after(self, stage: int) -> tuple[Accuracy, Accuracy]:
        """The accuracy of the nearest true mean in the fitted space, and of linear discriminant analysis."""
        data = self.data
        seen = np.unique(np.concatenate([data.labelled(), *(data.served(t) for t in range(1, stage + 1))]))
        tested, labels = data.tested(stage), data.train_ids[seen]
        truth, num_old = data.test_ids[tested], data.split.num_seen(stage - 1)
        same = np.arange(data.split.num_seen(stage))
        means = nearest_mean(self.train_points[seen], labels, self.test_points[tested])
        discriminant = linear_discriminant(self.train[seen], labels, self.test[tested])
        return accuracy(truth, means, num_old, same), accuracy(truth, discriminant, num_old, same)
