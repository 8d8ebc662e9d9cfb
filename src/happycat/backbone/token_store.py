"""The token store: tokens of stored views, memory-mapped, as training draws them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from happycat.backbone.recipe import Recipe
from happycat.backbone.store import Extract, Places, Store, recipes_in
from happycat.backbone.tensor_file import Tensors, map_tensors
from happycat.backbone.trunk import Rows, Tokens
from happycat.base.progress import Advance, nobody
from happycat.base.ranks import ALONE, Ranks


class TokenStore(Store):
    """Tokens of every picture's centre view (slot 0) and random views (slots 1…V), in bf16, memory-mapped.

    A shard of n pictures has `tokens`, (n·(V+1), N, D) bf16, and `cls`, (n·(V+1), D) fp32.
    """

    _opened: list[Tensors]

    def fill(
        self, extract: Extract, advance: Advance = nobody, ranks: Ranks = ALONE, names: np.ndarray | None = None
    ) -> None:
        super().fill(extract, advance, ranks, names)
        self._open()

    @classmethod
    def finished(cls, root: Path, recipe: Recipe) -> TokenStore | None:
        """A store in the folder with the tokens of all the recipe's pictures and views, and maybe of further views."""
        for found in recipes_in(root):
            if found.covers(recipe) and found.pictures == recipe.pictures:
                store = cls(root, found)
                if store.recorded() == recipe.num_pictures:
                    return store
        return None

    def open(self) -> bool:
        """Verify and open it; False if not all of the tokens are safely there."""
        whole = all(self._verified(number) for number in range(len(self._shards)))
        if whole:
            self._open()
        return whole

    def adopt(self, tokens: Tensor, cls: Tensor) -> None:
        """Take tokens that are there already, (num_pictures·(V+1), N, D) and (…, D), for the whole store."""
        views = len(self.recipe.view_names)

        def given(shards: Iterable[Places]) -> Iterator[Tensors]:
            for shard in shards:
                rows = slice(shard[0] * views, (shard[-1] + 1) * views)
                yield token_tensors(Tokens(tokens[rows], cls[rows]))

        self.fill(given)

    def views(self, index: Tensor, slot: Tensor) -> Tokens:
        """Tokens of the given slots of the given pictures, which are left where they lie."""
        size, views = self.recipe.shard, len(self.recipe.view_names)
        shards, rows = (index // size).tolist(), (index % size * views + slot).tolist()
        places = list(zip(shards, rows, strict=True))
        tokens = Rows([self._opened[shard]["tokens"][row] for shard, row in places])
        tokens.touch()
        return Tokens(tokens, torch.stack([self._opened[shard]["cls"][row] for shard, row in places]))

    def delete(self) -> None:
        self.__dict__.pop("_opened", None)
        super().delete()

    def _open(self) -> None:
        self._opened = [map_tensors(self._path(number))[0] for number in range(len(self._shards))]


def token_tensors(said: Tokens) -> Tensors:
    """The tensors of a shard's tokens."""
    rounded = said.rounded()
    assert isinstance(rounded.normalised, Tensor)  # `float`, in `rounded`, has put them into one place
    return {"tokens": rounded.normalised, "cls": rounded.cls}
