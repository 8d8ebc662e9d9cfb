"""The review file of a discovery: its images' points in the model's discriminant space, kept beside the page.

It lies in the discovery's folder, which belongs to the person and can be deleted at any time; the model never holds it.
With it a page is drawn again after corrections, and images are counted again, without reading one or having the
backbone. Reading it needs no torch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from happycat.base.disk import replacing
from happycat.base.errors import HappycatError, InputError, StorageError
from happycat.base.strict_json import parse_json
from happycat.model import file as model_file
from happycat.model.levels import DIGEST
from happycat.model.schema import REVIEW, bearable, check_keys

if TYPE_CHECKING:  # a correction reads a review: it needs neither Pillow nor t-SNE
    from happycat.images.pictures import Pictures
    from happycat.model.results import Discovery

FILE = "review.safetensors"


@dataclass(frozen=True, kw_only=True)
class Review:
    """The images of a discovery: keys, points (N, d), places on the map (N, 2), and what was found then."""

    keys: tuple[str, ...]
    points: np.ndarray  # of float32: with fewer digits, an image could fall on the other side of a threshold
    learned: np.ndarray  # (N, d) points that prototypes are made of: the means over views
    counted: np.ndarray  # (N,) the row of the model's pool that counts each image in, or −1
    digests: np.ndarray  # (N, 16) of the images' content, by which they are known again
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
        from happycat.images.pictures import FilePictures
        from happycat.model.map import map_places

        points = found.points.cpu().float()
        return cls(
            keys=tuple(found.pictures.keys),
            points=points.numpy(),
            learned=found.learned.cpu().float().numpy(),
            counted=found.counted,
            digests=found.digests,
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
        from happycat.images.pictures import FilePictures

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
            "points": self.points,
            "counted": self.counted,
            "digests": self.digests,
            "places": self.places.astype(np.float32),
            "metadata": np.frombuffer(json.dumps(metadata).encode(), np.uint8),
        }
        if not np.array_equal(self.learned, self.points):  # vectors have one view
            arrays["learned"] = self.learned
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
            metadata = parse_json(arrays.pop("metadata").tobytes(), "its list of images")
            _check(metadata, arrays)
        except (SafetensorError, LookupError, ValueError, TypeError, InputError) as error:
            raise StorageError(f"{path} cannot be used ({error}); it is of another version of happycat") from error
        return cls(
            keys=tuple(metadata["keys"]),
            points=(points := arrays["points"].copy()),  # torch wants one that may be written to
            learned=arrays["learned"].copy() if "learned" in arrays else points,
            counted=arrays["counted"],
            digests=arrays["digests"],
            places=arrays["places"],
            root=None if metadata["root"] is None else Path(metadata["root"]),
            stage=metadata["stage"],
            found=metadata["found"],
            count=metadata["count"],
            skipped=tuple((path, reason) for path, reason in metadata["skipped"]),
            duplicates=metadata["duplicates"],
        )

    def check_fits(self, rows: int, dimensions: int) -> None:
        """Refuse a review whose points are none of a model with so many rows of so many dimensions."""
        if self.points.shape[1] != dimensions or not ((self.counted >= -1) & (self.counted < rows)).all():
            raise StorageError("the review of the last discovery is of another model; discover its images again")


def _check(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """A KeyError or ValueError if this is not what a review holds."""
    check_keys(metadata, REVIEW, None, "the review")
    number, dimensions = len(metadata["keys"]), arrays["points"].shape[-1]
    if len(set(metadata["keys"])) < number:
        raise ValueError("an image that is there twice")
    shapes = {
        "points": ("float32", (number, dimensions)),
        "learned": ("float32", (number, dimensions)),
        "counted": ("int64", (number,)),
        "digests": ("uint8", (number, DIGEST)),
        "places": ("float32", (number, 2)),
    }
    for name, array in arrays.items():
        if name not in shapes or (array.dtype.name, array.shape) != shapes[name] or not bearable(array):
            raise ValueError(f"{name} is of {array.dtype} {list(array.shape)}, or not of finite numbers")
    if missing := shapes.keys() - arrays.keys() - {"learned"}:
        raise KeyError(min(missing))


def last_review(model: Path) -> Review:
    """The review of a model's last discovery; its folder is looked for where it was, then beside the model."""
    discovery = last_discovery(model_file.history(model))
    if discovery is None:
        raise InputError(f"there is nothing to show of {model}: it has discovered nothing yet")
    return Review.read(review_folder(model, discovery), discovery["review"])


def review_folder(model: Path, discovery: dict[str, Any]) -> Path:
    """The folder of a discovery: where it was, or else beside the model."""
    folder = Path(discovery["results"])
    beside = model.parent / folder.name
    return beside if not has_review(folder) and has_review(beside) else folder


def has_review(folder: Path) -> bool:
    """Whether there is one in a folder; none is in one that cannot be, its name being too long for this system."""
    return os.path.exists(folder / FILE)  # a path's own method raises an error then


def review_of_stage(model: Path, stage: int | None) -> Review | None:
    """The review of the images that a model discovered in that stage, if its last review is there and of it.

    The folder belongs to the person: that it is gone is no error.
    """
    try:
        review = last_review(model)
    except HappycatError:
        return None
    return review if review.stage == stage else None


def last_discovery(versions: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The last of a model's versions that was a discovery with a review."""
    return next((one for one in reversed(versions) if one.get("review")), None)
