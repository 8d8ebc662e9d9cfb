"""Data augmentation, the views of a picture: random crop and flip for training, the centre crop for evaluation."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.v2 import functional as F

from happycat.base.errors import DEAD_WORKER, HappycatError
from happycat.images.pictures import CROP_SHARE, Pictures

DEFAULT_WORKERS = min(8, max(1, (os.cpu_count() or 1) // 2))


@dataclass(frozen=True, kw_only=True)
class ViewPlan:
    """How views are cut. A view depends on the seed, the picture's key and the view's name, on nothing else."""

    image_size: int
    crop_share: float = CROP_SHARE  # of the resized picture's shorter side
    mirror: bool = True
    seed: int = 0

    @property
    def side(self) -> int:
        """The shorter side of a resized picture, a little longer than a view."""
        return round(self.image_size / self.crop_share)

    def resized(self, picture: Image.Image) -> Tensor:
        """The picture with its shorter side a little longer than a view; (3, H, W) uint8."""
        pixels = F.pil_to_tensor(picture)
        return F.resize(pixels, [self.side], interpolation=F.InterpolationMode.BICUBIC, antialias=True)

    def centre(self, resized: Tensor) -> Tensor:
        return F.center_crop(resized, [self.image_size, self.image_size])

    def random(self, resized: Tensor, key: str, view: str) -> Tensor:
        content = f"{self.seed}/{key}/{view}".encode("utf-8", "surrogateescape")
        digest = hashlib.blake2b(content, digest_size=24).digest()
        top, left, flip = (int.from_bytes(digest[i : i + 8], "big") for i in (0, 8, 16))
        height, width = resized.shape[-2:]
        top %= height - self.image_size + 1
        left %= width - self.image_size + 1
        crop = F.crop(resized, top, left, self.image_size, self.image_size)
        return F.horizontal_flip(crop) if self.mirror and flip % 2 else crop


class ViewDataset(Dataset):
    """The i-th picture's views, (len(views), 3, S, S) uint8; the view named "centre" is the centre crop."""

    def __init__(self, pictures: Pictures, plan: ViewPlan, views: tuple[str, ...]):
        self.pictures, self.plan, self.views = pictures, plan, views

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, i: int) -> Tensor | HappycatError:
        try:
            resized = self.plan.resized(self.pictures.read(i, self.plan.side))
        except HappycatError as error:
            return error
        key = self.pictures.keys[i]
        cut = [
            self.plan.centre(resized) if view == "centre" else self.plan.random(resized, key, view)
            for view in self.views
        ]
        return torch.stack(cut)


def view_loader(
    dataset: ViewDataset, batches: Iterable[list[int]], workers: int, device: torch.device | None = None
) -> Iterator[Tensor]:
    """Reads and cuts the given batches of pictures in worker processes; (B, views, 3, S, S) uint8 each.

    For a CUDA `device` they are in pinned memory, from where they are copied while it computes.
    """
    pin = device is not None and device.type == "cuda"
    loader = DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        collate_fn=_collate,
        pin_memory=pin,
        # Its own generator: the loader draws a seed for its workers, who need none, from the global one otherwise.
        generator=torch.Generator().manual_seed(0),
    )
    try:
        for views in loader:
            if isinstance(views, HappycatError):
                raise views
            yield views
    except RuntimeError as error:
        if DEAD_WORKER not in str(error):
            raise
        reason = str(error).splitlines()[0].rstrip(". ")
        raise HappycatError(f"a process that reads images was killed ({reason}); use fewer workers?") from error


def _collate(items: list[Tensor | HappycatError]) -> Tensor | HappycatError:
    """The views as one tensor; or, as a value, the first error: raised in a worker it would lose its one line."""
    errors = [item for item in items if isinstance(item, HappycatError)]
    return errors[0] if errors else torch.stack([item for item in items if isinstance(item, Tensor)])
