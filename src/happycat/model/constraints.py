"""Constrained prediction: what a person said of images overrules the rule of prediction, and bounds a discovery."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from happycat.methods.calm.prediction import Decision, PredictionRule
from happycat.model.registry import ClassRegistry
from happycat.model.statements import Statement
from happycat.model.sums import said_classes


def constrained(
    decision: Decision,
    rule: PredictionRule,
    points: Tensor,
    registry: ClassRegistry,
    said: Mapping[int, Statement],
    placed: Callable[[Tensor], Tensor] | None = None,
) -> Decision:
    """The decision on images at `points` (N, d) after what was said of some of them, by their places.

    `placed` makes points of what is given, as in the rule's `decide`.
    """
    if not said:
        return decision
    likeliest, probability, rejected = (column.clone() for column in decision)
    place = {entry.id: i for i, entry in enumerate(registry)}
    rejected[[i for i, statement in said.items() if statement.ignored]] = True
    for i, cls in said_classes(registry, said).items():
        rejected[i] = cls not in place
        likeliest[i], probability[i] = place.get(cls, likeliest[i]), 1.0
    barred = barred_classes(registry, said)
    if barred:
        some = torch.tensor(list(barred))
        again = _without(rule, placed(points[some]) if placed else points[some], list(barred.values()))
        for column, values in zip((likeliest, probability, rejected), again, strict=True):
            column[some] = values
    return Decision(likeliest, probability, rejected)


def constrained_probabilities(
    probabilities: Tensor,
    rule: PredictionRule,
    points: Tensor,
    registry: ClassRegistry,
    said: Mapping[int, Statement],
    placed: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Probabilities (N, C) after what was said: 1 for the class that an image is of, 0 for those that it is not of."""
    place = {entry.id: i for i, entry in enumerate(registry)}
    for i, cls in said_classes(registry, said).items():
        if cls in place:
            probabilities[i] = 0
            probabilities[i, place[cls]] = 1
    barred = {i: classes for i, classes in barred_classes(registry, said).items() if len(classes) < rule.num_classes}
    if barred:
        some = points[torch.tensor(list(barred))]
        cosines = _bounded(rule, placed(some) if placed else some, list(barred.values()))
        probabilities[list(barred)] = rule.summed(_shares(rule, cosines))
    return probabilities


def barred_classes(registry: ClassRegistry, said: Mapping[int, Statement]) -> dict[int, list[int]]:
    """The living classes, by their places in the registry, that images without a class of their own are not of."""
    place = {entry.id: i for i, entry in enumerate(registry)}
    barred = {}
    for i, statement in said.items():
        roots = {registry.root(registry.entries[cls]).id for cls in statement.rejected}
        classes = sorted(place[root] for root in roots if root in place)
        if classes and not statement.checked:
            barred[i] = classes
    return barred


def barred_rows(registry: ClassRegistry, said: Mapping[int, Statement]) -> np.ndarray:
    """The same as pairs (P, 2) of an image's place and a place in the list of rows that images are compared with."""
    owner = registry.active().owner
    pairs = [
        (i, row)
        for i, classes in barred_classes(registry, said).items()
        for row in np.flatnonzero(np.isin(owner, classes)).tolist()
    ]
    return np.array(pairs, np.int64).reshape(-1, 2)


@torch.no_grad()
def _without(rule: PredictionRule, points: Tensor, barred: list[list[int]]) -> Decision:
    """The decision on points (n, d), each without its barred classes; one with all classes barred is rejected."""
    cosines = _bounded(rule, points, barred)
    best, row = cosines.max(1)
    rejected = (best < rule.thresholds[row]) | rule.dropped[row] | (best == -torch.inf)
    probability, likeliest = rule.summed(_shares(rule, cosines)).max(1)
    return Decision(likeliest, probability, rejected)


def _bounded(rule: PredictionRule, points: Tensor, barred: list[list[int]]) -> Tensor:
    """The cosines (n, R) of points with the prototypes, −∞ with those of their barred classes."""
    cosines = points @ rule.prototypes.T
    for i, classes in enumerate(barred):
        cosines[i, torch.isin(rule.owner, torch.tensor(classes))] = -torch.inf
    return cosines


def _shares(rule: PredictionRule, cosines: Tensor) -> Tensor:
    """The softmax (n, R) over the prototypes that have a class; 0 where none is left."""
    return (cosines / rule.temperature).masked_fill(rule.dropped, -torch.inf).softmax(1).nan_to_num(0.0)
