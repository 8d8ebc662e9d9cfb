"""From pictures to features: a backbone that is used as it is, or one trained from nothing on the labelled pictures."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from happycat.backbone.tail import Tail
from happycat.backbone.trunk import SCRATCH, Trunk
from happycat.backbone.views import ViewPlan
from happycat.base.disk import replacing
from happycat.base.errors import InputError
from happycat.benchmark.loop import DEFAULT_WORKERS, LoopConfig
from happycat.benchmark.protocol import Subset
from happycat.benchmark.setup import Request, build
from happycat.images.pictures import Pictures
from happycat.learning.batches import FreshViews, Labelled
from happycat.learning.training import Training
from happycat.methods.calm.method import Calm, CalmConfig

CENTRE = ("centre",)
VIEWS = ("centre", "1", "2")
CHUNK = 256  # pictures that a kill can cost at most

# A small ViT from nothing wants Adam, small batches, a higher rate.
FROM_NOTHING = {
    "base_optimizer": "adamw",
    "base_rate": 1e-3,
    "base_epochs": 70,
    "weight_decay": 0.05,
    "batch_size": 64,
    "projector_hidden": 256,
    "projector_out": 64,
}


class Describer:
    """A backbone, cut into trunk and tail, and how views are cut for it."""

    def __init__(self, trunk: Trunk, tail: Tail, plan: ViewPlan, workers: int):
        self.trunk, self.tail, self.plan, self.workers = trunk, tail.requires_grad_(False), plan, workers

    @classmethod
    def of(
        cls,
        backbone: str,
        *,
        weights: Path | None = None,
        image_size: int | None = None,
        precision: str | None = None,
        device: str = "auto",
        workers: int | None = None,
        mirror: bool = True,
        seed: int = 0,
    ) -> Describer:
        asked = {"weights": weights, "image_size": image_size, "precision": precision, "device": device}
        request = Request(dataset="", out=Path(), loop=LoopConfig(seed=seed), **asked)
        trunk, tail = build(request, backbone)
        workers = 0 if backbone in SCRATCH else DEFAULT_WORKERS if workers is None else workers
        return cls(trunk, tail, ViewPlan(image_size=trunk.image_size, mirror=mirror), workers)

    @property
    def dim(self) -> int:
        return self.tail.dim

    @property
    def from_nothing(self) -> bool:
        return self.trunk.name in SCRATCH

    def about(self) -> dict:
        return {
            "backbone": self.trunk.name,
            "image_size": self.trunk.image_size,
            "mirror": self.plan.mirror,
            "fingerprint": self.fingerprint(),
        }

    def fingerprint(self) -> str:
        """Tells this backbone from any other, in whatever precision the trunk runs: the tail's weights do."""
        digest = hashlib.sha256(json.dumps([self.trunk.name, self.trunk.image_size]).encode())
        for name, tensor in sorted(self.tail.state_dict().items()):
            digest.update(name.encode() + tensor.contiguous().cpu().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    def tensors(self) -> dict[str, Tensor]:
        """The weights that a model has to carry along: those of a backbone that nobody else has."""
        if not self.from_nothing:
            return {}
        parts = (("trunk.", self.trunk.model), ("tail.", self.tail))
        return {part + name: value for part, module in parts for name, value in module.state_dict().items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        for part, module in (("trunk.", self.trunk.model), ("tail.", self.tail)):
            own = {name.removeprefix(part): value for name, value in tensors.items() if name.startswith(part)}
            module.load_state_dict(own)

    def train(self, pictures: Pictures, labels: Tensor, training: Training, advance: Callable[[int], None]) -> Calm:
        """Train a backbone from nothing on labelled pictures; gives what Calm learned. Then it stays as it is."""
        values = {**FROM_NOTHING, "batch_size": min(FROM_NOTHING["batch_size"], len(pictures) // 2)}
        if len(pictures) < 4:
            raise InputError(f"a backbone cannot be trained on {len(pictures)} pictures; give more")
        self.trunk.thaw()
        self.tail.block.requires_grad_(True)
        labelled = Labelled(FreshViews(self.trunk, pictures, self.plan, self.workers), labels.to(self._device))
        calm = Calm(self.tail, CalmConfig(**values)).to(self._device)
        for _ in calm.fit(labelled, training):
            advance(1)
        self.trunk.freeze()
        self.tail.requires_grad_(False)
        return calm

    @property
    def _device(self) -> torch.device:
        return self.trunk.mean.device

    @torch.inference_mode()
    def seconds(self, views: int) -> float:
        """About how long so many views take, from a few that are timed."""
        some = torch.zeros(4, 3, self.trunk.image_size, self.trunk.image_size, dtype=torch.uint8, device=self._device)
        self.trunk(some[:1])
        started = time.monotonic()
        self.tail(self.trunk(some)).sum().item()
        return (time.monotonic() - started) / len(some) * views

    @torch.inference_mode()
    def describe(
        self,
        pictures: Pictures,
        views: tuple[str, ...] = VIEWS,
        advance: Callable[[int], None] = lambda number: None,
        kept: Path | None = None,
    ) -> Tensor:
        """Features (N, V, D) of so many views of each picture.

        What is done is kept in the folder `kept`, if there is one, and taken from there the next time.
        """
        precision = str(self.trunk.precision)
        told, chunks = json.dumps([self.fingerprint(), precision, asdict(self.plan), views, pictures.source]), []
        for start in range(0, len(pictures), CHUNK):
            some = Subset(pictures, list(pictures.keys[start : start + CHUNK]))
            stamps = [some.stamp(i) for i in range(len(some))] if kept else []
            name = hashlib.sha256(json.dumps([told, some.keys, stamps]).encode()).hexdigest()[:16]
            file = kept and kept / f"{name}.safetensors"
            if file and file.exists():
                chunks.append(load_file(file)["features"])
            else:
                chunks.append(self._features(some, views))
                if file:
                    with replacing(file) as temporary:
                        save_file({"features": chunks[-1].clone()}, temporary)
            advance(len(some))
        return torch.cat(chunks).clone()

    def _features(self, pictures: Pictures, views: tuple[str, ...]) -> Tensor:
        served = FreshViews(self.trunk, pictures, self.plan, self.workers)
        return served.every(self.tail, views).cpu()
