"""The runs of an experiment: what those on one data set share, which stages are done, what is left to compute."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from happycat.backbone.config import Backbone, FeatureBackbone, build, build_for_features, build_untrained
from happycat.backbone.tail import Tail
from happycat.base.errors import HubError, InputError
from happycat.base.progress import SILENT
from happycat.base.strict_json import as_json
from happycat.benchmark.data import Extraction, StageData
from happycat.benchmark.held_out import with_held_out
from happycat.benchmark.protocol import Split
from happycat.benchmark.record import Record
from happycat.benchmark.setup import (
    Request,
    check_start,
    chosen_backbone,
    configs,
    load_images,
    method_config,
    run_metadata,
    the_split,
)
from happycat.images.datasets import PUBLISHED
from happycat.images.datasets.outline import outline
from happycat.methods import METHODS
from happycat.methods.method import MethodConfig, TrainedConfig


class Setting:
    """What all runs on one data set have in common, loaded once."""

    def __init__(self, request: Request, planned: bool = False):
        """Of a data set that is only planned with, and of its backbone, the files need not be there."""
        self.request, self.planned = request, planned
        self.notes: list[str] = []  # what a plan was made without
        try:
            self.data = load_images(request)
        except InputError as error:
            if not planned or request.dataset not in PUBLISHED:
                raise
            self.data = with_held_out(outline(request.dataset)) if request.held_out else outline(request.dataset)
            number = len(self.data.train) + len(self.data.test)
            self.notes.append(f"planned by its published size, {number:,} images, for want of its files ({error})")
        self.backbone = chosen_backbone(request.backbone, self.data)
        self.scratch = self.backbone.from_scratch
        self._splits: dict[str, Split] = {}
        self._parts: dict[int, Backbone | FeatureBackbone] = {}

    def split(self, protocol: dict) -> Split:
        key = json.dumps(protocol, sort_keys=True)
        if key not in self._splits:
            self._splits[key] = the_split(with_protocol(self.request, protocol), self.data)
        return self._splits[key]

    def parts(self, seed: int, any_model: bool) -> Backbone | FeatureBackbone:
        """Trunk and tail, loaded once; those of a backbone from scratch depend on the seed.

        A model without a class token is refused, unless `any_model` will do.
        """
        key = seed if self.scratch else 0
        there = self._parts.get(key)
        if there is None or not (any_model or isinstance(there.tail, Tail)):
            there = self._parts[key] = self._build(seed, any_model)
        return there

    def _build(self, seed: int, any_model: bool) -> Backbone | FeatureBackbone:
        try:
            return (build_for_features if any_model else build)(self.backbone, seed)
        except HubError as error:
            if not self.planned:
                raise
            self.notes.append(f"planned with random weights ({error})")
            return build_untrained(self.backbone)

    def config(self, method: str, values: dict) -> MethodConfig:
        return method_config(method, self.request.flavour, self.data, values)[1]


def with_protocol(request: Request, protocol: dict) -> Request:
    """The request with these values of the protocol; an order that is shuffled takes the place of a given one."""
    order = request.class_order if protocol.get("order_seed") is None else None
    return replace(request, protocol_values=protocol, class_order=order)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run: what it is called in the plan, and what to run."""

    title: str
    request: Request
    setting: Setting

    @property
    def name(self) -> str:
        """Its method, or which part of one it is."""
        return "Stage-0" if self.request.loop.until == 0 else self.request.method

    @property
    def tokens(self) -> Path:
        """Where it stores tokens and features."""
        return self.request.loop.tokens or self.request.out / "tokens"

    @property
    def num_stages(self) -> int:
        """How many stages it has when it is done, Stage-0 included."""
        until = self.request.loop.until
        return until + 1 if until is not None else len(self.split.stages) + 1

    @property
    def split(self) -> Split:
        return self.setting.split(self.request.protocol_values)

    @property
    def config(self) -> MethodConfig:
        return configs(self.request, self.setting.data, self.setting.scratch)[1]

    @property
    def features_only(self) -> bool:
        """Whether its method tunes nothing, and is served features."""
        return METHODS[self.request.method][0].features_only

    @property
    def parts(self) -> Backbone | FeatureBackbone:
        """Trunk and tail; for a method that needs features only, those of any timm model."""
        any_model = self.features_only and not self.request.loop.tune_tail
        return self.setting.parts(self.request.loop.seed, any_model)

    def done(self) -> int:
        """How many of its stages are on disk."""
        return min(self.num_stages, len(Record(self.request.out).stage_scores()))

    def finished(self) -> bool:
        """Whether the run is there, whole and with the values asked for; another in its place is a mistake."""
        request, folder = self.request, self.request.out
        if not (folder / "run.json").exists() or self.done() < self.num_stages:
            return False
        setting, trunk = self.setting, self.parts.trunk
        method_class, config, pretraining = configs(request, setting.data, setting.scratch)
        start = Record(request.start) if request.start else None
        if start:
            config = check_start(
                start, method_class, config, request.method_values, self.split, trunk, setting.backbone
            )
        asked = run_metadata(request, config, pretraining, setting.data, trunk, request.loop, start)["numbers"]
        there = Record(folder).metadata()["numbers"]
        if changed := [name for name, value in as_json(asked).items() if there.get(name) != value]:
            raise InputError(f"{folder} was run with another {changed[0]}; give another folder, or delete it")
        return True

    def training_views(self) -> int:
        """Views that are still to be trained on: two of each image and epoch."""
        if not METHODS[self.request.method][0].trains:
            return 0
        config, total = self.config, 0
        assert isinstance(config, TrainedConfig)  # what is trained has epochs
        for stage in range(self.done(), self.num_stages):
            if stage == 0 and self.request.start:
                continue
            served = self.split.stages[stage - 1]["images"] if stage else self.split.labelled
            number = sum(map(len, served.values())) // config.batch_size * config.batch_size
            total += 2 * number * (config.epochs if stage else config.base_epochs)
        return total

    def extraction(self) -> Extraction:
        """The views whose tokens or features are not on disk yet, and the room that all of them take there."""
        setting, request = self.setting, self.request
        method_class, config, _ = configs(request, setting.data, setting.scratch)
        data = StageData(
            images=setting.data,
            split=self.split,
            backbone=self.parts,
            scratch=setting.scratch,
            method=method_class,
            method_config=config,
            config=request.loop,
            folder=request.out,
            progress=SILENT,
        )
        return data.extraction(self.num_stages)
