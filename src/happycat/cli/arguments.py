"""Arguments that commands for one's own images share, and the checks of what was typed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from happycat.base.errors import InputError
from happycat.cli.flags import BACKBONE

ModelArgument = Annotated[Path, typer.Argument(help="the model file")]
WeightsOption = Annotated[
    Path | None, typer.Option(help="the backbone's weights file [that of fit]", rich_help_panel=BACKBONE)
]
WorkersOption = Annotated[
    int | None, typer.Option(help="worker processes that read images", min=0, rich_help_panel=BACKBONE)
]


def new_classes(text: str) -> int | str:
    """The number of new classes that --new asks for, or "auto"."""
    if text == "auto":
        return text
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"--new is a number or auto, not {text!r}")
    return int(text)


def check_there(path: Path, wanted: str) -> None:
    """Refuse a path that leads nowhere before anything else is done."""
    if not path.expanduser().exists():
        raise InputError(f"there is no folder or file {path}; give {wanted}")


def check_weights(path: Path | None) -> None:
    """Refuse a weights file that is not there."""
    if path is not None and not path.is_file():
        raise InputError(f"there is no weights file {path}; give --weights a safetensors file or a plain state dict")


def typed_or_piped(paths: Sequence[Path] | None) -> list[Path]:
    """The paths as typed or, without any or with `-`, a line each from stdin."""
    if paths and list(paths) != [Path("-")]:
        return list(paths)
    if sys.stdin.isatty():
        raise InputError("give images or folders, or their paths through a pipe")
    piped = [Path(line.rstrip("\n")) for line in sys.stdin if line.strip()]
    if not piped:
        raise InputError("nothing came through the pipe; give images or folders")
    return piped
