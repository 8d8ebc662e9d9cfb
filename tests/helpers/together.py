"""What every method computes, alone or by several processes together.

    python -m tests.helpers.together FILE

has two processes compute it, and the first writes it to FILE, for a test to compare with what one process computes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.multiprocessing import start_processes

from happycat.backbone.extraction import fill_tokens
from happycat.backbone.recipe import Recipe
from happycat.backbone.tail import Vectors
from happycat.backbone.token_store import TokenStore
from happycat.base.ranks import Ranks
from happycat.base.together import Together
from happycat.learning import training as trainings
from happycat.learning.batches import FreshViews, Labelled, StoredViews, Unlabelled, VectorViews
from happycat.learning.training import Training, parameters_of
from happycat.methods import METHODS, metagcd
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from tests.helpers.contract import NUM_NEW, build

TRAINED = [name for name, (method, _) in METHODS.items() if method.trains]
CASES = [*((name, "stored") for name in TRAINED), ("gm", "fresh"), ("happy", "thawed"), ("vanilla_gcd", "thawed")]
BATCH = 9  # the two processes have 4 and 5 images of it
STANDING = {"base_rate": 0.0, "rate": 0.0, "outer_rate": 0.0}  # steps of no length: all gradients are at one place


@contextmanager
def recorded(found: dict[str, Tensor], prefix: str) -> Iterator[None]:
    """Record the gradients of the first three steps of any optimiser, as it is given them."""
    usual, steps = trainings.take_step, []

    def take_step(optimizer, ranks):
        usual(optimizer, ranks)
        if len(steps) < 3:
            for i, p in enumerate(parameters_of(optimizer)):
                gradient = torch.zeros_like(p) if p.grad is None else p.grad.clone()
                found[f"{prefix} step {len(steps)} gradient {i}"] = gradient
        steps.append(optimizer)

    for module in (trainings, metagcd):
        module.take_step = take_step
    try:
        yield
    finally:
        for module in (trainings, metagcd):
            module.take_step = usual


@contextmanager
def in_float64() -> Iterator[None]:
    """Compute in float64 whatever is computed in fp32: what two processes still differ in is no rounding of fp32."""
    torch.set_default_dtype(torch.float64)
    try:
        with patch.object(Tensor, "float", Tensor.double), patch.object(nn.Module, "float", nn.Module.double):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def shared(views: FreshViews, kind: str, folder: Path, ranks: Ranks) -> FreshViews | StoredViews:
    """The same images in the way asked for, shared by the processes."""
    fresh = FreshViews(views.trunk, views.pictures, views.plan, 0, ranks)
    if kind == "thawed":
        fresh.trunk.precision = torch.get_default_dtype()  # for when it is frozen again
        fresh.trunk.thaw()
    if kind != "stored":
        return fresh
    recipe = Recipe.of(views.trunk, views.trunk.fingerprint(), views.pictures, views.plan, 3)
    store = TokenStore(folder, recipe)
    fill_tokens(store, views.trunk, views.pictures, views.plan, 0, ranks=ranks)
    return StoredViews(store, torch.device("cpu"), ranks)


def learned(name: str, kind: str, folder: Path, ranks: Ranks) -> dict[str, Tensor]:
    """Gradients, loss terms and predictions of a method: Stage-0, its rehearsal and one stage."""
    found: dict[str, Tensor] = {}
    method, labelled, unlabelled = build(name, batch_size=BATCH, top_dimensions=3, **STANDING)
    old = Labelled(shared(labelled.views, kind, folder, ranks), labelled.labels)
    new = Unlabelled(shared(unlabelled.views, "fresh" if kind == "thawed" else kind, folder, ranks))
    parts = {"fit": lambda t: method.fit(old, t), "rehearse": lambda t: method.rehearse(old, t)}
    parts["discover"] = lambda t: method.discover(new, NUM_NEW, t)
    for part, run in parts.items():
        with recorded(found, part):
            for epoch in run(Training(torch.Generator().manual_seed(0), ranks=ranks)):
                for term, value in epoch.terms.items():
                    found[f"{part} epoch {epoch.number} {term}"] = torch.tensor(value)
        if part == "fit" and kind == "thawed":
            old.views.trunk.freeze()
    found["probabilities"] = method.predict_all(new)
    found["features"] = method.features(old)
    return found


def calm(ranks: Ranks) -> dict[str, Tensor]:
    """What Calm finds: three new classes among vectors around the means of classes, of which twelve are labelled."""
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(15, 32, generator=generator)

    def served(classes: range, each: int) -> tuple[VectorViews, Tensor]:
        ids = torch.tensor([c for c in classes for _ in range(each)])
        noise = torch.randn(len(ids), 2, 32, generator=generator)
        return VectorViews(means[ids][:, None] + 0.5 * noise, ranks), ids

    method = Calm(Vectors(32), CalmConfig(episodes=3))
    views, ids = served(range(12), 15)
    list(method.fit(Labelled(views, ids), Training(torch.Generator().manual_seed(1), ranks=ranks)))
    stage = Unlabelled(served(range(8, 15), 21)[0])
    number = method.count(stage, torch.Generator().manual_seed(2)).number
    list(method.discover(stage, 3, Training(torch.Generator().manual_seed(3), ranks=ranks)))
    chosen = torch.tensor([number, float(method.exponent), float(method.temperature)])
    return {"chosen": chosen, "classes": method.classify(stage)[0]}


def everything(ranks: Ranks, folder: Path) -> dict[str, Tensor]:
    """All that is compared, by name."""
    found = {f"calm {what}": value for what, value in calm(ranks).items()}
    for name, kind in CASES:
        with in_float64() if kind == "thawed" else nullcontext():
            found |= {f"{name} {kind} {what}": value for what, value in learned(name, kind, folder, ranks).items()}
    return found


def compute(rank: int, file: Path) -> None:
    """Be one of the two processes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{file}.meeting", rank=rank, world_size=2)
    ranks = Together(torch.device("cpu"))
    found = everything(ranks, file.parent / "tokens")
    if ranks.first:
        save_file({name: value.contiguous() for name, value in found.items()}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    # forked where that is safe, so that what takes seconds to import is imported once
    method = "fork" if sys.platform == "linux" else "spawn"
    start_processes(compute, args=(Path(sys.argv[1]),), nprocs=2, start_method=method)
