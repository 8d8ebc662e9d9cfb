"""Files with a checksum: no bit of them can change without being noticed; a torn line is told from a damaged one."""

from __future__ import annotations

import hashlib
import json
import random
import re

import pytest

from happycat.base.errors import DamagedError, HappycatError
from happycat.base.sealed import SealedLines, read_sealed, verified, write_sealed

CONTENT = {"format": 2, "rate": 1e-05, "name": "Grünfink", "list": [1, {"a": None}], "text": "a\u001fb"}
LINES = [{"stage": 0, "epoch": e, "loss": 0.1 * e, "terms": {"a": 1e-07, "J": -0.5}} for e in range(1, 5)]


def flips(content: bytes, number: int | None = None):
    """The content with each of its bits flipped, or with some of them."""
    bits = range(8 * len(content))
    for bit in bits if number is None else random.Random(0).sample(bits, number):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


def test_an_object_comes_back_and_is_json(tmp_path):
    path = tmp_path / "run.json"
    write_sealed(path, CONTENT)
    assert read_sealed(path) == CONTENT
    assert list(json.loads(path.read_text("utf-8"))) == [*CONTENT, "sha256"]


def test_every_flipped_bit_of_an_object_is_noticed(tmp_path):
    path = tmp_path / "run.json"
    write_sealed(path, CONTENT)
    for changed in flips(path.read_bytes()):
        path.write_bytes(changed)
        with pytest.raises(HappycatError, match=r"run\.json"):
            read_sealed(path)


def test_every_cut_of_an_object_is_noticed(tmp_path):
    path = tmp_path / "run.json"
    write_sealed(path, CONTENT)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(DamagedError):
            read_sealed(path)


@pytest.fixture
def lines(tmp_path) -> SealedLines:
    lines = SealedLines(tmp_path / "epochs.jsonl")
    for line in LINES:
        lines.append(line)
    return lines


def test_lines_come_back_and_can_be_written_at_once(lines):
    assert lines.read() == LINES
    assert lines.path.read_bytes() == SealedLines.text(LINES)
    lines.write(LINES[:2])
    lines.append(LINES[2])
    assert lines.read() == LINES[:3]


def test_every_flipped_bit_of_a_line_is_noticed(lines):
    content = lines.path.read_bytes()
    for changed in flips(content, 1500):
        lines.path.write_bytes(changed)
        with pytest.raises(DamagedError, match=r"^line \d of .*epochs\.jsonl is damaged"):
            lines.read()
    for changed in flips(content[-3:]):  # the end, where a torn line could be mistaken for it
        lines.path.write_bytes(content[:-3] + changed)
        with pytest.raises(DamagedError):
            lines.read()


def test_a_torn_last_line_is_left_out_and_nothing_else(lines):
    content = lines.path.read_bytes()
    last = len(SealedLines.text(LINES[:3]))
    for length in range(last, len(content) + 1):
        lines.path.write_bytes(content[:length])
        assert lines.read() == LINES[: 3 + (length >= len(content) - 1)]  # only its newline is missing


def test_the_damaged_line_is_named(lines):
    content = lines.path.read_bytes().splitlines(keepends=True)
    content[1] = content[1].replace(b"epoch", b"epocH")
    lines.path.write_bytes(b"".join(content))
    with pytest.raises(DamagedError, match=rf"^line 2 of {re.escape(str(lines.path))} is damaged"):
        lines.read()


def test_a_file_with_a_checksum_that_is_recorded_elsewhere(tmp_path):
    digest = hashlib.sha256(b"content").hexdigest()
    assert verified(b"content", digest, tmp_path / "file") == b"content"
    for wrong in (digest[:-1], "", None, digest.upper()):
        with pytest.raises(DamagedError, match="file is damaged: its checksum is not the recorded one"):
            verified(b"content", wrong, tmp_path / "file")


@pytest.mark.parametrize("order", [(1, 2, 3), (0, 2, 3), (1, 0, 2, 3), (0, 0, 1, 2)])
def test_lines_that_are_missing_before_others_are_noticed(lines, order):
    text = lines.path.read_bytes().splitlines(keepends=True)
    lines.path.write_bytes(b"".join(text[i] for i in order))
    with pytest.raises(DamagedError):
        lines.read()
