"""A finished stage on disk, there as a whole or not at all: model, scores, assignments, test predictions, checksums.

STAGE/model.json          metadata of the model, and under `files` the SHA-256 of every other file; has its own checksum
      model.safetensors, scores.json, assigned.csv, predictions.csv
      counter.safetensors, if a counter beside the method has a memory
      trunk.safetensors (stage 0) of a backbone from scratch; tail.safetensors, if the method has none of its own
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from happycat.backbone.tensor_file import save_tensors
from happycat.base.disk import PARTIAL, file_sha256, json_object, make_folder, storage_errors, sync
from happycat.base.errors import DamagedError
from happycat.base.sealed import read_sealed, sealed_file, verified
from happycat.base.strict_json import check_shape, json_bytes

MODEL = "model.json"
COLUMNS: dict[str, Callable[[str], Any]] = {"image": str, "class": int, "predicted": int, "probability": float}
NUMBER, MAYBE = (int, float), (int, float, type(None))
SHAPE = {
    "method": str,
    "config": dict,
    "files": dict,
    "classes": [{"id": int, "stage": int}],
    "count": (dict, type(None)),
}
COUNT = {  # an estimate of the number of classes
    **dict.fromkeys(("number", "low", "high"), int),
    "numbers": [int],
    "curve": [NUMBER],
    "measure": str,
    "smallest": (int, type(None)),
}
SCORES = {
    **dict.fromkeys(("all", "strict_all", "nmi", "base"), NUMBER),
    **dict.fromkeys(("old", "new", "ece", "roc"), MAYBE),
    "per_class": [MAYBE],
    "identities": [int],
}


class FinishedStage:
    """The folder of a finished stage."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)

    @classmethod
    def write(
        cls,
        folder: Path,
        *,
        states: dict[str, dict[str, Tensor]],
        model: dict[str, Any],
        scores: dict[str, Any],
        assigned: list[dict[str, Any]],
        predictions: list[dict[str, Any]],
    ) -> None:
        """Write all of a stage at once; `states` are tensors by file."""

        def fill(temporary: Path) -> None:
            for name, tensors in states.items():
                save_tensors(temporary / f"{name}.safetensors", tensors)
            (temporary / "scores.json").write_bytes(json_bytes(scores, indent=1) + b"\n")
            _write_csv(temporary / "assigned.csv", assigned)
            _write_csv(temporary / "predictions.csv", predictions)
            files = {path.name: file_sha256(path).hex() for path in sorted(temporary.iterdir())}
            (temporary / MODEL).write_bytes(sealed_file({**model, "files": files}))

        _put_in_place(folder, fill)

    def copy_to(self, folder: Path, **changes: Any) -> None:
        """Take this stage for that of another run, with some of the model's metadata changed."""

        def fill(temporary: Path) -> None:
            for name in self.files():
                (temporary / name).write_bytes(self.content(name))
            (temporary / MODEL).write_bytes(sealed_file({**self.model(), **changes}))

        _put_in_place(folder, fill)

    def exists(self) -> bool:
        """Whether the stage has been finished."""
        return self.folder.exists()

    def model(self) -> dict[str, Any]:
        """The metadata of the model (model.json)."""
        path = self.folder / MODEL
        found = check_shape(read_sealed(path), SHAPE, str(path))
        if (count := found["count"]) is not None:
            check_shape({"measure": "", "smallest": None, **count}, COUNT, f"'count' of {path}")
            if len(count["numbers"]) != len(count["curve"]):
                raise DamagedError(f"'count' of {path} has a curve of another length than its numbers")
        return found

    def files(self) -> dict[str, str]:
        """The SHA-256 of each file, in hex."""
        files = self.model()["files"]
        if odd := [name for name in files if name != Path(name).name]:
            raise DamagedError(f"{self.folder / MODEL} names the file {odd[0]!r}, which is not in its folder")
        return files

    def content(self, name: str) -> bytes:
        """The content of a file, checked against its checksum."""
        path = self.folder / name
        try:
            return verified(path.read_bytes(), self.files().get(name), path)
        except OSError as error:
            raise DamagedError(f"{path} is missing or cannot be read ({error.strerror})") from error

    def scores(self) -> dict[str, Any]:
        path = self.folder / "scores.json"
        return check_shape(json_object(self.content(path.name), str(path)), SCORES, str(path))

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a CSV file: `image`, `predicted`, `probability` and, of test predictions, the true `class`."""
        text = io.StringIO(self.content(f"{name}.csv").decode("utf-8", "surrogateescape"), newline="")
        try:
            return [{column: COLUMNS[column](cell) for column, cell in row.items()} for row in csv.DictReader(text)]
        except (KeyError, ValueError, TypeError, csv.Error) as error:
            raise DamagedError(f"{self.folder / name}.csv is not a table of predictions ({error})") from error

    def has_state(self, name: str) -> bool:
        """Whether tensors of that name are there."""
        return f"{name}.safetensors" in self.files()

    def state(self, name: str) -> dict[str, Tensor]:
        """The tensors of `name`.safetensors."""
        try:
            return load(self.content(f"{name}.safetensors"))
        except SafetensorError as error:
            raise DamagedError(f"{self.folder / name}.safetensors cannot be read ({error})") from error


def _put_in_place(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a temporary folder, and give it its name when all of it is on the disk."""
    temporary = folder.with_name(f".{folder.name}{PARTIAL}")
    make_folder(folder.parent)
    with storage_errors(folder):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        fill(temporary)
        for path in temporary.iterdir():
            sync(path)
        sync(temporary)
        os.rename(temporary, folder)
        sync(folder.parent)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
