"""Corrections of a model file: what a person says of its classes and images becomes its next version.

A correction that changes who is given images counts those of the last discovery again, which needs torch; naming a
class, `undo` and `redo` do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from happycat.base.errors import InputError
from happycat.model import file as model_file
from happycat.model.file import ModelFile, Part, Updated
from happycat.model.membership import Chosen
from happycat.model.registry import ClassRegistry
from happycat.model.review import Review, last_review, review_of_stage
from happycat.model.statements import as_bytes

if TYPE_CHECKING:
    from happycat.methods.calm.prediction import Decision

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Corrected(Generic[Result]):
    """What a correction returned, the classes as they are now, and the version that it made."""

    result: Result
    registry: ClassRegistry
    version: int


class Correction:
    """A model file that is being corrected: its classes, which may be changed, and the images of its last discovery."""

    def __init__(self, path: Path, file: ModelFile, review: Review | None):
        self.path, self.file, self._review = path, file, review
        self.registry = ClassRegistry.of(file.metadata, file.arrays)

    @property
    def stage(self) -> int:
        return self.file.metadata.get("stage", 0)

    @cached_property
    def review(self) -> Review:
        """The images of the last discovery."""
        return self._review or last_review(self.path)

    @cached_property
    def slack(self) -> float:
        """By which the cosine of an image may be less than what is usual in its class, before it is rejected."""
        return float(self.file.arrays["shortfall"] + 2 * self.file.arrays["deviation"])

    def decision(self) -> Decision:
        """The classes that the images are given, as the registry is now."""
        import torch

        from happycat.model.classes import decide

        temperature = torch.from_numpy(self.file.arrays["softmax_temperature"])
        return decide(self.registry, temperature, torch.from_numpy(self.review.points), self.review.digests)

    def chosen(self, places: Sequence[int]) -> Chosen:
        """Images of the last discovery, by their places."""
        if not len(places) or len(set(places)) < len(places):
            raise InputError("give at least one image, and each once")
        if not all(0 <= place < len(self.review.keys) for place in places):
            raise InputError(f"the last discovery has {len(self.review.keys)} images, from 0 on")
        ids = [entry.id for entry in self.registry]
        assigned = self.decision().assigned[list(places)].tolist()
        return Chosen(
            digests=[digest for place in places for digest in as_bytes(self.review.digests[place])],
            points=self.review.learned[list(places)],
            counted=self.review.counted[list(places)],
            given=[ids[one] if one >= 0 else None for one in assigned],
            slack=self.slack,
        )

    def members(self, which: int | str) -> list[int]:
        """The places of the images that a class is given."""
        wanted = [entry.id for entry in self.registry].index(self.registry.find(which).id)
        return np.flatnonzero(self.decision().assigned.numpy() == wanted).tolist()

    def count_again(self) -> None:
        """Count the images of the last discovery by the classes that they are given now, if they are there."""
        review = self._review or review_of_stage(self.path, self.file.metadata.get("stage"))
        if review is None or review.stage != self.stage:
            return
        import torch

        from happycat.model.classes import count_images

        temperature = torch.from_numpy(self.file.arrays["softmax_temperature"])
        count_images(self.registry, torch.from_numpy(review.points), temperature, self.stage, review.digests)


def correct(
    path: str | Path, what: str, change: Callable[[ClassRegistry], Result], wait: bool = False
) -> Corrected[Result]:
    """Change the classes of a model file and store that as its next version; nothing is stored if `change` raises.

    `what` is said of the version. While another process changes the file, it is waited for, or said who that is.
    """
    return correct_images(path, what, lambda correction: change(correction.registry), wait)


def correct_images(
    path: str | Path,
    what: str | Callable[[Result], str],
    change: Callable[[Correction], Result],
    wait: bool = False,
    images: int | None = None,
    review: Review | None = None,
) -> Corrected[Result]:
    """The same for a change of images, too, of which `images` are spoken of.

    A `review` that was read is not read again. `what` may be made of what the change returns.
    """
    path = Path(path)
    with model_file.locked(path, wait):
        file = model_file.read(path)
        correction = Correction(path, file, review)
        registry = correction.registry
        before = _who_is_given(registry)
        result = change(correction)
        if not all(map(np.array_equal, before, _who_is_given(registry))) or images:
            correction.count_again()
        version = Part({**file.metadata, **registry.metadata()}, Updated(file.arrays, registry.new_arrays()))
        more = {} if images is None else {"images": images}
        text = what if isinstance(what, str) else what(result)
        number = model_file.append(path, version, file.tag, text, more).number
    return Corrected(result=result, registry=registry, version=number)


def _who_is_given(registry: ClassRegistry) -> tuple[np.ndarray, ...]:
    return *registry.active(), np.array([entry.id for entry in registry])


def undo(path: str | Path, wait: bool = False) -> int:
    """Go back to the version before; its number is returned. The ids that are undone are never given again."""
    with model_file.locked(path, wait):
        return model_file.undo(path)


def redo(path: str | Path, wait: bool = False) -> int:
    """Bring back the version that was undone last; its number is returned."""
    with model_file.locked(path, wait):
        return model_file.redo(path)


def go_to(path: str | Path, number: int, wait: bool = False) -> int:
    """Go back or forth to a version."""
    with model_file.locked(path, wait):
        return model_file.go_to(path, number)
