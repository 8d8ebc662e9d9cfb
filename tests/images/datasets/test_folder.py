"""Image folders as a data set."""

import hashlib
import os

import pytest

from happycat.base.errors import InputError
from happycat.images.collecting import gather_labelled, skipped_in_words
from happycat.images.datasets import folder


@pytest.fixture
def flat(tmp_path, draw):
    """Two classes of ten and three pictures, and things that are no pictures."""
    root = tmp_path / "pets"
    for i in range(10):
        draw(root / "dog" / f"{i}.png", i)
    for grey, name in enumerate(("a.PNG", "b.png", "deep/er/c.jpeg"), 200):
        draw(root / "cat" / name, grey)
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
    draw(flat / "ant" / "1.png", 100)
    images = folder.load(flat)
    assert images.train.keys[0] == "ant/1.png"
    assert 0 not in images.test_labels


@pytest.mark.parametrize("name", ["test", "val"])
def test_train_and_test_folders(tmp_path, draw, name):
    for i in range(3):
        draw(tmp_path / "train" / "b" / f"{i}.png", i)
        draw(tmp_path / "train" / "a" / f"{i}.png", 10 + i)
    draw(tmp_path / name / "b" / "9.png", 20)
    images = folder.load(tmp_path)
    assert images.test.keys == (f"{name}/b/9.png",)
    assert images.test_labels.tolist() == [1]
    assert images.train.keys[:2] == ("train/a/0.png", "train/a/1.png")
    draw(tmp_path / name / "c" / "9.png", 30)
    with pytest.raises(InputError, match=r"has 1 classes of which train has no usable images \(first: c\); add them"):
        folder.load(tmp_path)


def test_a_class_may_be_called_train(tmp_path, draw):
    for i, name in enumerate(("bus", "train")):
        draw(tmp_path / name / "1.png", 2 * i)
        draw(tmp_path / name / "2.png", 2 * i + 1)
    assert folder.load(tmp_path).classes == ("bus", "train")


@pytest.mark.parametrize(("classes", "base", "stages"), [(2, 1, 1), (5, 2, 3), (12, 6, 5)])
def test_protocol(tmp_path, draw, classes, base, stages):
    for c in range(classes):
        draw(tmp_path / f"c{c}" / "1.png", c)
    protocol = folder.load(tmp_path).protocol
    assert (protocol["base_classes"], protocol["stages"]) == (base, stages)
    assert protocol["new_per_class"] is None


def test_what_cannot_be_used_is_left_out_and_listed(flat, draw):
    (flat / "cat" / "b.png").write_bytes(b"")
    (flat / "dog" / "3.png").write_text("<html>not found</html>")
    draw(flat / "dog" / "6.jpg", 60)
    (flat / "dog" / "6.jpg").write_bytes((flat / "dog" / "6.jpg").read_bytes()[:-30])
    draw(flat / "dog" / "again.png", 4)
    draw(flat / "cat" / "five.png", 5)
    draw(flat / "cat" / "without suffix.png", 90).rename(flat / "cat" / "without suffix")
    (flat / "cow").mkdir()
    images = folder.load(flat, keep_duplicates=False)
    assert images.classes == ("cat", "dog")
    skipped = dict(images.skipped)
    assert skipped.pop("dog/6.jpg").startswith("damaged: ")
    assert skipped == {
        "README.md": "not in a class folder",
        "cat/b.png": "file is empty",
        "cat/five.png": "labelled cat here and dog there",
        "cat/notes.txt": "not an image",
        "cow": "class folder without files",
        "dog/3.png": "not an image",
        "dog/5.png": "labelled dog here and cat there",
        "dog/again.png": "same content as dog/4.png",
    }
    assert list(images.skipped) == sorted(images.skipped)
    used = images.train.keys + images.test.keys
    assert sorted(used) == [
        *("cat/a.PNG", "cat/deep/er/c.jpeg", "cat/without suffix"),
        *(f"dog/{i}.png" for i in (0, 1, 2, 4, 6, 7, 8, 9)),
    ]


def test_a_folder_is_read_as_for_learning(flat, draw, tmp_path):
    draw(flat / "dog" / "again.png", 4)
    (flat / "cat" / "b.png").write_bytes(b"")
    (flat / "dog" / "more").symlink_to(tmp_path / "elsewhere")
    draw(tmp_path / "elsewhere" / "1.png", 50)
    (flat / "dog" / "Thumbs.db").write_text("x")
    images, gathered = folder.load(flat, keep_duplicates=False), gather_labelled(flat)
    assert sorted(images.train.keys + images.test.keys) == sorted(gathered.pictures.keys)
    assert "dog/more/1.png" in gathered.pictures.keys
    assert {path for path, _ in images.skipped} == {path for path, _ in gathered.skipped} | gathered.duplicates.keys()


@pytest.fixture
def split(tmp_path, draw):
    """Two classes, a train folder and a test folder; one picture is in both, and one in two classes."""
    for i, key in enumerate(("train/a/1", "train/a/2", "train/b/1", "train/b/2", "test/a/0", "test/b/0")):
        draw(tmp_path / f"{key}.png", i)
    draw(tmp_path / "test" / "a" / "leak.png", 1)
    draw(tmp_path / "test" / "a" / "contradiction.png", 3)
    return tmp_path


def test_no_test_picture_is_a_train_picture(split):
    images = folder.load(split, keep_duplicates=False)
    assert images.train.keys == ("train/a/1.png", "train/a/2.png", "train/b/1.png")
    assert images.test.keys == ("test/a/0.png", "test/b/0.png")
    assert images.skipped == (
        ("test/a/contradiction.png", "labelled a here and b there"),
        ("test/a/leak.png", "same content as train/a/2.png"),
        ("train/b/2.png", "labelled b here and a there"),
    )


def test_what_is_left_out_in_words(split):
    (split / "test" / "a" / ".hidden.png").touch()
    (split / "test" / "a\x1b[31m").mkdir()
    (split / "test" / "a\x1b[31m" / "1.png").touch()
    assert skipped_in_words(folder.load(split, keep_duplicates=False)) == (
        "4 of 9 files are left out (first: test/a\\x1b[31m/1.png: file is empty)"
    )


def test_a_published_split_is_used_as_it_is(split):
    (split / "test" / "b" / "empty.png").touch()
    images = folder.load(split)
    assert images.train.keys == tuple(f"train/{key}.png" for key in ("a/1", "a/2", "b/1", "b/2"))
    assert images.test.keys == tuple(f"test/{key}.png" for key in ("a/0", "a/contradiction", "a/leak", "b/0"))
    assert images.test_labels.tolist() == [0, 0, 0, 1]
    assert images.skipped == (("test/b/empty.png", "file is empty"),)


def test_too_few_classes(tmp_path, draw):
    with pytest.raises(InputError, match=r"no image can be used in .* \(no files there\); give a folder [^,]*$"):
        folder.load(tmp_path)
    draw(tmp_path / "only" / "1.png")
    with pytest.raises(InputError, match=r"has images of one class only \(only\); give at least two class folders"):
        folder.load(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "1.png").touch()
    with pytest.raises(InputError, match=r"\(only\), 1 files left out, first: other/1\.png: file is empty; give"):
        folder.load(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="such names are not allowed there")
def test_no_escape_sequence_reaches_the_terminal(tmp_path, draw):
    steer = "\x1b[31m"
    root = tmp_path / steer
    draw(root / "train" / steer / "1.png", 1)
    draw(root / "test" / steer / "2.png", 1)
    messages = []

    def refuse():
        with pytest.raises(InputError) as caught:
            folder.load(root, keep_duplicates=False)
        messages.append(str(caught.value))

    refuse()
    draw(root / "test" / f"{steer}new" / "2.png", 2)
    refuse()
    draw(root / "train" / f"{steer}new" / "1.png", 3)
    messages += [reason for _, reason in folder.load(root, keep_duplicates=False).skipped]
    root = root / "absent"
    refuse()
    assert len(messages) == 4
    for message in messages:
        assert "\x1b" not in message
        assert "\\x1b[31m" in message


def test_bad_arguments(flat):
    with pytest.raises(InputError, match="is not a folder"):
        folder.load(flat / "absent")
    with pytest.raises(InputError, match="test_share is 1; give a number between 0 and 1"):
        folder.load(flat, test_share=1)
