"""Checks of what the estimator is given: labels, the number of new classes, the random seed, features."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.base.errors import InputError, StorageError
from happycat.images.collecting import num_files
from happycat.images.pictures import Pictures
from happycat.images.sources import Accepted, Label, VectorRows
from happycat.model.naming import checked_name

LARGEST_SEED = 2**62
SAME = 1e-6  # difference of two unit features that is the rounding of float32


def numbered_classes(labels: Sequence[Label]) -> tuple[list[Label], Tensor]:
    """The classes' names in order, and for each image the place of its own, (N,)."""
    names = sorted(set(labels))
    if len(names) < 2:
        raise InputError(f"there is one class only ({names[0]}); give at least two, each with its images")
    for name in names:
        checked_name(name)
    place = {name: i for i, name in enumerate(names)}
    return names, torch.tensor([place[label] for label in labels])


def of_kind(source: Accepted, dim: int | None) -> Accepted:
    """What is given, if it is vectors of `dim` numbers, or images where that is None."""
    if isinstance(source, VectorRows) != (dim is not None):
        raise InputError(f"the model was made with {'images' if dim is None else 'vectors'}; give the same")
    if isinstance(source, VectorRows) and source.vectors.shape[1] != dim:
        raise InputError(f"the vectors have {source.vectors.shape[1]} numbers, those of the model {dim}")
    return source


def checked_number(num_new: Any, source: Accepted) -> int | None:
    """The number of new classes, None if it is to be estimated; there are as many images, by the files' number."""
    if isinstance(num_new, str) and num_new == "auto":
        return None
    if isinstance(num_new, bool) or not isinstance(num_new, Integral) or num_new < 0:
        raise InputError(f"num_new is a whole number from 0 on, or 'auto', not {num_new!r}")
    number = int(num_new)
    check_enough(len(source) if isinstance(source, Pictures) else num_files(source), number)
    return number


def check_enough(images: int, number: int | None) -> None:
    """Refuse a number of new classes that is larger than that of the images."""
    if number is not None and number > images:
        raise InputError(f"{images} images cannot form {number} new classes; give a smaller number, or 'auto'")


def checked_seed(random_state: Any) -> int:
    """The random seed; None is 0."""
    if random_state is None:
        return 0
    if isinstance(random_state, bool) or not isinstance(random_state, Integral):
        raise InputError(f"random_state is a whole number or None, not {random_state!r}")
    if abs(int(random_state)) > LARGEST_SEED:
        raise InputError("random_state is beyond ±2⁶²; give a smaller number")
    return int(random_state)


def checked_class_token(class_token: Any, source: Accepted) -> int | None:
    """How many of a vector's numbers are a ViT's class token; None if that is all of them, or if images are given."""
    if class_token is None:
        return None
    if not isinstance(source, VectorRows):
        raise InputError("class_token is for vectors: where the features of images come from is known; leave it out")
    dim = source.vectors.shape[1]
    if isinstance(class_token, bool) or not isinstance(class_token, Integral) or not 1 <= int(class_token) <= dim:
        raise InputError(f"class_token is how many of the {dim} numbers of a vector are of it, not {class_token!r}")
    return int(class_token)


def check_differ(features: Tensor) -> None:
    """Refuse features (N, V, D) that are the same for all images, up to their length: no class can be learned."""
    first = normalize(features[:, 0], dim=-1)
    if (first - first[0]).abs().max() <= SAME:
        which = "zero" if not first.any() else "the same, up to their length"
        raise InputError(
            f"the features of all {len(first)} images are {which}, so no class can be told from another; check that "
            "the images or vectors differ, or take another backbone"
        )


def check_dim(backbone: str, dim: int, wanted: int) -> None:
    """Refuse a backbone that computes another number of features of an image than the model has learned from."""
    if dim != wanted:
        raise StorageError(f"the model is of {wanted} features an image, but {backbone} computes {dim}; fit it again")
