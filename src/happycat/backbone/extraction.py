"""Feature extraction: from pictures to the embeddings of a frozen backbone."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from happycat.backbone.config import BackboneConfig, build
from happycat.backbone.scratch import SCRATCH
from happycat.backbone.tail import Tail
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import DEFAULT_WORKERS, ViewDataset, ViewPlan, view_loader
from happycat.base.disk import replacing
from happycat.base.progress import Advance, nobody
from happycat.images.pictures import Pictures, Subset

CENTRE = ("centre",)
VIEWS = ("centre", "1", "2")
BATCH = 128  # pictures a batch
CHUNK = 256  # pictures that a kill can cost at most


class FeatureExtractor:
    """A backbone, and how views are cut for it."""

    def __init__(self, trunk: Trunk, tail: Tail, plan: ViewPlan, workers: int):
        self.trunk, self.tail, self.plan, self.workers = trunk, tail.requires_grad_(False), plan, workers

    @classmethod
    def of(
        cls, config: BackboneConfig, *, workers: int | None = None, mirror: bool = True, seed: int = 0
    ) -> FeatureExtractor:
        trunk, tail = build(config, seed)
        workers = 0 if config.from_scratch else DEFAULT_WORKERS if workers is None else workers
        return cls(trunk, tail, ViewPlan(image_size=trunk.image_size, mirror=mirror), workers)

    @property
    def dim(self) -> int:
        return self.tail.dim

    @property
    def from_scratch(self) -> bool:
        return self.trunk.name in SCRATCH

    def metadata(self) -> dict:
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
        if not self.from_scratch:
            return {}
        parts = (("trunk.", self.trunk.model), ("tail.", self.tail))
        return {part + name: value for part, module in parts for name, value in module.state_dict().items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        for part, module in (("trunk.", self.trunk.model), ("tail.", self.tail)):
            own = {name.removeprefix(part): value for name, value in tensors.items() if name.startswith(part)}
            module.load_state_dict(own)

    @property
    def device(self) -> torch.device:
        return self.trunk.mean.device

    @torch.inference_mode()
    def seconds(self, views: int) -> float:
        """About how long so many views take, from a few that are timed."""
        some = torch.zeros(4, 3, self.trunk.image_size, self.trunk.image_size, dtype=torch.uint8, device=self.device)
        self.trunk(some[:1])
        started = time.monotonic()
        self.tail(self.trunk(some)).sum().item()
        return (time.monotonic() - started) / len(some) * views

    @torch.inference_mode()
    def extract(
        self,
        pictures: Pictures,
        views: tuple[str, ...] = VIEWS,
        advance: Advance = nobody,
        cache_dir: Path | None = None,
    ) -> Tensor:
        """Features (N, V, D) of so many views of each picture.

        What is done is kept in the folder `cache_dir`, if there is one, and taken from there the next time.
        """
        precision = str(self.trunk.precision)
        told, chunks = json.dumps([self.fingerprint(), precision, asdict(self.plan), views, pictures.source]), []
        for start in range(0, len(pictures), CHUNK):
            some = Subset(pictures, list(pictures.keys[start : start + CHUNK]))
            stamps = [some.stamp(i) for i in range(len(some))] if cache_dir else []
            name = hashlib.sha256(json.dumps([told, some.keys, stamps]).encode()).hexdigest()[:16]
            file = cache_dir and cache_dir / f"{name}.safetensors"
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
        batches = [b.tolist() for b in torch.arange(len(pictures)).split(BATCH)]
        loader = view_loader(ViewDataset(pictures, self.plan, views), batches, self.workers)
        table = [self.tail(self.trunk(cut.to(self.device).flatten(0, 1))).unflatten(0, cut.shape[:2]) for cut in loader]
        return torch.cat(table).cpu()
