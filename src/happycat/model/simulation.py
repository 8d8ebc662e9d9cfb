"""A simulated oracle for active learning: a person who knows the true classes and answers questions truthfully.

For experiments: everything goes through the functions that correct a model file, without one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from happycat.model.answers import answer
from happycat.model.estimator import Happycat
from happycat.model.questions import MEMBER, PAIR, SAME, Interview, Question
from happycat.model.registry import ClassRegistry
from happycat.model.results import Discovery
from happycat.model.review import Review
from happycat.model.reviewed import ReviewedImages


@dataclass
class Person:
    """A truthful person. A discovered class is to her what most of the images are that it was ever given."""

    registry: ClassRegistry
    labelled: dict[int, int]  # true classes by the ids of labelled ones
    past: dict[int, Counter[int]] = field(default_factory=dict)  # true classes of the images of earlier stages

    @classmethod
    def of(cls, registry: ClassRegistry, classes: tuple[str, ...]) -> Person:
        """One who knows the classes by their names; a true class is its place among these."""
        return cls(registry, {entry.id: classes.index(str(entry.name)) for entry in registry})

    def answer(self, images: ReviewedImages, truth: np.ndarray, question: Question) -> bool:
        """Whether what is asked about agrees; `truth` (N,) are the true classes of the images."""
        if question.kind == PAIR:
            one, two = question.images
            return bool(truth[one] == truth[two])
        meanings = [self.meaning(images, truth, number) for number in question.classes]
        if question.kind == MEMBER:
            return int(truth[question.images[0]]) == meanings[0]
        return meanings[0] == meanings[1]

    def meaning(self, images: ReviewedImages, truth: np.ndarray, number: int) -> int | None:
        """The true class that a class stands for; None if it was never given an image."""
        if number in self.labelled:
            return self.labelled[number]
        seen = Counter(truth[images.members(f"#{number}")].tolist())
        for part, counts in self.past.items():
            if self.registry.root(self.registry.entries[part]).id == number:
                seen += counts
        return min(seen, key=lambda kind: (-seen[kind], kind)) if seen else None

    def remember(self, images: ReviewedImages, truth: np.ndarray) -> None:
        """Keep in mind what the discovered classes were given in a stage that is over."""
        given = images.decision().assigned.numpy()
        for place, entry in enumerate(self.registry):
            if entry.id not in self.labelled:
                self.past.setdefault(entry.id, Counter()).update(truth[given == place].tolist())


class AskingModel:
    """A model with a person beside it, who is asked after each discovery."""

    def __init__(self, cat: Happycat, classes: tuple[str, ...]):
        self.cat, self.person = cat, Person.of(cat.registry_, classes)

    def discover(
        self,
        X: Any,
        truth: np.ndarray,
        num_new: int | str,
        answers: int,
        batch: int,
        random: np.random.Generator | None = None,
    ) -> tuple[int, dict[str, int]]:
        """Discover the images, then ask: the number of classes of the stage, and of answers by "KIND yes" or "KIND no".

        `truth` (N,) are the images' true classes. There are so many `answers` to questions that are chosen, or drawn
        at random if there is a generator, in batches of `batch`.
        """
        found = self.cat.discover(X, num_new)
        images = ReviewedImages.of(self.cat, review_of(found, self.cat.stage_))
        given = interview(self.cat, images, truth, self.person, answers, batch, random)
        self.person.remember(images, truth)
        return sum(entry.stage == self.cat.stage_ for entry in self.cat.registry_), dict(given)


def review_of(found: Discovery, stage: int) -> Review:
    """The review of a discovery, without the map, which nobody looks at here."""
    points = found.points.cpu().float().numpy()
    return Review(
        keys=tuple(found.pictures.keys),
        points=points,
        learned=found.learned.cpu().float().numpy(),
        counted=found.counted,
        digests=found.digests,
        places=np.zeros((len(points), 2)),
        root=None,
        stage=stage,
        found=len(found.new),
        count=None,
    )


def interview(
    cat: Happycat,
    images: ReviewedImages,
    truth: np.ndarray,
    person: Person,
    answers: int,
    batch: int,
    random: np.random.Generator | None = None,
) -> Counter[str]:
    """Ask so many questions and change the model by the answers, which are counted by kind and answer.

    Questions are chosen, or drawn at random, in batches. What an answer of the same batch makes pointless is put off:
    questions on classes that were merged, and all others after a class was divided.
    """
    asking, given = Interview(images.review), Counter[str]()
    while given.total() < answers:
        most = min(batch, answers - given.total())
        questions = asking.ask(cat, most) if random is None else asking.random(cat, random, most)
        if not questions:
            break
        merged: set[int] = set()
        for question in questions:
            if not merged.isdisjoint(question.classes):
                continue
            yes = person.answer(images, truth, question)
            answer(images, question, yes)
            given[f"{question.kind} {'yes' if yes else 'no'}"] += 1
            if question.kind == SAME and yes:
                merged |= set(question.classes)
            elif question.group and not yes:
                break
    return given
