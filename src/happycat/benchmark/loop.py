"""The stage loop: fit, then for each stage count, discover, predict, score, record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, NamedTuple, cast

import numpy as np
from torch import Tensor

from happycat.backbone.tail import Tail
from happycat.base.errors import DamagedError
from happycat.base.metrics import clustering_accuracy
from happycat.base.progress import Advance, Progress
from happycat.base.scores import score_stage
from happycat.base.seeding import seeded
from happycat.base.threads import at_most
from happycat.benchmark.config import LoopConfig
from happycat.benchmark.data import StageData, stage_name
from happycat.benchmark.loggers import Logs, open_logs
from happycat.benchmark.record import Record, is_unfinished, prediction_rows
from happycat.images.pictures import Images
from happycat.learning.batches import FreshViews, Labelled, Unlabelled
from happycat.learning.training import Epoch, Training
from happycat.methods.calm.number import Count
from happycat.methods.counting import ClassCounter
from happycat.methods.method import Calibrated, Method
from happycat.methods.parametric import ParametricConfig
from happycat.methods.pretraining import train_from_scratch, tune_tail
from happycat.report.charts import plausible

__all__ = ["Loop", "LoopConfig", "stage_line"]


def stage_line(stage: int, scores: dict[str, Any]) -> str:
    """A finished stage in one line."""
    groups = [(name, scores[name.lower()]) for name in ("All", "Old", "New")]
    shown = groups if scores["new"] is not None else groups[:1]
    return f"{stage_name(stage)}: " + "   ".join(f"{name} {value:.1f}" for name, value in shown)


class Tested(NamedTuple):
    """Test images: their keys, class ids (N,), class probabilities (N, K) and familiarity (N,)."""

    keys: list[str]
    targets: np.ndarray
    probabilities: np.ndarray
    familiarity: np.ndarray


class Loop:
    """One run of one method over one split. A run that was interrupted goes on where its record ends."""

    def __init__(
        self,
        *,
        data: StageData,
        method: Method,
        counter: ClassCounter,
        record: Record,
        config: LoopConfig,
        progress: Progress,
        pretraining: ParametricConfig | None = None,
        start: Record | None = None,
    ):
        """`pretraining` trains the backbone before the method; `start` is a run whose Stage-0 is taken."""
        self.data, self.method, self.counter = data, method, counter
        self.record, self.config, self.progress = record, config, progress
        self.pretraining, self.start = pretraining, start
        self.split, self.ranks = data.split, data.ranks
        self.count: Count | None = None  # the estimate of the stage under way

    @property
    def images(self) -> Images:
        return self.data.images

    def run(self) -> list[dict[str, Any]]:
        """Run what is left; returns the scores of all stages."""
        done, stages = len(self.record.stage_scores()), range(self.data.num_stages)
        self._restore(done)
        for line in self.data.plan_lines():
            self.progress.message(line)
        self.data.tidy(is_unfinished)
        for stage in stages[:done]:
            self.data.forget(stage)  # a kill may have come between
        last = len(self.split.stages) if self.config.until is None else self.config.until
        # A run that is resumed has the threads that it was begun with: its last bits depend on them.
        with self._open_logs() as self.logs, at_most(self.record.metadata()["threads"]):
            for stage in stages[done : last + 1]:
                self._run_stage(stage)
        if len(self.record.stage_scores()) == len(stages):
            self.data.forget_tests()
            self.data.tidy(is_unfinished)
        return self.record.stage_scores()

    def _run_stage(self, stage: int) -> None:
        training = Training(seeded(self.config.seed, stage), self.record.load_checkpoint(stage), stage, self.ranks)
        if stage == 0:
            served: Unlabelled = self._fit(training)
        else:
            served = self.data.unlabelled(stage)
            number = self._count(stage, served)
            if number:
                advance = self.progress.step(f"{stage_name(stage)}: discovering")
                self._train(stage, training, self.method.discover(served, number, training), advance)
            self.counter.follow(stage, served)
        self._finish(stage, served)
        self.data.forget(stage)

    def _open_logs(self) -> Logs:
        record = self.record
        if not self.ranks.first:
            return Logs(record.folder)
        return open_logs(self.config.log, record.folder, record.metadata(), record.epochs(), record.stage_scores())

    # Stage-0

    def _fit(self, training: Training) -> Labelled:
        """Learn the labelled classes; returns their images as the method was served them."""
        data, method = self.data, self.method
        if self.pretraining is not None:
            advance = self.progress.step(f"{stage_name(0)}: training")
            self._train(0, training, self._pretrain(self.pretraining, training), advance)
            data.settle()
        elif data.scratch and self.start is None:
            data.vit.thaw()  # the method's own Stage-0 trains it
        labelled = data.labelled()
        advance = self.progress.step(f"{stage_name(0)}: {'calibrating' if method.calibrates else 'training'}")
        self._train(0, training, self._learn(labelled, training, advance), advance)
        if data.scratch and not method.features_only:
            data.tail.load_state_dict(method.tail.state_dict())  # what Stage-0 has trained is the backbone
        data.settle()
        self.counter.learn(seeded(self.config.seed, "counter"), self.progress)
        return labelled

    def _pretrain(self, config: ParametricConfig, training: Training) -> Iterator[Epoch]:
        """Train the backbone on the labelled images, for a method that tunes nothing."""
        labelled, tail = self.data.labelled_tokens(), self.data.tail
        assert isinstance(tail, Tail)  # `prepare` builds no other where there is a pretraining
        if isinstance(labelled.views, FreshViews) and self.data.scratch:
            return train_from_scratch(tail, labelled.views, labelled.labels, self.method, config, training)
        return tune_tail(tail, labelled, config, training)

    def _learn(self, labelled: Labelled, training: Training, advance: Advance) -> Iterator[Epoch]:
        """The method's own Stage-0; `advance` is called with the steps of a calibration, if it has one."""
        if self.start is None:
            if self.method.calibrates:
                yield from cast(Calibrated, self.method).fit(labelled, training, advance)
            else:
                yield from self.method.fit(labelled, training)
        self.data.trunk.freeze()
        yield from self.method.rehearse(labelled, training)

    # Later stages

    def _count(self, stage: int, served: Unlabelled) -> int:
        """How many new classes a stage has, as the counter says."""
        if not self.counter.ready:  # Stage-0 is that of another run
            self.counter.learn(seeded(self.config.seed, "counter"), self.progress)
            self.data.forget(0)
        found = self.counter.count(stage, served, seeded(self.config.seed, stage, "count"), self.progress)
        if self.counter.estimates:
            self.count = found
            others = plausible(found.low, found.high)
            news = f"{found.number} new {'class' if found.number == 1 else 'classes'} estimated"
            self.progress.message(f"{stage_name(stage)}: {news}{', ' if others else ''}{others}")
        return found.number

    # Training

    def _train(self, stage: int, training: Training, epochs: Iterator[Epoch], advance: Advance) -> None:
        """Go through the epochs; between two of them, log, show and save what was reached."""
        saved, number = time.monotonic(), 0
        for epoch in epochs:
            more = {}
            if self.config.select == "oracle" and self.method.num_classes:
                more["test_all"] = self._test_accuracy(stage)
                if more["test_all"] > self._best_so_far(stage):
                    training.keep()
            self.logs.epoch(self.record.epoch(stage, epoch.number, epoch.terms, **more))
            advance(epoch.number - number, total=epoch.total, loss=sum(epoch.terms.values()))
            number = epoch.number
            if time.monotonic() - saved >= self.config.checkpoint_seconds:
                self.record.save_checkpoint(stage, training.state)
                saved = time.monotonic()

    def _best_so_far(self, stage: int) -> float:
        """The best test accuracy among this stage's recorded epochs (for `select` = oracle)."""
        return max((e.get("test_all", -1.0) for e in self.record.epochs() if e["stage"] == stage), default=-1.0)

    # Evaluation

    def _test(self, stage: int) -> Tested:
        """The test images of all classes seen."""
        sets = self.data.test_sets(stage)
        probabilities, familiarity = self.method.evaluate_together([test.served for test in sets])
        return Tested(
            [key for test in sets for key in test.pictures.keys],
            np.concatenate([test.ids for test in sets]),
            probabilities.cpu().numpy(),
            familiarity.cpu().numpy(),
        )

    def _unseen_familiarity(self, stage: int) -> np.ndarray:
        """The familiarity (M,) of the test images of classes that come in later stages; it chooses nothing."""
        later = self.data.test_sets(self.data.num_stages - 1)[stage + 1 :]
        found = [self.method.evaluate(test.served)[1].cpu().numpy() for test in later]
        return np.concatenate(found) if found else np.empty(0)

    def _test_accuracy(self, stage: int) -> float:
        tested = self._test(stage)
        num_old = self.split.num_seen(max(0, stage - 1))
        accuracy = clustering_accuracy(tested.targets, tested.probabilities.argmax(1), num_old).all
        assert accuracy is not None  # `check_split` refuses a class without test images
        return accuracy

    def _finish(self, stage: int, served: Unlabelled) -> None:
        """Score the stage and record all of it."""
        keys, targets, probabilities, familiarity = self._test(stage)
        earlier = self.record.stage_scores()
        identities = earlier[-1]["identities"] if earlier else None
        num_base, num_old = self.split.num_seen(0), self.split.num_seen(max(0, stage - 1))
        scores = score_stage(
            targets,
            probabilities,
            probabilities.argmax(1),
            num_base=num_base,
            num_old=num_old,
            num_known=len(identities) if identities else num_base,
            identities=identities,
            familiarity=familiarity,
            unseen_familiarity=self._unseen_familiarity(stage),
        )
        assigned = [part.cpu().numpy() for part in self.method.classify(served)]
        self.record.finish_stage(
            stage,
            states=self._states(stage),
            model=self._model_metadata(stage),
            scores=scores,
            assigned=prediction_rows(self.data.pictures(stage).keys, *assigned),
            predictions=[
                {"class": int(c), **row}
                for c, row in zip(
                    targets, prediction_rows(keys, probabilities.argmax(1), probabilities.max(1)), strict=True
                )
            ],
        )
        self.logs.stage(stage, scores)
        self.progress.message(stage_line(stage, scores))

    # What is recorded, and taken up again

    def _states(self, stage: int) -> dict[str, dict[str, Tensor]]:
        """The tensors of a finished stage by file: the method's, the counter's, those of a backbone trained here."""
        states = {"model": self.method.state_dict(), "counter": self.counter.state_dict()}
        if stage == 0 and self.data.scratch:
            states["trunk"] = self.data.trunk.model.state_dict()
        if stage == 0 and self.pretraining is not None:
            states["tail"] = self.data.tail.state_dict()
        return {name: tensors for name, tensors in states.items() if tensors}

    def _restore(self, done: int) -> None:
        """Make everything what it was after the last finished stage, or after another run's Stage-0."""
        if done:
            self.load(self.record, done - 1)
            if self.record.stage(done - 1).has_state("counter"):
                self.counter.load_state_dict(self.record.load_state(done - 1, "counter"))
        elif self.start:
            self.load(self.start, 0)

    def load(self, record: Record, stage: int) -> None:
        """Make the method and its backbone what they were after a stage of that run."""
        try:
            self._load(record, stage)
        except RuntimeError as error:  # what torch makes of tensors of other names or shapes, below a heading
            reason = str(error).splitlines()[-1].strip()
            raise DamagedError(f"{record.folder} does not fit the method and its backbone ({reason})") from error

    def _load(self, record: Record, stage: int) -> None:
        data = self.data
        self.method.load_state_dict(record.load_state(stage))
        if data.scratch:
            data.trunk.model.load_state_dict(record.load_state(0, "trunk"))
        if self.pretraining is not None:
            data.tail.load_state_dict(record.load_state(0, "tail"))
        elif data.scratch:
            first = record.load_state(0)
            own = {name.removeprefix("tail."): value for name, value in first.items() if name.startswith("tail.")}
            data.tail.load_state_dict(own)
        data.settle()

    def _model_metadata(self, stage: int) -> dict[str, Any]:
        """The model's metadata: its classes with their stable ids, its values, its trunk."""
        counts, num_base, trunk = self.method.class_counts(), self.split.num_seen(0), self.data.trunk
        stages = [c["stage"] for c in self.record.model(stage - 1)["classes"]] if stage else []
        stages += [stage] * (self.method.num_classes - len(stages))
        return {
            "method": type(self.method).__name__.lower(),
            "config": asdict(self.method.config),
            "trunk": {
                "name": trunk.name,
                "image_size": trunk.image_size,
                "fingerprint": self.data.fingerprint,
            },
            "classes": [
                {
                    "id": c,
                    "name": self.split.classes[c] if c < num_base else None,
                    "stage": stages[c],
                    "images": counts[c],
                }
                for c in range(self.method.num_classes)
            ],
            "count": self.count._asdict() if self.count else None,
        }
