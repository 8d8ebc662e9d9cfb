"""The training loop over epochs: SGD or AdamW on a cosine schedule, which can stop and resume between two epochs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import torch
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler
from torch import Tensor, nn

from happycat.base.errors import HappycatError, StorageError
from happycat.base.products import products_for
from happycat.base.ranks import ALONE, Ranks
from happycat.base.threads import network_flops

Item = TypeVar("Item")  # what a loss is computed on, a batch mostly


@dataclass(frozen=True)
class Epoch:
    """One epoch that is over: its number (from 1), how many there will be, and its mean weighted loss terms."""

    number: int
    total: int
    terms: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Optimiser and cosine learning-rate schedule: from `rate` down to `floor`·`rate`, one step per epoch."""

    optimizer: str = "sgd"  # or "adamw"
    epochs: int
    rate: float
    floor: float
    momentum: float
    weight_decay: float


def total(terms: dict[str, Tensor]) -> Tensor:
    """The loss: the sum of its weighted terms."""
    first, *others = terms.values()
    return sum(others, start=first)


def ramp_up(epoch: int, length: int) -> float:
    """exp(−5 (1 − e/L)²), a weight that grows from nearly 0 to 1 over the first `length` epochs (from 0)."""
    return math.exp(-5 * (1 - min(1.0, epoch / length)) ** 2)


class Training:
    """Trains modules in one or several phases; `state`, between two epochs, is all that a resumption needs.

    A method makes its modules ready, as it would for a fresh start, and calls `run` once for each phase. A Training
    that was given an earlier `state` puts everything where it was then and goes on from there:

        first time   run: phase 0 ─ epochs 1 2 3 ─┤ run: phase 1 ─ epochs 4 5 ✂ killed; the state after 4 is on disk
        resumed      run: phase 0 ─ ends as it did ┤ run: phase 1 ─ as after 4 ─ epochs 5 6 ─┤

    A phase that was over is not run again: the modules and the generator are put where it left them (`over/0/…` in the
    state), so whatever the method does between two phases, random draws included, comes out as it did. In the phase
    that was under way, modules, generator and optimiser are put where the state has them.

    Several processes (`ranks`) train together: each draws the same random numbers and takes the same steps.
    """

    def __init__(
        self,
        generator: torch.Generator,
        resume: dict[str, Tensor] | None = None,
        stage: int = 0,
        ranks: Ranks = ALONE,
    ):
        self.generator = generator
        self.stage, self.ranks = stage, ranks
        self._resume = resume  # the state to go on from, until the phase that it belongs to has begun
        self._phase = 0  # the number of the phase under way
        self._before = 0  # epochs of the phases that are over
        self._over: dict[str, Tensor] = {}  # what those phases ended with
        self._kept: dict[str, Tensor] = {}  # the modules of the epoch to keep, if that is not the last

    def run(
        self,
        modules: dict[str, nn.Module],
        schedule: Schedule,
        batches: Callable[[], Iterable[Item]],
        loss: Callable[[Item, int], dict[str, Tensor]],
        later: int = 0,
    ) -> Iterator[Epoch]:
        """Yield after each epoch; `loss(batch, epoch)` gives the weighted terms, whose sum is minimised.

        `later` is how many epochs the phases to come will have.
        """
        self._begin_phase(modules, schedule)
        rates = make_rates(self._optimizer, schedule)
        flops = network_flops(nn.ModuleDict(modules))
        while self._epoch < schedule.epochs:
            rates.step(self._epoch)
            with products_for(flops):
                terms = self._one_epoch(batches(), loss)
            self._epoch += 1
            yield Epoch(self._number, self._before + schedule.epochs + later, terms)
        if self._kept:
            self._put(self._kept)
            self._kept = {}
        self._end_phase()

    def _begin_phase(self, modules: dict[str, nn.Module], schedule: Schedule) -> None:
        """Begin at the first epoch; or, resumed, where the state has it: at the end of a phase that was over."""
        self._modules = modules
        self.ranks.same_(list(self._tensors().values()))
        self._optimizer = make_optimizer(modules, schedule)
        self._epoch = 0
        if self._resume is None:
            return
        if self._phase < int(self._resume["phase"]):
            self._put(_below(self._resume, f"over/{self._phase}/"))
            self._epoch = schedule.epochs
        else:
            self._load(self._resume)
            self._resume = None

    def _end_phase(self) -> None:
        """Remember what the phase ended with, for a later resumption in the next."""
        ended = {"generator": self.generator.get_state(), **self._tensors()}
        self._over.update({f"over/{self._phase}/{name}": tensor.clone() for name, tensor in ended.items()})
        self._before += self._epoch
        self._phase += 1

    def keep(self) -> None:
        """Make the modules as they are now the result, whatever the remaining epochs bring."""
        self._kept = {name: tensor.clone() for name, tensor in self._tensors().items()}

    def _one_epoch(self, batches: Iterable[Item], loss: Callable[[Item, int], dict[str, Tensor]]) -> dict[str, float]:
        """Train on every batch once; returns the mean of each loss term."""
        sums: dict[str, Tensor] = {}
        count = 0
        for batch in batches:
            terms = loss(batch, self._epoch)
            self._optimizer.zero_grad(set_to_none=True)
            total(terms).backward()
            take_step(self._optimizer, self.ranks)
            for name, value in terms.items():
                sums[name] = sums.get(name, 0) + value.detach()
            count += 1
        means = {name: float(value) / count for name, value in sums.items()}
        check_finite({f"the loss term {name}": torch.tensor(value) for name, value in means.items()}, self._number + 1)
        check_finite({f"the weights {name}": value for name, value in self._tensors().items()}, self._number + 1)
        return means

    @property
    def _number(self) -> int:
        """How many epochs are over, those of earlier phases included."""
        return self._before + self._epoch

    @property
    def state(self) -> dict[str, Tensor]:
        """Everything that the next epoch depends on, as named tensors."""
        tensors = {
            "epoch": torch.tensor(self._number),
            "phase": torch.tensor(self._phase),
            "generator": self.generator.get_state(),
            **self._tensors(),
            **self._over,
        }
        tensors.update({f"kept/{name}": tensor for name, tensor in self._kept.items()})
        for i, parameter in enumerate(self._parameters()):
            for key, value in self._optimizer.state[parameter].items():
                tensors[f"optimizer/{i}/{key}"] = value
        return tensors

    def _load(self, tensors: dict[str, Tensor]) -> None:
        self._epoch = int(tensors["epoch"]) - self._before
        self._put(tensors)
        self._kept = _below(tensors, "kept/")
        for i, parameter in enumerate(self._parameters()):
            state = _below(tensors, f"optimizer/{i}/")
            self._optimizer.state[parameter] = {k: v.to(parameter.device, copy=True) for k, v in state.items()}

    def _tensors(self) -> dict[str, Tensor]:
        """The modules' parameters and buffers themselves, by name."""
        return {
            f"{name}/{key}": value
            for name, module in self._modules.items()
            for key, value in module.state_dict().items()
        }

    def _put(self, tensors: dict[str, Tensor]) -> None:
        for name, own in self._tensors().items():
            if name not in tensors or tensors[name].shape != own.shape:
                raise StorageError(f"the checkpoint does not fit: it has no {name} of the shape {tuple(own.shape)}")
        if "generator" in tensors:
            self.generator.set_state(tensors["generator"])
        with torch.no_grad():
            for name, own in self._tensors().items():
                own.copy_(tensors[name])

    def _parameters(self) -> list[nn.Parameter]:
        return parameters_of(self._optimizer)


def check_finite(tensors: dict[str, Tensor], epoch: int) -> None:
    """Refuse to go on with a loss or with weights that an epoch has made infinite or no numbers."""
    for what, tensor in tensors.items():
        # One number that is not finite makes the sum so; a sum may also be too large by itself.
        if not (tensor.sum().isfinite() or tensor.isfinite().all()):
            raise HappycatError(f"{what} diverged in epoch {epoch} (not all of it is finite); lower the learning rate")


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def make_optimizer(modules: dict[str, nn.Module], schedule: Schedule) -> torch.optim.Optimizer:
    """The optimiser over what is to be trained; biases and norms (vectors) do not decay."""
    groups = param_groups_weight_decay(nn.ModuleDict(modules), schedule.weight_decay)
    if schedule.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=schedule.rate, betas=(schedule.momentum, 0.999), fused=True)
    sgd = torch.optim.SGD(groups, lr=schedule.rate, momentum=schedule.momentum, fused=True)
    if schedule.momentum:
        # Zeros, with which the first step is what it is without: the fused step wants all of them to be there,
        # even if the gradient of some parameters comes later.
        for parameter in (p for group in sgd.param_groups for p in group["params"]):
            sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return sgd


def parameters_of(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    """What an optimiser trains, in its order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def take_step(optimizer: torch.optim.Optimizer, ranks: Ranks) -> None:
    """A step along the gradient that the processes have together."""
    ranks.mean_([p.grad for p in parameters_of(optimizer) if p.grad is not None])
    optimizer.step()


def make_rates(optimizer: torch.optim.Optimizer, schedule: Schedule) -> CosineLRScheduler:
    """The learning rates: `step(epoch)`, from 0, sets that epoch's, whatever the epoch before (torch's needs it)."""
    # A single epoch has the full rate in any case; timm would warn of it.
    return CosineLRScheduler(optimizer, max(2, schedule.epochs), lr_min=schedule.rate * schedule.floor)
