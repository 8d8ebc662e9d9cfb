"""Corrections as JSON: which verbs there are, what each needs, and the call of the editor that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from happycat.base.errors import InputError

if TYPE_CHECKING:
    from happycat.model.editor import Editor

Values = Mapping[str, Any]


def _images(editor: Editor, values: Values, key: str = "images") -> list[int]:
    """The places of images, each once."""
    return _places(editor, values.get(key), key)


def _places(editor: Editor, given: Any, key: str) -> list[int]:
    total = len(editor.review.keys) if editor.review else 0
    if not isinstance(given, list) or not given:
        raise InputError(f"{key} must be a list of images' numbers")
    if not all(type(one) is int and 0 <= one < total for one in given):
        raise InputError(f"{key} must be numbers of images, from 0 to {total - 1}")
    return list(dict.fromkeys(given))


def _number(values: Values, key: str) -> int:
    if type(values.get(key)) is not int:
        raise InputError(f"{key} must be a number")
    return values[key]


def _text(values: Values, key: str) -> str:
    if not isinstance(values.get(key), str) or not values[key].strip():
        raise InputError(f"{key} must be a text")
    return values[key]


def _optional_text(values: Values, key: str) -> str | None:
    return None if values.get(key) in (None, "") else _text(values, key)


def _confirm_and_reject(editor: Editor, values: Values) -> None:
    """Confirm some images of a page and reject the others: a step of the review."""
    if values.get("images"):
        editor.confirm(_images(editor, values))
    if values.get("others"):
        editor.reject(_images(editor, values, "others"))


def _split_by(editor: Editor, values: Values) -> None:
    """The images are examples of a class of their own, all others of the class stay."""
    apart = set(_images(editor, values))
    which = _number(values, "which")
    rest = [i for i, row in enumerate(editor.assigned()) if row.id == which and i not in apart]
    if not rest:
        raise InputError("all images of the class are selected; select those that are to be a class of their own")
    editor.split_by(which, [rest, sorted(apart)])


VERBS: dict[str, Callable[[Editor, Values], Any]] = {
    "name": lambda editor, v: editor.name(_number(v, "which"), _text(v, "name")),
    "merge": lambda editor, v: editor.merge(_number(v, "which"), _number(v, "other")),
    "apart": lambda editor, v: editor.apart(_number(v, "which"), _number(v, "other")),
    "split": lambda editor, v: editor.split(_number(v, "which")),
    "split_by": _split_by,
    "drop": lambda editor, v: editor.drop(_number(v, "which")),
    "move": lambda editor, v: editor.move(_images(editor, v), _number(v, "to")),
    "confirm": lambda editor, v: editor.confirm(_images(editor, v)),
    "reject": lambda editor, v: editor.reject(_images(editor, v)),
    "review": _confirm_and_reject,
    "ignore": lambda editor, v: editor.ignore(_images(editor, v)),
    "unignore": lambda editor, v: editor.unignore(_images(editor, v)),
    "new_class": lambda editor, v: editor.new_class(_images(editor, v), _optional_text(v, "name")),
    "undo": lambda editor, v: editor.undo(),
    "redo": lambda editor, v: editor.redo(),
    "go_to": lambda editor, v: editor.go_to(_number(v, "number")),
}
