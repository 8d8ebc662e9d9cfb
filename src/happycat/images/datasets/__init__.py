"""The registry of data sets, one short file each.

To add one, write a file with a function `load(...) -> Images` and name it in `DATASETS`.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from happycat.base.errors import InputError
from happycat.images.datasets import (
    aircraft,
    cars,
    cifar100,
    cifar100_c,
    cub,
    digits,
    folder,
    glyphs,
    imagenet100,
    tiny_imagenet,
)
from happycat.images.pictures import Images, Pictures, Published

__all__ = ["DATASETS", "PUBLISHED", "Images", "Pictures", "Published", "load"]

DATASETS: dict[str, Callable[..., Images]] = {
    "digits": digits.load,
    "glyphs": glyphs.load,
    "cifar100": cifar100.load,
    "cifar100_c": cifar100_c.load,
    "tiny_imagenet": tiny_imagenet.load,
    "imagenet100": imagenet100.load,
    "cub": cub.load,
    "cars": cars.load,
    "aircraft": aircraft.load,
    "folder": folder.load,
}
PUBLISHED: dict[str, Published] = {  # what can be said of them without their files
    module.__name__.rpartition(".")[2]: module.PUBLISHED
    for module in (digits, cifar100, tiny_imagenet, imagenet100, cub, cars, aircraft)
}


def load(name: str, root: Path | str | None = None, **options: Any) -> Images:
    """The data set of that name, or the pictures in the folder of that path.

    `root` (default: `data`) goes to the data sets that live in files. Options may be strings, as from a
    command line; they are turned into the type that the data set declares. `download` means "if it can be":
    a data set that cannot fetch itself does without.
    """
    if name not in DATASETS:
        if not Path(name).expanduser().is_dir():
            raise InputError(f"no data set or folder {name!r}; give a folder of images or one of: {_names(DATASETS)}")
        name, root = "folder", name
    loader = DATASETS[name]
    types_ = get_type_hints(loader)
    known = [option for option in inspect.signature(loader).parameters if option != "root"]
    if "download" not in known:
        options.pop("download", None)
    for option, value in options.items():
        if option not in known:
            raise InputError(f"{name} has no option {option!r}; it takes: {_names(known)}")
        options[option] = _converted(name, option, value, types_[option])
    if "root" in types_:
        options["root"] = Path("data" if root is None else root).expanduser()
    try:
        return loader(**options)
    except OSError as error:
        raise InputError(f"{name} cannot be read ({error}); check that the files are complete") from error


def _names(names: Iterable[str]) -> str:
    """The names in one line."""
    return ", ".join(names) or "none"


def _converted(name: str, option: str, value: Any, wanted: Any) -> Any:
    """The value as the type that the data set declares: int, float, str or bool, perhaps with None."""
    if get_origin(wanted) in (types.UnionType, Union):  # str | None; Python 3.10 makes the latter of a default None
        if value is None:
            return None
        wanted = next(kind for kind in get_args(wanted) if kind is not type(None))
    if type(value) is wanted:
        return value
    try:
        if wanted is bool:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[value.lower()]
        if wanted is str and isinstance(value, Path):
            return str(value)
        if isinstance(value, str) or (wanted is float and type(value) is int):
            return wanted(value)
    except (ValueError, KeyError, AttributeError):
        pass
    kind = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[wanted]
    raise InputError(f"{name}: {option} is {value!r}; give {kind}")
