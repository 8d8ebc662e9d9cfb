"""From Calm's prototypes to the class registry and back: classes are taken up with their split trees and thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from happycat.base.errors import StorageError
from happycat.images.sources import Label
from happycat.methods.calm.method import Calm
from happycat.methods.calm.prediction import Decision, PredictionRule, nearest
from happycat.model.constraints import constrained
from happycat.model.registry import ClassRegistry
from happycat.model.results import CONFIRMED, IGNORED, Assignment
from happycat.model.review import review_of_stage
from happycat.model.splitting import split_trees

SURE = 0.5  # the probability from which an image is not doubtful


def rule_of(registry: ClassRegistry, temperature: Tensor) -> PredictionRule:
    """The rule of prediction over the living classes, in the order of the registry."""
    active, pool = registry.active(), registry.pool
    prototypes, thresholds = (torch.from_numpy(column[active.rows]) for column in (pool.vectors, pool.thresholds))
    return PredictionRule(prototypes, torch.from_numpy(active.owner), len(registry), temperature, thresholds)


def decide(registry: ClassRegistry, temperature: Tensor, points: Tensor, digests: np.ndarray | None) -> Decision:
    """The class of each image at `points` (N, d), by the rule of prediction and what was said of images.

    Images are known again by their `digests` (N, 16); without them, nothing was said of any.
    """
    if points.shape[1] != (dimensions := registry.pool.vectors.shape[1]):
        raise StorageError(f"points of {points.shape[1]} dimensions are none of this model, which has {dimensions}")
    rule, said = rule_of(registry, temperature), {} if digests is None else registry.statements.of(digests)
    return constrained(rule.decide(points), rule, points, registry, said)


def count_images(
    registry: ClassRegistry, points: Tensor, temperature: Tensor, stage: int, digests: np.ndarray | None = None
) -> Decision:
    """Count the images of a stage, `points` (N, d), by the classes that they are given now; returns these."""
    decision = decide(registry, temperature, points, digests)
    registry.count(decision.assigned.tolist(), stage)
    return decision


def count_again(registry: ClassRegistry, model: Path, temperature: Tensor, stage: int) -> None:
    """Count the images of a model file's last discovery, that of `stage`, if corrections made estimates of the counts.

    Without its review, which belongs to the person and may be gone, estimates is what they stay.
    """
    if registry.counts is None or not registry.counts.exact:
        review = review_of_stage(model, stage)
        if review is not None:
            count_images(registry, torch.from_numpy(review.points), temperature, stage, review.digests)


def remember(calm: Calm, registry: ClassRegistry) -> int:
    """Give Calm the prototypes that are in use, those of dropped classes too; their number is returned."""
    rows, pool = registry.active().rows, registry.pool
    prototypes, counts, thresholds = (
        torch.from_numpy(column[rows]) for column in (pool.vectors, pool.counts, pool.thresholds)
    )
    calm.memory.replace(prototypes, counts)
    calm.thresholds = thresholds
    return len(rows)


def labelled_classes(
    calm: Calm, points: Tensor, learned: Tensor, labels: Tensor, names: Sequence[Label]
) -> ClassRegistry:
    """A new registry with the classes that Calm has learned.

    `points` (N, d) are the labelled images' centre views, `learned` (N, d) their means over views, of which the
    prototypes are made.
    """
    members = [(labels == c).nonzero()[:, 0] for c in range(len(names))]
    registry = ClassRegistry()
    for name, tree in zip(names, split_trees(calm.rule(), points, members, 0, learned), strict=True):
        registry.add(name, 0, tree)
    return registry


def take_up(
    registry: ClassRegistry, calm: Calm, points: Tensor, learned: Tensor, stage: int
) -> tuple[list[int], np.ndarray]:
    """Add the classes that Calm has discovered besides those of the registry.

    `points` (N, d) are the centre views of the stage's images, `learned` (N, d) their means over views, of which the
    prototypes are made. Returned are the new ids, and the row of the pool (N,) that counts each image in, or −1.
    """
    old, found = rule_of(registry, calm.softmax_temperature), calm.rule()
    known = len(old.prototypes)
    new = found.prototypes[known:]
    nearest_row = nearest(learned, found.prototypes).row
    members = [(nearest_row == row).nonzero()[:, 0] for row in range(known, known + len(new))]
    rule = PredictionRule(
        torch.cat([old.prototypes, new]),
        torch.cat([torch.from_numpy(registry.active().owner), len(registry) + torch.arange(len(new))]),
        len(registry) + len(new),
        calm.softmax_temperature,
        torch.cat([old.thresholds, found.thresholds[known:]]),
    )
    ids, counted = [], np.full(len(points), -1, np.int64)
    for places, tree in zip(members, split_trees(rule, points, members, known, learned), strict=True):
        entry = registry.add(None, stage, tree)
        ids.append(entry.id)
        counted[places.numpy()] = entry.rows[0]
    return ids, counted


def assignments(
    registry: ClassRegistry, keys: Sequence[str], decision: Decision, digests: np.ndarray | None = None
) -> list[Assignment]:
    """The class of each image and its probability, or none if it is rejected; and whether a person said so."""
    ids, labels = [entry.id for entry in registry], [registry.label(entry) for entry in registry]
    unknown = registry.unknown
    rows = [
        Assignment(key, None, unknown, p, True) if odd else Assignment(key, ids[c], labels[c], p, p < SURE)
        for key, c, p, odd in zip(keys, *(column.tolist() for column in decision), strict=True)
    ]
    for i, statement in ({} if digests is None else registry.statements.of(digests)).items():
        if statement.checked:
            rows[i] = rows[i]._replace(said=IGNORED if statement.ignored else CONFIRMED, unsure=False)
    return rows


def label_array(registry: ClassRegistry, labels: Sequence[Label]) -> np.ndarray:
    """Labels as an array of the kind that all classes' have: text, int or float; of objects where they are mixed."""
    kinds = {type(registry.label(entry)) for entry in registry} | {type(registry.unknown)}
    if kinds == {str}:
        return np.array(labels, dtype=str)
    return np.array(labels, dtype=object if str in kinds else float if float in kinds else int)
