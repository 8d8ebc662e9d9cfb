"""Images sorted into folders by class."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from happycat.base.disk import storage_errors
from happycat.model.results import Assignment


def sort_into(target: Path, rows: list[Assignment], put: Callable) -> None:
    """Put each image into the folder of its class; nothing that is there is overwritten."""
    for row in rows:
        folder = target / _file_name(row.label)
        source = Path(row.image)
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            place, number = folder / source.name, 1
            while place.exists() or place.is_symlink():
                number += 1
                place = folder / f"{source.stem}-{number}{source.suffix}"
            put(source, place)
    print(f"happycat: {len(rows)} images sorted into {target}", file=sys.stderr)


def link(source: Path, place: Path) -> None:
    os.symlink(source.resolve(), place)


def _file_name(label: str) -> str:
    """A class's name as that of a folder."""
    cleaned = "".join("_" if c in '/\\:*?"<>|' or ord(c) < 32 else c for c in label).strip(". ")
    return cleaned or "_"
