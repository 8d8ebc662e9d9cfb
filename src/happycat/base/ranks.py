"""Ranks: the processes that compute together (data parallelism over torch.distributed); usually one, alone.

Every process holds the same model, draws the same random numbers and sees the same loss. What is computed for each row
of a batch is computed by one process for its *share* of the rows and *gathered* by all, so whatever is defined over
a batch is computed over all of it, however many processes there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # a command that is run by one process need not wait for torch before it has looked at its words
    from torch import Tensor


Part = TypeVar("Part", bound=Any)  # of rows: a range, or a tensor of their places
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
