"""A model's file: versions, going back, and what was cut off or changed."""

from __future__ import annotations

import pytest
import torch

from happycat.base.errors import InputError, StorageError
from happycat.model import file as model_file
from happycat.model.file import Part


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "shop.cat"
    model_file.create(made, Part({"backbone": "ü\n"}, {"w": torch.ones(3)}), version(1))
    return made


def version(number: int) -> Part:
    return Part({"what": f"version {number}"}, {"x": torch.full((4,), float(number))})


def test_what_was_written_is_read(path):
    base, last, number = model_file.read(path)
    assert base.about == {"backbone": "ü\n"}
    assert torch.equal(base.tensors["w"], torch.ones(3))
    assert (last.about, number) == ({"what": "version 1"}, 1)


def test_earlier_versions_stay_and_can_be_gone_back_to(path):
    assert model_file.append(path, version(2)) == 2
    assert model_file.append(path, version(3)) == 3
    assert [about["what"] for about in model_file.abouts(path)] == ["version 1", "version 2", "version 3"]
    assert model_file.go_back(path) == 2
    assert torch.equal(model_file.read(path)[1].tensors["x"], torch.full((4,), 2.0))
    assert model_file.go_back(path) == 1
    with pytest.raises(InputError, match="no earlier version"):
        model_file.go_back(path)


def test_a_file_that_is_there_is_not_overwritten(path):
    before = path.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        model_file.create(path, version(0), version(1))
    assert path.read_bytes() == before


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_file_that_was_cut_off_names_its_last_good_version(path, cut):
    model_file.append(path, version(2))
    path.write_bytes(path.read_bytes()[:-cut])
    for use in (model_file.read, model_file.abouts, lambda p: model_file.append(p, version(3))):
        with pytest.raises(StorageError, match="cut off or changed; its last good version is 1"):
            use(path)
    assert model_file.go_back(path) == 1
    assert model_file.read(path)[2] == 1


def test_any_changed_byte_is_noticed(path):
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises((StorageError, InputError)):
            model_file.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "not a happycat model"), (b"PK\x03\x04", "not a happycat model"), (b"HAPPYCAT 9\n", "another version")],
)
def test_something_else(tmp_path, content, message):
    other = tmp_path / "other.cat"
    other.write_bytes(content)
    with pytest.raises(InputError, match=message):
        model_file.read(other)
    with pytest.raises(InputError, match="there is no model"):
        model_file.read(tmp_path / "none.cat")


def test_a_payload_with_a_right_checksum_that_is_no_model(tmp_path):
    path = tmp_path / "odd.cat"
    path.write_bytes(model_file.MAGIC + model_file._framed(b"junk") + model_file._framed(b"more junk"))
    with pytest.raises(StorageError, match="not a happycat model"):
        model_file.read(path)


def test_a_write_that_fails_leaves_the_file_as_it_was(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError):
        model_file.append(path, version(2))
    assert path.read_bytes() == before
