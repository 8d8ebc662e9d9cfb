"""Active learning by yes-or-no questions: which answers would change most.

Three kinds of questions. "Are these two classes the same?": one class may have been found as two. "Are these two images
the same kind?": two classes may have been found as one. "Is this one of them?": an image may be of another class. A
question counts by its gain: the probability that the answer changes something, times the number of images that are
given a better class by it.

Classes that come together are often of about one size, N, the median, and sizes differ by a factor exp(s), s from the
median deviation of their logarithms. So two classes of n and m images are the same with a probability of about

    P(same) = share · exp(−½ (log⁺((n + m) / N) / s)²)        log⁺(x) = max(0, log x)

with `share` that of the images of one of them whose next best class is the other; a class of n images is two with

    P(two) = 1 − exp(−½ (log⁺(n / N) / s)²)

and what is asked about then is the group of Ward's tree of the images (methods/calm/candidates.py) that most is gained
by if it is a class, too. An image is of its second best class with the probability that the model gives this.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from happycat.methods.calm.candidates import Groups, explained, find_groups, leave_one_out
from happycat.methods.calm.prediction import PredictionRule
from happycat.model.classes import rule_of
from happycat.model.constraints import constrained, constrained_probabilities
from happycat.model.estimator import Happycat
from happycat.model.review import Review

Kind = Literal["same", "pair", "member"]
SAME: Kind = "same"
PAIR: Kind = "pair"
MEMBER: Kind = "member"
FEWEST, SMALLEST = 3, 0.4  # images of what may be a class of its own: so many, and this share of the typical size
SPREADS = 0.25, 1.0  # the least and the largest s
SAME_AS_OLD = 0.15  # in place of what sizes say, for a new class and an earlier one: few of its images are served
SAME_AT_ALL, TWO_OF_ONE_SIZE = 0.05, 0.01  # the least that sizes say for two classes being one, and for one being two
DOUBT = 0.5  # a class is so much less likely another's double for each class that it is not the same as
TRIES = 50  # draws for each random question that is wanted: some are answered already


class Question(NamedTuple):
    """Two classes ("same"), two images of one class ("pair"), or an image and its class ("member"); yes: they agree.

    `gain` is how many images are expected to be given a better class by the answer. The second image of a pair stands
    for a `group` of images, of its class and perhaps of others: if it is of another class, so are they.
    """

    kind: Kind
    classes: tuple[int, ...]
    images: tuple[int, ...]
    text: str
    gain: float
    group: tuple[int, ...] = ()

    @property
    def image(self) -> int | None:
        """The image that is asked about, where it is one."""
        return self.images[0] if self.kind == MEMBER else None


class Interview:
    """Questions on the images of a discovery, as often as they are wanted; groups of images are found only once."""

    def __init__(self, review: Review):
        self.review = review

    @cached_property
    def groups(self) -> Groups:
        """Groups of the images that may be a class."""
        points = torch.from_numpy(self.review.points)
        return find_groups(points, torch.zeros(len(points), dtype=torch.bool))

    def ask(self, cat: Happycat, most: int = 10) -> list[Question]:
        """Questions whose answers would change most, those first; none that was answered."""
        asking = _Asking(cat, self.review)
        every = [*asking.same(), *asking.pairs(self.groups), *asking.members()]
        once = {question[:3]: question for question in sorted(every, key=lambda question: question.gain)}
        return sorted(once.values(), key=lambda question: -question.gain)[:most]

    def same(self, cat: Happycat) -> list[Question]:
        """Questions whether two classes are the same, those first whose answers would change most."""
        once = {question[:3]: question for question in _Asking(cat, self.review).same()}
        return sorted(once.values(), key=lambda question: -question.gain)

    def random(self, cat: Happycat, random: np.random.Generator, most: int) -> list[Question]:
        """Questions drawn at random, to compare with; none that was answered.

        The kind is drawn first; then two classes of which one is new, two images of a new class, or an image.
        """
        asking = _Asking(cat, self.review)
        drawn = (asking.random(random) for _ in range(TRIES * most))
        return list({question[:3]: question for question in drawn if question is not None}.values())[:most]


def ask(cat: Happycat, review: Review, most: int = 10) -> list[Question]:
    """Questions on a discovery, those first whose answers would change most; none that was answered."""
    return Interview(review).ask(cat, most)


def random_questions(cat: Happycat, review: Review, random: np.random.Generator, most: int) -> list[Question]:
    """Questions of the same kinds that are drawn at random, to compare with."""
    return Interview(review).random(cat, random, most)


class _Asking:
    """The images of a discovery, the classes that they are given, and their cosines with these."""

    def __init__(self, cat: Happycat, review: Review):
        self.registry, self.stage = cat.registry_, review.stage
        self.entries = list(self.registry)
        self.points = torch.from_numpy(review.points)
        self.said = self.registry.statements.of(review.digests)
        self.settled = torch.tensor([i in self.said and self.said[i].checked for i in range(len(self.points))])
        rule = rule_of(self.registry, cat.calm_.softmax_temperature)
        decision = constrained(rule.decide(self.points), rule, self.points, self.registry, self.said)
        self.given, self.likeliest = decision.assigned, decision.likeliest
        every = rule.probabilities(self.points)
        self.probabilities = constrained_probabilities(every, rule, self.points, self.registry, self.said)
        self.cosines = self._by_class(rule, review)
        self.is_new = torch.tensor([entry.stage == self.stage for entry in self.entries])
        self.new: list[int] = self.is_new.nonzero()[:, 0].tolist()
        self.sizes = self.given[self.given >= 0].bincount(minlength=len(self.entries)).tolist()
        self._look_at_sizes()

    def _look_at_sizes(self) -> None:
        """The typical size of a new class, and by how much the logarithms of sizes differ."""
        logs = np.log([self.sizes[place] for place in self.new if self.sizes[place]] or [1])
        middle = float(np.median(logs))
        deviation = 1.48 * float(np.median(np.abs(logs - middle)))  # the standard deviation, if they are normal
        self.typical, self.spread = float(np.exp(middle)), float(np.clip(deviation, *SPREADS))

    def _by_class(self, rule: PredictionRule, review: Review) -> Tensor:
        """The images' cosines with the classes (N, C), with the prototype that counts an image in without the image."""
        cosines, pool = self.points @ rule.prototypes.T, self.registry.pool
        column = {row: i for i, row in enumerate(self.registry.active().rows.tolist())}
        counted = [self.said[i].row if i in self.said else row for i, row in enumerate(review.counted.tolist())]
        places = [i for i, row in enumerate(counted) if row in column and pool.sizes[row] > 1]
        rows = [counted[i] for i in places]
        columns, lengths = [column[row] for row in rows], torch.from_numpy(pool.lengths[rows])
        cosines[places, columns] = leave_one_out(cosines[places, columns] * lengths, lengths.square())
        return torch.stack([cosines[:, rule.owner == i].amax(1) for i in range(len(self.entries))], 1)

    def _beyond(self, images: int) -> float:
        """How unusual it is that a class has so many images or more: 1 up to the typical size, then falling to 0."""
        more = max(0.0, float(np.log(max(images, 1) / self.typical)))
        return float(np.exp(-((more / self.spread) ** 2) / 2))

    def _label(self, place: int) -> str:
        return str(self.registry.label(self.entries[place]))

    def _members(self, place: int) -> np.ndarray:
        return np.flatnonzero(self.given.numpy() == place)

    def _apart(self, place: int) -> list[int]:
        """The classes that a person said this one is not the same as."""
        entry = self.entries[place]
        return [i for i, other in enumerate(self.entries) if self.registry.held_apart(other, entry)]

    # Are these two classes the same?

    def same(self) -> Iterator[Question]:
        """For each new class its next best class, and the next best one of the new ones."""
        for place in self.new:
            members, apart = self._members(place), self._apart(place)
            if not len(members) or len(apart) + 1 == len(self.entries):
                continue
            cosines = self.cosines[members]
            cosines[:, [place, *apart]] = -torch.inf
            shares = cosines.argmax(1).bincount(minlength=len(self.entries)) / len(members)
            for other in {int(shares.argmax()), int((shares * self.is_new).argmax())}:
                if shares[other]:
                    yield self._same(place, other, float(shares[other]) * DOUBT ** len(apart))

    def _same(self, place: int, other: int, chance: float) -> Question:
        """Whether two classes are the same, which is as likely as `chance` if their sizes say nothing against it."""
        ids = sorted(self.entries[i].id for i in (place, other))
        sizes = self.sizes[place], self.sizes[other]
        chance *= max(self._beyond(sum(sizes)), SAME_AT_ALL) if self.is_new[other] else SAME_AS_OLD
        text = f"Are {self._label(place)} and {self._label(other)} the same kind?"
        return Question(SAME, (ids[0], ids[1]), (), text, chance * min(sizes))

    # Are these two images the same kind?

    def pairs(self, groups: Groups) -> Iterator[Question]:
        """For each new class the group that most is gained by if it is a class, too, against the rest of the class."""
        have = self.cosines.amax(1)
        found = explained(groups, self.points, have)
        group = np.repeat(np.arange(len(found.start) - 1), np.diff(found.start))
        gained, sizes, settled = (
            np.bincount(group, weights, len(found.start) - 1)
            for weights in (found.cosine - have.numpy()[found.image], None, self.settled.numpy()[found.image])
        )
        fits = (sizes >= max(FEWEST, SMALLEST * self.typical)) & (settled == 0)
        asked: set[int] = set()
        for one in np.argsort(-gained, kind="stable"):
            if not fits[one]:
                continue
            part = slice(found.start[one], found.start[one + 1])
            images = found.image[part]
            place = int(self.likeliest[images].bincount().argmax())
            question = (
                None if place in asked or not self.is_new[place] else self._pair(place, images, found.cosine[part])
            )
            if question is not None:
                asked.add(place)
                yield question

    def _pair(self, place: int, images: np.ndarray, cosines: np.ndarray) -> Question | None:
        """Whether a group of images (n,), with their `cosines` (n,) with it, is of the class that most are given."""
        members = self._members(place)
        rest, within = np.setdiff1d(members, images), np.isin(images, members)
        if not len(rest) or not within.any():
            return None
        first = int(rest[self.cosines[rest, place].numpy().argmax()])
        second = int(images[within][cosines[within].argmax()])
        chance = max(1 - self._beyond(len(members)), TWO_OF_ONE_SIZE)
        gain = chance * min(int(within.sum()), len(rest))
        return self._two(place, (first, second), gain, tuple(images.tolist()))

    def _two(self, place: int, images: tuple[int, int], gain: float, group: tuple[int, ...] = ()) -> Question:
        text = f"Are these two of {self._label(place)} the same kind?"
        return Question(PAIR, (self.entries[place].id,), images, text, gain, group)

    # Is this one of them?

    def members(self) -> Iterator[Question]:
        """Each image that has a class, of which nobody said that it is there."""
        if len(self.entries) < 2:
            return
        second = self.probabilities.topk(2, 1).values[:, 1].tolist()
        for image, place in enumerate(self.given.tolist()):
            if place >= 0 and not self.settled[image]:
                yield self._member(image, place, second[image])

    def _member(self, image: int, place: int, gain: float) -> Question:
        return Question(MEMBER, (self.entries[place].id,), (image,), f"Is this {self._label(place)}?", gain)

    # To compare with

    def random(self, random: np.random.Generator) -> Question | None:
        """A question drawn at random; None if it is none, or was answered."""
        kind = random.integers(3)
        if kind == 0:
            image = int(random.integers(len(self.points)))
            place = int(self.given[image])
            return None if place < 0 or self.settled[image] else self._member(image, place, 0.0)
        if not self.new:
            return None
        place = self.new[random.integers(len(self.new))]
        if kind == 1:
            other = int(random.integers(len(self.entries)))
            return None if other in (place, *self._apart(place)) else self._same(place, other, 0.0)
        members = self._members(place)
        if len(members) < 2:
            return None
        first, second = random.choice(members, 2, replace=False).tolist()
        return None if self.settled[[first, second]].all() else self._two(place, (first, second), 0.0)
