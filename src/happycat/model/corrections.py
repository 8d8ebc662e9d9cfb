"""Corrections of a model file: what a person says of its classes becomes its next version; needs no torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from happycat.model import file as model_file
from happycat.model.file import Part
from happycat.model.registry import ClassRegistry


class Corrected(NamedTuple):
    """What a correction says of itself, and the version that it made."""

    message: str
    version: int


def correct(path: str | Path, what: str, change: Callable[[ClassRegistry], str], wait: bool = False) -> Corrected:
    """Change the classes of a model file and store that as its next version; nothing is stored if `change` raises.

    `what` is said of the version, `change` gives the message. While another process changes the file, it is waited
    for, or said who that is.
    """
    with model_file.locked(path, wait):
        file = model_file.read(path)
        registry = ClassRegistry.of(file.metadata, file.arrays)
        message = change(registry)
        version = Part({**file.metadata, **registry.metadata()}, file.arrays)
        return Corrected(message, model_file.append(path, version, file.tag, what).number)


def undo(path: str | Path, wait: bool = False) -> int:
    """Go back to the version before; its number is returned. The ids that are undone are never given again."""
    with model_file.locked(path, wait):
        return model_file.undo(path)
