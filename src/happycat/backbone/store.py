"""The token store: what the trunk said about each view, on disk, memory-mapped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import ViewDataset, ViewPlan, view_loader
from happycat.base.disk import locked, read_json, storage_errors, sync, write_json
from happycat.base.errors import InputError, StorageError
from happycat.images.pictures import Pictures

TRUNK_BATCH = 64  # views that go through the trunk at once
POINT_SECONDS = 10  # how much extraction a kill can cost at most


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that the tokens depend on; two equal recipes give equal stores."""

    trunk: str  # the trunk's fingerprint
    pictures: str  # a digest of where they come from and their keys, in order
    num_pictures: int
    views: int  # random views a picture, besides the centre view
    image_size: int
    crop_share: float
    mirror: bool
    view_seed: int
    num_tokens: int
    dim: int

    @classmethod
    def of(cls, trunk: Trunk, fingerprint: str, pictures: Pictures, plan: ViewPlan, views: int) -> Recipe:
        told = "\n".join([pictures.source, *pictures.keys]).encode("utf-8", "surrogateescape")
        digest = hashlib.sha256(told).hexdigest()[:16]
        return cls(
            trunk=fingerprint,
            pictures=digest,
            num_pictures=len(pictures),
            views=views,
            image_size=plan.image_size,
            crop_share=plan.crop_share,
            mirror=plan.mirror,
            view_seed=plan.seed,
            num_tokens=trunk.num_tokens,
            dim=trunk.dim,
        )

    @property
    def name(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def token_bytes(self) -> int:
        """Bytes a picture takes in the token file."""
        return (self.views + 1) * self.num_tokens * self.dim * 2

    @property
    def cls_bytes(self) -> int:
        return (self.views + 1) * self.dim * 4

    @property
    def total_bytes(self) -> int:
        return self.num_pictures * (self.token_bytes + self.cls_bytes)


def affordable_views(recipe_of: Callable[[int], Recipe], wanted: int, budget: float) -> int:
    """The most views, from `wanted` down to two, whose store fits into `budget` bytes."""
    for views in range(wanted, 1, -1):
        if recipe_of(views).total_bytes <= budget:
            return views
    need = recipe_of(2).total_bytes / 1e9
    raise InputError(
        f"two views of each of {recipe_of(2).num_pictures} images take {need:.1f} GB, "
        f"more than the {budget / 1e9:.1f} GB allowed; raise --cache-gb or use --fresh-views"
    )


def delete_stores(root: Path) -> None:
    """Take every token store below a folder off the disk, and nothing else that may lie there."""
    for about in Path(root).glob("*/recipe.json"):
        shutil.rmtree(about.parent, ignore_errors=True)


class TokenStore:
    """Tokens of every picture's centre view (slot 0) and random views (slots 1…V), in bf16.

    A folder with `tokens.bin` (num_pictures, V+1, N, D) bf16, `cls.bin` (num_pictures, V+1, D) fp32,
    `recipe.json`, and `points.jsonl`: one line, with checksums, for each stretch that is safely on disk.
    """

    def __init__(self, root: Path, recipe: Recipe):
        self.recipe = recipe
        self.folder = Path(root) / recipe.name
        self._tokens: Tensor | None = None
        self._cls: Tensor | None = None

    def fill(
        self, trunk: Trunk, pictures: Pictures, plan: ViewPlan, workers: int, advance: Callable[[int], None]
    ) -> None:
        """Extract what is not there yet; `advance(n)` is told of every n pictures that are.

        What an earlier, interrupted call wrote is verified and kept. Of several processes that want the same
        tokens one extracts them, the others wait.
        """
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / ".lock", str(self.folder), wait=True):
            done = self._prepare()
            advance(done)
            if done < self.recipe.num_pictures:
                self._extract(trunk, pictures, plan, workers, done, advance)
            self._open()

    def recorded(self) -> int:
        """How many pictures are on disk, without a look at their checksums."""
        points = self.folder / "points.jsonl"
        lines = points.read_text().splitlines() if points.exists() else []
        return sum(json.loads(line)["pictures"] for line in lines)

    def adopt(self, tokens: Tensor, cls: Tensor) -> None:
        """Take tokens that are there already, (num_pictures·(V+1), N, D) and (…, D), for the whole store."""
        self._prepare()
        with storage_errors(self.folder), _Appender(self.folder) as appender:
            appender.append(self.recipe.num_pictures, Tokens(tokens, cls))
        self._open()

    def _open(self) -> None:
        self._tokens = self._map("tokens.bin", np.int16).view(torch.bfloat16)
        self._cls = self._map("cls.bin", np.float32)

    def _map(self, name: str, kind) -> Tensor:
        """One row a view: (num_pictures·(V+1), …), read from the disk as it is needed."""
        rows = self.recipe.num_pictures * (self.recipe.views + 1)
        # Copy-on-write, and never written: torch warns of read-only memory.
        return torch.from_numpy(np.memmap(self.folder / name, kind, "c")).view(rows, -1)

    def _prepare(self) -> int:
        """How many pictures are safely there; anything behind them is cut off."""
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        about = self.folder / "recipe.json"
        if not about.exists():
            write_json(about, asdict(self.recipe))
        elif read_json(about) != asdict(self.recipe):
            raise StorageError(f"{self.folder} holds tokens of something else; delete it")
        done = self._verified()
        left = (self.recipe.num_pictures - done) * (self.recipe.token_bytes + self.recipe.cls_bytes)
        free = shutil.disk_usage(self.folder).free
        if left > free:
            raise StorageError(
                f"the tokens need {left / 1e9:.2f} GB more, {self.folder} has {free / 1e9:.2f} GB free; "
                f"free some, lower --cache-gb, or use --fresh-views"
            )
        return done

    def _verified(self) -> int:
        """Pictures up to the last point whose checksums hold; the files end there afterwards."""
        parts = {"tokens.bin": self.recipe.token_bytes, "cls.bin": self.recipe.cls_bytes}
        points, good, done = self.folder / "points.jsonl", [], 0
        for name in parts:
            (self.folder / name).touch()
        lines = points.read_text().splitlines() if points.exists() else []
        with open(self.folder / "tokens.bin", "r+b") as tokens, open(self.folder / "cls.bin", "r+b") as cls:
            files = {"tokens.bin": tokens, "cls.bin": cls}
            for line in lines:
                try:
                    point = json.loads(line)
                    number = point["pictures"]
                    held = all(_checksum(files[name], number * size) == point[name] for name, size in parts.items())
                except (ValueError, KeyError, TypeError):
                    break
                if not held:
                    break
                good.append(line)
                done += number
            for name, size in parts.items():
                files[name].truncate(done * size)
        points.write_text("".join(line + "\n" for line in good))
        return done

    def _extract(self, trunk: Trunk, pictures: Pictures, plan: ViewPlan, workers: int, done: int, advance) -> None:
        names = ("centre", *(str(v) for v in range(1, self.recipe.views + 1)))
        step = max(1, TRUNK_BATCH // len(names))
        order = list(range(done, self.recipe.num_pictures))
        batches = [order[i : i + step] for i in range(0, len(order), step)]
        loader = view_loader(ViewDataset(pictures, plan, names), batches, workers)
        device = trunk.mean.device
        with storage_errors(self.folder), _Appender(self.folder) as appender, torch.inference_mode():
            for views in loader:
                said = trunk(views.flatten(0, 1).to(device, non_blocking=True))
                appender.append(len(views), said)
                advance(len(views))

    def views(self, index: Tensor, slot: Tensor) -> Tokens:
        """Tokens of the given slots of the given pictures."""
        rows = index * (self.recipe.views + 1) + slot
        tokens = self._tokens.index_select(0, rows).view(len(rows), self.recipe.num_tokens, -1)
        return Tokens(tokens, self._cls.index_select(0, rows))

    def delete(self) -> None:
        """Take the tokens off the disk: a token can be turned back into a picture."""
        self._tokens = self._cls = None
        shutil.rmtree(self.folder, ignore_errors=True)


class _Appender:
    """Appends tokens and, every few seconds, a point up to which everything is on disk."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __enter__(self):
        self.files = {name: open(self.folder / name, "ab") for name in ("tokens.bin", "cls.bin")}  # noqa: SIM115
        self._restart()
        return self

    def __exit__(self, kind, *_):
        try:
            if self.number:
                self._point()
        finally:
            for file in self.files.values():
                file.close()

    def _restart(self):
        self.number, self.crc, self.since = 0, dict.fromkeys(self.files, 0), time.monotonic()

    def append(self, number: int, said: Tokens) -> None:
        for name, tensor in (
            ("tokens.bin", said.normalised.to(torch.bfloat16).view(torch.int16)),
            ("cls.bin", said.cls.float()),
        ):
            data = tensor.contiguous().cpu().numpy().data.cast("B")
            self.files[name].write(data)
            self.crc[name] = zlib.crc32(data, self.crc[name])
        self.number += number
        if time.monotonic() - self.since > POINT_SECONDS:
            self._point()

    def _point(self) -> None:
        for file in self.files.values():
            file.flush()
            os.fsync(file.fileno())
        with open(self.folder / "points.jsonl", "a") as points:
            points.write(json.dumps({"pictures": self.number, **self.crc}) + "\n")
        sync(self.folder / "points.jsonl")
        self._restart()


def _checksum(file, size: int) -> int | None:
    """CRC-32 of the next `size` bytes; None if there are fewer."""
    crc, left = 0, size
    while left:
        data = file.read(min(left, 1 << 24))
        if not data:
            return None
        crc, left = zlib.crc32(data, crc), left - len(data)
    return crc
