"""Data sets by name."""

import re
import subprocess
import sys

import pytest

from happycat.base.errors import InputError
from happycat.images import datasets as images


def test_by_name():
    digits = images.load("digits")
    assert digits.name == "digits"
    assert len(digits.train) + len(digits.test) == 1797


def test_options_arrive_as_text(tmp_path):
    assert len(images.load("glyphs", num_classes="2", per_class="3").train) == 6
    with pytest.raises(InputError, match="severity of CIFAR-100-C is 9"):
        images.load("cifar100_c", root=tmp_path, severity="9")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "glyph",
            {},
            "no data set or folder 'glyph'; give a folder of images or one of: digits, glyphs, cifar100",
        ),
        (
            "glyphs",
            {"classes": "3"},
            "glyphs has no option 'classes'; it takes: num_classes, per_class, seed, size",
        ),
        ("digits", {"seed": "3"}, "digits has no option 'seed'; it takes: none"),
        ("glyphs", {"per_class": "many"}, "glyphs: per_class is 'many'; give a whole number"),
        ("glyphs", {"per_class": 2.5}, "glyphs: per_class is 2.5; give a whole number"),
        ("folder", {"test_share": "half"}, "folder: test_share is 'half'; give a number"),
        ("cifar100", {"download": "maybe"}, "cifar100: download is 'maybe'; give true or false"),
        ("imagenet100", {"classes": 7}, "imagenet100: classes is 7; give text"),
    ],
)
def test_bad_names_and_options(name, options, message):
    with pytest.raises(InputError, match=re.escape(message)):
        images.load(name, **options)


def test_a_folder_is_a_data_set(tmp_path, draw, monkeypatch):
    for name in ("a", "b"):
        for i in range(4):
            draw(tmp_path / "mine" / name / f"{i}.png", 10 * i + ord(name))
    assert len(images.load(str(tmp_path / "mine"), test_share="0.5").test) == 4
    assert len(images.load("folder", root=tmp_path / "mine").test) == 2
    monkeypatch.chdir(tmp_path)
    assert images.load("mine").classes == ("a", "b")


@pytest.mark.parametrize("name", ["tiny_imagenet", "imagenet100", "cub", "cars", "aircraft", "cifar100_c"])
def test_what_is_missing_is_named_below_the_default_root(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"data.* is missing") as caught:
        images.load(name)
    assert "\n" not in str(caught.value)


def test_download_is_no_error_where_there_is_nothing_to_fetch(tmp_path):
    assert images.load("digits", download=True, root=tmp_path).name == "digits"
    with pytest.raises(InputError, match="get CUB_200_2011"):
        images.load("cub", root=tmp_path, download=True)


def test_an_unreadable_disk_is_one_line(tmp_path, monkeypatch):
    def fail(root):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setitem(images.DATASETS, "cub", fail)
    fail.__annotations__ = {"root": str}
    with pytest.raises(InputError, match=r"cub cannot be read \(.*Permission denied\)"):
        images.load("cub", root=tmp_path)


def test_importing_the_registry_is_light():
    code = "import sys, happycat.images.datasets; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "happycat.images.datasets.cub" in loaded
    assert not {"torch", "torchvision", "sklearn", "matplotlib", "scipy"} & set(loaded)
