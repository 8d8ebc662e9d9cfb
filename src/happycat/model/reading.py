"""Reading a model: the present version of its file, checked against the schema, and its classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

from happycat.base.errors import StorageError
from happycat.model import file as model_file
from happycat.model.file import ModelFile
from happycat.model.registry import ClassRegistry
from happycat.model.schema import BASE, CLASSES, MORE_OF_BASE, STATE, check_arrays, check_keys

LEAST = {"temperature": 1e-6, "softmax_temperature": 1e-6, "exponent": 0.0, "deviation": 0.0}
LONGEST_MEAN = 1.01  # of the means of unit features: 1, but for rounding


class Opened(NamedTuple):
    """The present version of a model file, and its classes, which may be changed."""

    file: ModelFile
    registry: ClassRegistry


def open_model(path: str | Path) -> Opened:
    """The present version of a model file, and its classes."""
    file = read_checked(path)
    return Opened(file, ClassRegistry.of(file.metadata, file.arrays))


def read_checked(path: str | Path) -> ModelFile:
    """The present version of a model file; what does not fit together, or cannot be computed with, is refused."""
    file = model_file.read(path)
    with content_errors(path):
        check_keys(file.base.metadata, BASE, MORE_OF_BASE, "the base")
        check_keys(file.metadata, {**CLASSES, **STATE}, None, "the version")
        check_arrays(file.arrays.entries, file.metadata["chunks"])
        for name, least in LEAST.items():
            if not least <= float(file.arrays[name]) <= 1e6:
                raise ValueError(f"the {name} {file.arrays[name]}")
        if np.linalg.norm(file.arrays["space.mean"].astype(np.float64)) > LONGEST_MEAN:
            raise ValueError("a mean that is none of unit features")
    return file


@contextmanager
def content_errors(path: str | Path) -> Iterator[None]:
    """Turn what is wrong with the content of a model file into one clear line."""
    try:
        yield
    except KeyError as error:
        raise StorageError(
            f"{path} has no {error}, which this version of happycat needs: another one made it; fit the model again"
        ) from error
    except (ValueError, TypeError, RuntimeError) as error:
        raise StorageError(f"{path} holds something that is not a happycat model ({error})") from error
