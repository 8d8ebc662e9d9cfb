"""Another number of new classes for the last discovery: what it would change, and the version that it makes.

The review holds the discovery's images as points of the model's space, which is all that Calm's search needs: no image
is read, and no backbone. Classes that a person has named, made or spoken of images of stay as they are, with their
images; the others are looked for again, with the same search, which draws nothing at random. So without any
correction the result is what a discovery with that number would have found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from happycat.base.disk import storage_errors
from happycat.base.errors import InputError
from happycat.base.progress import SILENT, Progress
from happycat.methods.calm.mixture import Mixture
from happycat.methods.calm.prediction import nearest
from happycat.model import file as model_file
from happycat.model.classes import assignments, count_images, decide, remember, take_up
from happycat.model.counts import in_words
from happycat.model.discovering import write_results
from happycat.model.entry import ClassEntry
from happycat.model.estimator import Happycat
from happycat.model.fitting import searched
from happycat.model.registry import ClassRegistry
from happycat.model.review import Review, last_discovery, last_review

SHOWN = 6  # images of what a class would become
NO_CLASS = -1


class Change(NamedTuple):
    """What becomes of some of the present classes: a sentence, their ids, and images of each class that they become."""

    text: str
    classes: tuple[int, ...]
    parts: tuple[tuple[int, ...], ...]


class Renumbering:
    """The search for another number of new classes; the model in memory, which is its own, is changed by it."""

    def __init__(self, cat: Happycat, review: Review, progress: Progress = SILENT):
        self.cat, self.review = cat, review
        registry, calm = cat.registry_, cat.calm_
        if review.stage != cat.stage_ or not review.stage:
            raise InputError("only the last discovery can be made again with another number of classes")
        self.points, self.learned = torch.from_numpy(review.points), torch.from_numpy(review.learned)
        self.labels = {entry.id: str(registry.label(entry)) for entry in registry}
        self.given = self._given()
        new = [entry for entry in registry if entry.stage == review.stage]
        touched = _touched(registry, review)
        self.kept = [entry.id for entry in new if entry.id in touched]
        self.open = [entry.id for entry in new if entry.id not in touched]
        settled = self._images_of_kept()
        for number in self.open:
            registry.forget(registry.entries[number])
        remember(calm, registry)
        self.free, barred = searched(registry, review.digests, settled)
        progress.step("looking for groups of images")
        self.search = calm.search(self.learned[self.free], barred) if len(self.free) else None
        self._found: dict[int, Mixture] = {}

    @property
    def now(self) -> int:
        """How many new classes there are."""
        return len(self.kept) + len(self.open)

    @property
    def numbers(self) -> range:
        """The numbers of new classes that there can be."""
        return range(len(self.kept), len(self.kept) + len(self.free) + 1)

    def changes(self, number: int) -> list[Change]:
        """What would become of the present classes if there were so many new ones; those of most images first."""
        centres = self._mixture(number).centres
        prototypes = self.cat.calm_.memory.prototypes
        cosine, row = nearest(self.learned[self.free], torch.cat([prototypes, centres]))
        free = self.free.numpy()
        members = []
        for place in range(len(prototypes), len(prototypes) + len(centres)):
            own = (row == place).nonzero()[:, 0]
            members.append(free[own[cosine[own].argsort(descending=True)].numpy()])
        return _compared(self, members, dict(zip(free.tolist(), row.tolist(), strict=True)))

    def learn(self, number: int) -> Review:
        """Let the model have so many new classes; the review of the images with them."""
        registry, calm, review = self.cat.registry_, self.cat.calm_, self.review
        there = {row for entry in registry.entries for row in entry.rows}
        counted = np.array([row if row in there else NO_CLASS for row in review.counted.tolist()], np.int64)
        if self.search is not None:
            calm.learn(self.learned[self.free], self._mixture(number))
            places = self.free.numpy()
            _, counted[places] = take_up(registry, calm, self.points[places], self.learned[places], review.stage)
        count_images(registry, self.points, calm.softmax_temperature, review.stage, review.digests)
        return replace(review, counted=counted, found=number)

    def _mixture(self, number: int) -> Mixture:
        if number not in self.numbers:
            first, last = self.numbers[0], self.numbers[-1]
            raise InputError(f"there can be {first} to {last} new classes among these images, not {number}")
        if number not in self._found:
            if self.search is None:
                raise InputError("a person has said of every image where it belongs, so nothing is found again")
            temperature = float(self.cat.calm_.temperature)
            self._found[number] = self.search.best(number - len(self.kept), temperature)
        return self._found[number]

    def _given(self) -> list[int]:
        """The id of the class that each image is given now, or −1."""
        temperature, digests = self.cat.calm_.softmax_temperature, self.review.digests
        ids = [*(entry.id for entry in self.cat.registry_), NO_CLASS]
        assigned = decide(self.cat.registry_, temperature, self.points, digests).assigned.tolist()
        return [ids[place] for place in assigned]

    def _images_of_kept(self) -> set[int]:
        """The places of images that the classes that stay are given, or whose prototypes count them in."""
        registry = self.cat.registry_
        rows = {row for number in self.kept for row in registry.owned(registry.entries[number])}
        counted = {i for i, row in enumerate(self.review.counted.tolist()) if row in rows}
        return counted | {i for i, number in enumerate(self.given) if number in self.kept}


def renumber(model: Path, number: int, progress: Progress = SILENT) -> int:
    """Give the last discovery another number of new classes, as the next version, whose number is returned.

    Hold `happycat.model.file.locked` meanwhile.
    """
    cat, review = Happycat.load(model), last_review(model)
    before = last_discovery(model_file.history(model))
    again = Renumbering(cat, review, progress)
    progress.step(f"looking for {number} classes")
    review = again.learn(number)
    registry, calm = cat.registry_, cat.calm_
    decision = decide(registry, calm.softmax_temperature, again.points, review.digests)
    rows = assignments(registry, review.keys, decision, review.digests)
    new = [entry.id for entry in registry if entry.stage == review.stage]
    now = {"images": len(rows), "new": new, "unsure": sum(row.unsure for row in rows)}
    summary: dict[str, Any] = {**(before or {}).get("found", {}), **now}
    folder = model.with_name(f"{model.stem}-{model_file.read(model).number + 1}")
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    progress.step("drawing the page")
    what = f"discover again with {number} new {'class' if number == 1 else 'classes'}"
    written = write_results(cat, review, rows, summary, model, folder, what)
    progress.close()
    return written


def _touched(registry: ClassRegistry, review: Review) -> set[int]:
    """The ids of the classes that a person made, named, or spoke of."""
    found, said = set(review.counted.tolist()), set()
    for _, statement in registry.statements:
        said |= {statement.cls, *statement.rejected}
    said |= {number for pair in registry.apart for number in pair}
    said |= {entry.merged_into for entry in registry.entries}

    def touched(entry: ClassEntry) -> bool:
        own = len(entry.rows) == 1 and entry.rows[0] in found  # as the discovery made it
        return entry.name is not None or entry.taught or entry.id in said or (bool(found) and not own)

    return {entry.id for entry in registry if touched(entry)}


def _compared(again: Renumbering, members: Sequence[np.ndarray], rows: dict[int, int]) -> list[Change]:
    """What becomes of the classes if their images are divided into these new ones instead."""
    source = [_most(again.given[i] for i in images.tolist()) for images in members]
    owner = again.cat.registry_.active().owner.tolist()
    ids = [entry.id for entry in again.cat.registry_]
    known = len(owner)
    before = {number: [i for i in rows if again.given[i] == number] for number in again.open}
    changes: list[tuple[int, Change]] = []
    joining: dict[int, list[int]] = {}  # a new class → the present ones that become part of it

    def named(number: int) -> str:
        return again.labels[number]

    def shown(images: np.ndarray) -> tuple[int, ...]:
        return tuple(images[:SHOWN].tolist())

    for number, images in before.items():
        becoming = [place for place, one in enumerate(source) if one == number]
        if len(becoming) > 1:
            parts = sorted((members[place] for place in becoming), key=len, reverse=True)
            text = f"{named(number)} becomes {_words(len(parts))}, of {_listed(map(len, parts))} images"
            changes.append((len(images), Change(text, (number,), tuple(map(shown, parts)))))
        elif not becoming and images:
            row = Counter(rows[i] for i in images).most_common(1)[0][0]
            if row >= known and source[row - known] in before:
                joining.setdefault(row - known, []).append(number)
            else:
                into = named(ids[owner[row]]) if row < known and owner[row] >= 0 else "no class"
                text = f"{named(number)} is no class any more: most of its images go to {into}"
                changes.append((len(images), Change(text, (number,), ())))
    for place, others in joining.items():
        first = source[place]
        assert first is not None
        joined = sorted([first, *others])
        text = f"{_listed(map(named, joined))} become one, of {in_words(len(members[place]))}"
        changes.append((len(members[place]), Change(text, tuple(joined), (shown(members[place]),))))
    for place, one in enumerate(source):
        if one is not None and one not in before:
            where = "no class" if one == NO_CLASS else named(one)
            text = f"a new class of {in_words(len(members[place]))}, most of them in {where} now"
            changes.append((len(members[place]), Change(text, (), (shown(members[place]),))))
    return [change for _, change in sorted(changes, key=lambda pair: -pair[0])]


def _most(numbers: Iterable[int]) -> int | None:
    """The number that is there most often; None if there is none."""
    found = Counter(numbers).most_common(1)
    return found[0][0] if found else None


def _listed(parts: Iterable[object]) -> str:
    *most, last = map(str, parts)
    return f"{', '.join(most)} and {last}"


def _words(number: int) -> str:
    return {2: "two", 3: "three", 4: "four"}.get(number, str(number))
