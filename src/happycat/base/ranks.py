"""Ranks: the processes that compute together (data parallelism over torch.distributed); usually one, alone.

Every process holds the same model, draws the same random numbers and sees the same loss. What is computed for each row
of a batch is computed by one process for its *share* of the rows and *gathered* by all, so whatever is defined over
a batch is computed over all of it, however many processes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from happycat.base.errors import HappycatError

if TYPE_CHECKING:
    from torch.autograd.function import FunctionCtx


Part = TypeVar("Part", range, Tensor)  # of rows
Item = TypeVar("Item")
Result = TypeVar("Result")


class Ranks:
    """This process among those that compute together: the `rank`-th of `size`. Alone, it waits for nobody."""

    rank = 0
    size = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def share(self, number: int, rank: int | None = None) -> slice:
        """Which of so many rows this process computes, or the process `rank`: neighbours, as many as the others."""
        rank = self.rank if rank is None else rank
        return slice(number * rank // self.size, number * (rank + 1) // self.size)

    def sizes(self, number: int) -> list[int]:
        """How many of so many rows each process computes."""
        parts = [self.share(number, rank) for rank in range(self.size)]
        return [part.stop - part.start for part in parts]

    def of_parts(self, parts: Sequence[Part]) -> tuple[Sequence[Part], list[int]]:
        """Which of the parts, each of several rows, this process computes; and how many rows each process has then."""
        sizes = [sum(map(len, parts[self.share(len(parts), rank)])) for rank in range(self.size)]
        return parts[self.share(len(parts))], sizes

    def gather(self, rows: Tensor, sizes: Sequence[int]) -> Tensor:
        """The rows (Σ sizes, …) of all processes, each of which has computed `sizes[rank]` of them.

        The gradient of a row is the sum of those that all processes have for it. Each has the whole loss, so together
        with `mean_` of the parameters' gradients these are as if one process had computed everything.
        """
        return rows

    def each(self, items: Sequence[Item], function: Callable[[Item], Result]) -> list[Result]:
        """The function of each item, in their order; each is computed by one process, and all have all of them."""
        return [function(item) for item in items]

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of the processes' tensors."""
        return tensor

    def mean_(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes."""

    def same_(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by that of the first process."""

    def wait(self) -> None:
        """Wait until all processes are here."""

    def lead(self, act: Callable[[], None]) -> None:
        """Have the first process do something, while the others wait. What it cannot do is an error for all of them."""
        act()


ALONE = Ranks()


class Helped(Exception):
    """This process has done its share of a command that the first process ends alone."""


class Together(Ranks):
    """Several processes in torch.distributed's process group, which has been set up."""

    def __init__(self, device: torch.device):
        """`device` is where this process computes; the group must be able to send what lies there."""
        self.rank, self.size, self.device = dist.get_rank(), dist.get_world_size(), device

    def gather(self, rows: Tensor, sizes: Sequence[int]) -> Tensor:
        return _Gather.apply(rows, tuple(sizes), self.rank)

    def each(self, items: Sequence[Item], function: Callable[[Item], Result]) -> list[Result]:
        own = [function(item) for item in items[self.share(len(items))]]
        everybodys: list[list[Result]] = [[] for _ in range(self.size)]
        dist.all_gather_object(everybodys, own)
        return [result for results in everybodys for result in results]

    def sum(self, tensor: Tensor) -> Tensor:
        total = tensor.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    def mean_(self, tensors: Sequence[Tensor]) -> None:
        if tensors:
            flat = torch.cat([tensor.detach().flatten() for tensor in tensors])
            dist.all_reduce(flat)
            _put(flat.div_(self.size), tensors)

    def same_(self, tensors: Sequence[Tensor]) -> None:
        for tensor in tensors:
            sent = tensor.detach().to(self.device).contiguous()
            dist.broadcast(sent, 0)
            _put(sent.flatten(), [tensor])

    def wait(self) -> None:
        self.same_([torch.zeros(1)])  # a barrier that needs no device of its own

    def lead(self, act: Callable[[], None]) -> None:
        said: list[str | None] = [None]
        error: BaseException | None = None
        if self.first:
            try:
                act()
            except BaseException as caught:
                error = caught
                said = [str(caught) or type(caught).__name__]
        dist.broadcast_object_list(said, 0, device=self.device)
        if error is not None:
            raise error
        if said[0] is not None:
            raise HappycatError(said[0])


def _put(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for tensor, values in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            tensor.copy_(values.view_as(tensor))


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, sizes: tuple[int, ...], rank: int) -> Tensor:
        ctx.own = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))  # type: ignore[attr-defined]
        sent = rows.new_zeros(max(sizes), *rows.shape[1:])  # all of one size: what torch.distributed can gather
        sent[: len(rows)] = rows
        pieces = [torch.empty_like(sent) for _ in sizes]
        dist.all_gather(pieces, sent)
        return torch.cat([piece[:size] for piece, size in zip(pieces, sizes, strict=True)])

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, None, None]:
        total = gradients[0].clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total[ctx.own], None, None  # type: ignore[attr-defined]
