"""Decoding image files: any file, as people have them, to an upright RGB picture, or the reason why not."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.ImageFile import ImageFile

from happycat.base.errors import InputError
from happycat.base.text import shown

LONGEST = 100  # times as long as wide; of a longer picture a crop would show nothing
SIXTEEN_BITS = 65535
BITS_PER_SAMPLE = 258  # the TIFF tag
MEGA = 1_000_000
HEIC_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"})
DECODING = 2  # changes when pictures of the same file do, so that nothing stored for the earlier ones is used
REDUCED = 2  # how many times as large as it is needed a JPEG photo is decoded at least, before it is resized
NO_HEIC = "a HEIC photo; install pillow-heif (pip install 'happycat[heic]') or convert it to JPEG"


def read_picture(path: Path, side: int | None = None) -> Image.Image:
    """The picture in the file, upright and RGB; of several frames the first.

    `side` is what its shorter side will be resized to: a JPEG photo that is at least four times as large is decoded at
    a half, a quarter or an eighth of its size, at the least twice as large as `side`.
    """
    picture = _picture_or_reason(path, None if side is None else REDUCED * side)
    if isinstance(picture, str):
        raise InputError(f"{shown(path)} cannot be read as an image ({picture}); remove or replace it")
    return picture


def picture_or_reason(path: Path) -> Image.Image | str:
    """The upright RGB picture, or in a few words why there is none."""
    return _picture_or_reason(path)


def reason_against(path: Path) -> str | None:
    """Why the file cannot be read as a picture, in a few words; None if it can.

    The file is decoded to its end, so that a truncated one is found. Of a JPEG file only an eighth of the width and
    height is computed: the same damage is found, for a photo of 12 megapixels six times as fast.
    """
    outcome = _picture_or_reason(path, enough=1)
    return outcome if isinstance(outcome, str) else None


def _picture_or_reason(path: Path, enough: int | None = None) -> Image.Image | str:
    """The picture, or in a few words why there is none; a JPEG may be made smaller, no side below `enough`."""
    _silence_pillow()
    Image.init()  # all decoders at once: threads that load them as they go miss some
    try:
        return _unusual_file(path) or _decoded(path, enough)
    except UnidentifiedImageError:
        return "not an image"
    except Image.DecompressionBombError as error:
        pixels = re.search(r"\d+", str(error))  # the message alone says how many there are
        return _too_many_pixels(int(pixels[0]) if pixels else None)
    except MemoryError:
        return "not enough memory"
    except OSError as error:
        return _refusal(path, error)
    except Exception as error:  # a damaged file can make a decoder raise anything
        return _damaged(error)


def _silence_pillow() -> None:
    """Let Pillow not warn of odd metadata or of many pixels: the latter are refused here.

    The filter is set once and left: to set and reset it for each picture would not be safe in threads.
    """
    silent = ("ignore", None, Warning, re.compile(r"PIL\."), 0)
    if silent not in warnings.filters:
        warnings.filterwarnings("ignore", module=r"PIL\.")


def _unusual_file(path: Path) -> str | None:
    """Why the file should not even be opened: a pipe would be waited for, for ever."""
    if "\0" in str(path):  # the system would not even look
        return "no such file"
    status = os.stat(path)
    if stat.S_ISDIR(status.st_mode):
        return "is a folder"
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    return None if status.st_size else "file is empty"


def _decoded(path: Path, enough: int | None) -> Image.Image | str:
    """The picture, decoded only if its header promises one that can be used."""
    opened = _opened(path)
    if opened is None:
        return NO_HEIC
    with opened as image:
        if reason := _unusable(image):
            return reason
        if enough and image.format in ("JPEG", "MPO"):  # of a HEIC photo, only the embedded thumbnail would be read
            image.draft(image.mode, (enough, enough))
        return _upright_rgb(image)


def _opened(path: Path) -> ImageFile | None:
    """The image file, its header read; None for a HEIC photo without pillow-heif.

    HEIC is opened directly, not by a decoder that is registered in Pillow: that would change it for all threads.
    """
    try:
        return Image.open(path)
    except UnidentifiedImageError:
        if not _is_heic(path):
            raise
    try:
        from pillow_heif import HeifImageFile  # optional, and needed by few
    except ImportError:
        return None
    return HeifImageFile(path)


def _is_heic(path: Path) -> bool:
    """Whether the file begins like a HEIC photo, whatever its name."""
    with open(path, "rb") as file:
        start = file.read(12)
    return start[4:8] == b"ftyp" and start[8:] in HEIC_BRANDS


def _unusable(image: Image.Image) -> str | None:
    """What the header says against decoding the picture."""
    width, height = image.size
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        return _too_many_pixels(width * height)
    if max(image.size) > LONGEST * min(image.size):
        return f"{width} × {height} pixels, more than {LONGEST} times as long as wide"
    if image.format == "EPS":  # Pillow would start Ghostscript
        return "a PostScript drawing, not an image"
    return None


def _upright_rgb(image: Image.Image) -> Image.Image:
    """The pixels as RGB, turned as the camera says, over white where they are transparent."""
    image.load()
    with contextlib.suppress(Exception):  # damaged metadata is no reason against the pixels
        ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image)
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white


def _eight_bits(image: Image.Image) -> Image.Image:
    """Deep grey as 8 bits: the format's range to 0…255 or, where it has none, a range that holds the values."""
    values = np.asarray(image, dtype=np.float32)
    low, high = _range(image, values)
    factor = 255 / (high - low) if high > low else 0.0
    with np.errstate(all="ignore"):
        scaled = np.nan_to_num(values * factor - low * factor, nan=0, posinf=255, neginf=0)
    return Image.fromarray(scaled.round().clip(0, 255).astype(np.uint8))


def _range(image: Image.Image, values: np.ndarray) -> tuple[float, float]:
    """The values of black and white: 16 bits, for floats 0…1, 8 bits, or the picture's own extremes."""
    if image.mode.startswith("I;16") or image.format in ("PNG", "PPM"):
        bits = getattr(image, "tag_v2", {}).get(BITS_PER_SAMPLE, (16,))[0]
        return 0.0, float(2**bits - 1)
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 0.0
    low, high = float(finite.min()), float(finite.max())
    for top in (1, 255, SIXTEEN_BITS) if image.mode == "F" else (255, SIXTEEN_BITS):
        if low >= 0 and high <= top:
            return 0.0, float(top)
    return low, high


def _too_many_pixels(pixels: int | None) -> str:
    """How many megapixels there are, if that is known, and how many are allowed."""
    allowed = (Image.MAX_IMAGE_PIXELS or 0) // MEGA
    if pixels is None:
        return f"more than the {allowed} megapixels that are read"
    return f"{max(round(pixels / MEGA), allowed + 1)} megapixels, more than the {allowed} that are read"


def _refusal(path: Path, error: OSError) -> str:
    """What the operating system, or a decoder, complains of."""
    if isinstance(error, FileNotFoundError):
        return "link leads nowhere" if os.path.islink(path) else "no such file"
    return error.strerror or _damaged(error)


def _damaged(error: Exception) -> str:
    return shown("damaged: " + " ".join((str(error) or type(error).__name__).split()))
