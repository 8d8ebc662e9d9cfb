"""Happy (Ma et al., NeurIPS 2024): hardness-aware prototype sampling and soft entropy regularisation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from happycat import losses
from happycat.clustering import kmeans, least_similar
from happycat.config import Checked, choice, setting
from happycat.heads import CosineClassifier, Projector, random_rows
from happycat.memory import ClassMemory
from happycat.methods.method import Method
from happycat.serving import Batch, Labelled, Unlabelled
from happycat.tail import Tail
from happycat.training import Epoch, Schedule, Training
from happycat.trunk import Tokens


@dataclass(frozen=True, kw_only=True)
class HappyConfig(Checked):
    """Every value of Happy. The defaults are the flavour `authors`; `HappyConfig.paper()` is the other."""

    base_epochs: int = setting(100, "epochs of Stage-0", 1)
    epochs: int = setting(30, "epochs of each later stage", 1)
    batch_size: int = setting(128, "images a batch", 2)
    base_rate: float = setting(0.1, "learning rate of Stage-0", 0)
    base_optimizer: str = choice("sgd", ("sgd", "adamw"), "optimiser of Stage-0, adamw for a backbone from scratch")
    rate: float = setting(0.01, "learning rate of later stages", 0)
    rate_floor: float = setting(1e-3, "where the cosine schedule ends, as a share of the rate", 0, 1)
    momentum: float = setting(0.9, "momentum of SGD", 0, 1)
    weight_decay: float = setting(5e-5, "weight decay of SGD (not on biases and norms)", 0)

    prediction_temperature: float = setting(0.1, "τ_p, of the classifier's softmax", 1e-6)
    teacher_temperature: float = setting(0.05, "τ_t, of the sharpened view in later stages", 1e-6)
    supervised_contrast_temperature: float = setting(0.07, "τ_c of the supervised contrast", 1e-6)
    contrast_temperature: float = setting(1.0, "τ_c of the self-supervised contrast", 1e-6)

    supervised_share: float = setting(0.35, "λ0, of the supervised contrast; 1−λ0 is the other's", 0, 1)
    base_classification_weight: float = setting(0.35, "weight of Stage-0's cross-entropy", 0)
    base_self_training_weight: float = setting(0.65, "weight of Stage-0's self-distillation and entropy term", 0)
    base_entropy_weight: float = setting(1.0, "weight of the entropy term within Stage-0's self-training", 0)
    base_teacher_start: float = setting(0.07, "Stage-0's teacher temperature at first", 1e-6)
    base_teacher_end: float = setting(0.04, "Stage-0's teacher temperature after the warm-up", 1e-6)
    base_teacher_epochs: int = setting(30, "epochs of that warm-up", 1)

    self_training_weight: float = setting(1.0, "weight of self-distillation in later stages", 0)
    entropy_weight: float = setting(1.0, "λ1, of the group-wise soft entropy", 0)
    entropy_constants: bool = setting(True, "add log 2, log K_old, log K_new to the entropy terms")
    prototype_weight: float = setting(1.0, "weight of hardness-aware prototype sampling", 0)
    hardness: bool = setting(True, "sample harder classes more often")
    hardness_temperature: float = setting(0.1, "τ_h, of the hardness distribution", 1e-6)
    unit_samples: bool = setting(False, "bring sampled features back to unit length")
    distillation_weight: float = setting(2.0, "λ2, of 1 − cos to the previous stage's features", 0)
    contrast_weight: float = setting(1.0, "λ3, of the self-supervised contrast in later stages", 0)
    cluster_init: bool = setting(True, "start new classes from k-means centres")

    unit_rows: bool = setting(False, "fresh classifier rows have unit length")
    projector_hidden: int = setting(2048, "width of the projector", 1)
    projector_out: int = setting(256, "outputs of the projector", 1)
    projector_prototypes: int = setting(0, "a cosine layer of that many outputs behind the projector; 0: none", 0)

    @classmethod
    def authors(cls, dataset: str = "") -> HappyConfig:
        """What the authors' program does; the paper's tables came from it."""
        return cls(base_entropy_weight=2.0, epochs=20) if dataset == "cub" else cls()

    @classmethod
    def paper(cls, dataset: str = "") -> HappyConfig:
        """What the paper's text says, where it differs."""
        return replace(
            cls(),
            base_classification_weight=1.0,
            base_self_training_weight=0.0,
            entropy_constants=False,
            distillation_weight=1.0,
            unit_samples=True,
            unit_rows=True,
            projector_prototypes=65536,
        )


FLAVOURS = {"authors": HappyConfig.authors, "paper": HappyConfig.paper}


class Happy(Method):
    """The tail f, the classifier g and the class memory; `fit` and `discover` follow the paper's Algorithm 1."""

    def __init__(self, tail: Tail, config: HappyConfig):
        super().__init__()
        self.config = config
        self.tail = tail
        self.head = CosineClassifier(tail.dim)
        self.memory = ClassMemory(tail.dim)

    @property
    def num_classes(self) -> int:
        return self.head.num_classes

    def class_counts(self) -> list[int]:
        return self.memory.counts.tolist()

    # Stage-0

    def fit(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        config, labels = self.config, labelled.labels
        num_base = int(labels.max()) + 1
        self.head.grow(random_rows(num_base, self.tail.dim, training.generator, config.unit_rows))
        projector = self._new_projector(training)
        yield from training.run(
            {"method": self, "projector": projector, **labelled.views.trained()},
            self._schedule(config.base_epochs, config.base_rate, config.base_optimizer),
            lambda: labelled.batches(config.batch_size, training.generator),
            lambda batch, epoch: self._initial_loss(batch, labels[batch.index], projector, epoch),
        )
        features = self._features(labelled)
        self.memory.learn(features, labels, self.head.weight.detach())
        self.memory.measure_radius(features, labels)

    def _initial_loss(self, batch: Batch, labels: Tensor, projector: Projector, epoch: int) -> dict[str, Tensor]:
        """L_initial (Eq. init-overall-loss), in the authors' flavour with SimGCD's self-training besides."""
        config = self.config
        features = self.tail(batch.tokens)
        cosines = self.head(features)
        h, h2 = projector(features).chunk(2)
        terms = {
            "classification": config.base_classification_weight
            * cross_entropy(cosines / config.prediction_temperature, labels.repeat(2)),
            "supervised contrast": config.supervised_share
            * losses.supervised_contrast(h, h2, labels, config.supervised_contrast_temperature),
            "contrast": (1 - config.supervised_share) * losses.info_nce(h, h2, config.contrast_temperature),
        }
        if weight := config.base_self_training_weight:
            p = (cosines / config.prediction_temperature).softmax(1)
            terms["self-distillation"] = weight * losses.self_distillation(
                *cosines.chunk(2), config.prediction_temperature, self._base_teacher_temperature(epoch)
            )
            terms["entropy"] = (
                weight * config.base_entropy_weight * losses.negative_entropy(p.mean(0), config.entropy_constants)
            )
        return terms

    def _base_teacher_temperature(self, epoch: int) -> float:
        """Linear from start to end over the warm-up, then constant."""
        config = self.config
        progress = min(1.0, epoch / max(1, config.base_teacher_epochs - 1))
        return config.base_teacher_start + progress * (config.base_teacher_end - config.base_teacher_start)

    # Stages 1 … T

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        config, num_old = self.config, self.num_classes
        before = unlabelled.views.frozen(copy.deepcopy(self.tail))
        self.head.grow(self._initial_rows(unlabelled, num_new, training))
        projector = self._new_projector(training)
        hardness = self._hardness()
        yield from training.run(
            {"method": self, "projector": projector},
            self._schedule(config.epochs, config.rate),
            lambda: unlabelled.batches(config.batch_size, training.generator),
            lambda batch, _: self._loss(batch, before(batch), num_old, hardness, projector, training.generator),
        )
        predictions = self.predict_all(unlabelled).argmax(1)
        self.memory.learn(self._features(unlabelled), predictions, self.head.weight.detach()[num_old:])

    def _initial_rows(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Tensor:
        """Clustering-guided initialisation (Eq. cluster-guided-init), or random rows without it."""
        if not self.config.cluster_init:
            return random_rows(num_new, self.tail.dim, training.generator, self.config.unit_rows)
        features = normalize(self._features(unlabelled), dim=-1)
        centres = kmeans(features, self.num_classes + num_new, seed=0)
        return least_similar(centres, self.head.weight.detach(), num_new)

    def _hardness(self) -> Tensor:
        if self.config.hardness:
            return self.memory.hardness(self.config.hardness_temperature)
        return torch.full((self.memory.num_classes,), 1 / self.memory.num_classes)

    def _loss(
        self, batch: Batch, before: Tensor, num_old: int, hardness: Tensor, projector: Projector, generator
    ) -> dict[str, Tensor]:
        """L_Happy = L_new + L_old + λ3 L_con (Eq. loss-overall), term by term; a term of weight 0 is left out."""
        config = self.config
        features = self.tail(batch.tokens)
        cosines = self.head(features)
        terms = {}
        if weight := config.self_training_weight:
            terms["self-distillation"] = weight * losses.self_distillation(
                *cosines.chunk(2), config.prediction_temperature, config.teacher_temperature
            )
        if weight := config.entropy_weight:
            marginal = (cosines / config.prediction_temperature).softmax(1).mean(0)
            groups = losses.group_entropy(marginal, num_old, config.entropy_constants)
            terms.update({f"entropy {name}": weight * value for name, value in groups.items()})
        if weight := config.prototype_weight:
            terms["prototypes"] = weight * self._prototype_loss(len(features), hardness, generator)
        if weight := config.distillation_weight:
            terms["distillation"] = weight * losses.feature_distillation(features, before)
        if weight := config.contrast_weight:
            terms["contrast"] = weight * losses.info_nce(*projector(features).chunk(2), config.contrast_temperature)
        return terms

    def _prototype_loss(self, number: int, hardness: Tensor, generator: torch.Generator) -> Tensor:
        """Hardness-aware prototype sampling (Eq. loss-prototype-sampling)."""
        samples, classes = self.memory.sample(number, hardness, generator)
        if self.config.unit_samples:
            samples = normalize(samples, dim=-1)
        return cross_entropy(self.head(samples) / self.config.prediction_temperature, classes)

    # Both

    def predict(self, tokens: Tokens) -> Tensor:
        return (self.head(self.tail(tokens)) / self.config.prediction_temperature).softmax(1)

    @torch.no_grad()
    def _features(self, unlabelled: Unlabelled) -> Tensor:
        return torch.cat([self.tail(tokens) for tokens in unlabelled.views.centre()])

    def _new_projector(self, training: Training) -> Projector:
        config = self.config
        return Projector(
            self.tail.dim,
            config.projector_hidden,
            config.projector_out,
            config.projector_prototypes,
            training.generator,
        ).to(self.head.weight.device)

    def _schedule(self, epochs: int, rate: float, optimizer: str = "sgd") -> Schedule:
        config = self.config
        return Schedule(
            optimizer=optimizer,
            epochs=epochs,
            rate=rate,
            floor=config.rate_floor,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
        )
