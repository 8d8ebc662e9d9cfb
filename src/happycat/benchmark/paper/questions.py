"""Active learning with a simulated person: how accuracy and the number of classes improve with her answers.

The stages are those of `calm-check`, the number of new classes is estimated. After each discovery a person, who knows
the true classes of the images served, answers some questions, which happycat chooses or which are drawn at random. What
she says changes the model, and the next stage goes on from there. Test images choose nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from happycat.base.progress import Advance, nobody
from happycat.benchmark.paper.check import Estimator, StagedVectors, score
from happycat.benchmark.protocol import Split
from happycat.images.pictures import Images

BUDGETS = (0, 10, 30, 100)  # answers a stage
BATCH = 5  # questions that are chosen at a time
CHOSEN, RANDOM = "chosen", "random"
KNOWN, NOBODY_ASKED = "none, K known", "none"

Model = TypeVar("Model", bound=Estimator)


class Asking(Protocol):
    """A model with a person beside it: `happycat.model.simulation.AskingModel`."""

    def discover(
        self,
        X: Any,
        truth: np.ndarray,
        num_new: int | str,
        answers: int,
        batch: int,
        random: np.random.Generator | None,
    ) -> tuple[int, dict[str, int]]: ...


@dataclass(frozen=True, kw_only=True)
class StageAnswers:
    """The accuracy (%) on test images after a stage and its answers; how many classes of the stage there are then."""

    stage: int
    all: float | None
    old: float | None
    new: float | None
    found: int
    new_classes: int  # the truth
    answers: dict[str, int]  # how many, by the question's kind and "yes" or "no"


@dataclass(frozen=True, kw_only=True)
class AnsweredRun:
    """The stages of a class order with so many answers a stage to questions that were chosen in one way."""

    order: int
    asked: str  # chosen or random; none
    budget: int
    stages: list[StageAnswers]


@dataclass(frozen=True)
class Study(Generic[Model]):
    """How a model is made, and how a person, who knows the classes by their names, is set beside it."""

    make: Callable[[], Model]
    beside: Callable[[Model, tuple[str, ...]], Asking]


def answered_runs(
    study: Study[Model],
    images: Images,
    split: Split,
    order: int,
    budgets: tuple[int, ...] = BUDGETS,
    advance: Advance = nobody,
) -> list[AnsweredRun]:
    """Serve the stages of a class order with each number of answers, to chosen and to random questions.

    Before them come the stages with the number of new classes given and no answer, and those with it estimated.
    `advance` is told of each run.
    """
    data, fitted = StagedVectors(images, split), study.make()
    rows = data.labelled()
    fitted.fit(data.train[rows], np.array(split.classes)[data.train_ids[rows]])
    runs = []
    for asked, budget in plan(budgets):
        stages = _stages(study, copy.deepcopy(fitted), data, asked, budget, order)
        runs.append(AnsweredRun(order=order, asked=asked, budget=budget, stages=stages))
        advance(1)
    return runs


def plan(budgets: tuple[int, ...] = BUDGETS) -> list[tuple[str, int]]:
    """The runs of a class order: how the questions are chosen, and how many answers there are a stage."""
    return [(KNOWN, 0), (NOBODY_ASKED, 0), *((asked, n) for n in budgets if n for asked in (CHOSEN, RANDOM))]


def _stages(
    study: Study[Model], model: Model, data: StagedVectors, asked: str, budget: int, order: int
) -> list[StageAnswers]:
    asking, split, stages = study.beside(model, data.split.classes), data.split, []
    random = np.random.default_rng([split.protocol.split_seed, order, budget]) if asked == RANDOM else None
    for stage in range(1, len(split.stages) + 1):
        rows, tested, num_new = data.served(stage), data.tested(stage), split.num_new(stage)
        number = num_new if asked == KNOWN else "auto"
        found, answers = asking.discover(data.train[rows], data.train_ids[rows], number, budget, BATCH, random)
        scores = score(model, data.test[tested], data.test_ids[tested], split.num_seen(stage - 1))
        stages.append(
            StageAnswers(
                stage=stage,
                all=scores.all,
                old=scores.old,
                new=scores.new,
                found=found,
                new_classes=num_new,
                answers=answers,
            )
        )
    return stages
