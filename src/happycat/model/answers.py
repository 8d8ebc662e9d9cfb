"""What the answer to a question changes: classes are merged, held apart or divided, images confirmed or rejected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from happycat.model import membership
from happycat.model.chosen import Chosen
from happycat.model.counts import in_words as images_in_words
from happycat.model.from_images import split_by
from happycat.model.questions import PAIR, SAME, Question
from happycat.model.registry import ClassRegistry


class Correctable(Protocol):
    """The images of a discovery and the classes: `ReviewedImages` of a model in memory, `Correction` of a file."""

    @property
    def registry(self) -> ClassRegistry: ...

    @property
    def stage(self) -> int: ...

    def chosen(self, places: Sequence[int]) -> Chosen: ...

    def members(self, which: int | str) -> list[int]: ...


def answer(images: Correctable, question: Question, yes: bool) -> None:
    """Change the classes by what a person answered."""
    registry = images.registry
    if question.kind == SAME:
        one, two = (f"#{number}" for number in question.classes)
        registry.merge(one, two) if yes else registry.hold_apart(one, two)
    elif question.kind == PAIR and not yes:
        (divide if question.group else reject_odd_one)(images, question)
    else:
        (membership.confirm if yes else membership.reject)(registry, asked_about(images, question))


def asked_about(images: Correctable, question: Question) -> Chosen:
    """The images of a question, as given the class that was asked about, even if they are given another since."""
    chosen = images.chosen(question.images)
    return replace(chosen, given=[question.classes[0]] * len(chosen))


def in_words(registry: ClassRegistry, question: Question, yes: bool) -> str:
    """What an answer changes, for the history of a model file."""
    names = [registry.called(registry.find(f"#{number}")) for number in question.classes]
    number = images_in_words(len(question.images))
    if question.kind == SAME:
        return f"merge {' '.join(names)}" if yes else f"{' and '.join(names)} are not the same"
    if question.kind == PAIR and not yes:
        return f"split {names[0]} by {number}" if question.group else f"reject one of {number}"
    return f"{'confirm' if yes else 'reject'} {number}"


def divide(images: Correctable, question: Question) -> None:
    """Make another class of the group of images that the second of a pair stands for, which are in any classes."""
    (which,), (first, second) = question.classes, question.images
    group = {second, *question.group}
    places = sorted({first, *group})
    part = np.array([int(place in group) for place in places])
    examples = [[places.index(first)], [places.index(second)]]
    split_by(images.registry, images.chosen(places), f"#{which}", examples, images.stage, part)


def reject_odd_one(images: Correctable, question: Question) -> None:
    """Reject the one of a pair that is less like its class: the two differ, and stand for no group of images."""
    chosen, registry = asked_about(images, question), images.registry
    vectors = registry.pool.vectors[registry.owned(registry.find(f"#{question.classes[0]}"))]
    odd = int((chosen.points @ vectors.T).max(1).argmin())
    membership.reject(registry, chosen.some([odd]))
