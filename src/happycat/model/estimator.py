"""One's own images: fit, discover, predict."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from happycat.backbone.config import BackboneConfig
from happycat.backbone.extraction import CENTRE, VIEWS, FeatureExtractor
from happycat.backbone.tail import Vectors
from happycat.base.errors import InputError
from happycat.base.progress import SILENT, Progress, duration
from happycat.base.seeding import seeded
from happycat.base.version import __version__
from happycat.images.collecting import Gathered, Skipped
from happycat.images.pictures import FilePictures, Pictures, Subset
from happycat.images.sources import Source, VectorRows, given, given_labelled
from happycat.learning.batches import FreshViews, Labelled, Unlabelled, VectorViews
from happycat.learning.training import Training
from happycat.methods.calm.calibration import rejection_threshold
from happycat.methods.calm.method import Calm, CalmConfig
from happycat.methods.calm.number import Count
from happycat.methods.pretraining import small_vit_config, train_from_scratch
from happycat.model import file as model_file
from happycat.model.file import Part
from happycat.model.registry import ClassEntry, ClassRegistry

BACKBONE = "vit_small_patch14_dinov2.lvd142m"
VECTORS = "vectors"  # stands for a backbone where features are given
UNKNOWN = "unknown"
HELD_OUT = 0.2  # of a class's images that tell how good the model is, before they are learned from, too
SURE = 0.5  # the probability from which an image is not doubtful


class Assignment(NamedTuple):
    """Where an image went: a class's id, or None where no class fits; how probable; whether that is doubtful."""

    image: str
    id: int | None
    label: str
    probability: float
    unsure: bool


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """What `fit` read and came to: accuracy (%) on images that were held out, by class."""

    images: int
    held_out: int
    accuracy: float | None
    by_class: dict[str, float | None]
    skipped: list[Skipped] = field(default_factory=list)
    duplicates: int = 0


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """What `discover` came to: where each image went, which classes are new, and how many there were thought to be."""

    assigned: list[Assignment]
    new: list[int]
    count: Count | None  # None: the number was told
    points: Tensor  # the images in the whitened space
    pictures: Pictures
    skipped: list[Skipped] = field(default_factory=list)
    duplicates: int = 0

    @property
    def unsure(self) -> int:
        """How many of the images it is unsure about."""
        return sum(row.unsure for row in self.assigned)


class Happycat(BaseEstimator):
    """Learns labelled classes, then discovers new ones in unlabelled images, again and again; keeps no image.

    A backbone is a timm ViT's name. Images are a folder, a CSV file, paths, or an array of bytes, (N, H, W) or
    (N, H, W, 3). In their place, an array (N, D) of vectors that describe whatever it may be can be given.
    """

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
        seed: int = 0,
    ):
        self.backbone = backbone
        self.weights = weights
        self.image_size = image_size
        self.precision = precision
        self.device = device
        self.workers = workers
        self.mirror = mirror
        self.seed = seed

    # The verbs. `progress` hears how far they are; features are kept in the folder `cache_dir`, should they be killed.

    def fit(
        self, X: Source, y: Sequence | None = None, *, progress: Progress | None = None, cache_dir: Path | None = None
    ):
        """Learn the labelled classes: a folder of folders, a CSV file with path and label, or images and labels."""
        progress = progress or SILENT
        gathered = given_labelled(X, y, progress.step("reading"))
        names = sorted(set(gathered.labels))
        if len(names) < 2:
            raise InputError(f"there is one class only ({names[0]}); give at least two, each with its images")
        place = {name: i for i, name in enumerate(names)}
        labels = torch.tensor([place[label] for label in gathered.labels])
        progress.message(f"{len(labels)} images of {len(names)} classes")
        judging = held_out(labels, seeded(self.seed, "held out"))
        learned = self._see(gathered.pictures, labels, ~judging, progress)
        features = self._features(gathered.pictures, VIEWS, progress, cache_dir)
        self.calm_ = Calm(Vectors(features.shape[-1]), CalmConfig())
        if learned:
            self.calm_.load_state_dict(learned)
        else:
            progress.step("learning")
            some = Labelled(VectorViews(features[~judging]), labels[~judging])
            list(self.calm_.fit(some, Training(seeded(self.seed, "fit"))))
        self.fitted_ = self._judged(gathered, names, features[judging][:, :1], labels[judging])
        held = Labelled(VectorViews(features[judging][:, :1]), labels[judging])
        self._take_up_labelled(Labelled(VectorViews(features), labels), held, names)
        return self

    def discover(
        self, X: Source, num_new: int | str = "auto", *, progress: Progress | None = None, cache_dir: Path | None = None
    ) -> Discovery:
        """Find new classes among unlabelled images; `num_new` is their number, or "auto" to estimate it."""
        progress = progress or SILENT
        gathered = given(X, progress.step("reading"))
        progress.message(f"{len(gathered.pictures)} images; {len(self.registry_)} classes are known")
        features = self._features(gathered.pictures, VIEWS, progress, cache_dir)
        served, generator = Unlabelled(VectorViews(features)), seeded(self.seed, "discover", self.stage_)
        count = None
        if num_new == "auto":
            progress.step("counting new classes")
            count = self.calm_.count(served, generator)
            num_new = count.number
        if not isinstance(num_new, int | np.integer) or not 0 <= num_new <= len(served):
            raise InputError(f"{len(served)} images cannot form {num_new} new classes; give a number, or auto")
        progress.step("discovering")
        known = self.calm_.num_classes
        list(self.calm_.discover(served, int(num_new), Training(generator)))
        self.stage_ += 1
        points = self.calm_.points(served)
        return Discovery(
            new=self._take_up(points, known),
            assigned=self._assigned(gathered.pictures.keys, points),
            count=count,
            points=points,
            pictures=gathered.pictures,
            skipped=gathered.skipped,
            duplicates=len(gathered.duplicates),
        )

    def predict(self, X: Source, *, progress: Progress | None = None) -> np.ndarray:
        """The label of each image's class, or "unknown", in the order of the images."""
        keys, points = self._every_point(X, progress or SILENT)
        return np.array([row.label for row in self._assigned(keys, points)], dtype=object)

    def predict_proba(self, X: Source, *, progress: Progress | None = None) -> np.ndarray:
        """The probability of each class of `classes_` for each image, (N, C), in the order of the images."""
        return self._probabilities(self._every_point(X, progress or SILENT)[1])[0].numpy()

    def assign(self, X: Source, *, progress: Progress | None = None) -> list[Assignment]:
        """Where each image goes, and how sure that is; what could not be read is in `skipped_`."""
        keys, points, self.skipped_ = self._points(X, progress or SILENT)
        return self._assigned(keys, points)

    @property
    def classes_(self) -> np.ndarray:
        return np.array([c.label for c in self.registry_], dtype=object)

    def find(self, which: int | str) -> ClassEntry:
        """The class with that id or name."""
        return self.registry_.find(which)

    def name(self, which: int | str, name: str) -> ClassEntry:
        """Give a class its name."""
        return self.registry_.name(which, name)

    def merge(self, first: int | str, *others: int | str) -> ClassEntry:
        """Make one class of several; it keeps the identity of the first."""
        return self.registry_.merge(first, *others)

    def split(self, which: int | str) -> tuple[ClassEntry, ClassEntry]:
        """Make two classes of one; the first keeps the identity. What was merged comes apart."""
        return self.registry_.split(which, self.calm_.memory)

    def drop(self, which: int | str) -> ClassEntry:
        """Give nothing to a class any more, and discover nothing that looks like it."""
        return self.registry_.drop(which)

    # On disk

    def save(self, path: str | Path, what: str = "fit", more: dict | None = None) -> int:
        """Write the model to a new file, or as the next version to one that is there; gives the version's number."""
        path, version = Path(path), self.part(what, more)
        if path.exists():
            with model_file.changing(path):
                return model_file.append(path, version)
        extractor = self.extractor()
        base = {"backbone": VECTORS} if extractor is None else extractor.metadata()
        base["weights"] = str(Path(self.weights).resolve()) if self.weights else None
        base["precision"] = self.precision
        model_file.create(path, Part(base, extractor.tensors() if extractor else {}), version)
        return 1

    def part(self, what: str, more: dict | None = None) -> Part:
        """The model as a version of its file; `what` says what made it."""
        about = {
            "what": what,
            "when": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "happycat": __version__,
            **self.registry_.about(),
            "stage": self.stage_,
            "likeness": self.likeness_,
            "seed": self.seed,
            **(more or {}),
        }
        return Part(about, {**self.calm_.state_dict(), "halves": self.registry_.halves})

    @classmethod
    def load(cls, path: str | Path, **values) -> Happycat:
        """The last version of a model file; `values` are the constructor's, such as `weights` or `device`."""
        base, version, _ = model_file.read(path)
        about = base.about
        remembered = about["weights"] if about["weights"] and Path(about["weights"]).exists() else None
        usual = {
            "weights": remembered,
            "image_size": about.get("image_size"),
            "precision": about["precision"],
            "mirror": about.get("mirror", True),
            "seed": version.about["seed"],
        }
        cat = cls(about["backbone"], **{**usual, **{k: v for k, v in values.items() if v is not None}})
        tensors = dict(version.tensors)
        cat.registry_ = ClassRegistry.of(version.about, tensors.pop("halves"))
        cat.calm_ = Calm(Vectors(len(tensors["space.mean"])), CalmConfig())
        cat.calm_.load_state_dict(tensors)
        cat.stage_, cat.likeness_ = version.about["stage"], version.about["likeness"]
        cat._base = base
        return cat

    # From what is given to points in the whitened space

    def _points(self, X: Source, progress: Progress) -> tuple[list[str], Tensor, list[Skipped]]:
        """The images that can be read, in the order in which they are given, each that is there twice as well."""
        gathered = given(X, progress.step("reading"))
        features = self._features(gathered.pictures, CENTRE, progress)
        points = self.calm_.points(Unlabelled(VectorViews(features)))
        place = {key: i for i, key in enumerate(gathered.pictures.keys)}
        place |= {key: place[kept] for key, kept in gathered.duplicates.items()}
        listed = isinstance(gathered.pictures, FilePictures) and not isinstance(X, str | Path)
        asked = [Path(path).as_posix() for path in X] if listed else []
        keys = [key for key in asked if key in place]
        keys += sorted(place.keys() - set(asked)) if listed else list(place)  # what lies in a folder comes last
        return keys, points[[place[key] for key in keys]], gathered.skipped

    def _every_point(self, X: Source, progress: Progress) -> tuple[list[str], Tensor]:
        """All of the images, or an error: what is predicted must not be taken for another's."""
        keys, points, skipped = self._points(X, progress)
        if skipped:
            first = f"{skipped[0].path}: {skipped[0].reason}"
            raise InputError(f"{len(skipped)} images cannot be read (first: {first}); leave them out, or use assign")
        return keys, points

    def _see(self, pictures: Pictures, labels: Tensor, learned: Tensor, progress: Progress) -> dict[str, Tensor]:
        """Have a backbone that can embed the pictures. One from scratch is trained, and Calm's state is given."""
        self._extractor = self._base = None
        if isinstance(pictures, VectorRows):
            self.backbone = VECTORS
        extractor = self.extractor()
        if extractor is None or not extractor.from_scratch:
            return {}
        some = Subset(pictures, [key for key, used in zip(pictures.keys, learned, strict=True) if used])
        training = Training(seeded(self.seed, "backbone"))
        advance = progress.step("training the backbone")
        views = FreshViews(extractor.trunk, some, extractor.plan, extractor.workers)
        labelled = Labelled(views, labels[learned].to(extractor.device))
        calm = Calm(Vectors(extractor.dim), CalmConfig()).to(extractor.device)
        for _ in train_from_scratch(extractor.tail, views, labelled.labels, calm, small_vit_config(), training):
            advance(1)
        features = VectorViews(views.every(extractor.tail, calm.random_views))
        list(calm.fit(Labelled(features, labelled.labels), training))
        return {name: value.cpu() for name, value in calm.state_dict().items()}

    def _features(
        self, pictures: Pictures, views: tuple[str, ...], progress: Progress, cache_dir: Path | None = None
    ) -> Tensor:
        extractor = self.extractor()
        if isinstance(pictures, VectorRows) != (extractor is None):
            raise InputError(f"the model was made with {'images' if extractor else 'vectors'}; give the same")
        if extractor is not None:
            seconds = extractor.seconds(len(pictures) * len(views))
            cut = f"{len(views)} views" if len(views) > 1 else "1 view"
            progress.message(f"{cut} of each through {self.backbone}: about {duration(seconds)}")
            return extractor.extract(pictures, views, progress.step("extracting features", len(pictures)), cache_dir)
        features = torch.from_numpy(pictures.vectors.astype(np.float32))[:, None]
        if hasattr(self, "calm_") and features.shape[-1] != self.calm_.tail.dim:
            raise InputError(f"the vectors have {features.shape[-1]} numbers, those of the model {self.calm_.tail.dim}")
        return features

    def extractor(self) -> FeatureExtractor | None:
        """What turns pictures into features; None for vectors, which are features already."""
        if self.backbone == VECTORS:
            return None
        if getattr(self, "_extractor", None) is None:
            base, name = getattr(self, "_base", None), self.backbone
            config = BackboneConfig(
                name=name,
                weights=Path(self.weights) if self.weights else None,
                image_size=self.image_size,
                precision=self.precision,
                device=self.device,
            )
            self._extractor = FeatureExtractor.of(config, workers=self.workers, mirror=self.mirror, seed=self.seed)
            if base and base.tensors:
                self._extractor.load(base.tensors)
            if base and self._extractor.fingerprint() != base.about["fingerprint"]:
                raise InputError(f"the model was made with other weights of {name}; give the same (--weights FILE)")
        return self._extractor

    # What comes of it

    def _judged(self, gathered: Gathered, names: list[str], features: Tensor, labels: Tensor) -> FitReport:
        predicted = self.calm_.predict_all(Unlabelled(VectorViews(features))).argmax(1) if len(labels) else labels
        right = (predicted == labels).double() * 100
        accuracy = [right[labels == c].mean().item() for c in range(len(names))]
        return FitReport(
            images=len(gathered.pictures),
            held_out=len(labels),
            accuracy=right.mean().item() if len(labels) else None,
            by_class={name: None if np.isnan(a) else a for name, a in zip(names, accuracy, strict=True)},
            skipped=gathered.skipped,
            duplicates=len(gathered.duplicates),
        )

    def _take_up_labelled(self, labelled: Labelled, held: Labelled, names: list[str]) -> None:
        """Learn from the images that were held out, too, and give the classes their identities."""
        self.calm_.relearn(labelled, held)
        points, labels, prototypes = self.calm_.points(labelled), labelled.labels, self.calm_.memory.prototypes
        self.registry_, self.stage_ = ClassRegistry(), 0
        for row, name in enumerate(names):
            members = points[labels == row]
            self.registry_.add(name, 0, members, prototypes[row], float(self.calm_.rejection_threshold))
        self.likeness_ = float((points * prototypes[labels]).sum(1).mean())

    def _take_up(self, points: Tensor, known: int) -> list[int]:
        """Give the rows that were found an identity each."""
        prototypes, new = self.calm_.memory.prototypes, []
        cosines, nearest = (points @ prototypes.T).max(1)
        for row in range(known, len(prototypes)):
            least, members = float(self.calm_.rejection_threshold), nearest == row
            if members.any():  # what was found is less alike than what was labelled
                least = min(least, rejection_threshold(cosines[members, None]))
            new.append(self.registry_.add(None, self.stage_, points[members], prototypes[row], least).id)
        return new

    def _probabilities(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """The probability of each class (N, C), and which of the images no class fits (N,)."""
        cosines = points @ self.calm_.memory.prototypes.T
        living, place = self.registry_.place()
        shares = (cosines / self.calm_.softmax_temperature).softmax(1)
        classes = torch.zeros(len(points), len(living) + 1).index_add(1, place, shares)
        nearest, row = cosines.max(1)
        strange = (nearest < torch.tensor(self.registry_.least)[row]) | (place[row] == len(living))
        return classes[:, :-1], strange

    def _assigned(self, keys: Sequence[str], points: Tensor) -> list[Assignment]:
        probabilities, strange = self._probabilities(points)
        best, place = probabilities.max(1)
        living = list(self.registry_)
        return [
            Assignment(key, None, UNKNOWN, p, True)
            if odd
            else Assignment(key, living[c].id, living[c].label, p, p < SURE)
            for key, p, c, odd in zip(keys, best.tolist(), place.tolist(), strange.tolist(), strict=True)
        ]


def held_out(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Which images are held out, (N,) bool: a share of each class, but none of a class with fewer than five."""
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for c in labels.unique():
        members = (labels == c).nonzero()[:, 0]
        number = round(HELD_OUT * len(members)) if len(members) >= 5 else 0
        chosen[members[torch.randperm(len(members), generator=generator)[:number]]] = True
    return chosen
