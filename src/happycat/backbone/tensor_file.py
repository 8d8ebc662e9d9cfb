"""Safetensors files with a checksum of all that is in them: names, shapes, types, numbers and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from happycat.backbone.fingerprint import fingerprint
from happycat.base.errors import DamagedError, NoSpaceError

Tensors = dict[str, Tensor]


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write tensors and metadata, and the checksum of both."""
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(kept, path, {**(metadata or {}), "sha256": _checksum(kept, metadata or {})})
    except SafetensorError as error:  # what the library makes of an operating system's refusal
        raise NoSpaceError(f"cannot write {path}: {error}; free some space") from error


def load_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """The tensors, mapped into memory, and the metadata of a file whose checksum holds."""
    tensors, metadata = map_tensors(path)
    expected = metadata.pop("sha256", None)
    if _checksum(tensors, metadata) != expected:
        raise DamagedError(f"{path} is damaged: its checksum does not hold")
    return tensors, metadata


def map_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """The tensors, mapped into memory, and the metadata of a file, without a look at the checksum."""
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError) as error:
        raise DamagedError(f"{path} is damaged ({error})") from error


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    shapes = {name: [str(tensor.dtype), *tensor.shape] for name, tensor in sorted(tensors.items())}
    return fingerprint([shapes, dict(sorted(metadata.items()))], tensors)
