"""Drawn characters."""

import numpy as np
import pytest

from happycat.base.errors import InputError
from happycat.images.datasets import glyphs


def test_counts_labels_and_protocol():
    images = glyphs.load(num_classes=3, per_class=4)
    assert images.classes == ("0", "1", "2")
    assert images.train_labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert images.test_labels.tolist() == [0, 1, 2]
    assert images.train.keys[5] == "32px/seed0/U+0031/train1"
    assert images.train.read(0).size == (32, 32)
    assert not images.mirror
    assert (images.protocol["base_classes"], images.protocol["stages"]) == (1, 2)
    assert glyphs.load(num_classes=20, per_class=1).protocol["stages"] == 5


def test_more_classes_and_pictures_leave_the_earlier_ones():
    few = glyphs.load(num_classes=2, per_class=2)
    many = glyphs.load(num_classes=4, per_class=3)
    place = {key: i for i, key in enumerate(many.train.keys)}
    for i, key in enumerate(few.train.keys):
        assert np.array_equal(few.train.pixels[i], many.train.pixels[place[key]])


def test_seeds_parts_and_numbers_differ():
    first = glyphs.load(num_classes=2, per_class=2)
    again = glyphs.load(num_classes=2, per_class=2)
    other = glyphs.load(num_classes=2, per_class=2, seed=1)
    assert np.array_equal(first.train.pixels, again.train.pixels)
    assert not np.array_equal(first.train.pixels[0], other.train.pixels[0])
    assert not np.array_equal(first.train.pixels[0], first.train.pixels[1])
    assert not np.array_equal(first.train.pixels[0], first.test.pixels[0])
    assert first.train.keys[0] != other.train.keys[0]


def test_classes_can_be_told_apart():
    """The nearest mean picture names most test pictures; by chance it would be one in six."""
    images = glyphs.load(num_classes=6, per_class=20)

    def flat(pixels):
        x = pixels.reshape(len(pixels), -1).astype(float)
        x -= x.mean(axis=1, keepdims=True)
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    means = np.stack([flat(images.train.pixels)[images.train_labels == c].mean(axis=0) for c in range(6)])
    predicted = (flat(images.test.pixels) @ means.T).argmax(axis=1)
    assert (predicted == images.test_labels).mean() > 0.6


def test_every_character_is_in_every_face():
    from fontTools.ttLib import TTFont
    from matplotlib import get_data_path

    assert len(set(glyphs.CHARACTERS)) == len(glyphs.CHARACTERS) >= 500
    wanted = {ord(character) for character in glyphs.CHARACTERS}
    for face in glyphs.FACES:
        with TTFont(f"{get_data_path()}/fonts/ttf/{face}.ttf", lazy=True) as font:
            assert wanted <= set(font.getBestCmap())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_classes": 5000}, "glyphs: num_classes is 5000; give a whole number from 2 to 601"),
        ({"num_classes": 1}, "num_classes is 1"),
        ({"per_class": 0}, "per_class is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"size": 4}, "size is 4; give a whole number from 8 to 512"),
    ],
)
def test_limits(options, message):
    with pytest.raises(InputError, match=message):
        glyphs.load(**options)
