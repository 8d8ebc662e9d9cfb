"""Cosine classifier with rejection: the one rule that gives an image its class, or none (open-set prediction)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

DROPPED = -1  # owner of a prototype whose class was given up
CELLS = 2**21  # cosines that are held at a time: 8 MB


class Prediction(NamedTuple):
    """Probabilities (N, C) of the classes, whose rows sum to 1, and which images fit none of them, (N,) bool."""

    probabilities: Tensor
    rejected: Tensor


class Decision(NamedTuple):
    """The likeliest class of each image (N,), its probability (N,), and which images fit none of them, (N,) bool."""

    likeliest: Tensor
    probability: Tensor
    rejected: Tensor

    @property
    def assigned(self) -> Tensor:
        """The class of each image, or −1 where it is rejected, (N,)."""
        return self.likeliest.masked_fill(self.rejected, -1)


class Largest(NamedTuple):
    """The largest value of each image (N,), and the row of the prototype that has it (N,)."""

    value: Tensor
    row: Tensor


def chunks(points: Tensor, columns: int) -> Iterator[Tensor]:
    """The points (N, d) in pieces so small that a number for each point and column fits into `CELLS`."""
    yield from points.split(max(1, CELLS // max(1, columns)))


def joined(pieces: Iterator[tuple[Tensor, ...]], number: int) -> list[Tensor]:
    """Tensors of `number` rows, of which each piece has some.

    Each is written to its place as it comes: pieces that were kept would lie between the large blocks that are
    computed with and freed again, and these could not be reused.
    """
    wholes: list[Tensor] = []
    start = 0
    for piece in pieces:
        wholes = wholes or [part.new_empty(number, *part.shape[1:]) for part in piece]
        for whole, part in zip(wholes, piece, strict=True):
            whole[start : start + len(part)] = part
        start += len(piece[0])
    return wholes


@torch.no_grad()
def nearest(points: Tensor, prototypes: Tensor) -> Largest:
    """The nearest prototype (R, d) of each of the unit points (N, d), and their cosine; never are all cosines held."""
    pieces = (_largest(some @ prototypes.T) for some in chunks(points, len(prototypes)))
    return Largest(*joined(pieces, len(points)))


def _largest(values: Tensor) -> Largest:
    """The largest of the values (N, R) that each image has with the prototypes."""
    if values.device.type != "cpu":
        return Largest(*values.max(1))
    row = torch.from_numpy(values.numpy().argmax(1))  # takes a tenth of the time that torch's needs on a CPU
    return Largest(values.gather(1, row[:, None])[:, 0], row)


class PredictionRule(nn.Module):
    """Nearest-prototype classifier with rejection; `owner` (R,) is the class of each prototype, or `DROPPED`.

    With p the softmax over the prototypes that have a class, of their cosines with x divided by the temperature τ:

        P(c | x)   = Σ_{r: owner(r) = c} p_r(x)
        x rejected ⇔ cos(x, μ_r) < threshold_r, or owner(r) = DROPPED, where μ_r is the nearest prototype of all

    Each class has at least one prototype. No shape depends on the values, so the rule can be exported.
    """

    prototypes: Tensor
    owner: Tensor
    temperature: Tensor
    thresholds: Tensor
    first: Tensor
    others: Tensor
    dropped: Tensor

    def __init__(self, prototypes: Tensor, owner: Tensor, num_classes: int, temperature: Tensor, thresholds: Tensor):
        super().__init__()
        self.num_classes = num_classes
        self.register_buffer("prototypes", prototypes)
        self.register_buffer("owner", owner)
        self.register_buffer("temperature", temperature)
        self.register_buffer("thresholds", thresholds)
        self.register_buffer("dropped", owner == DROPPED)
        rows = torch.arange(len(owner), device=owner.device)
        # (C,) the first prototype of each class, and (R − C,) those that a class has besides it
        first = torch.full((num_classes + 1,), len(owner), device=owner.device)
        first = first.scatter_reduce(0, owner + 1, rows, "amin")[1:]
        self.register_buffer("first", first)
        self.register_buffer("others", rows[(owner != DROPPED) & ~torch.isin(rows, first)])
        self.any_dropped = bool(self.dropped.any())
        self.one_each = len(owner) == num_classes and torch.equal(first, rows)

    def forward(self, points: Tensor) -> Prediction:
        """Class probabilities of the unit points (N, d), and whether each is rejected."""
        cosines = points @ self.prototypes.T
        rejected = self._rejected(Largest(*cosines.max(1)))
        logits = cosines / self.temperature
        if self.any_dropped:
            logits = logits.masked_fill(self.dropped, -torch.inf)
        return Prediction(self.summed(logits.softmax(1)), rejected)

    def summed(self, shares: Tensor) -> Tensor:
        """The sums (N, C), over the prototypes of each class, of something that each prototype has, (N, R)."""
        if self.one_each:
            return shares
        sums = shares[:, self.first]
        return sums.index_add(1, self.owner[self.others], shares[:, self.others]) if len(self.others) else sums

    @torch.no_grad()
    def decide(self, points: Tensor, placed: Callable[[Tensor], Tensor] | None = None) -> Decision:
        """The likeliest class of each of the unit points (N, d); never are all probabilities (N, C) held.

        `placed` makes points of what is given, a chunk at a time.
        """
        parts = chunks(points, len(self.prototypes))
        return Decision(*joined((self._decided(placed(some) if placed else some) for some in parts), len(points)))

    def _decided(self, points: Tensor) -> Decision:
        """As `forward` has it; in place, because there is no room for the probabilities of all classes."""
        cosines = points @ self.prototypes.T
        found = _largest(cosines)
        rejected, highest = self._rejected(found), found.value
        if self.any_dropped:
            highest = cosines.index_fill_(1, self.dropped.nonzero()[:, 0], -torch.inf).amax(1)
        shares = cosines.sub_(highest[:, None]).div_(self.temperature).exp_()
        total = shares.sum(1)
        if self.one_each:
            return Decision(found.row, total.reciprocal(), rejected)  # the share of the nearest is exp(0)
        if len(self.others):  # the first prototype of a class gets the share of all
            shares.index_add_(1, self.first[self.owner[self.others]], shares[:, self.others])
        best = _largest(shares)
        return Decision(self.owner[best.row], best.value / total, rejected)

    @torch.no_grad()
    def probabilities(self, points: Tensor, placed: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Class probabilities (N, C) of the unit points (N, d), which are held once; `placed` is as in `decide`."""
        parts = chunks(points, len(self.prototypes))
        (whole,) = joined((self(placed(some) if placed else some)[:1] for some in parts), len(points))
        return whole

    def _rejected(self, found: Largest) -> Tensor:
        odd = found.value < self.thresholds[found.row]
        return odd | self.dropped[found.row] if self.any_dropped else odd
