"""Reuse of what other stores in the same folder hold: a picture that one of them has is copied, not computed again.

Another class order, more stages, or an image that is served again make another store, of much the same pictures. What
is copied equals what would be computed to rounding: the last bits depend on what goes through the trunk together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from happycat.backbone.recipe import Recipe
from happycat.backbone.tensor_file import Tensors


class Source(Protocol):
    """A store, as far as another one copies from it."""

    recipe: Recipe

    def names(self) -> np.ndarray: ...

    def has(self, number: int) -> bool: ...

    def shard(self, number: int) -> Tensors | None: ...


class Copies:
    """The pictures of a store, by their names (N,), that sources have too."""

    def __init__(self, recipe: Recipe, names: np.ndarray, sources: Iterable[Source]):
        self.recipe, self.sources = recipe, list(sources)
        self._source = np.full(len(names), -1)  # of each picture; -1: nobody has it
        self._place = np.zeros(len(names), np.int64)  # there
        for number, source in enumerate(self.sources):
            _, own, theirs = np.intersect1d(names, source.names(), return_indices=True)
            self._source[own], self._place[own] = number, theirs

    def of(self, places: Iterable[int]) -> dict[int, Tensors]:
        """What there is to copy of the pictures at these places: of each, by its place, tensors with a row a view."""
        found = {place: self._row(place) for place in places if self._source[place] >= 0}
        return {place: row for place, row in found.items() if row is not None}

    def there(self, place: int) -> bool:
        """Whether the picture at a place is to be copied, if no checksum says otherwise."""
        source = self.sources[self._source[place]] if self._source[place] >= 0 else None
        return source is not None and source.has(int(self._place[place]) // source.recipe.shard)

    def _row(self, place: int) -> Tensors | None:
        source = self.sources[self._source[place]]
        number, row = divmod(int(self._place[place]), source.recipe.shard)
        shard = source.shard(number)
        if shard is None:  # not there, or damaged
            return None
        slots = [source.recipe.view_names.index(name) for name in self.recipe.view_names]
        return {name: tensor[row, slots] for name, tensor in by_picture(source.recipe, shard).items()}


def by_picture(recipe: Recipe, tensors: Tensors) -> dict[str, Tensor]:
    """The tensors of a shard as (pictures, views, numbers of a view)."""
    views, sizes = len(recipe.view_names), recipe.sizes
    return {
        name: tensor.reshape(tensor.numel() * tensor.element_size() // sizes[name], views, -1)
        for name, tensor in tensors.items()
    }


def joined(recipe: Recipe, places: range, copied: dict[int, Tensors], made: Tensors) -> Tensors:
    """The tensors of a shard: what was copied of some of its pictures, and what was made of the others."""
    rows, left = by_picture(recipe, made), iter(range(len(places)))
    every = [copied[place] if place in copied else _nth(rows, next(left)) for place in places]
    shapes = recipe.shapes(len(places))
    return {name: torch.stack([row[name] for row in every]).reshape(shape) for name, shape in shapes.items()}


def _nth(rows: Tensors, n: int) -> Tensors:
    return {name: tensor[n] for name, tensor in rows.items()}
