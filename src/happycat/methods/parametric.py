"""Base class of methods with a classifier: Stage-0 and prediction; what a stage does is each method's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn.functional import cross_entropy

from happycat.backbone.tail import Tail, TailInput
from happycat.base.config import setting
from happycat.learning import losses
from happycat.learning.batches import Batch, Labelled, Unlabelled
from happycat.learning.heads import CosineClassifier, Projector, random_rows
from happycat.learning.training import Epoch, Training
from happycat.methods.method import Method, TrainedConfig

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, kw_only=True)
class ParametricConfig(TrainedConfig):
    """Hyperparameters of Stage-0 and of the classifier."""

    prediction_temperature: float = setting(0.1, "τ_p, temperature of the classifier's softmax", 1e-6)
    unit_rows: bool = setting(False, "new classifier rows start with unit length [0.58, as a linear layer's]")

    base_classification_weight: float = setting(0.35, "weight of Stage-0's cross-entropy", 0)
    base_self_training_weight: float = setting(0.65, "weight of Stage-0's self-distillation and entropy term", 0)
    base_entropy_weight: float = setting(1.0, "weight of the entropy term within Stage-0's self-training", 0)
    base_teacher_start: float = setting(0.07, "Stage-0's teacher temperature at first", 1e-6)
    base_teacher_end: float = setting(0.04, "Stage-0's teacher temperature after the warm-up", 1e-6)
    base_teacher_epochs: int = setting(30, "epochs of the teacher temperature's warm-up", 1)

    @classmethod
    def paper(cls) -> Self:
        return replace(super().paper(), base_classification_weight=1.0, base_self_training_weight=0.0, unit_rows=True)


class Parametric(Method):
    """The tail f, the cosine classifier g and the class memory."""

    config: ParametricConfig

    family = "parametric"

    def __init__(self, tail: Tail, config: ParametricConfig):
        super().__init__(tail, config)
        self.head = CosineClassifier(tail.dim)

    def fit(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        labels = labelled.labels
        self.head.grow(self.random_rows(int(labels.max()) + 1, training))
        projector = self.new_projector(training)
        yield from training.run(
            {"method": self, "projector": projector, **labelled.views.trained()},
            self.config.base_schedule(),
            lambda: labelled.batches(self.config.batch_size, training.generator),
            lambda batch, epoch: self._initial_loss(batch, labels[batch.images], projector, epoch),
        )
        features = self.features(labelled)
        self.memory.learn(features, labels, self.head.weight.detach())
        self.memory.measure_radius(features, labels)

    def _initial_loss(self, batch: Batch, labels: Tensor, projector: Projector, epoch: int) -> dict[str, Tensor]:
        """L_initial (Eq. init-overall-loss), in the authors' flavour with SimGCD's self-training besides."""
        config = self.config
        features = batch.through(self.tail)
        cosines = self.head(features)
        h, h2 = batch.through(projector, features).chunk(2)
        terms = {
            "classification": config.base_classification_weight
            * cross_entropy(cosines / config.prediction_temperature, labels.repeat(2)),
            "supervised contrast": config.supervised_share
            * losses.supervised_contrast(h, h2, labels, config.supervised_contrast_temperature),
            "contrast": (1 - config.supervised_share) * losses.info_nce(h, h2, config.contrast_temperature),
        }
        if weight := config.base_self_training_weight:
            p, (one, other) = (cosines / config.prediction_temperature).softmax(1), cosines.chunk(2)
            terms["self-distillation"] = weight * losses.self_distillation(
                one, other, config.prediction_temperature, self._base_teacher_temperature(epoch)
            )
            terms["entropy"] = weight * config.base_entropy_weight * losses.negative_entropy(p.mean(0), constant=True)
        return terms

    def _base_teacher_temperature(self, epoch: int) -> float:
        """The teacher temperature of an epoch: linear from start to end over the warm-up, then constant."""
        config = self.config
        progress = min(1.0, epoch / max(1, config.base_teacher_epochs - 1))
        return config.base_teacher_start + progress * (config.base_teacher_end - config.base_teacher_start)

    def cosines(self, tokens: TailInput) -> Tensor:
        """Cosines (B, K) of the features with the classifier's row of every class."""
        return self.head(self.tail(tokens))

    def logits(self, tokens: TailInput) -> Tensor:
        return self.cosines(tokens) / self.config.prediction_temperature

    # What the methods' own stages are made of

    def random_rows(self, number: int, training: Training) -> Tensor:
        return random_rows(number, self.tail.dim, training.generator, self.config.unit_rows)

    def new_projector(self, training: Training) -> Projector:
        return self.config.projector(self.tail.dim, training.generator).to(self.head.weight.device)

    def classification(self, features: Tensor, classes: Tensor) -> Tensor:
        """Cross-entropy of the classifier's prediction for features (B, D) of known classes (B,)."""
        return cross_entropy(self.head(features) / self.config.prediction_temperature, classes)

    def remember(self, unlabelled: Unlabelled) -> None:
        """Put the classes of this stage into the memory, by the model's own predictions."""
        predictions, _ = self.classify(unlabelled)
        rows = self.head.weight.detach()[self.memory.num_classes :]
        self.memory.learn(self.features(unlabelled), predictions, rows)
