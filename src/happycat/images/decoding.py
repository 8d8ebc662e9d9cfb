"""The one reader: any picture file, as people have them, to an upright RGB picture, or the reason why not."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import unicodedata
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from happycat.base.errors import InputError

LONGEST = 100  # times as long as wide; of a longer picture a crop would show nothing
SIXTEEN_BITS = 65535
BITS_PER_SAMPLE = 258  # the TIFF tag


def read_picture(path: Path) -> Image.Image:
    """The picture in the file, upright and RGB; of several frames the first."""
    picture = picture_or_reason(path)
    if isinstance(picture, str):
        raise InputError(f"{shown(path)} cannot be read as an image ({picture}); remove or replace it")
    return picture


def picture_or_reason(path: Path) -> Image.Image | str:
    """The upright RGB picture, or in a few words why there is none."""
    _silence_pillow()
    Image.init()  # all decoders at once: threads that load them as they go miss some
    try:
        return _unusual_file(path) or _opened(path)
    except UnidentifiedImageError:
        return _not_an_image(path)
    except Image.DecompressionBombError:
        return _too_many_pixels()
    except MemoryError:
        return "not enough memory"
    except OSError as error:
        return _refusal(path, error)
    except Exception as error:  # a damaged file can make a decoder raise anything
        return _damaged(error)


def shown(path: Path | str) -> str:
    """The path as it can be printed in one line: line breaks and undecodable bytes are written out."""
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        else character
        for character in str(path)
    )


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


def _opened(path: Path) -> Image.Image | str:
    """The picture, decoded only if its header promises one that can be used."""
    with Image.open(path) as image:
        return _unusable(image) or _upright_rgb(image)


def _unusable(image: Image.Image) -> str | None:
    """What the header says against decoding the picture."""
    width, height = image.size
    if Image.MAX_IMAGE_PIXELS is not None and width * height > Image.MAX_IMAGE_PIXELS:
        return _too_many_pixels()
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


def _not_an_image(path: Path) -> str:
    if Path(path).suffix.lower() in (".heic", ".heif"):
        return "a HEIC photo; convert it to JPEG"
    return "not an image"


def _too_many_pixels() -> str:
    return f"more than {Image.MAX_IMAGE_PIXELS} pixels"


def _refusal(path: Path, error: OSError) -> str:
    """What the operating system, or a decoder, complains of."""
    if isinstance(error, FileNotFoundError):
        return "link leads nowhere" if os.path.islink(path) else "no such file"
    return error.strerror or _damaged(error)


def _damaged(error: Exception) -> str:
    return shown("damaged: " + " ".join((str(error) or type(error).__name__).split()))
