"""Active learning by yes-or-no questions: which answers would change most.

Three kinds of questions. "Are these two classes the same?": a discovered class is missed little if its images have
another class nearly as near. "Are these two pictures the same kind?": a class may be two, if one half of it would be
worth a class of its own. "Is this one of them?": an image's class may be another. How likely each is, is what the
calibrated model of the number of classes says (methods/calm/number.py), or the probability of the image's class; a
question counts by the number of images that would be given another class, times the probability that they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.methods.calm.candidates import leave_one_out
from happycat.model.classes import decide
from happycat.model.estimator import Happycat
from happycat.model.review import Review
from happycat.model.splitting import two_means

Kind = Literal["same", "pair", "member"]
SAME: Kind = "same"
PAIR: Kind = "pair"
MEMBER: Kind = "member"
FEWEST = 4  # images of a class that may be two


class Question(NamedTuple):
    """Two classes ("same"), two images of one class ("pair"), or an image and its class ("member"); yes: they agree.

    `gain` is how many images are expected to be given another class by the answer.
    """

    kind: Kind
    classes: tuple[int, ...]
    images: tuple[int, ...]
    text: str
    gain: float

    @property
    def image(self) -> int | None:
        """The image that is asked about, where it is one."""
        return self.images[0] if self.kind == MEMBER else None


def ask(cat: Happycat, review: Review, most: int = 10) -> list[Question]:
    """Questions on a discovery, those first whose answers would change most; none that was answered."""
    asking = _Asking(cat, review)
    every = [*asking.same(), *asking.pairs(), *asking.members()]
    return sorted(every, key=lambda question: -question.gain)[:most]


class _Asking:
    """The images of a discovery, the classes that they are given, and their cosines with these."""

    def __init__(self, cat: Happycat, review: Review):
        self.registry, self.stage = cat.registry_, review.stage
        self.entries = list(self.registry)
        self.points = torch.from_numpy(review.points)
        decision = decide(self.registry, cat.calm_.softmax_temperature, self.points, review.digests)
        self.given, self.probability = decision.assigned, decision.probability
        self.said = self.registry.statements.of(review.digests)
        active = self.registry.active()
        cosines = self.points @ torch.from_numpy(self.registry.pool.vectors[active.rows]).T
        owner = torch.from_numpy(active.owner)
        columns = [cosines[:, owner == i].amax(1) for i in range(len(self.entries))]
        self.cosines = torch.stack(columns, 1)  # (N, C)
        values = cat.calm_.number_model.values
        self.penalties, self.weights = values[:, :2], values[:, 4] / values[:, 4].sum()

    def _worth(self, loss: float, images: int) -> float:
        """The probability that a component of so many images, which lose so much without it, is a class."""
        return float(self.weights @ (loss >= self.penalties[:, 0] + self.penalties[:, 1] * images))

    def _label(self, place: int) -> str:
        return str(self.registry.label(self.entries[place]))

    def _members(self, place: int) -> Tensor:
        return (self.given == place).nonzero()[:, 0]

    def _new(self) -> list[int]:
        """The places of the classes that were discovered just now."""
        return [i for i, one in enumerate(self.entries) if one.stage == self.stage and not one.labelled]

    def same(self) -> Iterator[Question]:
        for place in self._new():
            members = self._members(place)
            others = [
                i
                for i, entry in enumerate(self.entries)
                if i != place and not self.registry.held_apart(entry, self.entries[place])
            ]
            if not len(members) or not others:
                continue
            rest, nearest = self.cosines[members][:, others].max(1)
            loss = float((self.cosines[members, place] - rest).clamp_min(0).sum())
            other = others[int(nearest.bincount().argmax())]
            own, its = self.entries[place].id, self.entries[other].id
            first, second = (its, own) if self.entries[other].labelled or its < own else (own, its)
            text = f"Are {self._label(place)} and {self._label(other)} the same kind?"
            yield Question(SAME, (first, second), (), text, (1 - self._worth(loss, len(members))) * len(members))

    def pairs(self) -> Iterator[Question]:
        for place in self._new():
            members = self._members(place)
            own = self.points[members]
            if len(members) < FEWEST or bool((own == own[0]).all()):
                continue
            centres = two_means(own)
            half = (own @ centres.T).argmax(1)
            smaller = int(half.bincount(minlength=2).argmin())
            part = own[half == smaller]
            if not 2 <= len(part) < len(own):
                continue
            total = part.sum(0)
            alone = leave_one_out(part @ total, total.square().sum().expand(len(part)))
            loss = float((alone - part @ normalize(own[half != smaller].sum(0), dim=0)).sum())
            images = tuple(
                int(members[half == side][(own[half == side] @ centres[side]).argmax()])
                for side in (1 - smaller, smaller)
            )
            if self._settled(images):
                continue
            text = f"Are these two of {self._label(place)} the same kind?"
            yield Question(PAIR, (self.entries[place].id,), images, text, self._worth(loss, len(part)) * len(part))

    def _settled(self, images: tuple[int, ...]) -> bool:
        """Whether a person has said of all of them where they belong."""
        return all(i in self.said and self.said[i].checked for i in images)

    def members(self) -> Iterator[Question]:
        for i in range(len(self.points)):
            place = int(self.given[i])
            if place < 0 or self._settled((i,)):
                continue
            text = f"Is this {self._label(place)}?"
            yield Question(MEMBER, (self.entries[place].id,), (i,), text, 1 - float(self.probability[i]))


def random_questions(cat: Happycat, review: Review, random: np.random.Generator, most: int) -> list[Question]:
    """Questions of the same kinds in a random order, to compare with."""
    asking = _Asking(cat, review)
    every = [*asking.same(), *asking.pairs(), *asking.members()]
    return [every[i] for i in random.permutation(len(every))[:most]]
