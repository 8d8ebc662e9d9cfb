"""Mini-batches of labelled and of unlabelled images: two views each, from stored tokens, fresh views or features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from happycat.backbone.store import TokenStore
from happycat.backbone.tail import TailInput
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import ViewDataset, ViewPlan, view_loader
from happycat.base.errors import InputError
from happycat.images.pictures import Pictures, Subset

EVALUATION_BATCH = 128


def view_names(random_views: int) -> tuple[str, ...]:
    """The centre view's name and those of so many random views, as the stored ones are numbered."""
    return ("centre", *(str(number) for number in range(1, random_views + 1)))


class Batch(NamedTuple):
    """Two views of B images. `tokens` has 2B rows: the first view of each image, then the second of each."""

    images: Tensor  # (B,) which images
    tokens: Tokens
    slots: Tensor | None  # (2B,) which stored views; None when the views are fresh


class Views(Protocol):
    """Views of images, as whatever a tail takes."""

    def __len__(self) -> int:
        """How many images there are."""

    def trained(self) -> dict[str, nn.Module]:
        """What Stage-0 trains along with the method."""

    def centre(self) -> Iterator[TailInput]:
        """The centre view of every image, in batches."""

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

    def __init__(self, store: TokenStore, device: torch.device):
        self.store, self.device = store, device

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
        return Batch(index, self.store.views(index.repeat(2), slots).to(self.device), slots)

    def centre(self) -> Iterator[Tokens]:
        for index in torch.arange(len(self)).split(EVALUATION_BATCH):
            yield self.store.views(index, torch.zeros_like(index)).to(self.device)

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
        table = []
        for index in torch.arange(len(self)).split(EVALUATION_BATCH):
            tokens = self.store.views(index.repeat_interleave(len(slots)), slots.repeat(len(index)))
            table.append(function(tokens.to(self.device)).unflatten(0, (len(index), len(slots))))
        return torch.cat(table)


class FreshViews:
    """New crops every epoch, each sent through the trunk once. A thawed trunk is trained along."""

    def __init__(self, trunk: Trunk, pictures: Pictures, plan: ViewPlan, workers: int):
        self.trunk, self.pictures, self.plan, self.workers = trunk, pictures, plan, workers
        self.device = trunk.device

    def __len__(self) -> int:
        return len(self.pictures)

    def trained(self) -> dict[str, nn.Module]:
        thawed = any(p.requires_grad for p in self.trunk.parameters())
        return {"trunk": self.trunk} if thawed else {}

    def batches(self, orders: list[Tensor], generator: torch.Generator) -> Iterator[Batch]:
        epoch = int(torch.randint(2**62, (), generator=generator))
        for index, views in zip(orders, self._load((f"{epoch}/1", f"{epoch}/2"), orders), strict=True):
            yield Batch(index, self.trunk(views.transpose(0, 1).flatten(0, 1)), None)

    def centre(self) -> Iterator[Tokens]:
        for views in self._load(("centre",), torch.arange(len(self)).split(EVALUATION_BATCH)):
            yield self.trunk(views.flatten(0, 1))

    def _load(self, names: tuple[str, ...], orders: Iterable[Tensor]) -> Iterator[Tensor]:
        dataset = ViewDataset(self.pictures, self.plan, names)
        for views in view_loader(dataset, [order.tolist() for order in orders], self.workers):
            yield views.to(self.device, non_blocking=True)

    def frozen(self, function: Callable[[Tokens], Tensor]) -> Callable[[Batch], Tensor]:
        """`function` of a batch's views, without gradient."""
        return lambda batch: _without_gradient(function, batch.tokens)

    def apart(self) -> FreshViews:
        """The same images through a copy of the trunk, which can be trained apart."""
        return FreshViews(copy.deepcopy(self.trunk), self.pictures, self.plan, self.workers)

    def only(self, among: Tensor) -> FreshViews:
        """The images at the places `among`."""
        some = Subset(self.pictures, [self.pictures.keys[i] for i in among.tolist()])
        return FreshViews(self.trunk, some, self.plan, self.workers)

    @torch.no_grad()
    def every(self, function: Callable[[Tokens], Tensor], random_views: int) -> Tensor:
        """`function` (N, V, …) of the centre view and of so many random ones, the same each time."""
        names = view_names(random_views)
        orders = torch.arange(len(self)).split(EVALUATION_BATCH)
        table = [
            function(self.trunk(views.flatten(0, 1))).unflatten(0, views.shape[:2])
            for views in self._load(names, orders)
        ]
        return torch.cat(table)


class VectorViews:
    """Features (N, V, D) that are there already, the centre view's first; nothing can be trained on them."""

    def __init__(self, features: Tensor):
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def trained(self) -> dict[str, nn.Module]:
        return {}

    def centre(self) -> Iterator[Tensor]:
        yield from self.features[:, 0].split(EVALUATION_BATCH)

    def every(self, function: Callable[[Tensor], Tensor], random_views: int) -> Tensor:
        """`function` (N, V, …) of the centre view and of so many random ones, or as many as there are."""
        return function(self.features[:, : random_views + 1])


@torch.no_grad()
def _without_gradient(function: Callable[[Tokens], Tensor], tokens: Tokens) -> Tensor:
    return function(tokens)


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
