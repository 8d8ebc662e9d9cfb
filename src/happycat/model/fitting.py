"""Fitting and discovery: classes are learned from labelled images, and new ones found among unlabelled images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from happycat.backbone.extraction import VIEWS, FeatureExtractor
from happycat.backbone.tail import Vectors
from happycat.base.progress import Progress
from happycat.base.seeding import seeded
from happycat.images.collecting import Gathered
from happycat.images.sources import Label
from happycat.learning.batches import Labelled, Unlabelled, VectorViews
from happycat.learning.training import Training
from happycat.methods.calm.method import Calm, CalmConfig
from happycat.model.checks import check_differ, numbered_classes
from happycat.model.classes import assignments, count_images, labelled_classes, remember, take_up
from happycat.model.embedding import embed, trained, unit_embeddings
from happycat.model.knowledge import Knowledge
from happycat.model.results import Discovery, FitReport
from happycat.model.storage import State
from happycat.model.validation import held_out, validate


def fit_classes(
    extractor: FeatureExtractor | None,
    gathered: Gathered,
    labels: Sequence[Label],
    seed: int,
    progress: Progress,
    cache_dir: str | Path | None,
) -> tuple[State, FitReport]:
    """Learn the labelled classes, and the accuracy on images that were held out at first."""
    names, truth = numbered_classes(labels)
    progress.message(f"{len(truth)} images of {len(names)} classes")
    validation = held_out(truth, seeded(seed, "held out"))
    state = trained(extractor, gathered.pictures, truth, ~validation, Training(seeded(seed, "backbone")), progress)
    features = embed(extractor, gathered.pictures, VIEWS, progress, cache_dir)
    check_differ(features)
    advance = progress.step("learning")
    calm = Calm(Vectors(features.shape[-1]), CalmConfig())
    if state:
        calm.load_state_dict(state)
    else:
        some = Labelled(VectorViews(features[~validation]), truth[~validation])
        list(calm.fit(some, Training(seeded(seed, "fit")), advance))
    held = Labelled(VectorViews(features[validation][:, :1]), truth[validation])
    report = validate(calm, held, gathered, names)
    calm.relearn(Labelled(VectorViews(features), truth), held)
    points = calm.space(unit_embeddings(features))
    registry = labelled_classes(calm, points, truth, names)
    count_images(registry, points, calm.softmax_temperature, 0)
    mean_cosine = float((points * calm.memory.prototypes[truth]).sum(1).mean())
    return State(calm, registry, 0, mean_cosine, seed), report


def discover_classes(
    state: State,
    gathered: Gathered,
    features: Tensor,
    number: int | None,
    generator: torch.Generator,
    progress: Progress,
) -> Discovery:
    """Find new classes among the images with these features (N, V, D); their number is estimated if it is None.

    Calm and the registry of the state take them up. `state.stage` is that of the discoveries before this one.
    """
    calm, registry, stage = state.calm, state.registry, state.stage + 1
    progress.message(f"{len(features)} images; {len(registry)} classes are known")
    served, count = Unlabelled(VectorViews(features)), None
    remember(calm, registry)
    if number is None:
        count = calm.count(served, generator, advance=progress.step("counting new classes"))
        number = count.number
    progress.step("discovering")
    list(calm.discover(served, number, Training(generator)))
    points = calm.space(unit_embeddings(features))
    new = take_up(registry, calm, points, stage)
    decision = count_images(registry, points, calm.softmax_temperature, stage)
    return Discovery(
        new=new,
        assigned=assignments(registry, gathered.pictures.keys, decision),
        count=count,
        doubt="" if count is None else Knowledge.of(registry).doubt,
        points=points,
        pictures=gathered.pictures,
        skipped=gathered.skipped,
        duplicates=len(gathered.duplicates),
    )
