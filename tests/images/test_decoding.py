"""Pictures of every kind that people have."""

import os
import struct
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from happycat.base.errors import InputError
from happycat.base.text import shown
from happycat.images import decoding
from happycat.images.decoding import picture_or_reason, read_picture, reason_against
from happycat.images.pictures import FilePictures

RAMP = np.arange(16, dtype=np.uint16).reshape(4, 4) * 4369  # 0 … 65535, and 0, 17, …, 255 in 8 bits
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(path: Path, width: int, height: int, bits: int, colour: int, rows: bytes) -> Path:
    """A PNG written by hand; `rows` begin with their filter byte each."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))
    data = chunk(b"IDAT", zlib.compress(rows))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + data + chunk(b"IEND", b""))
    return path


def tiff(path: Path, values: np.ndarray, order: str, bits: int, kind: int = 1) -> Path:
    """A grey TIFF written by hand; `kind` is 1 for unsigned, 2 for signed, 3 for float."""
    height, width = values.shape
    data = values.tobytes()
    tags = {
        256: width,
        257: height,
        258: bits,
        259: 1,
        262: 1,
        273: 140,
        277: 1,
        278: height,
        279: len(data),
        339: kind,
    }
    out = (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(order + "IH", 8, len(tags))
    for tag, value in tags.items():
        out += struct.pack(order + "HHIHH", tag, 3, 1, value, 0)
    path.write_bytes((out + struct.pack(order + "I", 0)).ljust(140, b"\0") + data)
    return path


def corners(size: tuple[int, int] = (40, 20)) -> Image.Image:
    """Blue, with a red quarter at the top left."""
    image = Image.new("RGB", size, BLUE)
    image.paste(RED, (0, 0, size[0] // 2, size[1] // 2))
    return image


def close(colour: tuple[int, ...], wanted: tuple[int, ...], by: int = 12) -> bool:
    return all(abs(a - b) <= by for a, b in zip(colour, wanted, strict=True))


def greys(path: Path) -> np.ndarray:
    """The grey levels of a picture that must be RGB and grey."""
    image = read_picture(path)
    assert image.mode == "RGB"
    pixels = np.asarray(image)
    assert (pixels == pixels[..., :1]).all()
    return pixels[..., 0]


def refused(path: Path) -> str:
    """The reason of the refusal, from a message of one line that names the file."""
    with pytest.raises(InputError) as caught:
        read_picture(path)
    text = str(caught.value)
    before, after = f"{shown(path)} cannot be read as an image (", "); remove or replace it"
    assert text.startswith(before)
    assert text.endswith(after)
    assert len(text.splitlines()) == 1
    return text[len(before) : -len(after)]


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize(
    ("orientation", "size", "red"),
    [
        (1, (40, 20), (5, 5)),
        (2, (40, 20), (35, 5)),
        (3, (40, 20), (35, 15)),
        (4, (40, 20), (5, 15)),
        (5, (20, 40), (5, 5)),
        (6, (20, 40), (15, 5)),
        (7, (20, 40), (15, 35)),
        (8, (20, 40), (5, 35)),
    ],
)
def test_a_turned_photo_is_upright(tmp_path, suffix, orientation, size, red):
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"photo.{suffix}"
    corners().save(path, exif=exif, quality=95)
    image = read_picture(path)
    assert image.size == size
    assert close(image.getpixel(red), RED)
    assert close(image.getpixel((size[0] - 1 - red[0], size[1] - 1 - red[1])), BLUE)


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
@pytest.mark.parametrize("exif", [b"garbage!", b"MM\0*\0\0\0\x08\xff\xff\x01\x12"])
def test_damaged_metadata_does_not_matter(tmp_path, suffix, exif):
    path = tmp_path / f"photo.{suffix}"
    corners().save(path, exif=b"Exif\0\0" + exif, quality=95)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert close(read_picture(path).getpixel((5, 5)), RED)
    assert not heard


@pytest.mark.filterwarnings("ignore:Metadata Warning")
def test_a_photo_is_turned_though_its_metadata_cannot_be_written_again(tmp_path):
    maker_as_floats = struct.pack(">HHII", 0x010F, 11, 6, 38)
    orientation = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0)
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x02" + maker_as_floats + orientation + bytes(4 + 24)
    corners().save(tmp_path / "a.jpg", exif=exif)
    with Image.open(tmp_path / "a.jpg") as image, pytest.raises(AttributeError):
        image.getexif().tobytes()
    assert read_picture(tmp_path / "a.jpg").size == (20, 40)


@pytest.mark.parametrize("suffix", ["gif", "webp", "png"])
def test_the_first_frame_of_an_animation(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=100, lossless=True)
    with Image.open(path) as image:
        assert image.n_frames == 3
    assert read_picture(path).getpixel((4, 4)) == RED


def test_sixteen_bits_are_scaled(tmp_path):
    wanted = np.arange(16).reshape(4, 4) * 17
    big = RAMP.astype(">u2")
    grey = png(tmp_path / "grey.png", 4, 4, 16, 0, b"".join(b"\0" + row.tobytes() for row in big))
    assert (greys(grey) == wanted).all()
    assert (greys(tiff(tmp_path / "little.tif", RAMP.astype("<u2"), "<", 16)) == wanted).all()
    assert (greys(tiff(tmp_path / "big.tif", big, ">", 16)) == wanted).all()
    (tmp_path / "a.pgm").write_bytes(b"P5 4 4 65535\n" + big.tobytes())
    assert (greys(tmp_path / "a.pgm") == wanted).all()


def test_sixteen_bits_of_colour_are_scaled(tmp_path):
    rows = b"\0" + np.array([[65535, 32896, 0], [4369, 0, 65535]], dtype=">u2").tobytes()
    image = read_picture(png(tmp_path / "a.png", 2, 1, 16, 2, rows))
    assert image.getpixel((0, 0)) == (255, 128, 0)
    assert image.getpixel((1, 0)) == (17, 0, 255)


def test_twelve_bits_are_scaled(tmp_path):
    packed = np.frombuffer(bytes.fromhex("fff000fff000"), np.uint8).reshape(2, 3)  # two values of 12 bits a row
    path = tiff(tmp_path / "a.tif", packed, "<", 12)
    path.write_bytes(
        path.read_bytes().replace(struct.pack("<HHIHH", 256, 3, 1, 3, 0), struct.pack("<HHIHH", 256, 3, 1, 2, 0))
    )
    assert greys(path).tolist() == [[255, 0], [255, 0]]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 100.0, 200.0], [0, 100, 200]),
        ([0.0, 257.0, 65535.0], [0, 1, 255]),
        ([-1000.0, 0.0, 1000.0], [0, 128, 255]),
        ([0.0, 4e5, 2e6], [0, 51, 255]),
        ([np.nan, 1.0, np.inf], [0, 255, 255]),
        ([np.nan, np.nan, np.nan], [0, 0, 0]),
        ([-3e38, 0.0, 3e38], [0, 128, 255]),
        ([7e9, 7e9, 7e9], [0, 0, 0]),
    ],
)
def test_floats_are_scaled_by_a_range_that_holds_them(tmp_path, values, wanted):
    path = tiff(tmp_path / "a.tif", np.array([values], dtype="<f4"), "<", 32, kind=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert greys(path).tolist() == [wanted]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [([0, 100, 200], [0, 100, 200]), ([0, 257, 65535], [0, 1, 255]), ([-(2**31), 0, 2**31 - 1], [0, 128, 255])],
)
def test_long_integers_are_scaled_by_a_range_that_holds_them(tmp_path, values, wanted):
    path = tiff(tmp_path / "a.tif", np.array([values], dtype="<i4"), "<", 32, kind=2)
    assert greys(path).tolist() == [wanted]


def test_printers_colours(tmp_path):
    path = tmp_path / "a.jpg"
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(path, quality=95)
    assert close(read_picture(path).getpixel((4, 4)), RED)
    data = path.read_bytes()
    adobe = data.index(b"Adobe") + 11  # how the channels are coded: 0 as they are, 2 as YCCK
    assert data[adobe] == 0
    path.write_bytes(data[:adobe] + b"\x02" + data[adobe + 1 :])
    assert close(read_picture(path).getpixel((4, 4)), (179, 0, 227))  # Y 255, Cb 0, Cr 0, no black


def test_lab(tmp_path):
    path = tmp_path / "a.tif"
    Image.new("LAB", (8, 8), (255, 128, 128)).save(path)
    assert close(read_picture(path).getpixel((4, 4)), WHITE, 3)


@pytest.mark.parametrize("transparent", [False, True])
@pytest.mark.parametrize("suffix", ["png", "gif"])
def test_palettes(tmp_path, suffix, transparent):
    image = Image.new("P", (8, 8), 1)
    image.putpalette([*GREEN, *RED, *BLUE])
    image.putpixel((0, 0), 2)
    path = tmp_path / f"a.{suffix}"
    image.save(path, **({"transparency": 2} if transparent else {}))
    read = read_picture(path)
    assert read.getpixel((4, 4)) == RED
    assert read.getpixel((0, 0)) == (WHITE if transparent else BLUE)


def test_a_palette_of_half_transparent_colours(tmp_path):
    image = Image.new("P", (2, 1), 0)
    image.putpalette([0, 0, 0, *RED])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "a.png", transparency=bytes([51, 255]))
    read = read_picture(tmp_path / "a.png")
    assert read.getpixel((0, 0)) == (204, 204, 204)
    assert read.getpixel((1, 0)) == RED


@pytest.mark.parametrize(("mode", "colour"), [("RGBA", (255, 0, 0, 51)), ("LA", (0, 51))])
def test_transparency_is_over_white(tmp_path, mode, colour):
    Image.new(mode, (2, 2), colour).save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png").getpixel((0, 0)) == ((255, 204, 204) if mode == "RGBA" else (204,) * 3)


def test_one_bit(tmp_path):
    image = Image.new("1", (2, 1), 0)
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "a.png")
    assert greys(tmp_path / "a.png").tolist() == [[0, 255]]


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "bmp", "webp", "tga", "ppm"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_truncated_file_is_refused(tmp_path, suffix, share):
    path = tmp_path / f"a.{suffix}"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(path)
    read_picture(path)
    data = path.read_bytes()
    path.write_bytes(data[: round(len(data) * share)])
    assert refused(path)


def test_what_is_no_image(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "page.jpg").write_text("<html>not found</html>")
    (tmp_path / "photo.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + bytes(100))
    (tmp_path / "drawing.eps").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    )
    (tmp_path / "link.png").symlink_to(tmp_path / "gone.png")
    (tmp_path / "self.png").symlink_to(tmp_path / "self.png")
    assert refused(tmp_path / "empty.png") == "file is empty"
    assert refused(tmp_path / "page.jpg") == "not an image"
    assert refused(tmp_path / "photo.HEIC").startswith("damaged: ")
    assert refused(tmp_path / "drawing.eps") == "a PostScript drawing, not an image"
    assert refused(tmp_path / "link.png") == "link leads nowhere"
    assert "symbolic links" in refused(tmp_path / "self.png")
    assert refused(tmp_path / "absent.png") == "no such file"
    assert refused(tmp_path) == "is a folder"
    assert refused(Path("a\0b.png")) == "no such file"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    assert refused(tmp_path / "a.png") == "not a regular file"


def test_a_file_that_may_not_be_read(tmp_path):
    corners().save(tmp_path / "a.png")
    (tmp_path / "a.png").chmod(0)
    if os.access(tmp_path / "a.png", os.R_OK):
        pytest.skip("we may read everything")
    assert refused(tmp_path / "a.png") == "Permission denied"


def test_a_refusal_by_the_system_is_passed_on(tmp_path, monkeypatch):
    def closed(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Image, "open", closed)
    (tmp_path / "a.png").write_bytes(b"x")
    assert refused(tmp_path / "a.png") == "Permission denied"


@pytest.mark.parametrize(
    "error", [IndexError("of\na kind"), struct.error("short"), RecursionError(), AssertionError("no"), MemoryError()]
)
def test_whatever_a_decoder_raises_is_one_line(tmp_path, monkeypatch, error):
    def broken(image, *arguments):
        raise error

    corners().save(tmp_path / "a.png")
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", broken)
    wanted = f"damaged: {str(error) or type(error).__name__}".replace("\n", " ")
    assert refused(tmp_path / "a.png") == ("not enough memory" if isinstance(error, MemoryError) else wanted)


@pytest.mark.parametrize("side", [9_500, 20_000, 1_000_000])  # above Pillow's warning; its error; all memory
def test_a_bomb_is_refused_by_its_header_and_without_a_warning(tmp_path, monkeypatch, side):
    path = png(tmp_path / "a.png", side, side, 8, 2, b"\0")
    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", lambda image: pytest.fail("decoded"))
    limit = Image.MAX_IMAGE_PIXELS
    megapixels = {9_500: 90, 20_000: 400, 1_000_000: 1_000_000}[side]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert refused(path) == f"{megapixels} megapixels, more than the 89 that are read"
    assert not heard
    assert limit == Image.MAX_IMAGE_PIXELS


def test_a_little_too_many_pixels_are_not_rounded_to_what_is_allowed(tmp_path):
    path = png(tmp_path / "a.png", 9_460, 9_460, 8, 2, b"\0")  # 89.49 million, 10 000 above the limit
    assert refused(path) == "90 megapixels, more than the 89 that are read"


@pytest.mark.parametrize("size", [(1, 1), (1, 100), (100, 1)])
def test_small_and_thin_is_fine(tmp_path, size):
    corners(size).save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png").size == size


@pytest.mark.parametrize("size", [(1, 101), (2001, 20)])
def test_too_thin_is_refused(tmp_path, size):
    Image.new("L", size).save(tmp_path / "a.png")
    assert refused(tmp_path / "a.png") == f"{size[0]} × {size[1]} pixels, more than 100 times as long as wide"


@pytest.mark.parametrize("size", [(0, 0), (0, 5), (5, 0)])
def test_no_pixels(tmp_path, size):
    assert refused(png(tmp_path / "a.png", *size, 8, 2, b"")) == "not an image"


@pytest.fixture
def heic(tmp_path):
    """A photo as telephones take them."""
    encode = pytest.importorskip("pillow_heif").from_pillow

    def _heic(image: Image.Image, name: str = "photo.heic", **options) -> Path:
        encode(image).save(tmp_path / name, quality=95, **options)
        return tmp_path / name

    return _heic


@pytest.mark.parametrize("name", ["photo.heic", "photo.jpg"])  # a wrong name is common
def test_a_heic_photo(heic, name):
    image = read_picture(heic(corners((80, 40)), name))
    assert (image.mode, image.size) == ("RGB", (80, 40))
    assert close(image.getpixel((10, 10)), RED, 25)
    assert close(image.getpixel((70, 30)), BLUE, 25)
    assert reason_against(heic(corners((80, 40)), name)) is None
    assert "HEIF" not in Image.OPEN  # Pillow stays as it was


def test_a_turned_heic_photo_is_upright(heic):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = heic(corners((80, 40)), exif=exif.tobytes())
    assert b"irot" in path.read_bytes()  # turned by the container and by the metadata: to be done once
    image = read_picture(path)
    assert image.size == (40, 80)
    assert close(image.getpixel((30, 10)), RED, 25)


def test_a_transparent_heic_photo_is_over_white(heic):
    image = read_picture(heic(Image.new("RGBA", (64, 64), (255, 0, 0, 0))))
    assert close(image.getpixel((30, 30)), WHITE, 10)


def test_a_truncated_heic_photo_is_refused(heic):
    path = heic(Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)))
    path.write_bytes(path.read_bytes()[:-500])
    assert refused(path).startswith("damaged: ")
    assert reason_against(path) == refused(path)


def test_a_heic_photo_without_its_decoder(heic, monkeypatch):
    path = heic(corners())
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    assert refused(path) == "a HEIC photo; install pillow-heif (pip install 'happycat[heic]') or convert it to JPEG"
    path.write_bytes(b"nothing of the kind")
    assert refused(path) == "not an image"


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}], ids=str)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_check_finds_what_reading_finds(tmp_path, options, mode):
    path, noise = tmp_path / "a.jpg", np.random.default_rng(0).integers(0, 255, (90, 70, 3), dtype=np.uint8)
    Image.fromarray(noise).convert(mode).save(path, **options)
    whole = path.read_bytes()
    assert reason_against(path) is None
    outcomes = set()
    for end in [*range(1, len(whole), 97), *range(len(whole) - 12, len(whole))]:
        path.write_bytes(whole[:end])
        picture = picture_or_reason(path)
        reason = picture if isinstance(picture, str) else None
        outcomes.add(reason is None)
        assert (reason_against(path) is None) == (reason is None), end
    assert False in outcomes


def test_a_check_decodes_no_large_picture(tmp_path, monkeypatch):
    sizes, upright = [], decoding._upright_rgb
    monkeypatch.setattr(decoding, "_upright_rgb", lambda image: sizes.append(image.size) or upright(image))
    corners((800, 400)).save(tmp_path / "a.jpg")
    assert reason_against(tmp_path / "a.jpg") is None
    assert read_picture(tmp_path / "a.jpg").size == (800, 400)
    assert sizes == [(100, 50), (800, 400)]


@pytest.mark.parametrize(
    ("size", "side", "read"),
    [
        ((800, 400), 100, (400, 200)),  # twice as large as it is needed
        ((800, 400), 101, (800, 400)),  # half of it would be less than that
        ((1600, 3200), 100, (200, 400)),
        ((8000, 4000), 100, (1000, 500)),  # an eighth is the least that the decoder knows
        ((800, 400), None, (800, 400)),
    ],
)
def test_a_large_photo_is_decoded_at_a_reduced_size(tmp_path, size, side, read):
    corners(size).save(tmp_path / "a.jpg")
    corners(size).save(tmp_path / "a.png")
    pictures = FilePictures(tmp_path, ["a.jpg", "a.png"])
    photo, whole = pictures.read(0, side), pictures.read(1, side)
    assert photo.size == read
    assert whole.size == size
    assert close(photo.getpixel((2, 2)), RED)
    assert close(photo.getpixel((read[0] - 2, read[1] - 2)), BLUE)


def test_a_turned_photo_that_is_decoded_at_a_reduced_size_is_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned by 90°
    corners((800, 400)).save(tmp_path / "a.jpg", exif=exif)
    picture = read_picture(tmp_path / "a.jpg", 100)
    assert picture.size == (200, 400)
    assert close(picture.getpixel((197, 2)), RED)


def test_another_way_of_decoding_is_another_key(tmp_path, monkeypatch):
    corners().save(tmp_path / "a.jpg")
    before = FilePictures(tmp_path, ["a.jpg"]).digest()
    monkeypatch.setattr("happycat.images.pictures.DECODING", decoding.DECODING + 1)
    assert FilePictures(tmp_path, ["a.jpg"]).digest() != before


def test_a_line_break_in_a_name_is_written_out(tmp_path):
    (tmp_path / "a\nb.png").touch()
    assert refused(tmp_path / "a\nb.png") == "file is empty"


def test_data_sets_read_in_the_same_way(tmp_path):
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "a.png")
    (tmp_path / "b.png").touch()
    pictures = FilePictures(tmp_path, ["a.png", "b.png"])
    assert pictures.read(0).getpixel((0, 0)) == WHITE
    with pytest.raises(InputError, match=r"b\.png cannot be read as an image \(file is empty\); remove or replace it"):
        pictures.read(1)
