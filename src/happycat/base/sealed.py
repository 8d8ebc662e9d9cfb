"""Files with a checksum: JSON and JSON lines whose last member, `sha256`, is that of every byte of the file before it.

    {"stage": 0, "epoch": 1, …, "sha256": "53c8…"}

The checksum covers all of the file before the value of `sha256`, earlier lines included; what follows it is always the
same. So no bit can change, and no line be lost before another, without being noticed.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from happycat.base.disk import json_object, read_bytes, storage_errors, write_bytes
from happycat.base.errors import DamagedError
from happycat.base.strict_json import json_bytes

SEAL = re.compile(rb'(.*"sha256": )"([0-9a-f]{64})"(\n?})', re.DOTALL)

CHECKSUM = re.compile(rb'"sha256": "[0-9a-f]{64}"}')

if TYPE_CHECKING:
    from hashlib import _Hash as Hash


def sealed(content: dict[str, Any], indent: int | None = None, before: Hash | None = None) -> bytes:
    """An object as JSON with its checksum as the last member; `before` is the hash of what the file has before it."""
    head, _, end = json_bytes({**content, "sha256": ""}, indent).rpartition(b'""')
    return head + b'"' + _digest(head, before) + b'"' + end


def unsealed(text: bytes, what: str, before: Hash | None = None) -> dict[str, Any]:
    """The object that was sealed; `what` names it in the message if it is damaged."""
    found = SEAL.fullmatch(text)
    if found is None or _digest(found[1], before) != found[2]:
        raise DamagedError(f"{what} is damaged: its checksum does not hold")
    content = json_object(text, what)
    del content["sha256"]
    return content


def _digest(head: bytes, before: Hash | None) -> bytes:
    digest = hashlib.sha256() if before is None else before.copy()
    digest.update(head)
    return digest.hexdigest().encode()


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write an object as a JSON file with a checksum."""
    write_bytes(path, sealed_file(content))


def sealed_file(content: dict[str, Any]) -> bytes:
    """The JSON file with a checksum that holds an object."""
    return sealed(content, indent=1) + b"\n"


def read_sealed(path: Path) -> dict[str, Any]:
    """The object of a JSON file with a checksum, which is verified."""
    text = read_bytes(path)
    if not text.endswith(b"\n}\n"):
        raise DamagedError(f"{path} is damaged: its end is missing")
    return unsealed(text[:-1], str(path))


class SealedLines:
    """A file of JSON objects, one a line, to which lines are added; each has the checksum of all before it."""

    def __init__(self, path: Path):
        self.path = Path(path)

    def append(self, content: dict[str, Any]) -> None:
        """Add a line. It is safe from a power failure when the file has been synced."""
        with storage_errors(self.path), open(self.path, "a+b") as file:
            file.seek(0)
            file.write(sealed(content, before=hashlib.sha256(file.read())) + b"\n")

    def write(self, contents: list[dict[str, Any]]) -> None:
        """Write all lines anew."""
        write_bytes(self.path, self.text(contents))

    @staticmethod
    def text(contents: list[dict[str, Any]]) -> bytes:
        """The file of these lines."""
        lines, before = [], hashlib.sha256()
        for content in contents:
            lines.append(sealed(content, before=before) + b"\n")
            before.update(lines[-1])
        return b"".join(lines)

    def read(self) -> list[dict[str, Any]]:
        """All lines; only what a kill left of a last one is left out."""
        *whole, last = read_bytes(self.path).split(b"\n")
        if not CHECKSUM.search(last):  # not even its checksum was written
            last = b""
        lines, before = [], hashlib.sha256()
        for number, line in enumerate([*whole, last] if last else whole, 1):
            lines.append(unsealed(line, f"line {number} of {self.path}", before))
            before.update(line + b"\n")
        return lines


def verified(content: bytes, digest: object, path: Path) -> bytes:
    """The content of a file, if it has the SHA-256 `digest`, in hex, that is recorded elsewhere."""
    if hashlib.sha256(content).hexdigest() != digest:
        raise DamagedError(f"{path} is damaged: its checksum is not the recorded one")
    return content
