"""Strict JSON: whatever is wrong with a text is one line, at once."""

from __future__ import annotations

import json

import pytest

from happycat.base.disk import read_json, write_json
from happycat.base.errors import InputError
from happycat.base.strict_json import check_shape, json_bytes, parse_json

DEEP = 100_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[" * DEEP, "nested too deep"),
        (b'{"a":' * DEEP + b"1" + b"}" * DEEP, "nested too deep"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is there twice"),
        (b'{"a": "\xff"}', "utf-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "an integer of 5000 digits"),
        (b'{"a": -' + b"9" * 20 + b"}", "an integer of 20 digits"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b"", "Expecting value"),
        (b"{} {}", "Extra data"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, text, reason):
    (tmp_path / "file.json").write_bytes(text)
    with pytest.raises(InputError, match=reason) as caught:
        read_json(tmp_path / "file.json")
    assert str(caught.value).startswith(f"{tmp_path / 'file.json'} cannot be read as JSON (")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", [b"[]", b"3", b'"text"', b"null", b"true"])
def test_what_is_no_object(tmp_path, text):
    (tmp_path / "file.json").write_bytes(text)
    with pytest.raises(InputError, match="where a JSON object is needed"):
        read_json(tmp_path / "file.json")


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("happycat.base.disk.LARGEST", 10)
    monkeypatch.setattr("happycat.base.strict_json.LARGEST", 10)
    (tmp_path / "file.json").write_text(json.dumps({"a": "b" * 100}))
    with pytest.raises(InputError, match="more than the 10 that are read"):
        read_json(tmp_path / "file.json")


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path)


def test_names_of_any_bytes_come_back(tmp_path):
    data = {"keys": ["Grünfink", "not UTF-8: \udcff", "a\nb\u2028c", "😀"], "number": -(10**18 - 1), "share": 1e-05}
    write_json(tmp_path / "file.json", data)
    assert read_json(tmp_path / "file.json") == data
    (tmp_path / "file.json").read_text("utf-8")  # is UTF-8


def test_what_is_no_number_is_not_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_bytes({"loss": float("nan")})


@pytest.mark.parametrize("wrong", [[], {}, {"a": True, "b": []}, {"a": 1, "b": [1, "2"]}, {"a": 1, "b": {}}, 3, None])
def test_shapes(wrong):
    shape = {"a": int, "b": [(int, float)]}
    assert check_shape({"a": 1, "b": [2, 0.5], "more": None}, shape, "it")
    with pytest.raises(InputError, match="it"):
        check_shape(wrong, shape, "it")


def test_what_json_holds():
    assert parse_json(b'{"a": [1, 2.5, null, true, "x"]}', "it") == {"a": [1, 2.5, None, True, "x"]}
