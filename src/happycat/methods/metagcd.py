"""MetaGCD (Wu et al., ICCV 2023): rehearse discovery on the labelled classes, so that later stages forget less.

Adapted: the published outer loop cannot run as written; it is first-order MAML here. A task holds out
some labelled classes and meets them in a few pseudo-stages without their labels; the gradient, at the weights that
this leads to, of the supervised loss on held-out images of all classes met so far is applied to the weights
before. The rates are its own program's, a hundredth of the other methods'; there are fewer tasks and epochs
than in its program. Test images go to the nearest centre of k-means on the stage's images.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from happycat.base.config import setting
from happycat.learning import losses
from happycat.learning.batches import Batch, Labelled
from happycat.learning.training import Epoch, Training, make_optimizer, take_step, total
from happycat.methods.vanilla_gcd import VanillaGCD, VanillaGCDConfig


@dataclass(frozen=True, kw_only=True)
class MetaGCDConfig(VanillaGCDConfig):
    """Hyperparameters of GCD, of the rehearsal (meta-training) and of the contrast with soft neighbours."""

    rate: float = setting(1e-4, "learning rate of later stages", 0)
    neighbour_similarity: float = setting(0.85, "cosine from which two images are neighbours", -1, 1)
    neighbour_share: float = setting(0.5, "weight of the contrast with neighbours; InfoNCE has the rest", 0, 1)
    tasks: int = setting(10, "tasks of the rehearsal (meta-training)", 1)
    task_stages: int = setting(3, "pseudo-stages of a task", 1)
    held_out_share: float = setting(0.3, "share of the labelled classes that a task holds out", 0.01, 0.9)
    inner_epochs: int = setting(3, "epochs of a pseudo-stage", 1)
    outer_rate: float = setting(1e-5, "learning rate of the rehearsal's outer steps", 0)
    query_share: float = setting(
        0.25, "share of the images in the query set, whose loss the outer step minimises", 0.01, 0.9
    )
    old_share: float = setting(0.0625, "share of an old class's images that a pseudo-stage serves again", 0, 1)


class PseudoStage(NamedTuple):
    """Places of the support images, served without their labels, and of the query images of the outer loss."""

    served: Tensor
    query: Tensor


class MetaGCD(VanillaGCD):
    """GCD with a rehearsal after Stage-0, and a contrast with soft neighbours at each stage."""

    config: MetaGCDConfig

    rehearses = True

    def stage_loss(self, batch: Batch) -> dict[str, Tensor]:
        config = self.config
        h, h2 = batch.through(lambda tokens: self.projector(self.tail(tokens))).chunk(2)
        contrast = losses.info_nce(h, h2, config.contrast_temperature)
        neighbours = losses.neighbour_contrast(
            h, h2, config.neighbour_similarity, config.supervised_contrast_temperature
        )
        if neighbours is None:  # no image has a neighbour
            return {"contrast": contrast}
        return {
            "contrast": (1 - config.neighbour_share) * contrast,
            "neighbours": config.neighbour_share * neighbours,
        }

    def rehearse(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        config, labels = self.config, labelled.labels
        yield from training.run(
            {"method": self},
            replace(config.schedule(config.tasks), rate=config.outer_rate),
            lambda: self._task(labels.cpu(), training.generator),
            lambda stage, _: self._outer_loss(stage, labelled, training),
        )
        self.learn_labelled(labelled)

    def _task(self, labels: Tensor, generator: torch.Generator) -> Iterator[PseudoStage]:
        """Hold out some classes, then meet them in pseudo-stages, together with a few images of those met before."""
        config = self.config
        classes = torch.randperm(int(labels.max()) + 1, generator=generator)
        number = min(max(config.task_stages, round(len(classes) * config.held_out_share)), len(classes) - 1)
        held_out, met = classes[:number], classes[number:]
        in_query = torch.rand(len(labels), generator=generator) < config.query_share
        again = torch.rand(len(labels), generator=generator) < config.old_share
        for new in held_out.tensor_split(config.task_stages):
            is_new, is_old = torch.isin(labels, new), torch.isin(labels, met)
            met = torch.cat([met, new])
            stage = PseudoStage(
                served=(~in_query & (is_new | (is_old & again))).nonzero()[:, 0],
                query=(in_query & (is_new | is_old)).nonzero()[:, 0],
            )
            if len(new) and len(stage.served) and len(stage.query):
                yield stage

    def _outer_loss(self, stage: PseudoStage, labelled: Labelled, training: Training) -> dict[str, Tensor]:
        """The supervised loss after a pseudo-stage, with its gradient there as the gradient here (first order)."""
        adapted = copy.deepcopy(self)
        adapted._inner(stage.served, labelled, training)
        size = self.config.batch_size
        batch = next(labelled.batches(min(size, len(stage.query)), training.generator, stage.query))
        terms = adapted.supervised_loss(batch, labelled.labels[batch.images])
        theirs = [p for p in adapted.parameters() if p.requires_grad]
        mine = [p for p in self.parameters() if p.requires_grad]
        gradients = torch.autograd.grad(total(terms), theirs)
        first, *others = ((g * p).sum() for g, p in zip(gradients, mine, strict=True))
        moved = sum(others, start=first)
        return {**{name: term.detach() for name, term in terms.items()}, "outer step": moved - moved.detach()}

    def _inner(self, served: Tensor, labelled: Labelled, training: Training) -> None:
        """Learn from a pseudo-stage as from a real one, at the stages' first rate."""
        config = self.config
        optimizer = make_optimizer({"method": self}, config.schedule())
        for _ in range(config.inner_epochs):
            for batch in labelled.batches(min(config.batch_size, len(served)), training.generator, served):
                optimizer.zero_grad(set_to_none=True)
                total(self.stage_loss(batch)).backward()
                take_step(optimizer, training.ranks)
