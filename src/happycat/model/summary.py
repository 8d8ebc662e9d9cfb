"""Summary of each class after a discovery or a correction: size, confidence, separation, nearest classes, examples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from happycat.model.counts import in_words
from happycat.model.estimator import Happycat
from happycat.model.quality import separation
from happycat.model.registry import ClassEntry
from happycat.model.results import Assignment
from happycat.report.classes import ClassSummary, Kind

TYPICAL, DOUBTFUL, NEAREST = 12, 6, 3  # what is shown of a class


def class_summaries(cat: Happycat, assigned: Sequence[Assignment], points: Tensor, stage: int) -> list[ClassSummary]:
    """Every class that an image can be given, those discovered in `stage` first, then the dropped ones.

    `points` (N, d) are the images in the model's space, in the order of `assigned`.
    """
    return Classes(cat, assigned, points, stage).summaries()


def sentence(rows: Sequence[Assignment], classes: Sequence[ClassSummary]) -> str:
    """How many images are in new classes, in known ones and in none, in words."""
    new = [one for one in classes if one.kind == "new"]
    in_new, in_known = (sum(one.images for one in classes if (one.kind == "new") == wanted) for wanted in (True, False))
    parts = []
    if new:
        parts.append(f"{in_words(in_new)} in {'one new class' if len(new) == 1 else f'{len(new):,} new classes'}")
        parts.append(f"{in_known:,} in known ones")
    else:
        parts.append(f"No new class: {in_words(in_known)} in known ones")
    if rest := len(rows) - in_new - in_known:
        parts.append(f"{rest:,} in none")
    return ", ".join(parts)


class Classes:
    """The living classes, the rows of prototypes that each owns, and the images that each was given.

    `members` are the images of each class, the surest first, then those that a person has spoken of.
    """

    def __init__(self, cat: Happycat, assigned: Sequence[Assignment], points: Tensor, stage: int):
        self.registry, self.entries, self.stage = cat.registry_, list(cat.registry_), stage
        self.assigned, self.points = assigned, points
        self.penalty = cat.calm_.number_model.penalty
        active = self.registry.active()
        self.rows, self.owner = torch.from_numpy(self.registry.pool.vectors[active.rows]), active.owner
        place = {entry.id: i for i, entry in enumerate(self.entries)}
        self.members: list[list[int]] = [[] for _ in self.entries]
        for i in sorted(range(len(assigned)), key=lambda i: (assigned[i].said != "", -assigned[i].probability)):
            if (given := assigned[i].id) is not None:
                self.members[place[given]].append(i)
        self.mean_cosine = cat.mean_cosine_

    def summaries(self) -> list[ClassSummary]:
        """All classes, those that were just discovered first, then the dropped ones."""
        found = [self.summary(place) for place in range(len(self.entries))]
        found.sort(key=lambda one: (one.kind != "new", -one.images))
        gone = [entry for entry in self.registry.entries if entry.dropped and entry.rows and not entry.ignored]
        return found + [self.class_summary(entry, "dropped", 0) for entry in gone]

    @cached_property
    def means(self) -> tuple[Tensor, np.ndarray]:
        """The classes' mean images (M, d), and whose each is (M,).

        Of what was just discovered they are made of its images; a class that was known has few or none here, so they
        are its prototypes at the length that a labelled class's mean has.
        """
        just = [i for i, entry in enumerate(self.entries) if self._just_found(entry)]
        known = np.flatnonzero((self.owner >= 0) & ~np.isin(self.owner, just))
        filled = [i for i in just if self.members[i]]
        means = [self.points[self.members[i]].mean(0, keepdim=True) for i in filled]
        return torch.cat([self.rows[known] * self.mean_cosine, *means]), np.concatenate(
            [self.owner[known], np.array(filled, int)]
        )

    def _just_found(self, entry: ClassEntry) -> bool:
        return entry.stage == self.stage and self.stage > 0

    def summary(self, place: int) -> ClassSummary:
        entry, members = self.entries[place], self.members[place]
        kind: Kind = "new" if self._just_found(entry) else "labelled" if entry.labelled else "found"
        open_ones = [i for i in members if not self.assigned[i].said]
        confidence = float(np.mean([self.assigned[i].probability for i in members])) if members else None
        return self.class_summary(
            entry,
            kind,
            len(members),
            confidence=confidence,
            separation=self.separation(place),
            nearest=self._nearest(place),
            typical=tuple(members[:TYPICAL]),
            doubtful=tuple(open_ones[: TYPICAL - 1 : -1][:DOUBTFUL]) if len(open_ones) > TYPICAL else (),
        )

    def class_summary(self, entry: ClassEntry, kind: Kind, images: int, **more: Any) -> ClassSummary:
        return ClassSummary(
            id=entry.id,
            label=str(self.registry.label(entry)),
            name=None if entry.name is None else str(entry.name),
            kind=kind,
            stage=entry.stage,
            images=images,
            total=self.registry.learned_from(entry),
            **more,
        )

    def separation(self, place: int) -> float | None:
        """The separation; of a class that a person merged, the mean over its parts: that they differ was on purpose."""
        means, owner = self.means
        images, others = self.points[self.members[place]], means[owner != place]
        nearest = (images @ self.rows[self.owner == place].T).argmax(1)
        parts = [images[nearest == row] for row in nearest.unique()]
        estimates = [
            (len(part), value) for part in parts if (value := separation(part, others, self.penalty)) is not None
        ]
        return sum(n * value for n, value in estimates) / sum(n for n, _ in estimates) if estimates else None

    def _nearest(self, place: int) -> tuple[tuple[int, str, float], ...]:
        """The known classes that resemble a class most, by the cosine of their prototypes."""
        cosines = self.cosines[place].copy()
        cosines[place] = -np.inf
        best = [i for i in np.argsort(-cosines, kind="stable")[:NEAREST].tolist() if cosines[i] > -np.inf]
        return tuple((self.entries[i].id, str(self.registry.label(self.entries[i])), float(cosines[i])) for i in best)

    @cached_property
    def cosines(self) -> np.ndarray:
        """The largest cosine of the prototypes of each two classes (C, C); −∞ with those that were just discovered."""
        by_owner = np.argsort(self.owner, kind="stable")[(self.owner < 0).sum() :]
        rows = self.rows[by_owner].numpy()
        first = np.searchsorted(self.owner[by_owner], np.arange(len(self.entries)))
        both = np.maximum.reduceat(np.maximum.reduceat(rows @ rows.T, first, axis=0), first, axis=1)
        both[:, [self._just_found(entry) for entry in self.entries]] = -np.inf
        return both
