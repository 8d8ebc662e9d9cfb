"""Tiny-ImageNet and ImageNet-100, from trees of the same layout."""

import numpy as np
import pytest

from happycat.base.errors import InputError
from happycat.images.datasets import imagenet100, tiny_imagenet


@pytest.fixture
def tiny(tmp_path, draw):
    """200 classes with one train picture each (grey = label), and three test pictures."""
    folder = tmp_path / "tiny-imagenet-200"
    wnids = [f"n{i:08d}" for i in range(200)]
    for label, wnid in enumerate(wnids):
        draw(folder / "train" / wnid / "images" / f"{wnid}_0.png", label)
    (folder / "wnids.txt").write_text("\n".join(reversed(wnids)) + "\n")
    words = {"n00000000": "goldfish, Carassius auratus", "n00000001": "crane", "n00000002": "crane, bird"}
    (folder / "words.txt").write_text("".join(f"{wnid}\t{name}\n" for wnid, name in words.items()))
    for i in range(3):
        draw(folder / "val" / "images" / f"val_{i}.png", 50 + i)
    (folder / "val" / "val_annotations.txt").write_text(
        "val_2.png\tn00000005\t0\t0\t9\t9\nval_0.png\tn00000199\t0\t0\t9\t9\nval_1.png\tn00000000\t0\t0\t9\t9\n"
    )
    return tmp_path


def test_tiny_pictures_labels_and_keys(tiny, grey):
    images = tiny_imagenet.load(tiny)
    assert images.train.keys[7] == "train/n00000007/images/n00000007_0.png"
    assert np.array_equal(images.train_labels, np.arange(200))
    assert grey(images.train, 7) == 7
    assert images.test.keys == ("val/images/val_0.png", "val/images/val_1.png", "val/images/val_2.png")
    assert images.test_labels.tolist() == [199, 0, 5]
    assert grey(images.test, 2) == 52
    assert images.classes[:4] == ("goldfish", "crane (n00000001)", "crane (n00000002)", "n00000003")
    assert images.protocol["base_classes"] == 100


def test_tiny_published_order(tiny, drawn_novel):
    order = tiny_imagenet.load(tiny).order
    assert order[:100] == tuple(range(100))
    assert order[100:103] == (126, 186, 102)
    assert order[100:] == drawn_novel(200, tuple(range(100)))


def test_tiny_root_may_be_the_folder_itself(tiny):
    below = tiny_imagenet.load(tiny)
    itself = tiny_imagenet.load(tiny / "tiny-imagenet-200")
    assert itself.train.keys == below.train.keys


def test_tiny_missing_parts(tiny):
    with pytest.raises(InputError, match=r"get tiny-imagenet-200\.zip from the Stanford CS231n course and unpack"):
        tiny_imagenet.load(tiny / "elsewhere")
    folder = tiny / "tiny-imagenet-200"
    (folder / "val" / "images" / "val_1.png").unlink()
    with pytest.raises(InputError, match=r"1 of 3 listed images are missing .*first: val/images/val_1\.png"):
        tiny_imagenet.load(tiny)
    (folder / "train" / "n00000003" / "images" / "n00000003_0.png").unlink()
    with pytest.raises(InputError, match=r"n00000003.images has no images"):
        tiny_imagenet.load(tiny)
    (folder / "wnids.txt").write_text("n00000003\n")
    with pytest.raises(InputError, match=r"has 1 classes, expected 200"):
        tiny_imagenet.load(tiny)


def empty_classes(root, count):
    """ImageNet class folders with one file each; the files are listed, never opened."""
    for part in ("train", "val"):
        for i in range(count):
            folder = root / part / f"n{i:08d}"
            folder.mkdir(parents=True)
            (folder / f"{part}_{i}.JPEG").touch()


def test_imagenet_hundred_folders(tmp_path, drawn_novel):
    empty_classes(tmp_path, 100)
    images = imagenet100.load(tmp_path)
    assert images.train.keys[3] == "train/n00000003/train_3.JPEG"
    assert images.test.keys[99] == "val/n00000099/val_99.JPEG"
    assert np.array_equal(images.test_labels, np.arange(100))
    assert images.order[50:] == drawn_novel(100, tuple(range(50)))
    assert images.protocol["new_per_class"] == 1000
    (tmp_path / "val" / "n00000042" / "val_42.JPEG").unlink()
    with pytest.raises(InputError, match=r"no images in .*n00000042"):
        imagenet100.load(tmp_path)


def test_imagenet_class_list(tmp_path):
    empty_classes(tmp_path, 102)
    with pytest.raises(InputError, match=r"has 102 class folders, neither 100 nor 1000; give classes=FILE"):
        imagenet100.load(tmp_path)
    chosen = tmp_path / "chosen.txt"
    chosen.write_text("".join(f"n{i:08d} a name\n" for i in reversed(range(2, 102))))
    images = imagenet100.load(tmp_path, str(chosen))
    assert (images.classes[0], images.classes[-1]) == ("n00000002", "n00000101")
    assert images.train.keys[0] == "train/n00000002/train_2.JPEG"
    chosen.write_text("n00000001\nn00000001\n")
    with pytest.raises(InputError, match=r"chosen\.txt has 1 different ids; give 100"):
        imagenet100.load(tmp_path, str(chosen))
    with pytest.raises(InputError, match=r"class list .*absent\.txt is missing"):
        imagenet100.load(tmp_path, str(tmp_path / "absent.txt"))


def test_imagenet_papers_hundred_of_a_thousand(tmp_path):
    drawn = sorted(np.random.RandomState(0).choice(1000, size=100, replace=False).tolist())
    for i in range(1000):
        (tmp_path / "train" / f"n{i:08d}").mkdir(parents=True)
    for i in drawn:
        (tmp_path / "val" / f"n{i:08d}").mkdir(parents=True)
        for part in ("train", "val"):
            (tmp_path / part / f"n{i:08d}" / "x.JPEG").touch()
    assert imagenet100.load(tmp_path).classes == tuple(f"n{i:08d}" for i in drawn)


def test_imagenet_missing(tmp_path):
    (tmp_path / "train").mkdir()
    with pytest.raises(InputError, match=r"ImageNet: .*val is missing; unpack ILSVRC2012 as"):
        imagenet100.load(tmp_path)
