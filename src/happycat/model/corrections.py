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

from happycat.model import file as model_file
from happycat.model.chosen import Chosen
from happycat.model.file import Part, Updated
from happycat.model.reading import Opened, open_model
from happycat.model.registry import ClassRegistry
from happycat.model.review import Review, last_review, review_of_stage

if TYPE_CHECKING:
    from happycat.methods.calm.prediction import Decision
    from happycat.model.reviewed import ReviewedImages

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Corrected(Generic[Result]):
    """What a correction returned, the classes as they are now, and the version that it made.

    `decision` are the classes that the images of the last discovery are given now, where that was computed.
    """

    result: Result
    registry: ClassRegistry
    version: int
    decision: Decision | None = None


class Correction:
    """A model file that is being corrected: its classes, which may be changed, and the images of its last discovery."""

    def __init__(self, path: Path, opened: Opened, review: Review | None):
        self.path, self._review = path, review
        self.file, self.registry = opened

    @property
    def stage(self) -> int:
        return self.file.metadata["stage"]

    @cached_property
    def review(self) -> Review:
        """The images of the last discovery."""
        return self._review or last_review(self.path)

    @cached_property
    def slack(self) -> float:
        """By which the cosine of an image may be less than what is usual in its class, before it is rejected."""
        return float(self.file.arrays["shortfall"] + 2 * self.file.arrays["deviation"])

    @cached_property
    def images(self) -> ReviewedImages:
        """The images of the last discovery and the classes that they are given."""
        import torch

        from happycat.model.reviewed import ReviewedImages

        temperature = torch.from_numpy(self.file.arrays["softmax_temperature"])
        return ReviewedImages(self.registry, self.review, temperature, self.slack, self.stage)

    def chosen(self, places: Sequence[int]) -> Chosen:
        """Images of the last discovery, by their places."""
        return self.images.chosen(places)

    def members(self, which: int | str) -> list[int]:
        """The places of the images that a class is given."""
        return self.images.members(which)

    def count_again(self) -> Decision | None:
        """Count the images of the last discovery by the classes that they are given now, if they are there."""
        review = self._review or review_of_stage(self.path, self.stage)
        if review is None or review.stage != self.stage:
            return None
        import torch

        from happycat.model.classes import count_images

        temperature = torch.from_numpy(self.file.arrays["softmax_temperature"])
        return count_images(self.registry, torch.from_numpy(review.points), temperature, self.stage, review.digests)


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
        opened = open_model(path)
        file, registry = opened
        correction = Correction(path, opened, review)
        before = _who_is_given(registry)
        result = change(correction)
        decision = None
        if not all(map(np.array_equal, before, _who_is_given(registry))) or images:
            decision = correction.count_again()
        version = Part({**file.metadata, **registry.metadata()}, Updated(file.arrays, registry.new_arrays()))
        more = {} if images is None else {"images": images}
        text = what if isinstance(what, str) else what(result)
        number = model_file.append(path, version, file.tag, text, more).number
    return Corrected(result=result, registry=registry, version=number, decision=decision)


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
