"""Common corruptions (Hendrycks and Dietterich, 2019) at severities 1 to 5, for pictures of any size.

They are the benchmark's 15 and Gaussian blur, one of its four extras, which the paper names.

Each corruption states its strengths twice, for severities 1 to 5: on a picture whose shorter side is 32 pixels (in
the spirit of CIFAR-10-C) and on one of 224 (of ImageNet-C). Sizes between get something between, and larger or
smaller pictures the lengths in proportion, so that a severity looks alike at every size. The textures of snow, frost
and fog are drawn, not photographed: the numbers are not comparable with those of the published archives.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from PIL import Image
from scipy import ndimage, signal, spatial

from happycat.base.errors import InputError
from happycat.images.pictures import Images, Pictures

SEVERITIES = 5
SMALL, LARGE = 32, 224  # the shorter sides for which strengths are stated
Strengths = tuple[float, float, float, float, float]  # at severities 1 to 5


def corrupt(picture: Image.Image, name: str, severity: int, seed: str) -> Image.Image:
    """The picture corrupted, in its size and mode. The same seed gives the same picture."""
    severity = _possible(name, severity)
    digest = hashlib.blake2b(f"{seed}/{name}/{severity}".encode("utf-8", "surrogateescape"), digest_size=16).digest()
    random = np.random.default_rng(int.from_bytes(digest, "big"))
    pixels = np.asarray(picture.convert("RGB"), dtype=np.float32) / 255
    return _picture(CORRUPTIONS[name](pixels, severity, random)).convert(picture.mode)


class CorruptedPictures(Pictures):
    """The same pictures under the same keys, each corrupted when it is read, in a way that depends on its key."""

    def __init__(self, pictures: Pictures, corruption: str, severity: int):
        super().__init__(pictures.keys)
        self.severity = _possible(corruption, severity)
        self.pictures, self.corruption = pictures, corruption

    def read(self, i: int, side: int | None = None) -> Image.Image:
        # The whole picture: how a corruption looks depends on the size.
        return corrupt(self.pictures.read(i), self.corruption, self.severity, seed=self.keys[i])

    def stamp(self, i: int) -> tuple[int, int]:
        return self.pictures.stamp(i)

    @property
    def source(self) -> str:
        return f"{self.pictures.source}#{self.corruption}-{self.severity}"


def shifted(images: Images, corruption: str, severity: int) -> Images:
    """The data set with its test pictures corrupted; the train pictures stay as they are."""
    test = CorruptedPictures(images.test, corruption, severity)
    return replace(images, name=f"{images.name}-{corruption}-{test.severity}", test=test)


def _possible(name: str, severity: int) -> int:
    """The severity, if there is such a corruption and such a severity."""
    if name not in CORRUPTIONS:
        raise InputError(f"no corruption {name!r}; take one of: {', '.join(CORRUPTIONS)}")
    if severity not in range(1, SEVERITIES + 1):
        raise InputError(f"severity of {name} is {severity!r}; give a whole number from 1 to {SEVERITIES}")
    return int(severity)


# Every corruption takes pixels from 0 to 1, (H, W, 3), and gives pixels that may lie outside; the caller clips.


def gaussian_noise(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels with normal noise added, as under poor light."""
    deviation = _strength(pixels, severity, (0.04, 0.06, 0.08, 0.09, 0.10), (0.08, 0.12, 0.18, 0.26, 0.38))
    return pixels + _per_speck(pixels, lambda specks: random.normal(0, deviation, specks.shape))


def shot_noise(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels counted in few photons (white is so many of them), which makes Poisson noise."""
    photons = _strength(pixels, severity, (500, 250, 100, 75, 50), (60, 25, 12, 5, 3))
    return pixels + _per_speck(pixels, lambda specks: random.poisson(specks * photons) / photons - specks)


def impulse_noise(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels of which a share is set to 0 or 1 in each channel, as by broken bits."""
    share = _strength(pixels, severity, (0.01, 0.02, 0.03, 0.05, 0.07), (0.03, 0.06, 0.09, 0.17, 0.27))
    draw = _per_speck(pixels, lambda specks: random.random(specks.shape))
    return np.select([draw < share / 2, draw < share], [0.0, 1.0], pixels)


def defocus_blur(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels spread over a disc, as by a lens out of focus."""
    radius = _length(pixels, severity, (0.6, 0.75, 0.95, 1.3, 1.8), (3, 4, 6, 8, 10))
    rows, columns = _grid(radius)
    disc = np.clip(radius + 0.5 - np.hypot(rows, columns), 0, 1)
    return _convolved(pixels, disc / disc.sum())


def gaussian_blur(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels averaged with normal weights, as by a soft lens."""
    blur = _length(pixels, severity, (0.4, 0.6, 0.7, 0.8, 1.0), (1, 2, 3, 4, 6))
    return ndimage.gaussian_filter(pixels, (blur, blur, 0))


def glass_blur(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels scattered among their neighbours and blurred a little, as behind frosted glass."""
    reach = _length(pixels, severity, (0.7, 0.9, 1.1, 1.3, 1.6), (1.4, 2.0, 3.2, 4.2, 5.7))
    blur = _length(pixels, severity, (0.2, 0.25, 0.3, 0.35, 0.4), (0.7, 0.9, 1.0, 1.1, 1.5))
    offsets = _per_speck(pixels, lambda specks: random.uniform(-reach, reach, (*specks.shape[:2], 2)))
    scattered = _displaced(ndimage.gaussian_filter(pixels, (blur, blur, 0)), offsets)
    return ndimage.gaussian_filter(scattered, (blur, blur, 0))


def motion_blur(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels smeared along a line less than 45° from level, as by a moving camera."""
    length = _length(pixels, severity, (1.0, 1.4, 1.8, 2.2, 2.6), (3, 5, 7, 9, 11))
    return _convolved(pixels, _streak(length, random.uniform(-np.pi / 4, np.pi / 4)))


def zoom_blur(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """The mean of the picture and its enlargements about the centre, as by a camera moving towards it."""
    most = 1 + _strength(pixels, severity, (0.06, 0.11, 0.16, 0.21, 0.26), (0.10, 0.15, 0.20, 0.25, 0.30))
    picture = _picture(pixels)
    enlarged = []
    for zoom in np.linspace(1, most, 12):
        left, top = (side * (1 - 1 / zoom) / 2 for side in picture.size)
        box = (left, top, picture.width - left, picture.height - top)
        enlarged.append(np.asarray(picture.resize(picture.size, Image.Resampling.BILINEAR, box)))
    return np.mean(enlarged, axis=0) / 255


def snow(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels paled, behind flakes of several sizes that fall slantwise."""
    flakes = _strength(pixels, severity, (0.05, 0.08, 0.11, 0.15, 0.20), (0.08, 0.14, 0.20, 0.28, 0.38))
    paled = _strength(pixels, severity, (0.05, 0.10, 0.15, 0.20, 0.25), (0.10, 0.20, 0.30, 0.40, 0.50))
    fall = random.uniform(np.pi / 4, 3 * np.pi / 4)
    clear = np.ones((*pixels.shape[:2], 1))
    for share in (0.003, 0.005, 0.009):  # far, nearer and near flakes: their radius by the shorter side
        radius = max(share * min(pixels.shape[:2]), 0.35)
        kernel = ndimage.gaussian_filter(np.pad(_streak(4 * radius, fall), round(3 * radius)), radius)
        kernel /= kernel.max()
        light = random.uniform(0.3, 1, clear.shape) * (random.random(clear.shape) < flakes / 3 / kernel.sum())
        clear *= 1 - np.clip(_convolved(light, kernel), 0, 1)
    grey = pixels.mean(axis=2, keepdims=True)
    pale = (1 - paled) * pixels + paled * np.maximum(pixels, 0.4 + 0.6 * grey)
    return 1 - (1 - pale) * clear


def frost(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels dimmed, under ferns of ice."""
    kept = _strength(pixels, severity, (1.0, 0.95, 0.9, 0.85, 0.75), (1.0, 0.9, 0.8, 0.7, 0.6))
    ice = _strength(pixels, severity, (0.2, 0.28, 0.36, 0.44, 0.52), (0.36, 0.48, 0.58, 0.68, 0.78))
    return kept * pixels + ice * _crystals(pixels.shape[:2], random)[..., None] * np.array([0.9, 0.97, 1.0])


def fog(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels behind banks of fog: thicker, and at higher severities more ragged."""
    thickness = _strength(pixels, severity, (0.2, 0.5, 0.75, 1.0, 1.5), (1.2, 1.6, 2.0, 2.5, 3.0))
    fall = _strength(pixels, severity, (2.6, 2.6, 2.3, 2.0, 1.8), (2.0, 2.0, 1.8, 1.6, 1.5))
    light = 0.5 + 0.5 * _clouds(pixels.shape[:2], fall, random)[..., None]
    return (pixels + thickness * light) / (1 + thickness)


def brightness(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels with more light: the largest channel is raised, hue and saturation are kept."""
    more = _strength(pixels, severity, (0.05, 0.10, 0.15, 0.20, 0.30), (0.1, 0.2, 0.3, 0.4, 0.5))
    value = np.maximum(pixels.max(axis=2, keepdims=True), 1e-6)
    return np.where(value > 1e-6, pixels / value, 1.0) * np.minimum(value + more, 1)


def contrast(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels drawn towards the picture's mean colour."""
    kept = _strength(pixels, severity, (0.75, 0.50, 0.40, 0.30, 0.15), (0.40, 0.30, 0.20, 0.10, 0.05))
    mean = pixels.mean(axis=(0, 1))
    return mean + kept * (pixels - mean)


def elastic_transform(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels moved by a smooth random field: the whole picture is stretched, small parts ripple."""
    stretch = _length(pixels, severity, (0.5, 0.65, 0.8, 1.0, 1.2), (2.2, 3.0, 4.0, 5.0, 6.0))
    ripple = _length(pixels, severity, (0.15, 0.22, 0.3, 0.4, 0.5), (0.8, 1.1, 1.4, 1.7, 2.1))
    height, width = pixels.shape[:2]
    side = min(height, width)
    offsets = np.zeros((2, height, width))
    for deviation, cell in ((stretch, side / 3), (ripple, max(side / 25, 2.5))):
        for offset in offsets:
            coarse = random.normal(size=(int(height / cell) + 2, int(width / cell) + 2)).astype(np.float32)
            field = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))
            offset += deviation * field / max(field.std(), 1e-6)
    return _displaced(pixels, np.moveaxis(offsets, 0, -1))


def pixelate(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels averaged over square blocks."""
    block = _length(pixels, severity, (1.03, 1.11, 1.18, 1.33, 1.54), (1.67, 2.0, 2.5, 3.33, 4.0))
    height, width = pixels.shape[:2]
    blocks = [max(min(round(side / block), side - 1), 1) for side in (width, height)]
    reduced = _picture(pixels).resize(blocks, Image.Resampling.BOX)
    return np.asarray(reduced.resize((width, height), Image.Resampling.NEAREST)) / 255


def jpeg_compression(pixels: np.ndarray, severity: int, random: np.random.Generator) -> np.ndarray:
    """Pixels as they come back from a JPEG file of low quality."""
    quality = _strength(pixels, severity, (80, 65, 58, 50, 40), (25, 18, 15, 10, 7))
    file = io.BytesIO()
    # The blocks of a large picture are small in it: lower quality makes up for that.
    _picture(pixels).save(file, "JPEG", quality=max(round(quality / np.sqrt(_speck(pixels))), 1))
    return np.asarray(Image.open(file)) / 255


CORRUPTIONS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    function.__name__: function
    for function in (
        *(gaussian_noise, shot_noise, impulse_noise, defocus_blur, glass_blur, motion_blur, zoom_blur, snow, frost),
        *(fog, brightness, contrast, elastic_transform, pixelate, jpeg_compression, gaussian_blur),
    )
}


def _picture(pixels: np.ndarray) -> Image.Image:
    """The picture of these pixels, clipped to 0 to 1."""
    return Image.fromarray(np.round(np.clip(pixels, 0, 1) * 255).astype(np.uint8))


def _strength(pixels: np.ndarray, severity: int, small: Strengths, large: Strengths) -> float:
    """The strength for this picture's size: a power of it from SMALL to LARGE, constant outside."""
    strengths = np.log([small[severity - 1], large[severity - 1]])
    return float(np.exp(np.interp(np.log(min(pixels.shape[:2])), np.log([SMALL, LARGE]), strengths)))


def _length(pixels: np.ndarray, severity: int, small: Strengths, large: Strengths) -> float:
    """A strength in pixels: outside SMALL to LARGE it keeps its share of the shorter side."""
    side = min(pixels.shape[:2])
    return _strength(pixels, severity, small, large) * side / float(np.clip(side, SMALL, LARGE))


def _speck(pixels: np.ndarray) -> float:
    """The side of the smallest thing that noise changes: a pixel, or more in pictures beyond LARGE."""
    return max(min(pixels.shape[:2]) / LARGE, 1.0)


def _per_speck(pixels: np.ndarray, noise: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Noise of the picture sampled once per speck, enlarged: a large picture seen small is as noisy; (H, W, C)."""
    rows, columns = ((np.arange(side) / _speck(pixels)).astype(int) for side in pixels.shape[:2])
    first = np.ix_(np.unique(rows, return_index=True)[1], np.unique(columns, return_index=True)[1])
    return noise(pixels[first])[np.ix_(rows, columns)]


def _grid(radius: float) -> tuple[np.ndarray, np.ndarray]:
    """Row (K, 1) and column (1, K) offsets of a square kernel that holds this radius."""
    reach = int(np.ceil(radius + 0.5))
    rows, columns = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    return rows, columns


def _streak(length: float, angle: float) -> np.ndarray:
    """A kernel that fades along a line in one direction, a pixel wide; (K, K), its sum is 1."""
    rows, columns = _grid(2 * length)
    along = columns * np.cos(angle) + rows * np.sin(angle)
    across = columns * np.sin(angle) - rows * np.cos(angle)
    streak = np.exp(-((along / length) ** 2) / 2) * np.clip(along + 1, 0, 1) * np.clip(1 - np.abs(across), 0, 1)
    return streak / streak.sum()


def _convolved(pixels: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Pixels (H, W, C) summed with the weights of a square kernel; the picture is mirrored at its edges."""
    reach = len(kernel) // 2
    padded = np.pad(pixels, ((reach, reach), (reach, reach), (0, 0)), mode="symmetric")
    return signal.oaconvolve(padded, kernel[..., None], mode="valid", axes=(0, 1))


def _displaced(pixels: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Pixels read at their place plus an offset in rows and columns (H, W, 2), between pixels linearly."""
    places = np.indices(pixels.shape[:2]) + np.moveaxis(offsets, -1, 0)
    channels = [
        ndimage.map_coordinates(channel, places, order=1, mode="reflect") for channel in np.moveaxis(pixels, -1, 0)
    ]
    return np.stack(channels, axis=-1)


def _clouds(shape: tuple[int, int], fall: float, random: np.random.Generator) -> np.ndarray:
    """A random texture about 0.5, from 0 to 1: amplitudes fall with this power of the frequency; (H, W)."""
    height, width = shape
    doubled = (2 * height, 2 * width)  # a spectrum's texture is periodic, half of it is not
    frequency = np.hypot(np.fft.fftfreq(doubled[0])[:, None], np.fft.rfftfreq(doubled[1]))
    frequency[0, 0] = np.inf
    field = np.fft.irfft2(np.fft.rfft2(random.normal(size=doubled)) * frequency**-fall, doubled)[:height, :width]
    return np.clip(0.5 + 0.25 * (field - field.mean()) / max(field.std(), 1e-6), 0, 1)


def _crystals(shape: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    """Frost on a pane, from 0 to 1: ferns of ice, each a spine in its own direction with needles off it; (H, W)."""
    side, extent = min(shape), np.array(shape) / min(shape)
    roots = random.uniform(-0.1, 1.1, (round(40 * extent.prod()), 2)) * extent
    angles = random.uniform(0, 2 * np.pi, len(roots))
    bend = np.stack([_clouds(shape, 1.7, random) for _ in range(2)], axis=-1) - 0.5
    places = np.stack(list(np.indices(shape)), axis=-1) / side + 0.06 * bend
    fern = spatial.cKDTree(roots).query(places)[1]
    angle, (down, right) = angles[fern], np.moveaxis(places - roots[fern], -1, 0)
    along, across = down * np.sin(angle) + right * np.cos(angle), np.abs(down * np.cos(angle) - right * np.sin(angle))
    needles = min(0.75 * side, 160)  # to a length of the shorter side, no more than its pixels show
    drawn = [(along - 0.6 * across) * needles, across * needles / 14]  # long and thin, leaning on the spine
    noise = ndimage.map_coordinates(random.normal(size=(256, 256)), drawn, order=1, mode="grid-wrap")
    ice = np.maximum(0.3 + 0.5 * noise, np.exp(-across * needles / 1.5))
    cover = np.clip(2.5 * _clouds(shape, 1.8, random) - 0.25, 0.15, 1)
    return cover * (0.35 + 0.65 * np.clip(ice, 0, 1))
