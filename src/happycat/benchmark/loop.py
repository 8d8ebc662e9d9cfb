"""The stage loop: fit, then for each stage discover, predict, score, save."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize

from happycat.backbone.store import Recipe, TokenStore, affordable_views
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import DEFAULT_WORKERS, ViewPlan
from happycat.base.config import Checked, choice, setting
from happycat.base.errors import InputError
from happycat.base.metrics import clustering_accuracy, score_stage
from happycat.base.progress import Progress
from happycat.base.seeding import seeded
from happycat.benchmark.loggers import Logs, open_logs
from happycat.benchmark.protocol import Split, labelled_pictures, test_pictures, unlabelled_pictures
from happycat.benchmark.record import Record, prediction_rows
from happycat.images.datasets import Images
from happycat.images.pictures import Subset
from happycat.learning.batches import FreshViews, Labelled, StoredViews, Unlabelled
from happycat.learning.clustering import silhouettes
from happycat.learning.training import Epoch, Training
from happycat.methods import Method
from happycat.methods.calm.method import Calm, CalmConfig
from happycat.methods.calm.number import Count


@dataclass(frozen=True, kw_only=True)
class LoopConfig(Checked):
    """How a run goes about it. None of this belongs to a method."""

    seed: int = setting(0, "of everything random in training", 0)
    views: int = setting(4, "random views stored of each image; two are drawn each epoch", 2)
    view_seed: int = setting(0, "of the views' crops", 0)
    fresh_views: bool = setting(False, "new crops each epoch, through the trunk, instead of stored tokens")
    cache_gb: float = setting(20.0, "most gigabytes of tokens a stage may store; fewer views are stored if need be", 0)
    until: int | None = setting(None, "the stage to stop after; --resume goes on from there [the last]", 0)
    num_new: str = choice(
        "known", ("known", "auto", "silhouette"), "how many new classes a stage has, told or estimated"
    )
    most_new: int | None = setting(None, "the most new classes that an estimate may give", 2)
    select: str = choice("last", ("last", "oracle"), "the epoch that is a stage's result; oracle looks at the test set")
    tokens: Path | None = setting(None, "where token stores lie [in the run folder]")
    keep_tokens: bool = setting(False, "do not delete a stage's tokens when it ends")
    workers: int = setting(DEFAULT_WORKERS, "processes that read and crop images", 0)
    log: tuple[str, ...] = setting((), "follow the run in tensorboard or wandb, besides the CSV files")
    checkpoint_seconds: float = setting(30.0, "how often the stage under way is put on disk", 0)

    def numbers(self) -> dict:
        """The values that decide the numbers of a run; the others only decide how fast it is."""
        return {k: v for k, v in asdict(self).items() if k not in PACE}


PACE = ("until", "tokens", "keep_tokens", "workers", "log", "checkpoint_seconds")


def stage_name(stage: int) -> str:
    return f"Stage {stage}" if stage else "Stage-0"


def stage_line(stage: int, scores: dict) -> str:
    """A finished stage in one line."""
    groups = [(name, scores[name.lower()]) for name in ("All", "Old", "New")]
    shown = groups if scores["new"] is not None else groups[:1]
    return f"{stage_name(stage)}: " + "   ".join(f"{name} {value:.1f}" for name, value in shown)


class Loop:
    """One run of one method over one split. A run that was interrupted goes on where its record ends."""

    def __init__(
        self,
        *,
        images: Images,
        split: Split,
        trunk: Trunk,
        scratch: bool,
        method: Method,
        record: Record,
        config: LoopConfig,
        progress: Progress,
        start: Record | None = None,
    ):
        """`start` is a run whose Stage-0 takes the place of this one's."""
        self.images, self.split, self.record, self.start = images, split, record, start
        self.trunk, self.scratch, self.method = trunk, scratch, method
        self.config, self.progress = config, progress
        self.device = trunk.mean.device
        self.plan = ViewPlan(
            image_size=trunk.image_size, crop_share=images.crop_share, mirror=images.mirror, seed=config.view_seed
        )
        self.counter = self._counter()
        self.fingerprint = ""
        self.count: Count | None = None  # of the new classes of the stage under way
        self.test_sets: list[tuple[Unlabelled, Subset, np.ndarray]] = []

    def run(self) -> list[dict]:
        """Run what is left; returns the scores of all stages."""
        done, stages = len(self.record.stage_scores()), range(len(self.split.stages) + 1)
        if done:
            self.load(self.record, done - 1)
        elif self.start:
            self.load(self.start, 0)
        elif not self.scratch:
            self.fingerprint = self.trunk.fingerprint()
        if done and self._has_counter():
            self._load_counter(done - 1)
        self._announce()
        for stage in stages[:done]:
            self._forget(self._pictures(stage), self.config.views)  # a kill may have come between
        last = len(self.split.stages) if self.config.until is None else self.config.until
        with self._open_logs() as self.logs:
            for stage in stages[done : last + 1]:
                self._run_stage(stage)
        if len(self.record.stage_scores()) == len(stages):
            for stage in stages:
                self._forget(test_pictures(self.images, self.split, stage)[0], 0)
        return self.record.stage_scores()

    def _open_logs(self) -> Logs:
        record = self.record
        return open_logs(self.config.log, record.folder, record.about(), record.epochs(), record.stage_scores())

    def load(self, record: Record, stage: int) -> None:
        """Make the model what it was after a stage of that run."""
        self.method.load_state_dict(record.load_state(stage))
        if self.scratch:
            self.trunk.model.load_state_dict(record.load_state(0, "trunk"))
        self.fingerprint = self.trunk.fingerprint()

    def _run_stage(self, stage: int) -> None:
        pictures, scratch = self._pictures(stage), self._trains_trunk(stage)
        if scratch:
            self.trunk.thaw()
        served = self._served(stage, fresh=scratch)
        if stage > 0:
            self.count = self._count(stage, served)
        self._train(stage, served)
        if scratch:
            self.fingerprint = self.trunk.fingerprint()
            self.test_sets.clear()  # what was served while the trunk still changed
        self._teach_counter(stage, served)
        self._finish(stage, served, pictures)
        self._forget(pictures, self.config.views)

    def _trains_trunk(self, stage: int) -> bool:
        """A backbone from scratch is trained at Stage-0, unless that was done by another run."""
        return self.scratch and stage == 0 and self.start is None

    # What is served

    def _pictures(self, stage: int) -> Subset:
        if stage == 0:
            return labelled_pictures(self.images, self.split)[0]
        return unlabelled_pictures(self.images, self.split, stage)

    def _served(self, stage: int, fresh: bool = False) -> Unlabelled:
        """The images of a stage as they are served; those of Stage-0 with their labels."""
        views = self._views(self._pictures(stage), stage_name(stage), self.config.views, fresh)
        if stage:
            return Unlabelled(views)
        _, ids = labelled_pictures(self.images, self.split)
        return Labelled(views, torch.from_numpy(ids).to(self.device))

    def _announce(self) -> None:
        """Say what will be done before it is."""
        for stage in range(len(self.split.stages) + 1):
            pictures, new = self._pictures(stage), self.split.num_seen(0) if stage == 0 else self.split.num_new(stage)
            line = f"{stage_name(stage)}: {new} {'new' if stage else 'labelled'} classes, {len(pictures)} images"
            if self.config.fresh_views or self._trains_trunk(stage):
                self.progress.message(f"{line}, fresh views")
            else:
                recipe = self._store(pictures, self.config.views).recipe
                self.progress.message(f"{line} × {recipe.views + 1} views, {recipe.total_bytes / 1e9:.2f} GB of tokens")

    def _store(self, pictures: Subset, views: int) -> TokenStore:
        """The store of these pictures, with as many views as the budget allows (0: the centre view only)."""

        def recipe(views: int) -> Recipe:
            return Recipe.of(self.trunk, self.fingerprint, pictures, self.plan, views)

        views = views and affordable_views(recipe, views, self.config.cache_gb * 1e9)
        return TokenStore(self.config.tokens or self.record.folder / "tokens", recipe(views))

    def _views(self, pictures: Subset, title: str, views: int, fresh: bool = False) -> StoredViews | FreshViews:
        if fresh or self.config.fresh_views:
            return FreshViews(self.trunk, pictures, self.plan, self.config.workers)
        store = self._store(pictures, views)
        advance = self.progress.step(f"{title}: tokens", len(pictures))
        store.fill(self.trunk, pictures, self.plan, self.config.workers, advance)
        return StoredViews(store, self.device)

    def _forget(self, pictures: Subset, views: int) -> None:
        """Tokens go when their stage ends: a token can be turned back into a picture."""
        if not self.config.keep_tokens and not self.config.fresh_views:
            self._store(pictures, views).delete()

    # Training

    def _train(self, stage: int, served: Unlabelled) -> None:
        training = Training(seeded(self.config.seed, stage), self.record.load_checkpoint(stage), stage)
        if stage == 0:
            epochs = self._learn_labelled(served, training)
        else:
            number = self.count.number if self.count else self.split.num_new(stage)
            epochs = self.method.discover(served, number, training) if number else ()
        saved = time.monotonic()
        show = self._epoch_step(stage)
        for epoch in epochs:
            more = {}
            if self.config.select == "oracle":
                more["test_all"] = self._test_accuracy(stage)
                if more["test_all"] > self._best_so_far(stage):
                    training.keep()
            self.logs.epoch(self.record.epoch(stage, epoch.number, epoch.terms, **more))
            show(epoch)
            if time.monotonic() - saved >= self.config.checkpoint_seconds:
                self.record.save_checkpoint(stage, training.state)
                saved = time.monotonic()

    def _learn_labelled(self, served: Labelled, training: Training) -> Iterator[Epoch]:
        if self.start is None:
            yield from self.method.fit(served, training)
        self.trunk.freeze()
        yield from self.method.rehearse(served, training)

    def _epoch_step(self, stage: int) -> Callable[[Epoch], None]:
        """Begin the progress of a stage's epochs; call what it returns with each one that is over."""
        advance = self.progress.step(f"{stage_name(stage)}: {'discovering' if stage else 'training'}")
        number = 0

        def tell(epoch: Epoch) -> None:
            nonlocal number
            advance(epoch.number - number, total=epoch.total, loss=sum(epoch.terms.values()))
            number = epoch.number

        return tell

    def _best_so_far(self, stage: int) -> float:
        """The best test accuracy among this stage's recorded epochs (for --select oracle)."""
        return max((e["test_all"] for e in self.record.epochs() if e["stage"] == stage), default=-1.0)

    # How many new classes

    def _count(self, stage: int, served: Unlabelled) -> Count | None:
        """How many new classes a stage has, if that is not told."""
        if self.config.num_new == "known":
            return None
        known = self.method.num_classes
        usual = max(2, known // 2) if self.config.num_new == "silhouette" else max(10, known)
        most = min(self.config.most_new or usual, len(served) - known - 1)
        if most < 1:
            raise InputError(f"{stage_name(stage)} has too few images to estimate its classes; use --num-new known")
        if self.config.num_new == "silhouette":
            features, numbers = normalize(self.method.features(served), dim=-1), range(1, most + 1)
            scores = silhouettes(features, [known + number for number in numbers])
            number = numbers[int(np.argmax(scores))]
            found = Count(number, number, number, list(numbers), scores)
        else:
            if self.counter.num_classes == 0:  # Stage-0 is that of another run
                self._teach_counter(0, self._served(0))
            found = self.counter.count(served, most, seeded(self.config.seed, stage, "count"))
        between = "" if found.low == found.high else f", between {found.low} and {found.high}"
        self.progress.message(f"{stage_name(stage)}: {found.number} new classes estimated{between}")
        return found

    def _counter(self) -> Calm | None:
        """What estimates the number of new classes: Calm, on the backbone as it is before any tuning."""
        if self.config.num_new != "auto":
            return None
        if isinstance(self.method, Calm):
            return self.method
        return Calm(copy.deepcopy(self.method.tail), CalmConfig()).to(self.device)

    def _has_counter(self) -> bool:
        """Whether there is one beside the method."""
        return self.counter not in (None, self.method)

    def _teach_counter(self, stage: int, served: Unlabelled) -> None:
        """Let the counter know the classes that the method has learned at a stage."""
        if not self._has_counter():
            return
        if stage == 0:
            if self.scratch:  # what Stage-0 has trained is the backbone
                self.counter.tail.load_state_dict(self.method.tail.state_dict())
            list(self.counter.fit(served, Training(seeded(self.config.seed, "counter"))))
        else:
            predicted = self.method.predict_all(served).argmax(1)
            self.counter.adopt(served, predicted, self.method.num_classes)

    def _load_counter(self, stage: int) -> None:
        if "counter.safetensors" in self.record.model(stage)["sha256"]:
            self.counter.load_state_dict(self.record.load_state(stage, "counter"))

    # Evaluation

    def served_test(self, stage: int, images: Images) -> tuple[Unlabelled, Subset, np.ndarray]:
        """The test images of the classes that a stage brings, as they are served, and their class ids."""
        pictures, ids = test_pictures(images, self.split, stage)
        still_changing = self.scratch and not self.fingerprint
        served = Unlabelled(self._views(pictures, f"{stage_name(stage)}: test", 0, fresh=still_changing))
        return served, pictures, ids

    def _test(self, stage: int) -> tuple[np.ndarray, list[str], np.ndarray]:
        """Probabilities, keys and class ids of the test images of all classes seen."""
        for t in range(len(self.test_sets), stage + 1):
            self.test_sets.append(self.served_test(t, self.images))
        sets = self.test_sets[: stage + 1]
        probabilities = torch.cat([self.method.predict_all(served) for served, _, _ in sets])
        keys = [key for _, pictures, _ in sets for key in pictures.keys]
        return probabilities.cpu().numpy(), keys, np.concatenate([ids for _, _, ids in sets])

    def _test_accuracy(self, stage: int) -> float:
        probabilities, _, targets = self._test(stage)
        num_old = self.split.num_seen(max(0, stage - 1))
        return clustering_accuracy(targets, probabilities.argmax(1), num_old).all

    def _finish(self, stage: int, served: Unlabelled, pictures: Subset) -> None:
        probabilities, keys, targets = self._test(stage)
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
        )
        self.record.finish_stage(
            stage,
            state=self.method.state_dict(),
            trunk=self.trunk.model.state_dict() if self.scratch and stage == 0 else None,
            counter=self.counter.state_dict() if self._has_counter() else None,
            model=self._describe(stage),
            scores=scores,
            assigned=prediction_rows(pictures.keys, self.method.predict_all(served).cpu().numpy()),
            predictions=[
                {"class": int(c), **row} for c, row in zip(targets, prediction_rows(keys, probabilities), strict=True)
            ],
        )
        self.logs.stage(stage, scores)
        self.progress.message(stage_line(stage, scores))

    def _describe(self, stage: int) -> dict:
        """The model in words: its classes with their stable ids, its values, its trunk."""
        counts, num_base = self.method.class_counts(), self.split.num_seen(0)
        stages = [c["stage"] for c in self.record.model(stage - 1)["classes"]] if stage else []
        stages += [stage] * (self.method.num_classes - len(stages))
        return {
            "method": type(self.method).__name__.lower(),
            "config": asdict(self.method.config),
            "trunk": {
                "name": self.trunk.name,
                "image_size": self.trunk.image_size,
                "fingerprint": self.fingerprint,
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
