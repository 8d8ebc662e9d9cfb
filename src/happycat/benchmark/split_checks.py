"""Structural checks of a split file: types, names, and its lists against its protocol. Nothing is built before."""

from __future__ import annotations

from collections import Counter
from typing import Any

from happycat.base.errors import InputError

PARTS = ("format", "dataset", "protocol", "classes", "labelled", "stages", "test")


def check_structure(data: dict[str, Any]) -> None:
    """Refuse the content of a split file that is not what `make_split` could have written."""
    if odd := {*PARTS} ^ {*data}:
        raise InputError(f"{min(odd)!r} is {'unknown' if min(odd) in data else 'missing'}")
    _a(data["dataset"], str, "dataset")
    _a(data["protocol"], dict, "protocol")
    classes = _names(data["classes"], "classes")
    labelled = _images(data["labelled"], classes, "labelled")
    seen = classes[: len(labelled)]
    _same("labelled", set(labelled), set(seen))
    _same("protocol: base_classes", data["protocol"].get("base_classes"), len(labelled))
    _same("protocol: stages", data["protocol"].get("stages"), len(_a(data["stages"], list, "stages")))
    for t, stage in enumerate(data["stages"], 1):
        if {*_a(stage, dict, f"stage {t}")} != {"new", "images"}:
            raise InputError(f"stage {t} needs 'new' and 'images', and nothing else")
        new = _names(stage["new"], f"stage {t}: new")
        _same(f"stage {t}: new", new, classes[len(seen) : len(seen) + len(new)])
        seen += new
        _images(stage["images"], seen, f"stage {t}: images")
    _same("classes of the stages", seen, classes)
    _images(data["test"], classes, "test")


def _a(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise InputError(f"{what} is {type(value).__name__}, not {kind.__name__}")
    return value


def _names(value: Any, what: str) -> list[str]:
    """A list of texts, none of them twice."""
    for name in _a(value, list, what):
        _a(name, str, f"a part of {what}")
    if len(set(value)) != len(value):
        twice = Counter(value).most_common(1)[0][0]
        raise InputError(f"{what} has {twice!r} twice")
    return value


def _images(value: Any, classes: list[str], what: str) -> dict[str, list[str]]:
    """Lists of images by class, none of them twice."""
    if odd := {*_a(value, dict, what)} - {*classes}:
        raise InputError(f"{what} has the class {min(odd)!r}, which is not among the classes seen by then")
    _names([key for name, keys in value.items() for key in _a(keys, list, f"{what}: {name}")], what)
    return value


def _same(what: str, found: Any, expected: Any) -> None:
    if found != expected or isinstance(found, bool):
        raise InputError(f"{what} does not fit: {_short(found)}, where the lists say {_short(expected)}")


def _short(value: Any) -> str:
    text = str(sorted(value) if isinstance(value, set) else value)
    return text if len(text) < 60 else text[:57] + "…"
