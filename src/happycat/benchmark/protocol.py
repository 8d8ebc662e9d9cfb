"""The C-GCD protocol: labelled base classes, then stages of unlabelled images, and a test set for each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from happycat.base.config import Checked, described, setting
from happycat.base.disk import read_json, write_json
from happycat.base.errors import InputError
from happycat.base.sealed import read_sealed
from happycat.benchmark.split_checks import check_structure
from happycat.images.pictures import Images, Pictures, Subset

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Protocol(Checked):
    """How a data set is cut into Stage-0 and T continual stages (the paper's table of splits).

    `labelled_share` of each base class is labelled, rounded down; the rest is the pool that serves it again later,
    unlabelled.
    At its own stage a new class brings `new_per_class` images, at every later one `old_per_class`.
    None derives both from the class: `labelled_share` of its images, and a sixteenth of those.
    `overlap=True` draws the images of an earlier class from all that it has, as the authors' program does;
    `overlap=False` serves no image twice and shares out what is left over the remaining stages.
    """

    base_classes: int = field(metadata=described("base classes: how many classes are labelled at Stage-0", 2))
    stages: int = setting(5, "how many stages follow Stage-0", 1)
    labelled_share: float = setting(0.8, "share of a base class's images that are labelled", 0.01, 0.99)
    new_per_class: int | None = setting(None, "images of each new class at its stage", 1)
    old_per_class: int | None = setting(None, "images of each earlier class at every stage", 1)
    overlap: bool = setting(True, "an image may be served again at a later stage, as in the authors' program")
    split_seed: int = setting(0, "random seed of the split: which images are labelled, and which are served when", 0)
    order_seed: int | None = setting(
        None, "random seed that shuffles the class order [the published order; without one, the split's seed]", 0
    )


@dataclass(frozen=True)
class Split:
    """Which images are served when, in keys; the same file gives the same images everywhere.

    `classes` stand in the order of their discovery, base first: a class's id is its place here.
    `labelled` and `test` map a class to its keys; `stages[t-1]` has the `new` classes and the `images` of stage t.
    """

    dataset: str
    protocol: Protocol
    classes: tuple[str, ...]
    labelled: dict[str, list[str]]
    stages: tuple[dict, ...]
    test: dict[str, list[str]]

    def num_seen(self, stage: int) -> int:
        """How many classes there are after this stage."""
        return self.protocol.base_classes + sum(len(s["new"]) for s in self.stages[:stage])

    def num_new(self, stage: int) -> int:
        return len(self.stages[stage - 1]["new"])

    def content(self) -> dict[str, Any]:
        """What a split file holds."""
        return {"format": FORMAT, **asdict(self)}

    def write(self, path: Path) -> None:
        """Write it as a file to publish."""
        write_json(path, self.content())

    @classmethod
    def read(cls, path: Path) -> Split:
        """The split of a file; one of a run folder has a checksum, which is verified."""
        data = read_json(path)
        return cls.of(read_sealed(path) if "sha256" in data else data, str(path))

    @classmethod
    def of(cls, data: dict[str, Any], what: str) -> Split:
        """The split that a file held; `what` names the file if it is none."""
        if data.get("format", FORMAT) != FORMAT:
            raise InputError(f"{what} is a split of another format; this version reads format {FORMAT}")
        try:
            check_structure(data)
            protocol = Protocol(**data["protocol"])
        except (InputError, TypeError) as error:
            raise InputError(f"{what} is not a split file ({error})") from error
        return cls(
            dataset=data["dataset"],
            protocol=protocol,
            classes=tuple(data["classes"]),
            labelled=data["labelled"],
            stages=tuple(data["stages"]),
            test=data["test"],
        )


def read_order(path: Path) -> tuple[str, ...]:
    """Class names, one a line, in the order in which they are to be met."""
    try:
        return tuple(line.strip() for line in Path(path).read_text("utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the class order {path} cannot be read: {error}") from error


def default_protocol(images: Images, **changes: float | None) -> Protocol:
    """The protocol that the data set is usually run with, with some values changed."""
    values = {"base_classes": max(2, len(images.classes) // 2), **images.protocol}
    values.update({name: value for name, value in changes.items() if value is not None})
    known = {f.name for f in fields(Protocol)}
    if unknown := set(values) - known:
        raise InputError(f"unknown protocol values {sorted(unknown)}; known: {sorted(known)}")
    return Protocol(**values)


def make_split(images: Images, protocol: Protocol, order: tuple[str, ...] | None = None) -> Split:
    """Cut a data set by the protocol.

    `order` names all classes in the order they are met. Without it they are shuffled by `order_seed`; without that,
    the published order is taken where the data set has one, and otherwise they are shuffled by the split's seed.
    """
    names = _class_order(images, protocol, order)
    if len(set(images.classes)) != len(images.classes):
        raise InputError(f"{images.name}: class names are not unique")
    base, novel = names[: protocol.base_classes], names[protocol.base_classes :]
    if len(novel) < protocol.stages:
        raise InputError(
            f"{images.name}: {len(names)} classes, {len(base)} of them base, leave {len(novel)} new classes "
            f"for {protocol.stages} stages; use fewer base classes or fewer stages"
        )
    size = len(novel) // protocol.stages  # the last stage takes what is left over
    starts = [t * size for t in range(protocol.stages)]
    parts = [novel[a:b] for a, b in zip(starts, [*starts[1:], len(novel)], strict=True)]
    drawers = {name: _Drawer(images, name, protocol) for name in names}
    labelled = {name: drawers[name].label() for name in base}
    stages = []
    for t, new in enumerate(parts, 1):
        seen = base + [name for part in parts[: t - 1] for name in part]
        served = {name: drawers[name].serve_old(t) for name in seen}
        served.update({name: drawers[name].serve_new() for name in new})
        stages.append({"new": new, "images": {name: keys for name, keys in served.items() if keys}})
    test = {name: _keys_of(images.test, images.test_labels, images.classes.index(name)) for name in names}
    return Split(images.name, protocol, tuple(names), labelled, tuple(stages), test)


def _class_order(images: Images, protocol: Protocol, order: tuple[str, ...] | None) -> list[str]:
    if order is not None and protocol.order_seed is not None:
        raise InputError("a class order is given, and a seed to shuffle it by; give one of the two")
    if order is None:
        if protocol.order_seed is None and images.order is not None:
            return [images.classes[c] for c in images.order]
        seed = protocol.split_seed if protocol.order_seed is None else protocol.order_seed
        return [images.classes[c] for c in np.random.default_rng(seed).permutation(len(images.classes))]
    if unknown := [name for name in order if name not in images.classes]:
        raise InputError(f"the class order names {unknown[0]!r}, which {images.name} does not have")
    if len(set(order)) != len(order):
        raise InputError("the class order names a class twice")
    if len(order) <= protocol.base_classes:
        raise InputError(
            f"the class order has {len(order)} classes, of which {protocol.base_classes} are base: none is new"
        )
    return list(order)


def _keys_of(pictures: Pictures, labels: np.ndarray, c: int) -> list[str]:
    return [pictures.keys[i] for i in np.flatnonzero(labels == c)]


class _Drawer:
    """Draws the images of one class, stage after stage, from its own random stream."""

    def __init__(self, images: Images, name: str, protocol: Protocol):
        c = images.classes.index(name)
        keys = _keys_of(images.train, images.train_labels, c)
        if len(keys) < 2:
            raise InputError(f"{images.name}: class {name!r} has {len(keys)} training images, at least 2 are needed")
        self.protocol = protocol
        self.random = np.random.default_rng([protocol.split_seed, c])
        share = max(1, min(len(keys) - 1, int(protocol.labelled_share * len(keys) + 1e-9)))
        self.num_labelled = share
        self.num_new = min(len(keys), protocol.new_per_class or share)
        self.num_old = protocol.old_per_class or max(1, self.num_new // 16)
        self.pool = [keys[i] for i in self.random.permutation(len(keys))]

    def _take(self, number: int) -> list[str]:
        taken, self.pool = self.pool[:number], self.pool[number:]
        return taken

    def label(self) -> list[str]:
        return self._take(self.num_labelled)

    def serve_new(self) -> list[str]:
        return self.pool[: self.num_new] if self.protocol.overlap else self._take(self.num_new)

    def serve_old(self, stage: int) -> list[str]:
        if self.protocol.overlap:
            chosen = self.random.permutation(len(self.pool))[: self.num_old]
            return [self.pool[i] for i in chosen]
        remaining = self.protocol.stages - stage + 1
        return self._take(min(self.num_old, -(-len(self.pool) // remaining)))


def labelled_pictures(images: Images, split: Split) -> tuple[Subset, np.ndarray]:
    """Stage-0: pictures and their class ids."""
    return _with_ids(images.train, split.labelled, split.classes)


def unlabelled_pictures(images: Images, split: Split, stage: int) -> Subset:
    """The pictures of a stage in an order that says nothing about their classes."""
    keys = [key for keys in split.stages[stage - 1]["images"].values() for key in keys]
    shuffled = np.random.default_rng([split.protocol.split_seed, stage]).permutation(sorted(keys))
    return Subset(images.train, [str(key) for key in shuffled])


def test_pictures(images: Images, split: Split, stage: int) -> tuple[Subset, np.ndarray]:
    """Test pictures, with ids, of the classes that are new at this stage (stage 0: the base classes).

    The test set of a stage is all of these up to it: every class seen so far.
    """
    first, last = (0 if stage == 0 else split.num_seen(stage - 1)), split.num_seen(stage)
    return _with_ids(images.test, {c: split.test[c] for c in split.classes[first:last]}, split.classes)


def _with_ids(pictures: Pictures, by_class: dict, classes: tuple[str, ...]) -> tuple[Subset, np.ndarray]:
    pairs = [(key, classes.index(name)) for name, keys in by_class.items() for key in keys]
    ids = np.array([c for _, c in pairs], dtype=np.int64)
    return Subset(pictures, [key for key, _ in pairs]), ids


def check_split(split: Split, batch_size: int) -> None:
    """Refuse, before anything is computed, a split that a stage would stumble over."""
    number = sum(len(keys) for keys in split.labelled.values())
    stages = [("Stage-0", len(split.labelled), number)]
    for t, stage in enumerate(split.stages, 1):
        stages.append((f"stage {t}", len(stage["new"]), sum(len(keys) for keys in stage["images"].values())))
    for name, num_new, number in stages:
        if number == 0:
            raise InputError(f"{name} has no images; take it out of the split")
        if num_new > number:
            raise InputError(f"{name} has {num_new} new classes but only {number} images; ask for fewer classes")
        if number < batch_size:
            raise InputError(
                f"{name} has {number} images, fewer than a batch of {batch_size}; "
                f"use a batch size of {number} or less, or give more images"
            )
    if empty := [name for name in split.classes if not split.test.get(name)]:
        raise InputError(f"{len(empty)} classes have no test image (first: {empty[0]!r}); give each at least one")


def plan_text(split: Split) -> str:
    """The split in words, a line a stage."""
    rows = [f"Stage-0: {len(split.labelled)} labelled classes, {sum(map(len, split.labelled.values()))} images"]
    for t, stage in enumerate(split.stages, 1):
        number = sum(map(len, stage["images"].values()))
        rows.append(f"Stage {t}: {len(stage['new'])} new classes, {number} unlabelled images")
    return "\n".join(rows)
