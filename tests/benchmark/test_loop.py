"""The stage loop: what a run records of each stage, how it goes on, and what it leaves behind.

The pictures are of one colour each, and the method knows a class by its colour, so that every number is known.
"""

from __future__ import annotations

import copy
import csv
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from happycat.backbone.config import Backbone
from happycat.backbone.housekeeping import stores_below
from happycat.backbone.tail import Tail
from happycat.backbone.trunk import Trunk
from happycat.base.errors import DamagedError
from happycat.base.progress import Progress, nobody
from happycat.base.ranks import ALONE, Ranks
from happycat.benchmark.config import LoopConfig
from happycat.benchmark.data import StageData
from happycat.benchmark.loop import Loop, stage_line
from happycat.benchmark.protocol import Protocol, Split
from happycat.benchmark.record import Record
from happycat.images.pictures import ArrayPictures, Images, Subset
from happycat.learning.memory import class_means
from happycat.learning.training import Schedule
from happycat.methods.calm.number import Count
from happycat.methods.counting import KnownNumber
from happycat.methods.method import Method, MethodConfig
from happycat.methods.parametric import ParametricConfig
from tests.helpers.records import METADATA
from tests.helpers.runs import small_vit

# A class has one colour, but of b, d and f one test picture has that of another class.
CLASSES = "abcdef"
COLOURS = {"a": (9, 9, 9), "b": (9, 9, 250), "c": (9, 250, 9), "d": (250, 9, 9), "e": (250, 250, 9), "f": (9, 250, 250)}
TEST = {"a": "aa", "b": "ba", "c": "cc", "d": "dc", "e": "ee", "f": "fa"}
SPLIT = Split(
    dataset="colours",
    protocol=Protocol(base_classes=3, stages=2),
    classes=tuple(CLASSES),
    labelled={name: [f"{name}0", f"{name}1"] for name in "abc"},
    stages=(
        {"new": ["d", "e"], "images": {"d": ["d0", "d1"], "e": ["e0", "e1"], "a": ["a2"]}},
        {"new": ["f"], "images": {"f": ["f0", "f1"], "b": ["b2"], "d": ["d2"]}},
    ),
    test={name: [f"{name}/{i}" for i in range(2)] for name in CLASSES},
)


def pictures(colours: dict[str, str]) -> ArrayPictures:
    """A picture for each key, of the colour of a class."""
    made = ArrayPictures(np.array([np.full((16, 16, 3), COLOURS[name]) for name in colours.values()], np.uint8))
    made.keys = tuple(colours)
    return made


IMAGES = Images(
    name="colours",
    classes=tuple(CLASSES),
    train=pictures({f"{name}{i}": name for name in CLASSES for i in range(3)}),
    train_labels=np.arange(6).repeat(3),
    test=pictures({f"{name}/{i}": colour for name in CLASSES for i, colour in enumerate(TEST[name])}),
    test_labels=np.arange(6).repeat(2),
)


# The method, and what counts beside it


@dataclass(frozen=True, kw_only=True)
class NearestConfig(MethodConfig):
    """How many epochs it trains, and after which of them it takes every picture for one of class a."""

    epochs: int = 2
    confused: tuple[int, ...] = ()


class Nearest(Method):
    """Knows each class by its colour, and takes the colours that are strangest to it for the new classes."""

    family = "nearest"
    trains = False
    features_only = True

    config: NearestConfig

    def fit(self, labelled, training):
        self._remember(labelled)
        yield from ()

    def discover(self, unlabelled, num_new, training):
        self._find(unlabelled, num_new)
        yield from ()

    def logits(self, tokens):
        return 100 * self._cosines(tokens)

    def familiarity(self, tokens, probabilities):
        return (self._cosines(tokens).amax(1) > 0.95).float()

    def _cosines(self, tokens) -> Tensor:
        return nn.functional.normalize(self.tail(tokens), dim=-1) @ self.memory.prototypes.T

    def _remember(self, labelled) -> None:
        self.memory.replace(*class_means(self.unit_features(labelled), labelled.labels, torch.zeros(3, self.tail.dim)))

    def _find(self, unlabelled, num_new) -> None:
        features, known = self.unit_features(unlabelled), self.memory.prototypes
        for _ in range(num_new):
            strangest = features[(features @ known.T).amax(1).argmin()]
            known = torch.cat([known, strangest[None]])
        counts = (features @ known.T).argmax(1).bincount(minlength=len(known))
        self.memory.replace(known, torch.cat([self.memory.counts, counts[self.num_classes :]]))


class Tuned(Nearest):
    """It trains as well: a little of its tail, and a number from which 1 is taken away in each epoch."""

    trains = True
    features_only = False

    def __init__(self, tail, config):
        super().__init__(tail, config)
        self.countdown = nn.Parameter(torch.zeros(()))

    def fit(self, labelled, training):
        yield from self._epochs(labelled, training, labelled.views.trained())
        self._remember(labelled)

    def discover(self, unlabelled, num_new, training):
        self._find(unlabelled, num_new)
        yield from self._epochs(unlabelled, training, {})

    def logits(self, tokens):
        confused = -round(float(self.countdown)) in self.config.confused
        return super().logits(tokens) + confused * 1000 * (torch.arange(self.num_classes) == 0)

    def _epochs(self, served, training, others) -> Iterator:
        self.countdown.data.zero_()
        yield from training.run(
            {"method": self, **others},
            Schedule(epochs=self.config.epochs, rate=1.0, floor=1.0, momentum=0.0, weight_decay=0.0),
            lambda: served.batches(len(served), training.generator),
            lambda batch, _: {"countdown": 1 * self.countdown, "tail": 0.001 * batch.through(self.tail)[:, 0].mean()},
        )


class Rehearsing(Tuned):
    """It rehearses: as many epochs again."""

    rehearses = True

    def rehearse(self, labelled, training):
        self.rehearsed = labelled.views.trained()
        yield from self._epochs(labelled, training, labelled.views.trained())
        self._remember(labelled)


class Calibrated(Nearest):
    """It calibrates, in two steps."""

    calibrates = True

    def fit(self, labelled, training, advance):
        advance(2, total=2)
        yield from super().fit(labelled, training)


class Told:
    """Is told how many new classes a stage has; remembers the random numbers that it drew, and what it followed."""

    estimates = True

    def __init__(self, data: StageData):
        self.data, self.ready = data, False
        self.state = {"drawn": torch.empty(0), "followed": torch.empty(0)}

    def learn(self, generator, progress):
        self.data.labelled_features(1)
        self._draw(generator)
        self.ready = True

    def count(self, stage, unlabelled, generator, progress):
        self._draw(generator)
        return (Count(2, 1, 3, [1, 2, 3], [0.2, 0.5, 0.3]), Count(1, 1, 1, [1], [1.0]))[stage - 1]

    def follow(self, stage, unlabelled):
        self.state["followed"] = torch.cat([self.state["followed"], torch.tensor([stage, len(unlabelled)])])

    def _draw(self, generator) -> None:
        self.state["drawn"] = torch.cat([self.state["drawn"], torch.rand(1, generator=generator)])

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state, self.ready = state, True


# Runs


class Shown(Progress):
    """Remembers what was shown."""

    def __init__(self):
        self.messages, self.steps = [], {}

    def step(self, title, total=None):
        self.steps[title] = []
        return lambda steps, total=None, loss=None: self.advanced(title, steps, total, loss)

    def advanced(self, title, steps, total, loss):
        self.steps[title].append((steps, total, loss))

    def message(self, text):
        self.messages.append(text)


class Killed(BaseException):
    """Stands for a kill."""


PRETRAINING = ParametricConfig(
    base_optimizer="adamw", base_rate=1e-3, base_epochs=2, projector_hidden=8, projector_out=4, projector_deviation=0.3
)


def backbone(width: int = 24) -> Backbone:
    """A new backbone, always with the same weights."""
    model = small_vit(embed_dim=width)
    tail = Tail(model)  # before the trunk takes the last block away
    return Backbone(Trunk(model, "small", (0.5,) * 3, (0.25,) * 3), tail)


def loop(
    folder: Path,
    method: type[Method] = Tuned,
    config: NearestConfig | None = None,
    *,
    scratch: bool = False,
    counter: type[Told] | None = None,
    pretraining: ParametricConfig | None = None,
    start: Path | None = None,
    ranks: Ranks = ALONE,
    width: int = 24,
    **values,
) -> Loop:
    """A loop over a new run folder, or over the one that is there; with `scratch` the backbone is to be trained."""
    values = LoopConfig(**{"views": 2, "workers": 0, "checkpoint_seconds": 0, **values})
    progress, config = Shown(), config or NearestConfig()
    parts = backbone(width)
    data = StageData(
        images=IMAGES,
        split=SPLIT,
        backbone=parts,
        scratch=scratch,
        method=method,
        method_config=config,
        config=values,
        folder=folder,
        progress=progress,
        ranks=ranks,
    )
    return Loop(
        data=data,
        method=method(data.vectors() if method.features_only else copy.deepcopy(parts.tail), config),
        counter=counter(data) if counter else KnownNumber([2, 1]),
        record=Record.open(folder, METADATA, SPLIT, resume=True, ranks=ranks),
        config=values,
        progress=progress,
        pretraining=pretraining,
        start=Record(start) if start else None,
    )


def run(folder: Path, *args, **changes) -> Loop:
    """Run it, and give the loop."""
    made = loop(folder, *args, **changes)
    with made.record:
        made.run()
    return made


def files(folder: Path) -> dict[str, bytes]:
    """What a run says of its epochs and stages, file by file."""
    paths = [*folder.glob("*s.jsonl"), *folder.glob("*.csv"), *folder.glob("stages/*/*")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def names(folder: Path) -> list[set[str]]:
    """The names of the files of each stage's tensors."""
    stages = sorted((folder / "stages").iterdir())
    return [{path.stem for path in stage.glob("*.safetensors")} for stage in stages]


def stored(root: Path) -> list[tuple[str, int, int]]:
    """What is stored below a folder: tokens or features, of how many pictures, and of how many views of each."""
    found = (store.recipe for store in stores_below(root))
    return sorted((recipe.kind, recipe.num_pictures, len(recipe.view_names)) for recipe in found)


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module", autouse=True)
def no_power_cut():
    """Nothing here has to survive one, and most of the time would be spent on waiting for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Loop:
    """A run that was not interrupted, of a backbone from scratch and with an estimated number of classes."""
    return run(tmp_path_factory.mktemp("whole") / "run", scratch=True, counter=Told)


# A stage in words


@pytest.mark.parametrize(
    ("stage", "new", "line"),
    [(0, None, "Stage-0: All 81.2"), (2, 55.56, "Stage 2: All 81.2   Old 90.0   New 55.6")],
)
def test_a_finished_stage_in_one_line(stage, new, line):
    assert stage_line(stage, {"all": 81.24, "old": 90.0, "new": new}) == line


def test_what_is_said(whole):
    *plan, first, second, third, fourth, fifth = whole.progress.messages
    assert plan[0] == "Stage-0: 3 labelled classes, 6 images, fresh views"
    assert [line.split(" images")[0] for line in plan[1:]] == [
        "Stage 1: 2 new classes, 5",
        "Stage 2: 1 new classes, 4",
    ]
    assert first == "Stage-0: All 83.3"
    assert second == "Stage 1: 2 new classes estimated, between 1 and 3"
    assert third == "Stage 1: All 80.0   Old 83.3   New 75.0"
    assert fourth == "Stage 2: 1 new class estimated"
    assert fifth == "Stage 2: All 75.0   Old 80.0   New 50.0"


def test_each_epoch_is_shown_with_its_loss(whole):
    losses = [line["loss"] for line in whole.record.epochs()]
    steps = whole.progress.steps.items()
    assert {title: done for title, done in steps if title.endswith(("training", "discovering"))} == {
        title: [(1, 2, loss) for loss in losses[2 * stage : 2 * stage + 2]]
        for stage, title in enumerate(("Stage-0: training", "Stage 1: discovering", "Stage 2: discovering"))
    }


# What is recorded


def test_the_lines_of_the_epochs(whole):
    lines = whole.record.epochs()
    assert [(line["stage"], line["epoch"]) for line in lines] == [(s, e) for s in range(3) for e in (1, 2)]
    for line in lines:
        assert line.keys() == {"stage", "epoch", "loss", "terms"}  # without an oracle, nothing of the test images
        assert line["terms"]["countdown"] == 1 - line["epoch"]
        assert line["loss"] == sum(line["terms"].values())


def test_the_csv_files_hold_what_is_recorded(whole):
    with open(whole.record.folder / "epochs.csv", newline="") as file:
        losses = [float(row["value"]) for row in csv.DictReader(file) if row["term"] == "loss"]
    with open(whole.record.folder / "stages.csv", newline="") as file:
        accuracies = [float(row["all"]) for row in csv.DictReader(file)]
    assert losses == [line["loss"] for line in whole.record.epochs()]
    assert accuracies == [scores["all"] for scores in whole.record.stage_scores()]


def test_the_scores_by_hand(whole):
    """Of each stage's test pictures, two a class, those of another class's colour are wrong."""
    scores = whole.record.stage_scores()
    for group, expected in {
        "all": [500 / 6, 80, 75],
        "old": [500 / 6, 500 / 6, 80],
        "new": [None, 75, 50],
        "base": [500 / 6] * 3,
        "strict_all": [500 / 6, 80, 75],  # each head keeps the class that it was found for
        "roc": [500 / 6, 75, None],  # of what is to come, 2 of 6 and then 1 of 2 look like something known
    }.items():
        assert [stage[group] for stage in scores] == pytest.approx(expected), group
    assert [stage["per_class"] for stage in scores] == [
        [100, 50, 100],
        [100, 50, 100, 50, 100],
        [100, 50, 100, 50, 100, 50],
    ]


def test_where_the_images_went(whole):
    record = whole.record
    for stage, scores in enumerate(record.stage_scores()):
        heads = scores["identities"]
        found = {row["image"]: CLASSES[heads[row["predicted"]]] for row in record.assigned(stage)}
        images = SPLIT.stages[stage - 1]["images"] if stage else SPLIT.labelled
        assert found == {key: name for name, keys in images.items() for key in keys}
        rows = record.stage(stage).rows("predictions")
        assert [(row["image"], row["class"]) for row in rows] == [
            (key, c) for c, name in enumerate(CLASSES[: 3 + 2 * (stage > 0) + (stage > 1)]) for key in SPLIT.test[name]
        ]
        looks = [CLASSES[heads[row["predicted"]]] for row in rows]
        assert looks == [name for tests in list(TEST.values())[: len(rows) // 2] for name in tests]
        assert all(row["probability"] > 0.9 for row in rows)


def test_the_metadata_of_a_model(whole):
    models = [whole.record.model(stage) for stage in range(3)]
    assert [model["count"] for model in models] == [
        None,
        Count(2, 1, 3, [1, 2, 3], [0.2, 0.5, 0.3])._asdict(),
        Count(1, 1, 1, [1], [1.0])._asdict(),
    ]
    classes = [{"id": c, "name": name, "stage": 0, "images": 2} for c, name in enumerate("abc")]
    classes += [{"id": c, "name": None, "stage": 1, "images": 2} for c in (3, 4)]
    classes += [{"id": 5, "name": None, "stage": 2, "images": 2}]
    assert [model["classes"] for model in models] == [classes[:3], classes[:5], classes]
    for model in models:
        assert model.keys() - {"files", "sha256"} == {"method", "config", "trunk", "classes", "count"}
        assert (model["method"], model["config"]) == ("tuned", {"epochs": 2, "confused": []})
        trunk = {"name": "small", "image_size": 16, "fingerprint": whole.data.trunk.fingerprint()}
        assert model["trunk"] == trunk


def test_a_known_number_is_no_estimate(tmp_path):
    made = run(tmp_path, Nearest)
    assert [made.record.model(stage)["count"] for stage in range(3)] == [None] * 3
    assert not [line for line in made.progress.messages if "estimated" in line]
    assert names(tmp_path) == [{"model"}] * 3
    assert made.images is IMAGES


# The backbone


def test_a_backbone_from_scratch_is_trained_at_stage_0_and_never_again(whole):
    assert names(whole.record.folder) == [{"model", "counter", "trunk"}, {"model", "counter"}, {"model", "counter"}]
    trunk = whole.data.trunk
    assert same(whole.record.load_state(0, "trunk"), trunk.model.state_dict())
    assert trunk.fingerprint() != backbone().trunk.fingerprint()
    assert not any(value.requires_grad for value in trunk.parameters())


def test_what_counts_beside_a_method_sees_the_backbone_as_it_was_after_stage_0(whole):
    first, last = ({k: v for k, v in whole.record.load_state(t).items() if "tail." in k} for t in (0, 2))
    assert same({f"tail.{name}": value for name, value in whole.data.tail.state_dict().items()}, first)
    assert not same(first, last)


def test_a_backbone_with_weights_stays_as_it_is(tmp_path):
    """Also where new views go through it in each epoch; a method tunes a tail of its own."""
    made, new = run(tmp_path, fresh_views=True, until=1), backbone()
    assert made.data.trunk.fingerprint() == new.trunk.fingerprint()
    assert same(made.data.tail.state_dict(), new.tail.state_dict())
    assert not same(made.method.tail.state_dict(), new.tail.state_dict())
    assert names(tmp_path) == [{"model"}] * 2


def test_a_backbone_is_trained_before_a_method_that_tunes_nothing(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    made, new = run(one, Nearest, scratch=True, pretraining=PRETRAINING), backbone()
    assert [(line["stage"], line["epoch"]) for line in made.record.epochs()] == [(0, 1), (0, 2)]
    assert made.data.trunk.fingerprint() != new.trunk.fingerprint()
    assert not same(made.data.tail.state_dict(), new.tail.state_dict())
    assert names(one) == [{"model", "trunk", "tail"}, {"model"}, {"model"}]
    assert same(made.record.load_state(0, "tail"), made.data.tail.state_dict())
    for until in (0, None):
        again = run(two, Nearest, scratch=True, pretraining=PRETRAINING, until=until)
    assert files(one) == files(two)
    assert same(again.data.tail.state_dict(), made.data.tail.state_dict())


def test_a_tail_is_tuned_before_a_method_that_tunes_nothing(tmp_path):
    """The trunk has its weights and keeps them, also where new views go through it in each epoch."""
    values = {"pretraining": PRETRAINING, "tune_tail": True, "fresh_views": True}
    made, new = run(tmp_path, Calibrated, until=0, **values), backbone()
    assert made.data.trunk.fingerprint() == new.trunk.fingerprint()
    assert not same(made.data.tail.state_dict(), new.tail.state_dict())
    assert names(tmp_path) == [{"model", "tail"}]
    losses = [line["loss"] for line in made.record.epochs()]
    assert made.progress.steps["Stage-0: training"] == [(1, 2, losses[0]), (1, 2, losses[1])]
    assert made.progress.steps["Stage-0: calibrating"] == [(2, 2, None)]


# Going on


def test_a_run_that_stops_after_each_stage_is_the_same(whole, tmp_path):
    for until in (0, 1, None):
        made = run(tmp_path, scratch=True, counter=Told, until=until)
        assert len(made.record.stage_scores()) == (3 if until is None else until + 1)
    assert files(tmp_path) == files(whole.record.folder)
    assert same(made.data.tail.state_dict(), whole.data.tail.state_dict())


def test_a_killed_run_goes_on_where_its_last_checkpoint_is(tmp_path, monkeypatch):
    """An epoch takes ten seconds, a checkpoint is due after thirty, and the kill comes in the fifth epoch."""
    clock, values = Clock(), {"config": NearestConfig(epochs=6), "checkpoint_seconds": 30, "until": 0}
    monkeypatch.setattr("happycat.benchmark.loop.time", clock)
    run(tmp_path / "whole", **values)
    made = loop(tmp_path / "run", **values)
    made.progress.advanced = clock.advanced
    with pytest.raises(Killed), made.record:
        made.run()
    made = run(tmp_path / "run", **values)
    assert [steps for steps, *_ in made.progress.steps["Stage-0: training"]] == [4, 1, 1]
    assert files(tmp_path / "run") == files(tmp_path / "whole")


class Clock:
    """Ten seconds pass in each epoch; in the fifth there is a kill."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def advanced(self, title, *_):
        self.now += 10 * (title == "Stage-0: training")
        if self.now == 50:
            raise Killed


def test_a_state_that_does_not_fit_the_backbone(whole, tmp_path):
    made = loop(tmp_path, scratch=True, width=12)
    with made.record, pytest.raises(DamagedError, match=r"run does not fit the method .* \(size mismatch for .*\)$"):
        made.load(whole.record, 0)


# Stage-0 of another run


def test_a_count_is_learned_before_the_first_stage_if_stage_0_is_that_of_another_run(whole, tmp_path):
    """It draws the numbers that it would have drawn at Stage-0, and nothing is left of the labelled images."""
    run(tmp_path / "start", scratch=True, until=0)
    made = loop(tmp_path / "run", scratch=True, counter=Told, start=tmp_path / "start", until=1)
    with made.record:
        made.record.adopt(Record(tmp_path / "start"), "tuned", {})
        assert len(made.run()) == 2
    assert made.record.load_state(0).keys() == whole.record.load_state(0).keys()
    assert made.record.stage_scores() == whole.record.stage_scores()[:2]
    assert same(made.record.load_state(1), whole.record.load_state(1))
    assert same(made.record.load_state(1, "counter"), whole.record.load_state(1, "counter"))
    assert not [store for store in stored(tmp_path / "run") if store[0] == "features"]


def test_only_the_rehearsal_is_done_on_stage_0_of_another_run(tmp_path):
    run(tmp_path / "start", scratch=True, until=0)
    made = run(tmp_path / "run", Rehearsing, scratch=True, start=tmp_path / "start", until=0)
    assert [line["epoch"] for line in made.record.epochs()] == [1, 2]
    first, second = Record(tmp_path / "start"), made.record
    assert same(first.load_state(0, "trunk"), second.load_state(0, "trunk"))
    assert not same(first.load_state(0), second.load_state(0))
    assert second.stage_scores()[0]["all"] == pytest.approx(500 / 6)


def test_a_rehearsal_follows_stage_0_and_leaves_the_backbone_alone(tmp_path):
    made = run(tmp_path, Rehearsing, scratch=True, until=0, fresh_views=True)
    assert [line["epoch"] for line in made.record.epochs()] == [1, 2, 3, 4]
    assert not made.method.rehearsed  # nothing of what served the images


def test_the_random_numbers_of_a_count_never_change(whole):
    """They depend on the seed and the stage: with others, every recorded estimate would be another."""
    drawn = whole.record.load_state(2, "counter")["drawn"]
    assert drawn.tolist() == pytest.approx([0.4673761, 0.1159642, 0.3043549])


def test_a_count_follows_each_stage(whole):
    """It is told of the stages, and of all of their images, after them."""
    followed = [whole.record.load_state(stage, "counter")["followed"].tolist() for stage in range(3)]
    assert followed == [[], [1, 5], [1, 5, 2, 4]]


# The oracle


def test_the_oracle_takes_the_first_of_the_best_epochs_of_each_stage(tmp_path):
    """In the first epoch and in the last the method is confused: two of the pictures are right."""
    made = run(tmp_path, Rehearsing, NearestConfig(epochs=4, confused=(1, 4)), select="oracle")
    accuracies = [line.get("test_all") for line in made.record.epochs()]
    assert accuracies[:4] == [None] * 4  # it knows no class yet
    for stage, (first, best) in enumerate([(100 / 3, 500 / 6), (20, 80), (100 / 6, 75)], 1):
        assert accuracies[4 * stage : 4 * stage + 4] == pytest.approx([first, best, best, first])
        assert made.record.stage_scores()[stage - 1]["all"] == pytest.approx(best)
        assert made.record.load_state(stage - 1)["countdown"] == -2


# What is stored


def test_nothing_is_stored_when_a_run_is_over(whole):
    assert stored(whole.record.folder) == []
    assert not [line for line in whole.progress.messages if "belonged to nobody" in line]


def test_the_test_images_stay_stored_until_the_run_is_over(tmp_path):
    run(tmp_path, Nearest, until=1)
    assert stored(tmp_path) == [("features", 2, 1), ("features", 4, 1), ("features", 6, 1)]
    run(tmp_path, Nearest)
    assert stored(tmp_path) == []


def test_what_a_kill_left_of_a_finished_stage_is_deleted(tmp_path):
    made = loop(tmp_path, until=0)
    made.data.forget = killed
    with pytest.raises(Killed), made.record:
        made.run()
    assert ("tokens", 6, 3) in stored(tmp_path)
    run(tmp_path, until=0)
    assert ("tokens", 6, 3) not in stored(tmp_path)
    assert ("tokens", 6, 1) in stored(tmp_path)


def killed(*_):
    raise Killed


def test_what_belongs_to_nobody_any_more_is_deleted(tmp_path):
    """At first that of a run that is gone; when this one is over, what an earlier kill of it has left."""
    root = tmp_path / "tokens"
    leave_features(tmp_path / "gone", root, "a0")
    shutil.rmtree(tmp_path / "gone")
    leave_features(tmp_path / "run", root, "a0", "b0", "c0")
    said = f"features that belonged to nobody any more were deleted from {root}"
    assert [number for _, number, _ in stored(root)] == [1, 3]
    made = run(tmp_path / "run", Nearest, until=0, tokens=root)
    assert made.progress.messages.count(said) == 1
    assert [number for _, number, _ in stored(root)] == [2, 3, 4, 6]
    made = run(tmp_path / "run", Nearest, tokens=root)
    assert made.progress.messages.count(said) == 1
    assert stored(root) == []


def leave_features(folder: Path, root: Path, *keys: str) -> None:
    """Have a run store features of some pictures, and end as if it were killed."""
    made = loop(folder, Nearest, tokens=root)
    with made.record:
        made.data.extractor.extract(Subset(IMAGES.train, list(keys)), ("centre",), nobody, root)


# Several processes


class Second(Ranks):
    """Stands for a process that is not the first, while the first does its part."""

    first = False


def test_one_process_alone_writes_the_logs(tmp_path):
    made = run(tmp_path, Nearest, ranks=Second())
    assert [scores["all"] for scores in made.record.stage_scores()] == pytest.approx([500 / 6, 80, 75])
    assert not list(tmp_path.glob("*.csv"))
