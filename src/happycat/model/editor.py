"""An open model file with the images of its last discovery: corrections, each a version on disk before it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from happycat.base.errors import HappycatError, InputError
from happycat.model import answers, corrections, from_images, membership
from happycat.model import file as model_file
from happycat.model.classes import assignments
from happycat.model.constraints import barred_classes, constrained_probabilities
from happycat.model.corrections import Correction
from happycat.model.counts import in_words
from happycat.model.decisions import Decisions
from happycat.model.entry import ClassEntry
from happycat.model.estimator import Happycat
from happycat.model.naming import Name
from happycat.model.questions import Interview, Question
from happycat.model.registry import ClassRegistry
from happycat.model.results import Assignment
from happycat.model.review import Review, last_discovery, last_review, review_folder
from happycat.model.summary import class_summaries
from happycat.model.twins import twins
from happycat.report.classes import ClassSummary

Result = TypeVar("Result")
Which = int | str  # a class's id, "#12", or its name


class Editor:
    """Corrections of a model file one after another; images are given by their places in the last discovery."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self._tag: model_file.VersionTag | None = None
        self._checksum: str | None = None  # of the review
        self.review: Review | None = None
        self.folder: Path | None = None  # of the review
        self._interview: Interview | None = None
        self._decisions: Decisions | None = None
        self.refresh()

    # What is there

    @property
    def version(self) -> int:
        assert self._tag is not None
        return self._tag.number

    @property
    def history(self) -> list[dict]:
        """Every version, those that were undone included, the first one first."""
        return [*model_file.history(self.path), *model_file.undone(self.path)]

    def refresh(self) -> bool:
        """Read the file again if it was changed, by this or another process; whether it was."""
        tag = model_file.read(self.path).tag
        if tag == self._tag:
            return False
        self.cat, self._tag = Happycat.load(self.path), tag
        discovery = last_discovery(model_file.history(self.path))
        checksum = discovery["review"] if discovery else None
        if checksum != self._checksum or self.review is None:
            self._checksum = checksum
            self.folder = review_folder(self.path, discovery) if discovery else None
            try:
                self.review = last_review(self.path) if discovery else None
            except HappycatError:  # the folder is the person's, and may be gone
                self.review = None
        return True

    @property
    def registry(self) -> ClassRegistry:
        return self.cat.registry_

    def assigned(self) -> list[Assignment]:
        """Where each image of the last discovery belongs now."""
        review = self._images()
        decision = self._decided().of(self.registry, self.cat.calm_.softmax_temperature)
        return assignments(self.registry, review.keys, decision, review.digests)

    def _decided(self) -> Decisions:
        review = self._images()
        if self._decisions is None or self._decisions.review is not review:
            self._decisions = Decisions(review)
        return self._decisions

    def summaries(self) -> list[ClassSummary]:
        """Each class, those that were just discovered first."""
        return class_summaries(self.cat, self.assigned(), self._points(), self._images().stage)

    def candidates(self, image: int, most: int = 5) -> list[tuple[int, Name, float]]:
        """The likeliest classes of an image: id, label and probability."""
        review, rule = self._images(), self.cat.rule()
        self._check([image])
        said = self.registry.statements.of(review.digests[image : image + 1])
        point = self._points()[image : image + 1]
        row = constrained_probabilities(rule.probabilities(point), rule, point, self.registry, said)[0]
        entries, best = list(self.registry), row.topk(min(most, len(row)))
        found = zip(best.values.tolist(), best.indices.tolist(), strict=True)
        return [(entries[i].id, self.registry.label(entries[i]), probability) for probability, i in found]

    def ranked(self, which: Which, most: int | None = None) -> list[int]:
        """Images that are not of a class, and of which nobody said where they belong, its likeliest members first."""
        review, entry = self._images(), self.registry.find(which)
        said = self.registry.statements.of(review.digests)
        place = [one.id for one in self.registry].index(entry.id)
        barred = {i for i, classes in barred_classes(self.registry, said).items() if place in classes}
        vectors = self.registry.pool.vectors[self.registry.owned(entry)]
        cosines = (review.points @ vectors.T).max(1)
        rows = self.assigned()
        free = [i for i, row in enumerate(rows) if row.id != entry.id and not row.said and i not in barred]
        return sorted(free, key=lambda i: -cosines[i])[:most]

    # What a person says of classes

    def name(self, which: Which, name: Name) -> ClassEntry:
        """Give a class its name."""
        return self._correct(
            lambda c: c.registry.name(which, c.registry.typed(name) if isinstance(name, str) else name),
            lambda entry: f"name #{entry.id} {entry.name!r}",
        )

    def merge(self, first: Which, *others: Which) -> ClassEntry:
        """Make one class of several."""
        names = " ".join(self.registry.called(self.registry.find(other)) for other in others)
        return self._correct(
            lambda c: c.registry.merge(first, *others), lambda entry: f"merge {self.registry.called(entry)} {names}"
        )

    def split(self, which: Which) -> tuple[ClassEntry, ...]:
        """Make two classes of one, or take apart what was merged."""
        return self._correct(lambda c: c.registry.split(which), lambda made: f"split {self.registry.called(made[0])}")

    def drop(self, which: Which) -> ClassEntry:
        """Give a class up."""
        return self._correct(lambda c: c.registry.drop(which), lambda entry: f"drop {self.registry.called(entry)}")

    def apart(self, one: Which, two: Which) -> None:
        """Say that two classes are not the same: they are never merged."""
        pair = " and ".join(self.registry.called(self.registry.find(which)) for which in (one, two))
        self._correct(lambda c: c.registry.hold_apart(one, two), f"{pair} are not the same")

    # What a person says of images

    def move(self, images: Sequence[int], to: Which) -> ClassEntry:
        """Say that images are of a class."""
        return self._correct(
            lambda c: membership.move(c.registry, c.chosen(images), to),
            lambda entry: f"move {in_words(len(images))} to {self.registry.called(entry)}",
            images,
        )

    def confirm(self, images: Sequence[int]) -> int:
        """Say that images are of the classes that they are given."""
        self._correct(
            lambda c: membership.confirm(c.registry, c.chosen(images)), f"confirm {in_words(len(images))}", images
        )
        return len(images)

    def reject(self, images: Sequence[int]) -> int:
        """Say that images are not of the classes that they are given."""
        self._correct(
            lambda c: membership.reject(c.registry, c.chosen(images)), f"reject {in_words(len(images))}", images
        )
        return len(images)

    def ignore(self, images: Sequence[int]) -> int:
        """Say that images are of no class, and are to be left alone."""
        self._correct(
            lambda c: membership.ignore(c.registry, c.chosen(images), c.stage),
            f"ignore {in_words(len(images))}",
            images,
        )
        return len(images)

    def unignore(self, images: Sequence[int]) -> int:
        """Take that back."""
        self._correct(
            lambda c: membership.unignore(c.registry, c.chosen(images)), f"unignore {in_words(len(images))}", images
        )
        return len(images)

    def new_class(self, images: Sequence[int], name: Name | None = None) -> ClassEntry:
        """Make a class of images."""
        return self._correct(
            lambda c: from_images.new_class(c.registry, c.chosen(images), c.stage, name),
            lambda entry: f"make {in_words(len(images))} {self.registry.called(entry)}",
            images,
        )

    def split_by(self, which: Which, groups: Sequence[Sequence[int]]) -> tuple[ClassEntry, ...]:
        """Split a class by examples of each part, of which the first keeps the id."""

        def change(correction: Correction) -> tuple[ClassEntry, ...]:
            return split_by_examples(correction, which, groups)

        examples = [i for group in groups for i in group]
        words = self.registry.called(self.registry.find(which))
        return self._correct(change, f"split {words} by {in_words(len(examples))}", examples)

    def questions(self, most: int = 10) -> list[Question]:
        """Questions whose answers would change most, those first."""
        review = self._images()
        if self._interview is None or self._interview.review is not review:
            self._interview = Interview(review)
        return self._interview.ask(self.cat, most)

    def twins(self) -> dict[int, int]:
        """The new classes that are more likely than not another new one found twice, and which that is."""
        return twins(self.cat, self._images())

    def answer(self, question: Question, yes: bool) -> None:
        """Answer a question."""
        words = answers.in_words(self.registry, question, yes)
        self._correct(lambda correction: answers.answer(correction, question, yes), words, question.images or None)

    # Back and forth

    def undo(self) -> int:
        """Go back to the version before."""
        return self._went(corrections.undo(self.path, wait=True))

    def redo(self) -> int:
        """Bring back what was undone last."""
        return self._went(corrections.redo(self.path, wait=True))

    def go_to(self, number: int) -> int:
        """Go back or forth to a version."""
        return self._went(corrections.go_to(self.path, number, wait=True))

    def _went(self, number: int) -> int:
        self.refresh()
        return number

    def _correct(
        self,
        change: Callable[[Correction], Result],
        what: str | Callable[[Result], str],
        images: Sequence[int] | None = None,
    ) -> Result:
        if images is not None:
            self._check(images)
        number = None if images is None else len(images)
        done = corrections.correct_images(self.path, what, change, True, number, self.review)
        self.refresh()
        if done.decision is not None and self.review is not None:
            self._decided().take(done.registry, self.cat.calm_.softmax_temperature, done.decision)
        return done.result

    def _images(self) -> Review:
        if self.review is None:
            raise InputError(f"{self.path} has no images to look at: discover some first, or bring its folder back")
        return self.review

    def _points(self) -> torch.Tensor:
        return torch.from_numpy(self._images().points)

    def _check(self, images: Sequence[int]) -> None:
        number = len(self._images().keys)
        if not all(isinstance(i, int | np.integer) and 0 <= i < number for i in images):
            raise InputError(f"the last discovery has {number} images, numbered from 0 on")


def split_by_examples(correction: Correction, which: Which, groups: Sequence[Sequence[int]]) -> tuple[ClassEntry, ...]:
    """Split a class by examples of each part, images that it is given now."""
    members = correction.members(which)
    place = {image: i for i, image in enumerate(members)}
    strange = [image for group in groups for image in group if image not in place]
    if strange:
        raise InputError(f"{len(strange)} of the examples are not of {which}; give images that it is given")
    within = [[place[image] for image in group] for group in groups]
    return from_images.split_by(correction.registry, correction.chosen(members), which, within, correction.stage)
