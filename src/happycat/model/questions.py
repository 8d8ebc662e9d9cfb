"""Active learning by yes-or-no questions: which answers would change most.

Three kinds of questions. "Are these two classes the same?": one class may have been found as two. "Are these two images
the same kind?": two classes may have been found as one. "Is this one of them?": an image may be of another class. A
question counts by its gain: the probability that the answer changes something, times the number of images that are
given a better class by it. If two classes are the same, their number gets right, too, which counts as some images more.

Classes that come together are often of about one size, N, the median, and sizes differ by a factor exp(s), s from the
median deviation of their logarithms. With x⁺ = max(1, x), the odds that two classes of n and m images are the same are

    odds(same) = a · share · exp(−c · loss) / ((n + m) / N)⁺^(2/s),

with `share` that of the images of one of them whose next best class is the other, and `loss` the mean of the cosines
that they would lose by going there. The odds that a class of n images is two are

    odds(two) = b · worth² · (n / N)⁺^(2/s).

What is asked about then is the group of Ward's tree of the images (methods/calm/candidates.py) that most is gained by
if it is a class, too; `worth` is the gain of cosines over the complexity penalty of a class (methods/calm/number.py).
The constants are those of a logistic regression on questions whose answers are known (docs/notebook.md). An answer
"no" to a pair divides the class, and then the part, which is small, is likely the double of another: that is asked
next. An image is of its second best class with the probability that the model gives this.
"""

from __future__ import annotations

import math
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
from happycat.model.sums import rows_in_use, said_classes

Kind = Literal["same", "pair", "member"]
SAME: Kind = "same"
PAIR: Kind = "pair"
MEMBER: Kind = "member"
FEWEST, SMALLEST = 3, 0.4  # images of what may be a class of its own: so many, and this share of the typical size
SPREADS = 0.25, 1.0  # the least and the largest s
SAME_ODDS, TWO_ODDS = 230.0, 0.7  # a and b, for two new classes
OLD_ODDS = 0.002  # in place of a and what sizes say, for a new class and an earlier one, which is served few images
LOSS = 3.6  # c
DOUBT = 0.5  # of the odds that a class is another's double, for each class that it is not the same as
CONTRADICTED = 0.05  # of the odds that two classes are the same, if an image of the one was said not to be of the other
NUMBER = 0.5  # a class too many counts as this share of the images of a typical class
TRIES = 50  # draws for each random question that is wanted: some are answered already


class Question(NamedTuple):
    """Two classes ("same"), two images of one class ("pair"), or an image and its class ("member"); yes: they agree.

    `gain` is how many images are expected to be given a better class by the answer. The second image of a pair stands
    for a `group` of images, of its class and perhaps of others: if it is of another class, so are they. Two classes are
    the same with this `probability`.
    """

    kind: Kind
    classes: tuple[int, ...]
    images: tuple[int, ...]
    text: str
    gain: float
    group: tuple[int, ...] = ()
    probability: float = 0.0

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
        self.penalty = cat.calm_.number_model.penalty
        self.contradicted = self._contradicted()
        self._look_at_sizes()

    def _contradicted(self) -> set[frozenset[int]]:
        """Pairs of classes of which an image of the one was said not to be of the other."""
        whole = [self.registry.root(entry).id for entry in self.registry.entries]
        classes = said_classes(self.registry, self.said)
        return {frozenset((cls, whole[other])) for i, cls in classes.items() for other in self.said[i].rejected}

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
        used = rows_in_use(self.registry)
        smallest = (self.said[i].row if i in self.said else row for i, row in enumerate(review.counted.tolist()))
        counted = [used.get(row, row) for row in smallest]
        places = [i for i, row in enumerate(counted) if row in column and pool.sizes[row] > 1]
        rows = [counted[i] for i in places]
        columns, lengths = [column[row] for row in rows], torch.from_numpy(pool.lengths[rows])
        cosines[places, columns] = leave_one_out(cosines[places, columns] * lengths, lengths.square())
        return torch.stack([cosines[:, rule.owner == i].amax(1) for i in range(len(self.entries))], 1)

    def _beyond(self, images: int) -> float:
        """The odds by which so many images are of two classes of the typical size, rather than of one: 1 or more."""
        return float(max(1.0, images / self.typical) ** (2 / self.spread))

    def _label(self, place: int) -> str:
        return str(self.registry.label(self.entries[place]))

    def _members(self, place: int) -> np.ndarray:
        return np.flatnonzero(self.given.numpy() == place)

    def _apart(self, place: int) -> list[int]:
        """The classes that a person said this one is not the same as."""
        ids = self.registry.held_apart_from(self.entries[place])
        return [i for i, other in enumerate(self.entries) if other.id in ids]

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
            own = self.cosines[members, place]
            for other in {int(shares.argmax()), int((shares * self.is_new).argmax())}:
                if shares[other]:
                    loss = float((own - self.cosines[members, other]).mean())
                    odds = float(shares[other]) * math.exp(-LOSS * loss) * DOUBT ** len(apart)
                    yield self._same(place, other, odds)

    def _same(self, place: int, other: int, odds: float) -> Question:
        """Whether two classes are the same, which is as likely as `odds` if their sizes say nothing against it."""
        ids = sorted(self.entries[i].id for i in (place, other))
        sizes = self.sizes[place], self.sizes[other]
        odds *= SAME_ODDS / self._beyond(sum(sizes)) if self.is_new[other] else OLD_ODDS
        odds *= CONTRADICTED if frozenset(ids) in self.contradicted else 1
        text = f"Are {self._label(place)} and {self._label(other)} the same kind?"
        probability = odds / (1 + odds)
        gain = probability * (min(sizes) + NUMBER * self.typical)
        return Question(SAME, (ids[0], ids[1]), (), text, gain, probability=probability)

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
            worth = float(gained[one] / self.penalty.of(len(images)))
            question = None if place in asked or not self.is_new[place] else self._pair(place, images, worth)
            if question is not None:
                asked.add(place)
                yield question

    def _pair(self, place: int, images: np.ndarray, worth: float) -> Question | None:
        """Whether a group of images (n,), which is `worth` a class, is of the class that most are given."""
        members = self._members(place)
        rest, within = np.setdiff1d(members, images), np.intersect1d(images, members)
        if not len(rest) or not len(within):
            return None
        odds = TWO_ODDS * self._beyond(len(members)) * worth**2
        gain = odds / (1 + odds) * min(len(within), len(rest))
        return self._two(place, (self._typical(rest), self._typical(within)), gain, tuple(images.tolist()))

    def _typical(self, images: np.ndarray) -> int:
        """The image that is most like all of these."""
        points = self.points[images]
        return int(images[(points @ points.sum(0)).argmax()])

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
