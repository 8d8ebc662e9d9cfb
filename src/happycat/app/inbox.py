"""Files dropped onto the page: streamed into a folder beside the model, names cleaned, only readable images kept."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from happycat.base.disk import storage_errors
from happycat.base.errors import InputError
from happycat.images.decoding import reason_against

LARGEST, MOST, TOTAL = 100_000_000, 20_000, 20_000_000_000  # bytes of a file, files and bytes of an inbox
LONGEST = 120  # characters of a name
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)  # Windows opens devices for them


def clean_name(name: str) -> str:
    """A file's name without folders and without characters that a file system or a terminal could take otherwise.

    >>> clean_name("../../etc/pass wd:1.png"), clean_name(".."), clean_name("con.png")
    ('pass wd_1.png', 'image', '_con.png')
    """
    last = re.split(r"[\\/]", unicodedata.normalize("NFC", name))[-1]
    safe = "".join(c if c.isalnum() or c in " ._-()" else "_" for c in last).strip(" .")
    stem, dot, ending = safe.rpartition(".")
    safe = f"{stem[:LONGEST]}.{ending[:10]}" if dot else ending[:LONGEST]
    return f"_{safe}" if RESERVED.match(safe) else safe or "image"


class Inbox:
    """A new folder MODEL-inbox-N, or of another `kind`, beside the model; `add` puts files into it until it is full."""

    def __init__(self, model: Path, kind: str = "inbox"):
        self.files, self.size, self.refused = 0, 0, 0
        number = 1
        while True:
            self.folder = model.with_name(f"{model.stem}-{kind}-{number}")
            with storage_errors(self.folder):
                try:
                    self.folder.mkdir()
                    return
                except FileExistsError:
                    number += 1

    async def add(self, name: str, chunks: AsyncIterator[bytes]) -> str | None:
        """Write a file; None if it is a picture that can be read, or else why not, and it is gone."""
        if self.files >= MOST:
            raise InputError(f"an inbox holds {MOST:,} images at most; give the path of a folder instead")
        self.files += 1
        path = self._free(clean_name(name))
        try:
            await self._write(path, chunks)
            reason = await run_in_threadpool(reason_against, path)
        except BaseException:
            self._forget(path)
            raise
        if reason is not None:
            self._forget(path)
        return reason

    def _free(self, name: str) -> Path:
        """A path that is not there yet, taken by an empty file."""
        stem, dot, ending = name.rpartition(".") if "." in name else (name, "", "")
        number = 1
        while True:
            path = self.folder / (name if number == 1 else f"{stem} ({number}){dot}{ending}")
            with storage_errors(path):
                try:
                    path.touch(exist_ok=False)
                    return path
                except FileExistsError:
                    number += 1

    async def _write(self, path: Path, chunks: AsyncIterator[bytes]) -> None:
        written = 0
        with storage_errors(path), open(path, "wb") as file:
            async for chunk in chunks:
                written += len(chunk)
                self.size += len(chunk)
                if written > LARGEST:
                    raise InputError(f"a file of more than {LARGEST // 1_000_000} MB is not taken")
                if self.size > TOTAL:
                    raise InputError(f"an inbox holds {TOTAL // 10**9} GB at most; give the path of a folder instead")
                file.write(chunk)

    def _forget(self, path: Path) -> None:
        self.files -= 1
        self.refused += 1
        path.unlink(missing_ok=True)
