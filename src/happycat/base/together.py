"""Several processes that compute together, over torch.distributed: rows gathered with their gradients, sums, means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from happycat.base.errors import HappycatError
from happycat.base.ranks import Item, Ranks, Result

if TYPE_CHECKING:
    from torch.autograd.function import FunctionCtx


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
