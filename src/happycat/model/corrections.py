"""Corrections of a model file: what a person says of its classes becomes its next version.

A correction that changes who is given images counts those of the last discovery again, which needs torch; naming a
class and `undo` do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from happycat.model import file as model_file
from happycat.model.file import ModelFile, Part
from happycat.model.registry import ClassRegistry
from happycat.model.review import points_of_stage

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class Corrected(Generic[Result]):
    """What a correction returned, the classes as they are now, and the version that it made."""

    result: Result
    registry: ClassRegistry
    version: int


def correct(
    path: str | Path, what: str, change: Callable[[ClassRegistry], Result], wait: bool = False
) -> Corrected[Result]:
    """Change the classes of a model file and store that as its next version; nothing is stored if `change` raises.

    `what` is said of the version. While another process changes the file, it is waited for, or said who that is.
    """
    path = Path(path)
    with model_file.locked(path, wait):
        file = model_file.read(path)
        registry = ClassRegistry.of(file.metadata, file.arrays)
        before = registry.active()
        result = change(registry)
        if not all(map(np.array_equal, before, registry.active())):
            points = points_of_stage(path, file.metadata.get("stage"))
            if points is not None:
                _count_again(registry, points, file)
        version = Part({**file.metadata, **registry.metadata()}, file.arrays)
        number = model_file.append(path, version, file.tag, what).number
    return Corrected(result=result, registry=registry, version=number)


def _count_again(registry: ClassRegistry, points: np.ndarray, file: ModelFile) -> None:
    """Count the images `points` (N, d) of the model's last discovery by the classes that they are given now."""
    import torch

    from happycat.model.classes import count_images

    temperature = torch.from_numpy(file.arrays["softmax_temperature"])
    count_images(registry, torch.from_numpy(points), temperature, file.metadata["stage"])


def undo(path: str | Path, wait: bool = False) -> int:
    """Go back to the version before; its number is returned. The ids that are undone are never given again."""
    with model_file.locked(path, wait):
        return model_file.undo(path)
