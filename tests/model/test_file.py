"""The model file: versions, what they share, going back, and what was cut off, changed, or written by another."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest

from happycat.base.errors import InputError, InUseError, StorageError
from happycat.model import blobs
from happycat.model import file as model_file
from happycat.model.file import Part, VersionTag

LARGE = np.random.default_rng(0).normal(size=(300, 100)).astype(np.float32)


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "shop.cat"
    base = Part({"backbone": "ü\n"}, {"w": np.ones(3, np.float16)})
    model_file.create(made, base, version(1), "fit ü", {"images": 7})
    return made


def version(number: int, **more) -> Part:
    return Part({"number": number, **more}, {"x": np.full(4, float(number)), "large": LARGE})


def append(path, number: int, **more) -> VersionTag:
    return model_file.append(path, version(number, **more), model_file.read(path).tag, f"version {number}")


def flip(path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def read_all(path) -> None:
    model = model_file.read(path)
    dict(model.arrays), dict(model.base.arrays)


def find(path, array: np.ndarray) -> int:
    return path.read_bytes().index(array.tobytes())


def test_what_was_written_is_read(path):
    model = model_file.read(path)
    assert model.base.metadata == {"backbone": "ü\n"}
    assert model.base.arrays["w"].dtype == np.float16
    assert (model.metadata, model.number) == ({"number": 1}, 1)
    assert np.array_equal(model.arrays["large"], LARGE)
    model.arrays["large"][0] = 0  # one's own copy
    (told,) = model_file.history(path)
    assert (told["what"], told["images"], told["number"]) == ("fit ü", 7, 1)
    assert told["when"][10] == "T"
    assert told["happycat"]


@pytest.mark.parametrize("array", [np.zeros((0, 3)), np.array(2.5), np.array([True]), np.arange(6).reshape(2, 3).T])
def test_arrays_of_any_shape(tmp_path, array):
    model_file.create(tmp_path / "m.cat", Part({}, {}), Part({}, {"a": array}), "fit")
    found = model_file.read(tmp_path / "m.cat").arrays["a"]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert np.array_equal(found, array)


def test_an_array_of_objects_is_not_stored(tmp_path):
    with pytest.raises(InputError, match="of type object"):
        model_file.create(tmp_path / "m.cat", Part({}, {}), Part({}, {"a": np.array([{}])}), "fit")
    assert not (tmp_path / "m.cat").exists()


def test_earlier_versions_stay_and_can_be_gone_back_to(path):
    assert append(path, 2).number == 2
    assert append(path, 3).number == 3
    assert [told["what"] for told in model_file.history(path)] == ["fit ü", "version 2", "version 3"]
    assert model_file.undo(path) == 2
    assert model_file.read(path).arrays["x"].tolist() == [2, 2, 2, 2]
    assert model_file.undo(path) == 1
    with pytest.raises(InputError, match="no earlier version"):
        model_file.undo(path)


def test_a_version_costs_what_changed(path):
    size = path.stat().st_size
    append(path, 2)
    assert path.stat().st_size - size < 1500
    model = model_file.read(path)
    model_file.append(path, Part({"number": 3}, model.arrays), model.tag, "the same arrays")
    assert path.stat().st_size - size < 2500
    assert model_file.read(path).arrays["x"].tolist() == [2, 2, 2, 2]
    model_file.undo(path)
    model_file.undo(path)
    assert path.stat().st_size - size < 2500  # they can be redone
    append(path, 4)
    assert path.stat().st_size - size < 1500  # and now they cannot: nothing of them stays behind


def test_what_was_undone_can_be_redone_until_something_else_is_done(path):
    append(path, 2)
    append(path, 3)
    with pytest.raises(InputError, match=r"nothing of .* was undone"):
        model_file.redo(path)
    assert model_file.undo(path) == 2
    assert model_file.undo(path) == 1
    assert [told["number"] for told in model_file.undone(path)] == [2, 3]
    assert [told["number"] for told in model_file.history(path)] == [1]
    assert model_file.redo(path) == 2
    assert model_file.read(path).arrays["x"].tolist() == [2, 2, 2, 2]
    assert model_file.go_to(path, 3) == 3
    assert model_file.read(path).metadata == {"number": 3}
    assert model_file.go_to(path, 1) == 1
    append(path, 7)
    assert model_file.undone(path) == []
    assert [told["what"] for told in model_file.history(path)] == ["fit ü", "version 7"]
    for number in (0, 3):
        with pytest.raises(InputError, match=rf"versions 1 to 2, not {number}"):
            model_file.go_to(path, number)


def test_there_is_no_going_to_a_damaged_version(path):
    append(path, 2)
    model_file.undo(path)
    flip(path, find(path, np.full(4, 2.0)))
    with pytest.raises(StorageError, match=r"version 2 of .* is damaged"):
        model_file.redo(path)
    assert model_file.read(path).number == 1


def test_a_version_can_keep_most_arrays_of_the_one_before(path):
    model = model_file.read(path)
    updated = model_file.Updated(model.arrays, {"x": np.full(4, 5.0), "y": np.ones(2)})
    assert sorted(updated) == ["large", "x", "y"]
    size = path.stat().st_size
    model_file.append(path, Part({}, updated), model.tag, "some")
    assert path.stat().st_size - size < 2000
    arrays = model_file.read(path).arrays
    assert (arrays["x"].tolist(), arrays["y"].tolist()) == ([5, 5, 5, 5], [1, 1])
    assert np.array_equal(arrays["large"], LARGE)


def test_a_version_is_added_to_the_very_one_that_was_read_only(path, tmp_path):
    tag = model_file.read(path).tag
    append(path, 2)
    with pytest.raises(InputError, match="another model, or was changed since"):
        model_file.append(path, version(3), tag, "late")
    other = tmp_path / "other.cat"
    foreign = model_file.create(other, Part({"backbone": "other"}, {}), version(1), "fit ü", {"images": 7})
    with pytest.raises(InputError, match="another model"):
        model_file.append(path, version(3), foreign, "foreign")
    assert model_file.read(path).number == 2


def test_reading_reads_the_last_version_only(path):
    append(path, 2)
    flip(path, find(path, np.full(4, 1.0)))  # an array of version 1
    model = model_file.read(path)
    assert model.arrays["x"].tolist() == [2, 2, 2, 2]


def test_arrays_are_found_after_the_file_was_replaced(path):
    model = model_file.read(path)
    append(path, 2)
    assert model.arrays["x"].tolist() == [1, 1, 1, 1]
    second = model_file.read(path)
    model_file.undo(path)
    assert second.arrays["x"].tolist() == [2, 2, 2, 2]
    append(path, 3)
    with pytest.raises(StorageError, match="load the model again"):
        second.arrays["x"]


def test_no_id_is_given_twice(path):
    append(path, 2, next_id=9)
    model_file.undo(path)
    append(path, 2, next_id=4)
    assert model_file.read(path).metadata["next_id"] == 9


def test_a_file_that_is_there_is_not_overwritten(path):
    before = path.read_bytes()
    with pytest.raises(InputError, match="is there already"):
        model_file.create(path, version(0), version(1), "fit")
    assert path.read_bytes() == before


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_file_that_was_cut_off_names_its_last_good_version(path, cut):
    append(path, 2)
    tag = model_file.read(path).tag
    path.write_bytes(cut_off := path.read_bytes()[:-cut])
    for use in (model_file.read, model_file.history, lambda p: model_file.append(p, version(3), tag, "x")):
        with pytest.raises(StorageError, match="cut off or changed; its last good version is 1 of 2"):
            use(path)
    with pytest.raises(StorageError, match=r"`happycat doctor .*shop\.cat --repair` keeps a copy"):
        model_file.undo(path)
    assert path.read_bytes() == cut_off
    assert model_file.repair(path) == path.with_name("shop.cat.damaged")
    assert model_file.read(path).arrays["x"].tolist() == [1, 1, 1, 1]
    assert path.with_name("shop.cat.damaged").read_bytes() == cut_off
    assert model_file.repair(path) is None
    assert append(path, 5).number == 2


def test_junk_behind_the_end_costs_no_version(path):
    append(path, 2)
    with open(path, "ab") as file:
        file.write(b"junk")
    with pytest.raises(StorageError, match="last good version is 2 of 2"):
        model_file.read(path)
    assert model_file.repair(path)
    assert model_file.read(path).number == 2
    assert model_file.damaged_versions(path) == []


def test_a_good_version_behind_a_damaged_one_is_never_dropped(path):
    append(path, 2)
    append(path, 3)
    flip(path, find(path, np.full(4, 2.0)))
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"version 2 of .* is damaged"):
        model_file.undo(path)
    assert path.read_bytes() == before
    assert model_file.repair(path) is None  # the present version is good
    assert model_file.damaged_versions(path) == [2]
    assert model_file.go_to(path, 1) == 1
    assert model_file.go_to(path, 3) == 3


def test_a_repair_drops_no_version(path):
    """At the second of three versions, which is damaged: the third, which was undone, is good and stays."""
    append(path, 2)
    append(path, 3)
    model_file.undo(path)
    flip(path, find(path, np.full(4, 2.0)))
    with pytest.raises(StorageError, match="last good version is 1 of 2"):
        model_file.undo(path)
    assert model_file.repair(path) == path.with_name("shop.cat.damaged")
    assert model_file.read(path).number == 1
    assert [told["number"] for told in model_file.undone(path)] == [2, 3]
    with pytest.raises(StorageError, match=r"version 2 of .* is damaged"):
        model_file.redo(path)
    assert model_file.go_to(path, 3) == 3
    assert model_file.read(path).arrays["x"].tolist() == [3, 3, 3, 3]


def test_a_file_cut_between_two_blobs_is_refused(path):
    for number in (2, 3):
        append(path, number)
    index, whole = blobs.Index.read(path), path.read_bytes()
    for place in index.places.values():
        path.write_bytes(whole[: index.start + place.offset])
        with pytest.raises(StorageError, match=r"of 3: `happycat doctor|damaged from its first"):
            model_file.read(path)


def test_two_who_make_a_file_at_once_do_not_write_over_each_other(path, tmp_path):
    other = tmp_path / "new" / "other.cat"
    with model_file.locked(other, new=True), pytest.raises(InUseError, match="in use by"):  # noqa: SIM117
        with model_file.locked(other, new=True):
            pass
    model_file.create(other, Part({}, {}), version(1), "the first")
    with pytest.raises(InputError, match="is there already"), model_file.locked(other, new=True):
        model_file.create(other, Part({}, {}), version(2), "the second")
    assert model_file.history(other)[0]["what"] == "the first"


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and links")
def test_permissions_and_links_stay(path, tmp_path):
    path.chmod(0o600)
    link = tmp_path / "link.cat"
    link.symlink_to(path.name)
    seen = []
    replace = os.replace

    def watched(source, target):
        seen.append(os.stat(source).st_mode & 0o777)
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.replace", watched)
        append(link, 2)
    assert link.is_symlink()
    assert seen == [0o600]
    assert path.stat().st_mode & 0o777 == 0o600
    assert model_file.read(path).number == 2
    path.write_bytes(path.read_bytes()[:-1])
    assert model_file.repair(link).stat().st_mode & 0o777 == 0o600
    with model_file.locked(link), pytest.raises(InUseError, match="in use"), model_file.locked(path):
        pass


@pytest.mark.parametrize("more", [{"images": "7"}, {"review": "x", "results": "y"}, {"images": float("nan")}])
def test_what_would_be_refused_when_it_is_read_is_not_written(path, more):
    before = path.read_bytes()
    with pytest.raises(InputError, match="what is said of a version"):
        model_file.append(path, version(2), model_file.read(path).tag, "x", more)
    for array in (np.array([1.0, np.nan]), np.array([np.inf], np.float32), np.array([1e20])):
        with pytest.raises(InputError, match="x has numbers that are not finite, or too large"):
            model_file.append(path, Part({}, {"x": array}), model_file.read(path).tag, "x")
    with pytest.raises(InputError, match="not finite"):
        model_file.append(path, Part({"x": np.nan}, {}), model_file.read(path).tag, "x")
    assert path.read_bytes() == before


def test_nothing_is_built_on_a_damaged_version(path):
    model = model_file.read(path)
    flip(path, find(path, LARGE))
    with pytest.raises(StorageError, match="damaged from its first version"):
        model.arrays["large"]
    with pytest.raises(StorageError, match="damaged from its first version"):
        model_file.append(path, Part({}, model.arrays), model.tag, "x")


def test_any_changed_byte_is_noticed(path):
    for place in [*range(0, 1500, 7), *range(1500, path.stat().st_size, 5003)]:
        flip(path, place)
        with pytest.raises((StorageError, InputError)):
            read_all(path)
        flip(path, place)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a happycat model"),
        (b"PK\x03\x04", "not a happycat model"),
        (b"HAPPYCAT 1\n" + bytes(99), "an earlier happycat"),
        (b"HAPPYCAT 3\n" + bytes(99), r"an earlier happycat \(format 3, this one reads 4\).*; fit the model again"),
        (b"HAPPYCAT 99\n", r"a later happycat \(format 99"),
        (b"HAPPYCAT x\n", "not a happycat model"),
    ],
)
def test_something_else(tmp_path, content, message):
    other = tmp_path / "other.cat"
    other.write_bytes(content)
    with pytest.raises(InputError, match=message):
        model_file.read(other)
    with pytest.raises(InputError, match="there is no model"):
        model_file.read(tmp_path / "none.cat")


EMPTY = hashlib.sha256(b"{}").hexdigest()
SAID = {"number": 1, "what": "fit", "when": "2026-01-01T00:00:00+00:00", "happycat": "0.1.0"}
RECORD = {"description": SAID, "metadata": EMPTY, "arrays": EMPTY}
BLOB = {"sha256": EMPTY, "offset": 0, "length": 2}
INDEX = {"base": RECORD, "versions": [RECORD], "current": 1, "next_id": 0, "blobs": [BLOB]}


def crafted(path, index: object, blob: bytes = b"{}") -> None:
    text = blobs.packed_json(index)
    path.write_bytes(blobs.MAGIC + blobs.HEAD.pack(len(text), hashlib.sha256(text).digest()) + text + blob)


def test_the_smallest_file(tmp_path):
    crafted(tmp_path / "m.cat", INDEX)
    assert model_file.read(tmp_path / "m.cat").metadata == {}


@pytest.mark.parametrize(
    "change",
    [
        {"versions": []},
        {"versions": [{**RECORD, "description": []}]},
        {"versions": [{**RECORD, "metadata": "../x"}]},
        {"versions": [{**RECORD, "metadata": "0" * 64}]},
        {"versions": [{**RECORD, "description": {**SAID, "what": 3}}]},
        {"versions": [{**RECORD, "description": {**SAID, "when": "today"}}]},
        {"versions": [{**RECORD, "description": {**SAID, "review": EMPTY}}]},
        {"versions": [{**RECORD, "description": {**SAID, "review": EMPTY, "results": "a\0b"}}]},
        {"blobs": [BLOB, {**BLOB, "offset": 2}]},
        {"blobs": [{**BLOB, "offset": -1}]},
        {"blobs": [{**BLOB, "length": 2**62}]},
        {"blobs": [{**BLOB, "length": 2.0}]},
        {"next_id": "1"},
        {"current": 0},
        {"current": 2},
        {"current": True},
        {"base": None},
    ],
)
def test_a_right_checksum_does_not_make_a_model(tmp_path, change):
    crafted(tmp_path / "m.cat", {**INDEX, **change})
    with pytest.raises(StorageError, match=r"not a happycat model|damaged from its first"):
        model_file.read(tmp_path / "m.cat")


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"[" * 100_000, "nested too deep"),
        (b'{"a": 1, "a": 2}', "the key 'a' is there twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 4000 + b"}", "an integer of 4000 digits"),
        (b'{"a": "\xff"}', "decode"),
        (b"[]", "a list where there should be an object"),
        (b"{", "cannot be read as JSON"),
    ],
)
def test_json_that_is_none_is_refused_in_one_line(tmp_path, blob, message):
    name = hashlib.sha256(blob).hexdigest()
    version = {**RECORD, "metadata": name, "arrays": name}
    place = {"sha256": name, "offset": 0, "length": len(blob)}
    crafted(tmp_path / "m.cat", {**INDEX, "base": version, "versions": [version], "blobs": [place]}, blob)
    with pytest.raises(StorageError) as error:
        model_file.read(tmp_path / "m.cat")
    assert "\n" not in str(error.value)
    assert message in str(error.value) + str(error.value.__cause__)


def test_a_file_that_claims_to_be_huge_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "m.cat").write_bytes(blobs.MAGIC + blobs.HEAD.pack(2**62, bytes(32)) + b"{}")
    with pytest.raises(StorageError, match="table of contents"):
        model_file.read(tmp_path / "m.cat")


def test_a_write_that_fails_leaves_the_file_as_it_was(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StorageError):
        append(path, 2)
    assert path.read_bytes() == before
