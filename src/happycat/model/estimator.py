"""The estimator for one's own images: generalized category discovery as fit, discover, predict (scikit-learn)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from happycat.backbone.config import BackboneConfig
from happycat.backbone.extraction import CENTRE, VIEWS, FeatureExtractor
from happycat.backbone.tail import Vectors
from happycat.base.errors import InputError, StorageError
from happycat.base.progress import SILENT, Progress
from happycat.base.seeding import seeded
from happycat.images.collecting import Skipped, listed_labels
from happycat.images.sources import (
    Accepted,
    Label,
    Source,
    VectorRows,
    accepted,
    checked_labels,
    in_order,
    read,
    read_labelled,
)
from happycat.learning.batches import Labelled, Unlabelled, VectorViews
from happycat.learning.training import Training
from happycat.methods.calm.method import Calm, CalmConfig
from happycat.methods.calm.prediction import Prediction, PredictionRule
from happycat.model import file as model_file
from happycat.model.classes import assignments, label_array, labelled_classes, remember, rule_of, take_up
from happycat.model.embedding import embed, extractor_of, trained, unit_embeddings
from happycat.model.file import Part, VersionTag
from happycat.model.naming import checked_name
from happycat.model.registry import ClassEntry
from happycat.model.results import Assignment, Discovery
from happycat.model.storage import VECTORS, State, backbone_params, base_part, read_state, version_part
from happycat.model.validation import held_out, validate

BACKBONE = "vit_small_patch14_dinov2.lvd142m"


class Happycat(ClassifierMixin, BaseEstimator):
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
    precision : {"bf16", "fp32"}, optional
        Precision of the backbone; without it, the fastest on the device.
    device : str
        "cpu", "cuda", "mps" or "auto".
    workers : int, optional
        Worker processes that read images.
    mirror : bool
        Whether a picture's mirror image is of the same class.
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
        mirror: bool = True,
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
        self.mirror = mirror
        self.random_state = random_state
        self.progress = progress
        self.cache_dir = cache_dir

    # The verbs

    def fit(self, X: Source, y: Any = None) -> Happycat:
        """Learn the labelled classes: a folder of folders, a CSV file with path and label, or images and labels."""
        seed, source = self._seed(), accepted(X)
        labels = checked_labels(source, y)
        _classes(listed_labels(source) if isinstance(source, Path) else labels or [])
        vectors = isinstance(source, VectorRows)
        extractor = None if vectors else self._built(self.backbone, None)
        with self._watched() as progress:
            gathered, named = read_labelled(source, labels, progress.step("reading"))
            names, truth = _classes(named)
            progress.message(f"{len(truth)} images of {len(names)} classes")
            validation = held_out(truth, seeded(seed, "held out"))
            training = Training(seeded(seed, "backbone"))
            state = trained(extractor, gathered.pictures, truth, ~validation, training, progress)
            features = embed(extractor, gathered.pictures, VIEWS, progress, self.cache_dir)
            advance = progress.step("learning")
            calm = Calm(Vectors(features.shape[-1]), CalmConfig())
            if state:
                calm.load_state_dict(state)
            else:
                some = Labelled(VectorViews(features[~validation]), truth[~validation])
                list(calm.fit(some, Training(seeded(seed, "fit")), advance))
            held = Labelled(VectorViews(features[validation][:, :1]), truth[validation])
            report = validate(calm, held, gathered, names)
            calm.relearn(Labelled(VectorViews(features), truth), held)
            points = calm.space(unit_embeddings(features))
            registry = labelled_classes(calm, points, truth, names)
        self.calm_, self.registry_, self.fitted_, self.stage_ = calm, registry, report, 0
        self.likeness_ = float((points * calm.memory.prototypes[truth]).sum(1).mean())
        self.backbone_, self.n_features_in_ = VECTORS if vectors else self.backbone, features.shape[-1]
        self._extractor, self._base, self._tag = extractor, None, None
        return self

    def discover(self, X: Source, num_new: int | str = "auto") -> Discovery:
        """Find new classes among unlabelled images; `num_new` is their number, or "auto" to estimate it."""
        source, number = self._checked(X), _checked_number(num_new)
        extractor, seed = self.extractor(), self._seed()
        with self._watched() as progress:
            gathered = read(source, progress.step("reading"))
            images = len(gathered.pictures)
            if number is not None and number > images:
                raise InputError(f"{images} images cannot form {number} new classes; give a smaller number, or 'auto'")
            progress.message(f"{images} images; {len(self.registry_)} classes are known")
            features = embed(extractor, gathered.pictures, VIEWS, progress, self.cache_dir)
            served, generator = Unlabelled(VectorViews(features)), seeded(seed, "discover", self.stage_)
            calm, count = self.calm_, None
            remember(calm, self.registry_)
            if number is None:
                count = calm.count(served, generator, advance=progress.step("counting new classes"))
                number = count.number
            progress.step("discovering")
            list(calm.discover(served, number, Training(generator)))
            points = calm.space(unit_embeddings(features))
            new = take_up(self.registry_, calm, points, self.stage_ + 1)
        self.stage_ += 1
        return Discovery(
            new=new,
            assigned=assignments(self.registry_, gathered.pictures.keys, self.rule()(points)),
            count=count,
            points=points,
            pictures=gathered.pictures,
            skipped=gathered.skipped,
            duplicates=len(gathered.duplicates),
        )

    def predict(self, X: Source) -> np.ndarray:
        """The label of each image's class, or "unknown" (−1 for numbers), in the order of the images."""
        embeddings = self._every(X)
        rows = assignments(self.registry_, [""] * len(embeddings), self._predicted(embeddings))
        return label_array(self.registry_, [row.label for row in rows])

    def predict_proba(self, X: Source) -> np.ndarray:
        """The probability of each class of `classes_` for each image, (N, C), in the order of the images."""
        return self._predicted(self._every(X)).probabilities.numpy()

    def transform(self, X: Source) -> np.ndarray:
        """Embeddings (N, D) of unit length: of each image's centre view, or the vectors themselves."""
        return self._every(X).numpy()

    def assign(self, X: Source) -> list[Assignment]:
        """The class of each image and its probability; what could not be read is in `skipped_`."""
        keys, embeddings, self.skipped_ = self._embeddings(X)
        return assignments(self.registry_, keys, self._predicted(embeddings))

    @property
    def classes_(self) -> np.ndarray:
        check_is_fitted(self, "registry_")
        return label_array(self.registry_, [self.registry_.label(entry) for entry in self.registry_])

    # What a person says of the classes; a class is given by its id or its name

    def find(self, which: int | str) -> ClassEntry:
        """The class with that id or name."""
        check_is_fitted(self, "registry_")
        return self.registry_.find(which)

    def name(self, which: int | str, name: Label) -> ClassEntry:
        """Give a class its name."""
        check_is_fitted(self, "registry_")
        return self.registry_.name(which, name)

    def merge(self, first: int | str, *others: int | str) -> ClassEntry:
        """Make one class of several; it keeps the id and the name of the first."""
        check_is_fitted(self, "registry_")
        return self.registry_.merge(first, *others)

    def split(self, which: int | str) -> tuple[ClassEntry, ...]:
        """Take a class apart: what was merged last comes back; or else two are made of it, the first keeps the id."""
        check_is_fitted(self, "registry_")
        return self.registry_.split(which)

    def drop(self, which: int | str) -> ClassEntry:
        """Give nothing to a class any more, and discover nothing that looks like it."""
        check_is_fitted(self, "registry_")
        return self.registry_.drop(which)

    # On disk

    def save(self, path: str | Path, what: str = "fit", more: dict[str, Any] | None = None) -> int:
        """Write the model to a new file, or as the next version of what it was loaded from or last saved as.

        `what` says what made this version; `more` is remembered beside it. The version's number is returned.
        """
        check_is_fitted(self, "registry_")
        if not Path(path).exists():
            base = self._base or base_part(self.extractor(), self.weights, self.precision)
            self._tag = model_file.create(path, base, self._version(), what, more)
            return self._tag.number
        with model_file.locked(path):
            return self.append(path, what, more)

    def append(self, path: str | Path, what: str, more: dict[str, Any] | None = None) -> int:
        """Write the next version of what the model was loaded from; `happycat.model.file.locked` is held meanwhile."""
        check_is_fitted(self, "registry_")
        if self._tag is None:
            raise InputError(f"{path} is there already and holds another model; give another name, or delete it")
        self._tag = model_file.append(path, self._version(), self._tag, what, more)
        return self._tag.number

    @classmethod
    def load(cls, path: str | Path, **params: Any) -> Happycat:
        """The last version of a model file; `params` are the constructor's, such as `weights` or `device`."""
        found = model_file.read(path)
        try:
            state, usual = read_state(found), backbone_params(found.base)
        except (KeyError, ValueError, RuntimeError) as error:
            raise StorageError(f"{path} holds something that is not a happycat model ({error!r})") from error
        usual["random_state"] = state.random_state
        cat = cls(**{**usual, **{name: value for name, value in params.items() if value is not None}})
        cat.calm_, cat.registry_, cat.stage_, cat.likeness_, _ = state
        cat.backbone_, cat.n_features_in_ = found.base.metadata["backbone"], state.calm.tail.dim
        cat._extractor, cat._tag = None, found.tag
        cat._base = Part(found.base.metadata, dict(found.base.arrays))
        return cat

    def _version(self) -> Part:
        return version_part(State(self.calm_, self.registry_, self.stage_, self.likeness_, self._seed()))

    # From what is given to points in the whitened space

    def extractor(self) -> FeatureExtractor | None:
        """The feature extractor; None for vectors, which are features already."""
        check_is_fitted(self, "registry_")
        if self._extractor is None and self.backbone_ != VECTORS:
            self._extractor = self._built(self.backbone_, self._base)
        return self._extractor

    def _built(self, name: str, base: Part | None) -> FeatureExtractor:
        config = BackboneConfig(
            name=name,
            weights=Path(self.weights) if self.weights else None,
            image_size=self.image_size,
            precision=self.precision,
            device=self.device,
        )
        return extractor_of(config, base, workers=self.workers, mirror=self.mirror, seed=self._seed())

    def _checked(self, X: Source) -> Accepted:
        """What is given, if it is of the kind that the model was made with; no image is read."""
        check_is_fitted(self, "registry_")
        source, vectors = accepted(X), self.backbone_ == VECTORS
        if isinstance(source, VectorRows) != vectors:
            raise InputError(f"the model was made with {VECTORS if vectors else 'images'}; give the same")
        if isinstance(source, VectorRows) and source.vectors.shape[1] != self.n_features_in_:
            given = source.vectors.shape[1]
            raise InputError(f"the vectors have {given} numbers, those of the model {self.n_features_in_}")
        return source

    def _embeddings(self, X: Source) -> tuple[list[str], Tensor, list[Skipped]]:
        """Keys and unit embeddings of the images that can be read, in the order in which they are given."""
        source = self._checked(X)
        extractor = self.extractor()
        with self._watched() as progress:
            gathered = read(source, progress.step("reading"))
            features = embed(extractor, gathered.pictures, CENTRE, progress, self.cache_dir)
        order = in_order(source, gathered)
        return [key for key, _ in order], unit_embeddings(features)[[place for _, place in order]], gathered.skipped

    def _every(self, X: Source) -> Tensor:
        """Unit embeddings of all images, or an error: what is predicted must not be taken for another's."""
        _, embeddings, skipped = self._embeddings(X)
        if skipped:
            first = f"{skipped[0].path}: {skipped[0].reason}"
            raise InputError(f"{len(skipped)} images cannot be read (first: {first}); leave them out, or use assign")
        return embeddings

    def rule(self) -> PredictionRule:
        """The rule of prediction, over the classes as they are now; it takes points of the whitened space."""
        check_is_fitted(self, "registry_")
        return rule_of(self.registry_, self.calm_.softmax_temperature)

    def _predicted(self, embeddings: Tensor) -> Prediction:
        return self.rule()(self.calm_.space(embeddings))

    def _seed(self) -> int:
        if self.random_state is None:
            return 0
        if isinstance(self.random_state, bool) or not isinstance(self.random_state, Integral):
            raise InputError(f"random_state is a whole number or None, not {self.random_state!r}")
        return int(self.random_state)

    @contextmanager
    def _watched(self) -> Iterator[Progress]:
        """The progress to report to; the last step ends with the verb, one that is interrupted is left as it is."""
        progress = self.progress or SILENT
        yield progress
        progress.close()


def _classes(labels: Sequence[Label]) -> tuple[list[Label], Tensor]:
    """The classes' names in order, and for each image the place of its own, (N,)."""
    names = sorted(set(labels))
    if len(names) < 2:
        raise InputError(f"there is one class only ({names[0]}); give at least two, each with its images")
    for name in names:
        checked_name(name)
    place = {name: i for i, name in enumerate(names)}
    return names, torch.tensor([place[label] for label in labels])


def _checked_number(num_new: int | str) -> int | None:
    """The number of new classes; None if it is to be estimated."""
    if isinstance(num_new, str) and num_new == "auto":
        return None
    if isinstance(num_new, bool) or not isinstance(num_new, Integral) or num_new < 0:
        raise InputError(f"num_new is a whole number from 0 on, or 'auto', not {num_new!r}")
    return int(num_new)
