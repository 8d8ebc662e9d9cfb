"""Fitting and discovery: classes are learned from labelled images, and new ones found among unlabelled images."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.backbone.extraction import FeatureExtractor
from happycat.backbone.patches import vectors_of
from happycat.backbone.tail import Vectors
from happycat.base import tables
from happycat.base.products import computing
from happycat.base.progress import Progress
from happycat.base.ranks import ALONE, Helped
from happycat.base.seeding import seeded
from happycat.base.threads import features_flops
from happycat.images.collecting import Gathered
from happycat.images.sources import Label
from happycat.learning.batches import Labelled, VectorViews
from happycat.learning.training import Training
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from happycat.methods.calm.number import NOTHING_NEW
from happycat.model.checks import check_differ, check_enough, numbered_classes
from happycat.model.chosen import Chosen
from happycat.model.classes import assignments, count_images, decide, labelled_classes, remember, take_up
from happycat.model.constraints import barred_rows
from happycat.model.embedding import embed, trained
from happycat.model.knowledge import Knowledge
from happycat.model.registry import ClassRegistry
from happycat.model.results import Discovery, FitReport
from happycat.model.statements import NOBODY, as_bytes
from happycat.model.storage import State
from happycat.model.validation import held_out, validate


def fit_classes(
    extractor: FeatureExtractor | None,
    gathered: Gathered,
    labels: Sequence[Label],
    seed: int,
    progress: Progress,
    cache_dir: str | Path | None,
    views: tuple[str, ...],
    class_token: int | None = None,
) -> tuple[State, FitReport]:
    """Learn the labelled classes from these views, and the accuracy on images that were held out at first.

    Of vectors, the first `class_token` numbers are a class token, and what follows is of patch tokens.

    Several processes share the extraction and the calibration; the first one goes on alone.
    """
    ranks = ALONE if extractor is None else extractor.ranks
    names, truth = numbered_classes(labels)
    progress.message(f"{len(truth)} images of {len(names)} classes")
    validation = held_out(truth, seeded(seed, "held out"))
    training = Training(seeded(seed, "backbone"))
    state = trained(extractor, gathered.pictures, truth, ~validation, training, progress, views)
    features = embed(extractor, gathered.pictures, views, progress, cache_dir, helpers_stay=True)
    check_differ(features)
    with computing(features_flops(features)):
        advance = progress.step("learning")
        vectors = Vectors(features.shape[-1], class_token) if extractor is None else vectors_of(extractor.tail)
        calm = Calm(vectors, CalmConfig())
        if state:
            calm.load_state_dict(state)
        else:
            some = Labelled(VectorViews(features[~validation], ranks), truth[~validation])
            list(calm.fit(some, Training(seeded(seed, "fit"), ranks=ranks), advance))
        if not ranks.first:
            raise Helped
        held = Labelled(VectorViews(features[validation][:, :1]), truth[validation])
        report = validate(calm, held, gathered, names)
        calm.relearn(Labelled(VectorViews(features), truth), held)
        points = mean_points(calm, features[:, :1])
        registry = labelled_classes(calm, points, mean_points(calm, features), truth, names)
        count_images(registry, points, calm.softmax_temperature, 0)
        mean_cosine = float((points * calm.memory.prototypes[truth]).sum(1).mean())
        return State(calm, registry, 0, mean_cosine, seed), report


def discover_classes(
    state: State, gathered: Gathered, features: Tensor, number: int | None, progress: Progress
) -> Discovery:
    """Find new classes among the images with these features (N, V, D); their number is estimated if it is None.

    Calm and the registry of the state take them up. `state.stage` is that of the discoveries before this one.
    """
    calm, registry, stage = state.calm, state.registry, state.stage + 1
    progress.message(f"{len(features)} images; {len(registry)} classes are known")
    digests = gathered.pictures.contents()
    free, barred = searched(registry, digests)
    remember(calm, registry)
    with computing(features_flops(features)):
        learned = mean_points(calm, features)
        points = mean_points(calm, features[:, :1]) if features.shape[1] > 1 else learned
        whole = len(free) == len(features)
        free_points, free_learned = (part if whole else tables.taken(part, free) for part in (points, learned))
        check_enough(len(free), number)
        progress.step("looking for groups of images")
        search, count = calm.search(free_learned, barred) if len(free) else None, None
        if number is None:
            advance = progress.step("counting new classes")
            count = NOTHING_NEW if search is None or len(free) < 2 else calm.estimate(search, len(free) - 1, advance)
            number = count.number
        progress.step("discovering")
        if search is not None:
            calm.learn(free_learned, search.best(number, float(calm.temperature)))
        counted = np.full(len(features), -1, np.int64)
        new, counted[free] = take_up(registry, calm, free_points, free_learned, stage)
        decision = count_images(registry, points, calm.softmax_temperature, stage, digests)
    return Discovery(
        new=new,
        assigned=assignments(registry, gathered.pictures.keys, decision, digests),
        count=count,
        doubt="" if count is None else Knowledge.of(registry).doubt,
        points=points,
        learned=learned,
        digests=digests,
        counted=counted,
        pictures=gathered.pictures,
        skipped=gathered.skipped,
        duplicates=len(gathered.duplicates),
    )


def searched(registry: ClassRegistry, digests: np.ndarray, settled: Collection[int] = ()) -> tuple[Tensor, Tensor]:
    """The places of images whose class nobody said, among which new classes are looked for; not those `settled`.

    Then pairs (P, 2) of a place among these and a row of Calm's memory, of a class that the image is not of.
    """
    said = registry.statements.of(digests)
    checked = {i for i, statement in said.items() if statement.checked} | set(settled)
    free = torch.tensor([i for i in range(len(digests)) if i not in checked], dtype=torch.long)
    place = {i: new for new, i in enumerate(free.tolist())}
    pairs = [(place[i], row) for i, row in barred_rows(registry, said).tolist() if i in place]
    return free, torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)


def mean_points(calm: Calm, features: Tensor) -> Tensor:
    """Images in the space, (N, d), each the mean of its views' unit features (N, V, D), as classes are learned."""
    parts = (calm.space(normalize(some, dim=-1).mean(1)) for some in features.split(tables.ROWS))
    return tables.joined(parts, len(features))


def chosen_images(
    state: State, features: Tensor, digests: np.ndarray, counted: Mapping[bytes, int] | None = None
) -> Chosen:
    """Images with these features (N, V, D) and digests (N, 16), of which a person speaks; `counted` as in `Chosen`."""
    calm, registry = state.calm, state.registry
    points = mean_points(calm, features[:, :1])
    ids = [entry.id for entry in registry]
    given = decide(registry, calm.softmax_temperature, points, digests).assigned.tolist()
    names = as_bytes(digests)
    return Chosen(
        digests=names,
        points=mean_points(calm, features).numpy(),
        counted=np.array([(counted or {}).get(name, NOBODY) for name in names], np.int64),
        given=[ids[one] if one >= 0 else None for one in given],
        slack=float(calm.shortfall + 2 * calm.deviation),
    )
