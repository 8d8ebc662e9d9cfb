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
from happycat.backbone.store import TRUNK_BATCH
from happycat.backbone.tail import Tail
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import DEFAULT_WORKERS, ViewDataset, ViewPlan, view_loader
from happycat.base.disk import replacing
from happycat.base.progress import Advance, nobody
from happycat.images.pictures import Pictures, Subset

CENTRE = ("centre",)
VIEWS = ("centre", "1", "2")
BATCH = 128  # pictures that go through the tail at once
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
        """Features (N, V, D) of so many views of each picture; `advance(n)` is told of every n pictures that are done.

        They are to the bit those that the tail makes of stored tokens (`StoredViews.every`). What is done is kept
        in the folder `cache_dir`, if there is one, and taken from there the next time.
        """
        precision = str(self.trunk.precision)
        told, chunks = json.dumps([self.fingerprint(), precision, asdict(self.plan), views, pictures.source]), []
        for start in range(0, len(pictures), CHUNK):
            some = Subset(pictures, list(pictures.keys[start : start + CHUNK]))
            stamps = [some.stamp(i) for i in range(len(some))] if cache_dir else []
            name = hashlib.sha256(json.dumps([told, start, some.keys, stamps]).encode()).hexdigest()[:16]
            file = cache_dir and cache_dir / f"{name}.safetensors"
            if file and file.exists():
                chunks.append(load_file(file)["features"])
                advance(len(some))
            else:
                chunks.append(self._features(pictures, views, start, start + len(some), advance))
                if file:
                    with replacing(file) as temporary:
                        save_file({"features": chunks[-1].clone()}, temporary)
        return torch.cat(chunks).clone()

    def _features(self, pictures: Pictures, views: tuple[str, ...], start: int, stop: int, advance: Advance) -> Tensor:
        """Features of the pictures from `start` to `stop`.

        The last bits of a matrix product depend on how many rows go in together: the trunk is given the batches
        of a token store, the tail those of `StoredViews`, and the tokens are rounded as they would be on disk.
        """
        step = max(1, TRUNK_BATCH // len(views))
        order = range(start // step * step, min(len(pictures), -(-stop // step) * step))
        batches = [list(order[i : i + step]) for i in range(0, len(order), step)]
        said = []
        for batch, cut in zip(
            batches, view_loader(ViewDataset(pictures, self.plan, views), batches, self.workers), strict=True
        ):
            tokens = self.trunk(cut.to(self.device).flatten(0, 1))
            wanted = slice(max(0, start - batch[0]) * len(views), (stop - batch[0]) * len(views))
            said.append(Tokens(tokens.normalised[wanted].bfloat16(), tokens.cls[wanted]))
            advance(len(said[-1].cls) // len(views))
        normalised, cls = (torch.cat(part).split(BATCH * len(views)) for part in zip(*said, strict=True))
        table = [self.tail(Tokens(*block)) for block in zip(normalised, cls, strict=True)]
        return torch.cat(table).unflatten(0, (stop - start, len(views))).cpu()
