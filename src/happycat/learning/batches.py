"""Mini-batches of labelled and of unlabelled images: two views each, from stored tokens, fresh views or features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from happycat.backbone.tail import TailInput
from happycat.backbone.token_store import TokenStore
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import ViewDataset, ViewPlan, view_loader
from happycat.base import tables
from happycat.base.errors import InputError
from happycat.base.ranks import ALONE, Ranks
from happycat.images.pictures import Pictures, Subset

EVALUATION_BATCH = 128


def view_names(random_views: int) -> tuple[str, ...]:
    """The centre view's name and those of so many random views, as the stored ones are numbered."""
    return ("centre", *(str(number) for number in range(1, random_views + 1)))


class Batch(NamedTuple):
    """Two views of B images, in 2B rows: the first view of each image, then the second of each.

    Several processes share a batch: each has the tokens of the same views of some of the images.
    """

    images: Tensor  # (B,) which images
    tokens: Tokens  # of this process's share of the images; alone, of all of them
    slots: Tensor | None  # (2B,) which stored views; None when the views are fresh
    ranks: Ranks = ALONE

    def through(self, module: Callable[[Any], Tensor], rows: Tensor | None = None) -> Tensor:
        """What `module` makes of all rows (2B, …), or of the views' tokens; each process computes its share."""
        if self.ranks.size == 1:
            return module(self.tokens if rows is None else rows)
        number = len(self.images)
        if rows is None:
            made = module(self.tokens)
        else:
            made = module(rows.unflatten(0, (2, number))[:, self.ranks.share(number)].flatten(0, 1))
        each = made.unflatten(0, (2, -1)).transpose(0, 1)  # (b, 2, …), an image a row
        return self.ranks.gather(each, self.ranks.sizes(number)).transpose(0, 1).flatten(0, 1)


class Views(Protocol):
    """Views of images, as whatever a tail takes."""

    def __len__(self) -> int:
        """How many images there are."""

    def trained(self) -> dict[str, nn.Module]:
        """What Stage-0 trains along with the method."""

    def centre(self, function: Callable[[TailInput], Tensor]) -> Tensor:
        """`function` (N, …) of the centre view of every image."""

    def every(self, function: Callable[[TailInput], Tensor], random_views: int) -> Tensor:
        """`function` (N, V, …) of the centre view and of so many random ones."""


@runtime_checkable
class TokenViews(Views, Protocol):
    """Views that a tail can be tuned on."""

    def batches(self, orders: list[Tensor], generator: torch.Generator) -> Iterator[Batch]:
        """Two random views of the images, a batch for each of the `orders`."""

    def frozen(self, function: Callable[[Tokens], Tensor]) -> Callable[[Batch], Tensor]:
        """`function` of a batch's views, without gradient."""


class StoredViews:
    """Two of the stored views of each image, drawn anew each epoch; the next batch is read while one is used."""

    def __init__(self, store: TokenStore, device: torch.device, ranks: Ranks = ALONE):
        self.store, self.device, self.ranks = store, device, ranks

    def __len__(self) -> int:
        return self.store.recipe.num_pictures

    @property
    def num_views(self) -> int:
        """How many random views are stored of each image."""
        return self.store.recipe.views

    def trained(self) -> dict[str, nn.Module]:
        return {}

    def batches(self, orders: list[Tensor], generator: torch.Generator) -> Iterator[Batch]:
        slots = [self._two_slots(len(index), generator) for index in orders]
        with ThreadPoolExecutor(1) as reader:
            pending = None
            for index, slot in zip(orders, slots, strict=True):
                upcoming = reader.submit(self._read, index, slot)
                if pending is not None:
                    yield pending.result()
                pending = upcoming
            if pending is not None:
                yield pending.result()

    def _two_slots(self, number: int, generator: torch.Generator) -> Tensor:
        ranks = torch.rand(number, self.num_views, generator=generator).argsort(1)
        return ranks[:, :2].T.flatten() + 1  # slot 0 is the centre view

    def _read(self, index: Tensor, slots: Tensor) -> Batch:
        share = self.ranks.share(len(index))
        own = slots.unflatten(0, (2, -1))[:, share].flatten()
        return Batch(index, self.store.views(index[share].repeat(2), own).to(self.device), slots, self.ranks)

    def centre(self, function: Callable[[Tokens], Tensor]) -> Tensor:
        return self._table(function, torch.zeros(1, dtype=torch.long))[:, 0]

    def frozen(self, function: Callable[[Tokens], Tensor]) -> Callable[[Batch], Tensor]:
        """`function` of a batch's views, computed once for every stored view."""
        table = self._table(function, torch.arange(1, self.num_views + 1))

        def looked_up(batch: Batch) -> Tensor:
            assert batch.slots is not None  # only fresh views have none
            return table[batch.images.repeat(2), batch.slots - 1]

        return looked_up

    def every(self, function: Callable[[Tokens], Tensor], random_views: int) -> Tensor:
        """`function` (N, V, …) of the centre view and of so many random ones, or as many as are stored."""
        return self._table(function, torch.arange(min(random_views, self.num_views) + 1))

    @torch.no_grad()
    def _table(self, function: Callable[[Tokens], Tensor], slots: Tensor) -> Tensor:
        def rows(indices: Sequence[Tensor]) -> Iterator[Tensor]:
            for index in indices:
                tokens = self.store.views(index.repeat_interleave(len(slots)), slots.repeat(len(index)))
                yield function(tokens.to(self.device)).unflatten(0, (len(index), len(slots)))

        return _of_every_image(rows, len(self), self.store.recipe.shard, self.ranks, self.store.folder)


class FreshViews:
    """New crops every epoch, each sent through the trunk once. A thawed trunk is trained along."""

    def __init__(self, trunk: Trunk, pictures: Pictures, plan: ViewPlan, workers: int, ranks: Ranks = ALONE):
        self.trunk, self.pictures, self.plan, self.workers, self.ranks = trunk, pictures, plan, workers, ranks
        self.device = trunk.device

    def __len__(self) -> int:
        return len(self.pictures)

    def trained(self) -> dict[str, nn.Module]:
        thawed = any(p.requires_grad for p in self.trunk.parameters())
        return {"trunk": self.trunk} if thawed else {}

    def batches(self, orders: list[Tensor], generator: torch.Generator) -> Iterator[Batch]:
        epoch = int(torch.randint(2**62, (), generator=generator))
        own = [index[self.ranks.share(len(index))] for index in orders]
        for index, views in zip(orders, self._load((f"{epoch}/1", f"{epoch}/2"), own), strict=True):
            yield Batch(index, self.trunk(views.transpose(0, 1).flatten(0, 1)), None, self.ranks)

    def centre(self, function: Callable[[Tokens], Tensor]) -> Tensor:
        return self.every(function, 0)[:, 0]

    def _load(self, names: tuple[str, ...], orders: Iterable[Tensor]) -> Iterator[Tensor]:
        dataset = ViewDataset(self.pictures, self.plan, names)
        for views in view_loader(dataset, [order.tolist() for order in orders], self.workers):
            yield views.to(self.device, non_blocking=True)

    def frozen(self, function: Callable[[Tokens], Tensor]) -> Callable[[Batch], Tensor]:
        """`function` of a batch's views, without gradient."""
        return lambda batch: _without_gradient(batch.through, function)

    def apart(self) -> FreshViews:
        """The same images through a copy of the trunk, which can be trained apart."""
        return FreshViews(copy.deepcopy(self.trunk), self.pictures, self.plan, self.workers, self.ranks)

    def only(self, among: Tensor) -> FreshViews:
        """The images at the places `among`."""
        some = Subset(self.pictures, [self.pictures.keys[i] for i in among.tolist()])
        return FreshViews(self.trunk, some, self.plan, self.workers, self.ranks)

    @torch.no_grad()
    def every(self, function: Callable[[Tokens], Tensor], random_views: int) -> Tensor:
        """`function` (N, V, …) of the centre view and of so many random ones, the same each time."""

        def rows(indices: Sequence[Tensor]) -> Iterator[Tensor]:
            for views in self._load(view_names(random_views), indices):
                yield function(self.trunk(views.flatten(0, 1))).unflatten(0, views.shape[:2])

        return _of_every_image(rows, len(self), EVALUATION_BATCH, self.ranks)


class VectorViews:
    """Features (N, V, D) that are there already, the centre view's first; nothing can be trained on them."""

    def __init__(self, features: Tensor, ranks: Ranks = ALONE):
        self.features, self.ranks = features, ranks

    def __len__(self) -> int:
        return len(self.features)

    def trained(self) -> dict[str, nn.Module]:
        return {}

    @torch.no_grad()
    def centre(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        def rows(indices: Sequence[Tensor]) -> Iterator[Tensor]:
            for index in indices:
                yield function(self.features[index, 0])

        return _of_every_image(rows, len(self), EVALUATION_BATCH, self.ranks)

    def every(self, function: Callable[[Tensor], Tensor], random_views: int) -> Tensor:
        """`function` (N, V, …) of the centre view and of so many random ones, or as many as there are."""
        return function(self.features[:, : random_views + 1])


@torch.no_grad()
def _without_gradient(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    return function(*arguments)


def _of_every_image(
    rows: Callable[[Sequence[Tensor]], Iterator[Tensor]],
    number: int,
    size: int,
    ranks: Ranks,
    folder: Path | None = None,
) -> Tensor:
    """The table (`number`, …) of all images, where `rows` makes the rows of each block of up to `size` images.

    Each process makes some of the blocks, which are the same however many processes there are; all get all of them,
    a block of each at a time. A large table is a file in the folder.
    """
    blocks = torch.arange(number).split(size)
    parts = [blocks[ranks.share(len(blocks), rank)] for rank in range(ranks.size)]
    made = rows(parts[ranks.rank] or blocks[:1])  # who has none learns from one what a row looks like
    some, table = torch.empty(0), None
    for turn in zip_longest(*parts, fillvalue=blocks[0][:0]):
        sizes = [len(block) for block in turn]
        some = next(made, some)
        everybodys = ranks.gather(some[: sizes[ranks.rank]], sizes)
        if table is None:
            table = tables.empty((number, *some.shape[1:]), some, folder)
        for block, its in zip(turn, everybodys.split(sizes), strict=True):
            table[block] = its
    assert table is not None  # there is a block at least, if only an empty one
    return table


class Unlabelled:
    """Unlabelled images: their views, and nothing else."""

    def __init__(self, views: Views):
        self.views = views

    def __len__(self) -> int:
        return len(self.views)

    def batches(self, size: int, generator: torch.Generator, among: Tensor | None = None) -> Iterator[Batch]:
        """One epoch: every image (of those `among`) at most once, in random order, full batches only."""
        among = torch.arange(len(self)) if among is None else among
        order = among[torch.randperm(len(among), generator=generator)]
        full = order[: len(among) // size * size]
        yield from self.tokens.batches(list(full.split(size)), generator)

    def frozen(self, function: Callable[[Tokens], Tensor]) -> Callable[[Batch], Tensor]:
        """`function` of a batch's views, without gradient; computed once for every view that is stored."""
        return self.tokens.frozen(function)

    @property
    def tokens(self) -> TokenViews:
        """The views as tokens, for a method that tunes the tail."""
        if not isinstance(self.views, TokenViews):
            raise InputError("features cannot be trained on; give images, or a method that needs features only")
        return self.views


class Labelled(Unlabelled):
    """Images with their class ids, `labels` (N,)."""

    def __init__(self, views: Views, labels: Tensor):
        super().__init__(views)
        self.labels = labels


class Unseen(NamedTuple):
    """Features of labelled images from a copy of the backbone that was trained without the classes `held_out`.

    Features (N, V, D) of the centre view and of random ones, and the class ids (N,) of all images.
    """

    features: Tensor
    labels: Tensor
    held_out: Tensor


def draw_held_out(num_classes: int, share: float, generator: torch.Generator) -> Tensor:
    """A random share of the classes 0…num_classes−1, at least one and not all of them."""
    number = min(max(1, round(num_classes * share)), num_classes - 1)
    return torch.randperm(num_classes, generator=generator)[:number]
