"""Facility location: candidates are chosen so that each image has a component with a large cosine.

Added one by one, then each is exchanged for a better one as long as there is one. Nothing is drawn at random. What each
group would gain is kept, and what each image has; only the images that a group explains which comes or goes are looked
at again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from happycat.methods.calm.candidates import Explained

SWEEPS = 10  # of exchanges at most
TOLERANCE = 1e-5  # an image, of what an exchange gains
ROUNDING = 1e-9  # of gains that are 0


class Component(NamedTuple):
    """A selected group: how many images are nearest to it, and the sum of cosines that they lose without it."""

    images: float
    loss: float


class Selection:
    """Chosen candidates; `have` (N,) is the cosine that images have without any.

    `order` are the groups that are chosen. Where no group explains anything more, single images are: group M + i is
    image i alone.
    """

    def __init__(self, have: np.ndarray, explained: Explained):
        self.have, self.explained = have.astype(np.float64), explained
        self.num_groups = len(explained.start) - 1
        pairs = csr_array((explained.cosine, explained.image, explained.start), (self.num_groups, len(have)))
        self._by_image = pairs.tocsc()
        self.order: list[int] = []
        self._place = np.zeros(self.num_groups, int)  # of each group in the order, + 1; 0 for what is not chosen
        self.top, self.second = self.have.copy(), self.have.copy()  # each image's two largest cosines
        self.nearest = np.zeros(len(have), int)  # whose the largest is: 0 nobody's, or a place + 1
        group = np.repeat(np.arange(self.num_groups), np.diff(explained.start))
        more = np.maximum(explained.cosine - self.have[explained.image], 0)
        self.gains = np.bincount(group, more, self.num_groups)  # each group's, to the sum of all largest cosines

    def choose(self, number: int) -> list[int]:
        """So many groups, after exchanges that explain more; each image by itself if there are no more images."""
        if number >= len(self.have):
            return [self.num_groups + place % len(self.have) for place in range(number)]
        for _ in range(number):
            self.add()
        for _ in range(SWEEPS):
            if not sum(self.exchange(place) for place in range(number)):
                break
        return self.order

    def growing(self) -> Iterator[list[Component]]:
        """The components when there are 1, 2, 3, … of them, up to one for each image."""
        while len(self.order) < len(self.have):
            for place in self.add():
                self.exchange(place)
            yield self.components()

    def add(self) -> list[int]:
        """Choose the group that gains most; returns the places of all that lost images to it."""
        best = int(self.gains.argmax()) if self.num_groups else 0
        if not self.num_groups or self.gains[best] <= ROUNDING:
            alone = [group - self.num_groups for group in self.order if group >= self.num_groups]
            worst = self.top.copy()
            worst[alone] = np.inf
            best = self.num_groups + int(worst.argmin())
        self.order.append(best)
        images = self._images(best)
        lost = self.nearest[images]
        self._put(best, len(self.order), images)
        lost = lost[(self.nearest[images] == len(self.order)) & (lost > 0)]
        return (np.unique(lost) - 1).tolist()

    def exchange(self, place: int) -> bool:
        """Exchange a chosen group for the one that gains most in its place; says whether there is a better one."""
        if not self.num_groups:
            return False
        now = self.order[place]
        own = self._images(now)
        own = own[self.nearest[own] == place + 1]
        gains = self.gains + self._gained(own, self.second[own], self.top[own])
        best = int(gains.argmax())
        if gains[best] <= (gains[now] if now < self.num_groups else 0) + TOLERANCE * len(self.have):
            return False
        self.order[place] = best
        if now < self.num_groups:
            self._place[now] = 0
        self._put(best, place + 1, np.union1d(self._images(now), self._images(best)))
        return True

    def components(self) -> list[Component]:
        images = np.bincount(self.nearest, minlength=len(self.order) + 1)
        losses = np.bincount(self.nearest, self.top - self.second, len(self.order) + 1)
        return [Component(*pair) for pair in zip(images[1:].tolist(), losses[1:].tolist(), strict=True)]

    def _gained(self, images: np.ndarray, have: np.ndarray, had: np.ndarray) -> np.ndarray:
        """What each group gains more (M,) if some images (n,) have these largest cosines, not those that they had."""
        rows, number = _rows(self._by_image.indptr, images)
        cosine, have, had = self._by_image.data[rows], np.repeat(have, number), np.repeat(had, number)
        more = np.maximum(cosine - have, 0) - np.maximum(cosine - had, 0)
        return np.bincount(self._by_image.indices[rows], more, self.num_groups)

    def _images(self, group: int) -> np.ndarray:
        """The images that a group explains, in order; of an image alone, none."""
        if group >= self.num_groups:
            return np.zeros(0, int)
        return self.explained.image[self.explained.start[group] : self.explained.start[group + 1]]

    def _put(self, group: int, place: int, images: np.ndarray) -> None:
        """Put a group at a place (+ 1); `images` (n,) are those whose largest cosines may not be what they were."""
        if group < self.num_groups:
            self._place[group] = place
        rows, number = _rows(self._by_image.indptr, images)
        places = self._place[self._by_image.indices[rows]]
        chosen = places > 0
        image, places = np.repeat(np.arange(len(images)), number)[chosen], places[chosen]
        cosine = self._by_image.data[rows[chosen]]
        had, top, second = self.top[images], self.have[images], self.have[images]
        np.maximum.at(top, image, cosine)
        largest = cosine == top[image]
        nearest = np.full(len(images), len(self.order) + 1)
        np.minimum.at(nearest, image[largest], places[largest])  # of those that are the same, the first
        others = nearest[image] != places
        np.maximum.at(second, image[others], cosine[others])
        self.top[images], self.second[images] = top, second
        self.nearest[images] = np.where(nearest > len(self.order), 0, nearest)
        changed = top != had
        self.gains += self._gained(images[changed], top[changed], had[changed])


def _rows(start: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers from start[i] to start[i + 1] for each i of `which`, one after the other, and how many each has."""
    number = start[which + 1] - start[which]
    return np.arange(number.sum()) + np.repeat(start[which] - number.cumsum() + number, number), number
