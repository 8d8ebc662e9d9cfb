"""The estimator for one's own images: generalized category discovery as fit, discover, predict (scikit-learn)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from happycat.backbone.config import BackboneConfig
from happycat.backbone.extraction import VIEWS, FeatureExtractor
from happycat.base.errors import InputError
from happycat.base.progress import SILENT, Progress
from happycat.base.ranks import ALONE, Ranks
from happycat.images.collecting import listed_labels
from happycat.images.sources import Accepted, Source, VectorRows, accepted, checked_labels, read, read_labelled
from happycat.methods.calm.prediction import Decision, PredictionRule
from happycat.model import file as model_file
from happycat.model.checks import (
    check_dim,
    check_enough,
    checked_class_token,
    checked_number,
    checked_seed,
    numbered_classes,
    of_kind,
)
from happycat.model.classes import assignments, count_again, label_array, rule_of
from happycat.model.constraints import constrained, constrained_probabilities
from happycat.model.embedding import Embedded, embed, embedded, extractor_of, view_names
from happycat.model.file import Part, VersionTag
from happycat.model.fitting import discover_classes, fit_classes
from happycat.model.results import Assignment, Discovery
from happycat.model.statements import Statement, as_bytes
from happycat.model.storage import VECTORS, State, base_part, read_model, version_part
from happycat.model.verbs import CorrectionVerbs

BACKBONE = "vit_small_patch14_dinov2.lvd142m"


class Happycat(CorrectionVerbs, ClassifierMixin, BaseEstimator):
    """Learns labelled classes, then discovers new ones in unlabelled images, again and again; keeps no image.

    Images `X` are a folder, a CSV file, a sequence of paths, or an array of bytes, (N, H, W) or (N, H, W, 3). In their
    place, feature vectors (N, D) of whatever it may be can be given: lists, NumPy arrays, torch tensors or pandas
    data frames of numbers. A model of vectors uses no backbone.

    Parameters
    ----------
    backbone : str
        A timm model, which turns images into embeddings and is never tuned.
    weights : path, optional
        Its weights, safetensors or a plain state dict; without them, those of the hub.
    image_size : int, optional
        Pixels a side of a view; without it, the backbone's own.
    precision : {"bf16", "fp32", "int8"}, optional
        Precision of the backbone; without it, bf16 where the device computes it natively, else fp32. A model that is
        made in int8 is used in int8.
    device : str
        "cpu", "cuda", "mps" or "auto".
    workers : int, optional
        Worker processes that read images.
    views : int
        How many views of an image are averaged where classes are learned and discovered: the centre view and random
        ones. A prediction takes the centre view.
    mirror : bool
        Whether a picture's mirror image is of the same class.
    class_token : int, optional
        Of vectors that were made of a ViT's tokens: how many numbers, the first ones, are its class token. What follows
        is of its patch tokens, and is used only where held-out classes are found better with it. Without it, vectors
        are used whole; of images it is known.
    random_state : int, optional
        Random seed. None is 0: the same input always gives the same model.
    progress : happycat.base.progress.Progress, optional
        Shows the progress of a long computation.
    cache_dir : path, optional
        A folder in which embeddings are kept as they are finished and looked up the next time, so that work that was
        interrupted goes on. It belongs to the caller: nothing in it is ever deleted.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes that an image can be given, in the order of the columns of `predict_proba`. A discovered
        class is "class ID" until it is named; where labels are numbers, it is a number above the largest label.
    n_features_in_ : int
        Dimension of the embeddings.
    registry_ : ClassRegistry
        All classes there have ever been.
    backbone_ : str
        The backbone that the model was made with, or "vectors".
    fitted_ : FitReport
        The report of `fit`; not there in a model that was loaded.
    stage_ : int
        How many discoveries there were.

    Examples
    --------
    Four kinds of vectors are known. Two more turn up among unlabelled ones:

    >>> import numpy as np
    >>> from happycat import Happycat
    >>> kind, random = np.repeat(np.arange(6), 20), np.random.default_rng(0)
    >>> X = np.eye(16)[kind] + 0.05 * random.normal(size=(120, 16))
    >>> labels = np.array(["ant", "bee", "cat", "dog"])
    >>> cat = Happycat().fit(X[:80], labels[kind[:80]])
    >>> cat.predict(X[[0, 25, 119]]).tolist()
    ['ant', 'bee', 'unknown']
    >>> found = cat.discover(X[60:])
    >>> found.new
    [4, 5]
    >>> cat.name(5, "fox").id
    5
    >>> cat.classes_.tolist()
    ['ant', 'bee', 'cat', 'dog', 'class 4', 'fox']
    """

    ranks: Ranks = ALONE  # the processes that share extraction and calibration
    _extractor: FeatureExtractor | None  # built when it is needed first
    _base: Part | None  # of the file that the model was loaded from
    _tag: VersionTag | None  # the version that it was loaded from or last saved as

    def __init__(
        self,
        backbone: str = BACKBONE,
        *,
        weights: str | Path | None = None,
        image_size: int | None = None,
        precision: str | None = None,
        device: str = "auto",
        workers: int | None = None,
        views: int = len(VIEWS),
        mirror: bool = True,
        class_token: int | None = None,
        random_state: int | None = None,
        progress: Progress | None = None,
        cache_dir: str | Path | None = None,
    ):
        self.backbone = backbone
        self.weights = weights
        self.image_size = image_size
        self.precision = precision
        self.device = device
        self.workers = workers
        self.views = views
        self.mirror = mirror
        self.class_token = class_token
        self.random_state = random_state
        self.progress = progress
        self.cache_dir = cache_dir

    # The verbs

    def fit(self, X: Source, y: Any = None) -> Happycat:
        """Learn the labelled classes: a folder of folders, a CSV file with path and label, or images and labels."""
        seed, views, source = checked_seed(self.random_state), view_names(self.views), accepted(X)
        labels = checked_labels(source, y)
        numbered_classes(listed_labels(source) if isinstance(source, Path) else labels or [])
        vectors = isinstance(source, VectorRows)
        extractor = None if vectors else self._built(self.backbone, None)
        token = checked_class_token(self.class_token, source)
        with self._watched() as progress:
            gathered, named = read_labelled(source, labels, progress.step("reading"))
            state, self.fitted_ = fit_classes(extractor, gathered, named, seed, progress, self.cache_dir, views, token)
        self._take(state, VECTORS if vectors else self.backbone)
        self._extractor, self._base, self._tag = extractor, None, None
        return self

    def discover(self, X: Source, num_new: int | str = "auto") -> Discovery:
        """Find new classes among unlabelled images; `num_new` is their number, or "auto" to estimate it."""
        source = self._checked(X)
        number = checked_number(num_new, source)
        extractor, state = self.extractor(), self._state()
        with self._watched() as progress:
            gathered = read(source, progress.step("reading"))
            check_enough(len(gathered.pictures), number)
            features = embed(extractor, gathered.pictures, view_names(self.views), progress, self.cache_dir)
            found = discover_classes(state, gathered, features, number, progress)
        self.stage_ += 1
        self._counted, self._file = dict(zip(as_bytes(found.digests), found.counted.tolist(), strict=True)), None
        return found

    def predict(self, X: Source) -> np.ndarray:
        """The label of each image's class, or "unknown" (−1 for numbers), in the order of the images."""
        given = self._embedded(X)
        decision = self._decided(given.every(), given.digests)
        unknown_last = [*(self.registry_.label(entry) for entry in self.registry_), self.registry_.unknown]
        return label_array(self.registry_, unknown_last)[decision.assigned.numpy()]

    def predict_proba(self, X: Source) -> np.ndarray:
        """The probability of each class of `classes_` for each image, (N, C), in the order of the images."""
        given, rule = self._embedded(X), self.rule()
        embeddings, said = given.every(), self._said(given.digests)
        probabilities = rule.probabilities(embeddings, self.calm_.space)
        registry, space = self.registry_, self.calm_.space
        return constrained_probabilities(probabilities, rule, embeddings, registry, said, space).numpy()

    def transform(self, X: Source) -> np.ndarray:
        """Embeddings (N, D) of unit length: of each image's centre view, or the vectors themselves."""
        return self._embedded(X).every().numpy()

    def assign(self, X: Source) -> list[Assignment]:
        """The class of each image and its probability; what could not be read is in `skipped_`."""
        keys, embeddings, self.skipped_, digests = self._embedded(X)
        return assignments(self.registry_, keys, self._decided(embeddings, digests), digests)

    @property
    def classes_(self) -> np.ndarray:
        check_is_fitted(self, "registry_")
        return label_array(self.registry_, [self.registry_.label(entry) for entry in self.registry_])

    # On disk

    def save(self, path: str | Path, what: str = "fit", more: dict[str, Any] | None = None) -> int:
        """Write the model to a new file, or as the next version of what it was loaded from or last saved as.

        `what` says what made this version; `more` is remembered beside it. The version's number is returned.
        """
        check_is_fitted(self, "registry_")
        with model_file.locked(path, new=True):
            return (self.append if Path(path).exists() else self.create)(path, what, more)

    def create(self, path: str | Path, what: str = "fit", more: dict[str, Any] | None = None) -> int:
        """Write the model to a new file; `happycat.model.file.locked` is held meanwhile."""
        check_is_fitted(self, "registry_")
        base = self._base or base_part(self.extractor(), self.weights, self.precision, self.views)
        self._tag = model_file.create(path, base, version_part(self._state()), what, more)
        return self._tag.number

    def append(self, path: str | Path, what: str, more: dict[str, Any] | None = None) -> int:
        """Write the next version of what the model was loaded from; `happycat.model.file.locked` is held meanwhile."""
        check_is_fitted(self, "registry_")
        if self._tag is None:
            raise InputError(f"{path} is there already and holds another model; give another name, or delete it")
        count_again(self.registry_, Path(path), self.calm_.softmax_temperature, self.stage_)
        self._tag = model_file.append(path, version_part(self._state()), self._tag, what, more)
        return self._tag.number

    @classmethod
    def load(cls, path: str | Path, **params: Any) -> Happycat:
        """The last version of a model file; `params` are the constructor's, such as `weights` or `device`."""
        found, state, usual = read_model(path)
        cat = cls(**{**usual, **{name: value for name, value in params.items() if value is not None}})
        cat._take(state, found.base.metadata["backbone"])
        cat._extractor, cat._tag = None, found.tag
        cat._base = Part(found.base.metadata, dict(found.base.arrays))
        cat._file = Path(path)
        return cat

    def _take(self, state: State, backbone: str) -> None:
        self.calm_, self.registry_, self.stage_, self.mean_cosine_, _ = state
        self.backbone_, self.n_features_in_ = backbone, state.calm.tail.dim
        self._counted, self._file = {}, None

    def _state(self) -> State:
        return State(self.calm_, self.registry_, self.stage_, self.mean_cosine_, checked_seed(self.random_state))

    # From what is given to points in the discriminant space

    def extractor(self) -> FeatureExtractor | None:
        """The feature extractor; None for vectors, which are features already."""
        check_is_fitted(self, "registry_")
        if self._extractor is None and self.backbone_ != VECTORS:
            self._extractor = self._built(self.backbone_, self._base)
            check_dim(self.backbone_, self._extractor.dim, self.n_features_in_)
        return self._extractor

    def _built(self, name: str, base: Part | None) -> FeatureExtractor:
        config = BackboneConfig(
            name=name,
            weights=Path(self.weights) if self.weights else None,
            image_size=self.image_size,
            precision=self.precision,
            device=self.device,
        )
        seed = checked_seed(self.random_state)
        return extractor_of(config, base, workers=self.workers, mirror=self.mirror, seed=seed, ranks=self.ranks)

    def _checked(self, X: Source) -> Accepted:
        """What is given, if it is of the kind that the model was made with; no image is read."""
        check_is_fitted(self, "registry_")
        return of_kind(accepted(X), self.n_features_in_ if self.backbone_ == VECTORS else None)

    def _embedded(self, X: Source) -> Embedded:
        source, extractor = self._checked(X), self.extractor()
        with self._watched() as progress:
            return embedded(extractor, source, progress, self.cache_dir, bool(self.registry_.statements))

    def rule(self) -> PredictionRule:
        """The rule of prediction, over the classes as they are now; it takes points of the discriminant space."""
        check_is_fitted(self, "registry_")
        return rule_of(self.registry_, self.calm_.softmax_temperature)

    def _decided(self, embeddings: Tensor, digests: np.ndarray | None) -> Decision:
        rule, said = self.rule(), self._said(digests)
        decision = rule.decide(embeddings, self.calm_.space)
        return constrained(decision, rule, embeddings, self.registry_, said, self.calm_.space)

    def _said(self, digests: np.ndarray | None) -> dict[int, Statement]:
        """What was said of images with these digests, by their places."""
        return {} if digests is None else self.registry_.statements.of(digests)

    @contextmanager
    def _watched(self) -> Iterator[Progress]:
        """The progress to report to; the last step ends with the verb, one that is interrupted is left as it is."""
        progress = self.progress or SILENT
        yield progress
        progress.close()
