"""The review file of a discovery: its images' points in the model's whitened space, kept beside the page.

It lies in the discovery's folder, which belongs to the person and can be deleted at any time; the model never holds it.
With it a page is drawn again after corrections, without reading an image or having the backbone.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits
from torch import Tensor

from happycat.base.disk import replacing
from happycat.base.errors import InputError, StorageError
from happycat.images.pictures import FilePictures, Pictures
from happycat.model.results import Discovery

FILE = "review.safetensors"
PLACED = 2000  # images whose places on the map are computed; others lie among their neighbours


@dataclass(frozen=True, kw_only=True)
class Review:
    """The images of a discovery: keys, points (N, d), places on the map (N, 2), and what was found then."""

    keys: tuple[str, ...]
    points: Tensor
    places: np.ndarray
    root: Path | None  # where the images lie; None if they are not files
    stage: int
    found: int  # classes
    count: dict[str, Any] | None  # the estimate of their number; None: it was given
    skipped: tuple[tuple[str, str], ...] = ()  # path, reason
    duplicates: int = 0

    @classmethod
    def of(cls, found: Discovery, stage: int) -> Review:
        """The review of a discovery that was the model's `stage`."""
        points = found.points.cpu().float()
        return cls(
            keys=tuple(found.pictures.keys),
            points=points,
            places=map_places(points),
            root=found.pictures.root.resolve() if isinstance(found.pictures, FilePictures) else None,
            stage=stage,
            found=len(found.new),
            count=found.count._asdict() if found.count else None,
            skipped=tuple((one.path, one.reason) for one in found.skipped),
            duplicates=found.duplicates,
        )

    @property
    def pictures(self) -> Pictures | None:
        """The pictures, which may be gone meanwhile; None if they were no files."""
        return None if self.root is None else FilePictures(self.root, self.keys)

    def write(self, folder: Path) -> str:
        """Write the review into its folder; its SHA-256 is returned, which the model's version remembers."""
        metadata = {
            "keys": self.keys,
            "root": None if self.root is None else str(self.root),
            "stage": self.stage,
            "found": self.found,
            "count": self.count,
            "skipped": self.skipped,
            "duplicates": self.duplicates,
        }
        arrays: dict[str, np.ndarray] = {
            "points": self.points.numpy().astype(np.float16),
            "places": self.places.astype(np.float32),
            "told": np.frombuffer(json.dumps(metadata).encode(), np.uint8),
        }
        content = save(arrays)
        with replacing(folder / FILE) as temporary:
            temporary.write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    @classmethod
    def read(cls, folder: Path, checksum: str) -> Review:
        """The review in a folder, which must be the one with this SHA-256."""
        path = folder / FILE
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise InputError(f"{path} is gone, so the discovery cannot be shown; discover its images again") from None
        except OSError as error:
            raise StorageError(f"{path} cannot be read ({error.strerror}); look whether it may be") from error
        if hashlib.sha256(content).hexdigest() != checksum:
            raise InputError(
                f"{path} was changed, or is of another discovery than the model's last; discover its images again"
            )
        try:
            arrays = load(content)
            metadata = json.loads(arrays["told"].tobytes())
        except (SafetensorError, KeyError, ValueError) as error:
            raise StorageError(f"{path} cannot be used ({error}); it is of another version of happycat") from error
        return cls(
            keys=tuple(metadata["keys"]),
            points=torch.from_numpy(arrays["points"].astype(np.float32)),
            places=arrays["places"],
            root=None if metadata["root"] is None else Path(metadata["root"]),
            stage=metadata["stage"],
            found=metadata["found"],
            count=metadata["count"],
            skipped=tuple((path, reason) for path, reason in metadata["skipped"]),
            duplicates=metadata["duplicates"],
        )


def map_places(points: Tensor) -> np.ndarray:
    """A place (N, 2) for each image, so that neighbours are alike (t-SNE)."""
    number = len(points)
    if number < 5:
        return np.stack([np.arange(number), np.zeros(number)], 1).astype(float)
    placed = torch.linspace(0, number - 1, min(number, PLACED)).round().long().unique()
    some = points[placed].numpy()
    with threadpool_limits(limits=1):
        found = TSNE(
            init="pca", metric="cosine", perplexity=min(30.0, (len(some) - 1) / 3), random_state=0, n_jobs=1
        ).fit_transform(some)
    near = (points @ points[placed].T).topk(min(3, len(placed)), dim=1).indices.numpy()
    places = found[near].mean(1)
    places[placed.numpy()] = found
    return places
