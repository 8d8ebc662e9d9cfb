"""CIFAR-100 and CIFAR-100-C, from an archive of ten pictures."""

import hashlib
import pickle
import re

import numpy as np
import pytest

from happycat.base.errors import InputError
from happycat.images.datasets import cifar100, cifar100_c

TRAIN_LABELS = [3, 99, 0, 50, 7]
TEST_LABELS = [1, 98]


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A CIFAR-100 whose i-th train picture is grey i and whose i-th test picture is grey 100 + i."""
    from torchvision.datasets import CIFAR100

    folder = tmp_path / "cifar-100-python"
    folder.mkdir()

    def write(name, content):
        (folder / name).write_bytes(pickle.dumps(content))
        return hashlib.md5((folder / name).read_bytes()).hexdigest()

    def batch(labels, first):
        data = np.repeat(np.arange(first, first + len(labels), dtype=np.uint8)[:, None], 3072, axis=1)
        return {"data": data, "fine_labels": labels}

    monkeypatch.setattr(CIFAR100, "train_list", [["train", write("train", batch(TRAIN_LABELS, 0))]])
    monkeypatch.setattr(CIFAR100, "test_list", [["test", write("test", batch(TEST_LABELS, 100))]])
    names = {"fine_label_names": [f"class {i}" for i in range(100)]}
    monkeypatch.setattr(CIFAR100, "meta", CIFAR100.meta | {"md5": write("meta", names)})
    return tmp_path


@pytest.fixture
def corrupted(root):
    """CIFAR-100-C beside it: two test pictures, grey 10 · severity + i."""
    folder = root / "CIFAR-100-C"
    folder.mkdir()
    greys = np.array([10 * severity + i for severity in range(1, 6) for i in range(2)], dtype=np.uint8)
    np.save(folder / "fog.npy", np.broadcast_to(greys[:, None, None, None], (10, 32, 32, 3)))
    np.save(folder / "labels.npy", np.array(TEST_LABELS * 5))
    return root


def test_pictures_labels_and_keys(root, grey):
    images = cifar100.load(root)
    assert images.train_labels.tolist() == TRAIN_LABELS
    assert images.test_labels.tolist() == TEST_LABELS
    assert images.train.keys == ("0", "1", "2", "3", "4")
    assert [grey(images.train, i) for i in range(5)] == [0, 1, 2, 3, 4]
    assert [grey(images.test, i) for i in range(2)] == [100, 101]
    assert images.classes[99] == "class 99"
    assert images.train.read(0).size == (32, 32)


def test_published_order(root, drawn_novel):
    order = cifar100.load(root).order
    assert order[:50] == tuple(range(50))
    assert order[50:54] == (78, 61, 60, 91)
    assert order[-1] == 94
    assert order[50:] == drawn_novel(100, tuple(range(50)))


def test_missing_archive_says_how_to_get_it(tmp_path):
    with pytest.raises(InputError, match=r"CIFAR-100 is missing or damaged below .*; the option download fetches it"):
        cifar100.load(tmp_path)


def test_failed_download_is_one_line(tmp_path, monkeypatch):
    from torchvision.datasets import CIFAR100

    def fail(self):
        raise OSError("no\nroute")

    monkeypatch.setattr(CIFAR100, "download", fail)
    with pytest.raises(InputError, match=r"could not be downloaded to .* \(no route\); try again later"):
        cifar100.load(tmp_path, download=True)


def test_corrupted_test_pictures_of_one_severity(corrupted, grey):
    images = cifar100_c.load(corrupted, "fog", 3)
    assert images.name == "cifar100_c-fog-3"
    assert [grey(images.test, i) for i in range(len(images.test))] == [30, 31]
    assert images.test_labels.tolist() == TEST_LABELS
    assert grey(images.train, 4) == 4
    assert images.order == cifar100.load(corrupted).order


@pytest.mark.parametrize(
    ("corruption", "severity", "message"),
    [
        ("rain", 1, "no corruption 'rain' in CIFAR-100-C; take one of: brightness, contrast"),
        ("fog", 0, "severity of CIFAR-100-C is 0; give a whole number from 1 to 5"),
        ("fog", 6, "severity of CIFAR-100-C is 6"),
        ("snow", 1, "snow.npy is missing; unpack CIFAR-100-C.tar"),
    ],
)
def test_corruptions_that_are_not_there(corrupted, corruption, severity, message):
    with pytest.raises(InputError, match=re.escape(message)):
        cifar100_c.load(corrupted, corruption, severity)


def test_missing_and_damaged_corruptions(root):
    with pytest.raises(InputError, match=r"labels\.npy is missing; unpack CIFAR-100-C\.tar"):
        cifar100_c.load(root)
    (root / "CIFAR-100-C").mkdir()
    np.save(root / "CIFAR-100-C" / "labels.npy", np.array(TEST_LABELS * 5))
    np.save(root / "CIFAR-100-C" / "fog.npy", np.zeros((10, 8, 8, 3), dtype=np.uint8))
    with pytest.raises(InputError, match=r"uint8 \(10, 8, 8, 3\) with 10 labels, expected"):
        cifar100_c.load(root, "fog")
    np.save(root / "CIFAR-100-C" / "fog.npy", np.array([{"a": 1}]), allow_pickle=True)
    with pytest.raises(InputError, match="cannot be read as an array"):
        cifar100_c.load(root, "fog")


def test_there_are_nineteen_corruptions():
    assert len(set(cifar100_c.CORRUPTIONS)) == 19
