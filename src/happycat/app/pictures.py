"""Thumbnails and large pictures of a discovery's images, addressed by their numbers; nothing outside of its folder.

A thumbnail is made once. It is kept in memory, where the least recently used go first, and in the folder of the
discovery, which belongs to the person: without the folder, or above a number of bytes, it is made again at the next
start. When another file takes the image's place, it is made anew.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
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
MEMORY, DISK = 96_000_000, 500_000_000  # bytes of thumbnails in memory, in a discovery's folder
FOLDER, CHECKSUM = "thumbnails", 32  # bytes of a SHA-256


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

    def __init__(self, memory: int = MEMORY, disk: int = DISK):
        self._memory, self._used = memory, 0
        self._kept: OrderedDict[tuple[Path, str], bytes] = OrderedDict()
        self._stores: dict[Path, _Stored] = {}
        self._disk, self._lock = disk, threading.Lock()

    def of(self, path: Path, folder: Path | None = None) -> bytes:
        """The thumbnail of a file; `folder` is that of the discovery, if it is to be kept there."""
        key = path, _stamp(path)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            stored = None if folder is None else self._stores.setdefault(folder, _Stored(folder, self._disk))
        content = stored.read(*key) if stored else None
        if content is None:
            content = thumbnail(path)
            if stored:
                stored.write(*key, content)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = content
                self._used += len(content)
            while self._used > self._memory and len(self._kept) > 1:
                self._used -= len(self._kept.popitem(last=False)[1])
        return content


class _Stored:
    """The thumbnails in a discovery's folder, one file each: which image it is of, and the image's stamp.

    Behind the JPEG stands its SHA-256, which programs that show the file do not see.
    """

    def __init__(self, folder: Path, most: int):
        self.folder, self.most = folder / FOLDER, most
        self._size: int | None = None  # bytes in the folder, once something is to be written

    def read(self, path: Path, stamp: str) -> bytes | None:
        """The thumbnail that was stored; None if there is none, or one that is not as it was written."""
        try:
            content = self._file(path, stamp).read_bytes()
        except OSError:
            return None
        picture, checksum = content[:-CHECKSUM], content[-CHECKSUM:]
        return picture if hashlib.sha256(picture).digest() == checksum else None

    def write(self, path: Path, stamp: str, content: bytes) -> None:
        """Store a thumbnail, in place of an earlier one of the same image, if there is room and the folder is there."""
        file, content = self._file(path, stamp), content + hashlib.sha256(content).digest()
        try:
            if self._size is None:
                self._size = sum(one.stat().st_size for one in self.folder.glob("*/*.jpg"))
            if self._size + len(content) > self.most:
                return
            self.folder.mkdir(exist_ok=True)  # the discovery's folder is not made again if it was deleted
            file.parent.mkdir(exist_ok=True)
            earlier = list(file.parent.glob(f"{file.name.partition('-')[0]}-*.jpg"))
            with tempfile.NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as temporary:
                temporary.write(content)
            os.replace(temporary.name, file)
            self._size += len(content)
            for one in earlier:
                if one != file:
                    self._size -= one.stat().st_size
                    one.unlink(missing_ok=True)
        except OSError:  # a full disk, a folder that is gone: it is shown all the same
            return

    def _file(self, path: Path, stamp: str) -> Path:
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
        return self.folder / name[:2] / f"{name}-{stamp}.jpg"


def _stamp(path: Path) -> str:
    """What changes when another file takes the place of an image."""
    try:
        state = path.stat()
    except OSError:
        return "gone"
    return f"{state.st_mtime_ns:x}-{state.st_size:x}"
