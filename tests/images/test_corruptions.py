import pickle

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image

from happycat.base.errors import InputError
from happycat.images.corruptions import CORRUPTIONS, CorruptedPictures, corrupt, shifted
from happycat.images.pictures import ArrayPictures, FilePictures, Images

NAMES = tuple(CORRUPTIONS)
CERTAIN = {"defocus_blur", "gaussian_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression"}
SEVERITIES = (1, 2, 3, 4, 5)


@pytest.fixture(scope="module")
def photograph():
    return Image.fromarray(load_sample_image("china.jpg")).crop((100, 0, 527, 427))


@pytest.fixture(scope="module")
def small(photograph):
    return photograph.resize((48, 40), Image.Resampling.LANCZOS)


def values(picture):
    return np.asarray(picture, dtype=np.float64) / 255


def difference(picture, other):
    return np.abs(values(picture) - values(other)).mean()


def grey(level, size=(64, 64)):
    return Image.new("RGB", size, (level, level, level))


def test_they_are_the_fifteen_of_the_benchmark_and_the_one_that_the_paper_names():
    assert " ".join(NAMES) == (
        "gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost fog "
        "brightness contrast elastic_transform pixelate jpeg_compression gaussian_blur"
    )


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize("name", NAMES)
def test_every_corruption_changes_the_picture_in_its_size_and_mode_and_depends_on_the_seed_alone(small, name, severity):
    corrupted = corrupt(small, name, severity, "bird/1.jpg")
    assert (corrupted.size, corrupted.mode) == (small.size, small.mode)
    assert difference(small, corrupted) > 0.002
    assert corrupted == corrupt(small.copy(), name, severity, "bird/1.jpg")
    assert (corrupted == corrupt(small, name, severity, "bird/2.jpg")) == (name in CERTAIN)


@pytest.mark.parametrize("side", [32, 100, 224])
@pytest.mark.parametrize("name", NAMES)
def test_distortion_grows_with_severity(photograph, name, side):
    pixels = values(photograph.resize((side, side), Image.Resampling.LANCZOS))
    distortion, seeds = np.zeros(5), range(1 if name in CERTAIN else 3)
    for seed in seeds:  # the same draws at each severity: only the strength differs
        for s in SEVERITIES:
            corrupted = CORRUPTIONS[name](pixels, s, np.random.default_rng(seed))
            distortion[s - 1] += np.abs(np.clip(corrupted, 0, 1) - pixels).mean() / len(seeds)
    assert np.diff(distortion).min() > -0.002 * distortion[-1]
    assert distortion[-1] > 1.3 * distortion[0]
    assert distortion[-1] < 0.4  # the picture is still there


@pytest.mark.parametrize("name", NAMES)
def test_a_large_picture_seen_small_is_as_corrupt_as_one_of_224(photograph, name):
    reduced, distortion = photograph.resize((224, 224), Image.Resampling.BOX), {}
    for side in (224, 427):
        corrupted = corrupt(photograph.resize((side, side), Image.Resampling.LANCZOS), name, 3, "key")
        distortion[side] = difference(reduced, corrupted.resize((224, 224), Image.Resampling.BOX))
    assert 0.65 < distortion[427] / distortion[224] < 1.5


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (8, 8), (3, 200), (31, 70)])
@pytest.mark.parametrize("name", NAMES)
def test_pictures_of_any_size_can_be_corrupted(name, size):
    noise = np.random.default_rng(0).integers(256, size=(*size[::-1], 3), dtype=np.uint8)
    for picture in (Image.fromarray(noise), grey(0, size), grey(255, size)):
        for severity in SEVERITIES:
            assert corrupt(picture, name, severity, "key").size == size


@pytest.mark.parametrize("name", NAMES)
def test_a_grey_picture_stays_grey_in_mode(small, name):
    corrupted = corrupt(small.convert("L"), name, 3, "key")
    assert (corrupted.size, corrupted.mode) == (small.size, "L")


@pytest.mark.parametrize("name", ["defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "elastic_transform"])
def test_blurs_and_warps_leave_an_even_picture_alone(name):
    assert difference(grey(100), corrupt(grey(100), name, 5, "key")) == 0


def test_gaussian_noise_has_the_stated_deviation():
    noise = values(corrupt(grey(128, (224, 224)), "gaussian_noise", 1, "key")) - 128 / 255
    assert noise.std() == pytest.approx(0.08, rel=0.02)
    assert noise.mean() == pytest.approx(0, abs=0.002)


def test_shot_noise_has_the_variance_of_counted_photons():
    dark, light = (values(corrupt(grey(level, (224, 224)), "shot_noise", 1, "key")) for level in (51, 153))
    assert dark.mean() == pytest.approx(0.2, abs=0.003)
    assert dark.var() == pytest.approx(0.2 / 60, rel=0.05)
    assert light.var() == pytest.approx(0.6 / 60, rel=0.05)


def test_impulse_noise_sets_the_stated_share_to_black_or_white_alike():
    noisy = np.asarray(corrupt(grey(128, (224, 224)), "impulse_noise", 4, "key"))
    assert set(np.unique(noisy)) == {0, 128, 255}
    assert np.mean(noisy == 0) == pytest.approx(0.17 / 2, abs=0.005)
    assert np.mean(noisy == 255) == pytest.approx(0.17 / 2, abs=0.005)


def test_defocus_spreads_a_dot_over_a_disc_and_motion_along_a_line():
    dot = np.zeros((225, 225, 3), dtype=np.uint8)
    dot[110:115, 110:115] = 255
    disc, line = (
        values(corrupt(Image.fromarray(dot), name, 5, "key"))[..., 0] for name in ("defocus_blur", "motion_blur")
    )
    rows, columns = np.nonzero(disc > 0.02)
    assert np.hypot(rows - 112, columns - 112).max() < 10 + 5
    assert np.ptp(rows) == np.ptp(columns) > 18
    spread = np.linalg.eigvalsh(np.cov(np.nonzero(line > 0.02)))
    assert spread[1] > 5 * spread[0]


def test_snow_and_fog_and_frost_put_something_bright_on_black():
    for name in ("snow", "fog", "frost"):
        corrupted = values(corrupt(grey(0, (96, 96)), name, 3, "key"))
        assert corrupted.mean() > 0.05
        assert corrupted.std() > 0.02


def test_brightness_raises_the_largest_channel_and_keeps_the_hue():
    bright = values(corrupt(Image.new("RGB", (224, 224), (102, 51, 0)), "brightness", 2, "key"))
    assert bright[0, 0] == pytest.approx([0.6, 0.3, 0], abs=0.005)
    assert values(corrupt(grey(0, (224, 224)), "brightness", 2, "key")) == pytest.approx(0.2, abs=0.005)


def test_contrast_is_drawn_to_the_mean_colour():
    halves = np.zeros((224, 224, 3), dtype=np.uint8)
    halves[:112] = (255, 255, 0)
    flat = values(corrupt(Image.fromarray(halves), "contrast", 3, "key"))
    assert flat[0, 0] == pytest.approx([0.6, 0.6, 0], abs=0.005)
    assert flat[-1, 0] == pytest.approx([0.4, 0.4, 0], abs=0.005)


def test_pixelate_leaves_blocks(photograph):
    blocks = values(corrupt(photograph.resize((224, 224)), "pixelate", 5, "key")).reshape(56, 4, 56, 4, 3)
    assert np.all(blocks == blocks[:, :1, :, :1])


@pytest.mark.parametrize(
    ("name", "severity", "message"),
    [
        ("rain", 1, "no corruption 'rain'; take one of: gaussian_noise, .*jpeg_compression"),
        ("fog", 0, "severity of fog is 0; give a whole number from 1 to 5"),
        ("fog", 6, "severity of fog is 6"),
        ("fog", 2.5, "severity of fog is 2.5"),
        ("fog", "high", "severity of fog is 'high'"),
    ],
)
def test_what_is_impossible_is_said_at_once(name, severity, message):
    pictures = ArrayPictures(np.zeros((1, 4, 4, 3), dtype=np.uint8))
    with pytest.raises(InputError, match=message):
        corrupt(grey(0), name, severity, "key")
    with pytest.raises(InputError, match=message):
        CorruptedPictures(pictures, name, severity)


def data(number=4):
    random = np.random.default_rng(0)
    train, test = (ArrayPictures(random.integers(256, size=(number, 20, 24, 3), dtype=np.uint8)) for _ in range(2))
    labels = np.arange(number) % 2
    return Images(
        name="two", classes=("a", "b"), train=train, train_labels=labels, test=test, test_labels=labels, mirror=False
    )


def test_corrupted_pictures_keep_their_keys_and_are_corrupted_by_them():
    pictures = data().test
    corrupted = CorruptedPictures(pictures, "snow", 4)
    assert corrupted.keys == pictures.keys
    assert len(corrupted) == 4
    for i, key in enumerate(pictures.keys):
        assert corrupted.read(i) == corrupt(pictures.read(i), "snow", 4, key)
    assert pickle.loads(pickle.dumps(corrupted)).read(2) == corrupted.read(2)  # as a worker process gets them


def test_the_source_tells_corruptions_apart(tmp_path):
    pictures = FilePictures(tmp_path, ["a.png"])
    sources = {CorruptedPictures(pictures, name, s).source for name in NAMES for s in SEVERITIES} | {pictures.source}
    assert len(sources) == 16 * 5 + 1
    assert all(source.startswith(pictures.source) for source in sources)


def test_an_unreadable_picture_is_still_an_input_error(tmp_path):
    (tmp_path / "a.png").write_text("no picture")
    with pytest.raises(InputError, match="cannot be read as an image"):
        CorruptedPictures(FilePictures(tmp_path, ["a.png"]), "fog", 1).read(0)


def test_a_shifted_data_set_has_other_test_pictures_and_nothing_else():
    images = data()
    shift = shifted(images, "fog", 3)
    assert shift.name == "two-fog-3"
    assert shift.train is images.train
    assert shift.test.keys == images.test.keys
    assert shift.test.read(1) == corrupt(images.test.read(1), "fog", 3, "1")
    for field in ("classes", "train_labels", "test_labels", "protocol", "order", "mirror", "crop_share"):
        assert getattr(shift, field) is getattr(images, field)
    assert images.name == "two"
    with pytest.raises(InputError, match="no corruption"):
        shifted(images, "rain", 3)
