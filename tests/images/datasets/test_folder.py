"""A person's own folders."""

import hashlib

import pytest

from happycat.base.errors import InputError
from happycat.images.datasets import folder


@pytest.fixture
def flat(tmp_path, draw):
    """Two classes of ten and three pictures, and things that are no pictures."""
    root = tmp_path / "pets"
    for i in range(10):
        draw(root / "dog" / f"{i}.png", i)
    for name in ("a.PNG", "b.png", "deep/er/c.jpeg"):
        draw(root / "cat" / name, 200)
    draw(root / "cat" / ".hidden.png")
    draw(root / ".cache" / "x.png")
    draw(root / "cat" / ".thumbs" / "x.png")
    (root / "cat" / "notes.txt").write_text("not a picture")
    (root / "README.md").write_text("nor this")
    return root


def test_held_out_share_is_chosen_by_hash(flat, grey):
    images = folder.load(flat)
    assert images.classes == ("cat", "dog")
    assert images.name == "pets"
    dogs = [f"dog/{i}.png" for i in range(10)]
    held_out = sorted(sorted(dogs, key=lambda key: hashlib.sha256(key.encode()).hexdigest())[:2])
    assert [key for key in images.test.keys if key.startswith("dog")] == held_out
    assert sorted(images.train.keys + images.test.keys) == sorted(
        [*dogs, "cat/a.PNG", "cat/b.png", "cat/deep/er/c.jpeg"]
    )
    assert images.test_labels.tolist() == [0, 1, 1]
    assert images.train_labels.tolist() == [0] * 2 + [1] * 8
    last = images.train.keys[-1]
    assert grey(images.train, len(images.train) - 1) == int(last[4])


def test_held_out_share_leaves_one_for_train(flat):
    images = folder.load(flat, test_share=0.99)
    assert images.train_labels.tolist() == [0, 1]
    assert len(images.test) == 11


def test_a_single_picture_stays_in_train(flat, draw):
    draw(flat / "ant" / "1.png")
    images = folder.load(flat)
    assert images.train.keys[0] == "ant/1.png"
    assert 0 not in images.test_labels


@pytest.mark.parametrize("name", ["test", "val"])
def test_train_and_test_folders(tmp_path, draw, name):
    for i in range(3):
        draw(tmp_path / "train" / "b" / f"{i}.png")
        draw(tmp_path / "train" / "a" / f"{i}.png")
    draw(tmp_path / name / "b" / "9.png")
    images = folder.load(tmp_path)
    assert images.test.keys == (f"{name}/b/9.png",)
    assert images.test_labels.tolist() == [1]
    assert images.train.keys[:2] == ("train/a/0.png", "train/a/1.png")
    draw(tmp_path / name / "c" / "9.png")
    with pytest.raises(InputError, match=r"has 1 classes that train has not \(first: c\)"):
        folder.load(tmp_path)


def test_a_class_may_be_called_train(tmp_path, draw):
    for name in ("bus", "train"):
        draw(tmp_path / name / "1.png")
        draw(tmp_path / name / "2.png")
    assert folder.load(tmp_path).classes == ("bus", "train")


@pytest.mark.parametrize(("classes", "base", "stages"), [(2, 1, 1), (5, 2, 3), (12, 6, 5)])
def test_protocol(tmp_path, draw, classes, base, stages):
    for c in range(classes):
        draw(tmp_path / f"c{c}" / "1.png")
    protocol = folder.load(tmp_path).protocol
    assert (protocol["base_classes"], protocol["stages"]) == (base, stages)
    assert protocol["new_per_class"] is None


def test_unreadable_files_are_counted_up_front(flat):
    (flat / "cat" / "b.png").write_bytes(b"")
    (flat / "dog" / "3.png").write_text("<html>not found</html>")
    with pytest.raises(InputError) as caught:
        folder.load(flat)
    assert str(caught.value) == (
        f"2 of 13 images below {flat} cannot be read (first: cat/b.png: file is empty); remove or replace them"
    )
    (flat / "cat" / "b.png").unlink()
    with pytest.raises(InputError, match=r"1 of 12 .*dog/3\.png: not an image"):
        folder.load(flat)


def test_too_few_classes(tmp_path, draw):
    with pytest.raises(InputError, match="has no class folders; give at least two"):
        folder.load(tmp_path)
    draw(tmp_path / "only" / "1.png")
    with pytest.raises(InputError, match=r"has one class folder \(only\); give at least two"):
        folder.load(tmp_path)
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"1 of 2 classes below .* have no train images \(first: other\)"):
        folder.load(tmp_path)


def test_bad_arguments(flat):
    with pytest.raises(InputError, match="is not a folder"):
        folder.load(flat / "absent")
    with pytest.raises(InputError, match="test_share is 1; give a number between 0 and 1"):
        folder.load(flat, test_share=1)
