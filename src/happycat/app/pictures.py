"""Thumbnails and large pictures of a discovery's images, addressed by their numbers; nothing outside of its folder.

A thumbnail is made once and kept in memory, the least recently used go first; the browser keeps it as well.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageOps

from happycat.base.errors import InputError
from happycat.images.decoding import read_picture

if TYPE_CHECKING:
    from happycat.model.review import Review

SIDE, LARGE = 160, 1600  # pixels a side of a thumbnail, at most of a large picture
MEMORY = 96_000_000  # bytes of thumbnails


def image_path(review: Review, i: int) -> Path:
    """The file of the i-th image; links are followed, and what lies outside of the discovery's folder is refused."""
    if review.root is None or not 0 <= i < len(review.keys):
        raise InputError(f"there is no file of image {i}")
    root = review.root.resolve()
    path = (root / review.keys[i]).resolve()
    if not path.is_relative_to(root):
        raise InputError(f"image {i} lies outside of {root}, so it is not shown")
    return path


def thumbnail(path: Path) -> bytes:
    """A small square of the picture's centre as JPEG; a tiny picture keeps its pixels square."""
    picture = read_picture(path)
    way = Image.Resampling.NEAREST if max(picture.size) < SIDE // 2 else Image.Resampling.LANCZOS
    return _jpeg(ImageOps.fit(picture, (SIDE, SIDE), way), 82)


def large(path: Path) -> tuple[bytes, str]:
    """The picture for the screen and its media type: small ones as they are, others as JPEG."""
    picture = read_picture(path)
    if max(picture.size) <= 256:
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        return buffer.getvalue(), "image/png"
    picture.thumbnail((LARGE, LARGE), Image.Resampling.LANCZOS)
    return _jpeg(picture, 90), "image/jpeg"


def _jpeg(picture: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


class Thumbnails:
    """Thumbnails by the file they are of; for use from several threads."""

    def __init__(self, memory: int = MEMORY):
        self._memory, self._used = memory, 0
        self._kept: OrderedDict[Path, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, path: Path) -> bytes:
        """The thumbnail of a file."""
        with self._lock:
            if path in self._kept:
                self._kept.move_to_end(path)
                return self._kept[path]
        content = thumbnail(path)
        with self._lock:
            if path not in self._kept:
                self._kept[path] = content
                self._used += len(content)
            while self._used > self._memory and len(self._kept) > 1:
                self._used -= len(self._kept.popitem(last=False)[1])
        return content
