"""The interface of a method: fit, discover, predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from happycat.backbone.tail import Tail, TailInput, Vectors
from happycat.base.config import Checked, choice, setting
from happycat.base.progress import Advance
from happycat.learning.batches import Labelled, Unlabelled, Unseen
from happycat.learning.heads import Projector
from happycat.learning.memory import ClassMemory
from happycat.learning.training import Epoch, Schedule, Training

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True)
class MethodConfig(Checked):
    """Hyperparameters of a method, with a constructor for each flavour."""

    @classmethod
    def authors(cls) -> Self:
        """The values of the authors' program, which made the paper's tables."""
        return cls()

    @classmethod
    def paper(cls) -> Self:
        """The values of the paper's text, where they differ from the program's."""
        return cls()

    @property
    def random_views(self) -> int:
        """How many random views' features it is served besides the centre view's, if it needs features only."""
        return 0

    @property
    def with_patches(self) -> bool:
        """Whether features that are extracted, for the method or its counter, have a ViT's patch tokens, too."""
        return True


@dataclass(frozen=True, kw_only=True)
class TrainedConfig(MethodConfig):
    """Hyperparameters of all trained methods: gradient descent, the two contrastive losses, the projector."""

    batch_size: int = setting(128, "batch size: images a batch", 2)
    base_epochs: int = setting(100, "epochs of Stage-0", 1)
    epochs: int = setting(30, "epochs of each later stage", 1)
    base_rate: float = setting(0.1, "learning rate of Stage-0", 0)
    base_optimizer: str = choice("sgd", ("sgd", "adamw"), "optimiser of Stage-0, adamw for a backbone from scratch")
    rate: float = setting(0.01, "learning rate of later stages", 0)
    rate_floor: float = setting(1e-3, "where the cosine schedule ends, as a share of the rate", 0, 1)
    momentum: float = setting(0.9, "momentum of SGD", 0, 1)
    weight_decay: float = setting(5e-5, "weight decay of SGD (not on biases and norms)", 0)

    supervised_contrast_temperature: float = setting(0.07, "τ_c, temperature of the supervised contrast", 1e-6)
    contrast_temperature: float = setting(1.0, "τ_c, temperature of the self-supervised contrast", 1e-6)
    supervised_share: float = setting(
        0.35, "λ0, weight of the supervised contrast; the self-supervised one has 1−λ0", 0, 1
    )

    projector_hidden: int = setting(2048, "hidden width of the projector", 1)
    projector_out: int = setting(256, "output dimensions of the projector", 1)
    projector_deviation: float = setting(
        0.02, "standard deviation of the projector's initial weights; narrow layers want more", 1e-6
    )
    projector_prototypes: int = setting(0, "a cosine layer of that many outputs behind the projector; 0: none", 0)

    @classmethod
    def paper(cls) -> Self:
        """The paper contrasts in a space of 65,536 dimensions."""
        return replace(super().paper(), projector_prototypes=65536)

    def base_schedule(self) -> Schedule:
        return self._schedule(self.base_epochs, self.base_rate, self.base_optimizer)

    def schedule(self, epochs: int | None = None) -> Schedule:
        """The optimiser's schedule of a later stage, or of a phase of it that has so many epochs."""
        return self._schedule(self.epochs if epochs is None else epochs, self.rate, "sgd")

    def _schedule(self, epochs: int, rate: float, optimizer: str) -> Schedule:
        return Schedule(
            optimizer=optimizer,
            epochs=epochs,
            rate=rate,
            floor=self.rate_floor,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )

    def projector(self, dim: int, generator: torch.Generator) -> Projector:
        return Projector(
            dim,
            self.projector_hidden,
            self.projector_out,
            self.projector_prototypes,
            generator,
            self.projector_deviation,
        )


class Method(nn.Module):
    """Base class of all methods: `fit`, `discover`, `predict`; its memory is its parameters and buffers, nothing else.

    `fit` and `discover` are generators that yield once per epoch. A method never sees a label after
    Stage-0, an image of an earlier stage, or test data. Methods of one `family` have the same state after
    `fit`: one Stage-0 can be the start of all of them.
    """

    family: str
    trains = True  # whether its stages are trained, epoch by epoch
    rehearses = False  # whether `rehearse` does anything
    features_only = False  # whether it tunes nothing: it is served features, and its tail is `Vectors`
    calibrates = False  # whether `calibrate` does anything

    config: MethodConfig

    def __init__(self, tail: Tail | Vectors, config: MethodConfig):
        super().__init__()
        self.config = config
        self.tail = tail
        self.memory = ClassMemory(tail.dim)

    @property
    def num_classes(self) -> int:
        """How many classes are known so far."""
        return self.memory.num_classes

    def class_counts(self) -> list[int]:
        """How many images each known class was learned from."""
        return self.memory.counts.tolist()

    def calibrate(self, unseen: Unseen, generator: torch.Generator) -> None:
        """Before `fit`: choose values on classes that a copy of the backbone was not trained on."""

    def fit(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        """Stage-0: learn the labelled classes."""
        raise NotImplementedError

    def rehearse(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        """Rehearse discovery on the labelled images (meta-learning), after `fit` and before the first stage."""
        return iter(())

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        """One continual stage: find `num_new` classes among the images, keep the old ones."""
        raise NotImplementedError

    def logits(self, tokens: TailInput) -> Tensor:
        """Logits (B, K): the probabilities are their softmax."""
        raise NotImplementedError

    def predict(self, tokens: TailInput) -> Tensor:
        """Class probabilities (B, K) of centre views; changes nothing, not even a random state."""
        return self.logits(tokens).softmax(1)

    def familiarity(self, tokens: TailInput, probabilities: Tensor) -> Tensor:
        """How sure it is that images are of a known class, (B,): the higher, the surer. Rejection would go by it.

        The largest of the class probabilities (B, K) that `predict` gives them, unless a method has a better one.
        """
        return probabilities.amax(1)

    @torch.no_grad()
    def predict_all(self, unlabelled: Unlabelled) -> Tensor:
        """Class probabilities (N, K) of every image."""
        return unlabelled.views.centre(self.predict)

    @torch.no_grad()
    def evaluate(self, unlabelled: Unlabelled) -> tuple[Tensor, Tensor]:
        """Class probabilities (N, K) and familiarity (N,) of every image, each of which is read once."""

        def both(tokens: TailInput) -> Tensor:
            probabilities = self.predict(tokens)
            return torch.cat([probabilities, self.familiarity(tokens, probabilities)[:, None]], 1)

        found = unlabelled.views.centre(both)
        return found[:, :-1], found[:, -1]

    def evaluate_together(self, tests: Sequence[Unlabelled]) -> tuple[Tensor, Tensor]:
        """What `evaluate` gives for all test images of a stage; a method may look at all of them at once."""
        probabilities, familiarity = zip(*map(self.evaluate, tests), strict=True)
        return torch.cat(probabilities), torch.cat(familiarity)

    @torch.no_grad()
    def classify(self, unlabelled: Unlabelled) -> tuple[Tensor, Tensor]:
        """The likeliest class (N,) of every image and its probability (N,); never are all probabilities held."""

        def likeliest(tokens: TailInput) -> Tensor:
            probability, row = self.predict(tokens).max(1)
            return torch.stack([row.to(probability), probability], 1)

        found = unlabelled.views.centre(likeliest)
        return found[:, 0].long(), found[:, 1]

    @torch.no_grad()
    def features(self, unlabelled: Unlabelled) -> Tensor:
        """The tail's output (N, D) for the centre view of every image."""
        return unlabelled.views.centre(self.tail)

    @torch.no_grad()
    def unit_features(self, unlabelled: Unlabelled) -> Tensor:
        """The same, each of unit length."""
        return unlabelled.views.centre(lambda tokens: normalize(self.tail(tokens), dim=-1))


class Calibrated(Protocol):
    """A method with `calibrates`: its Stage-0 chooses values on held-out classes, which takes a while."""

    def fit(self, labelled: Labelled, training: Training, advance: Advance) -> Iterator[Epoch]:
        """Stage-0; `advance` is called with the steps of the calibration that are done, and with their total."""
