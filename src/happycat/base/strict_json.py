"""Strict JSON parsing: UTF-8, no key twice, only finite numbers of a usual size, bounded depth and length.

What a person or another program wrote is refused in one line, whatever is wrong with it.
"""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from happycat.base.errors import InputError

LARGEST = 1 << 28  # bytes; a split of some million images
DIGITS = 19  # of an integer: all that fit into 64 bits have no more


def parse_json(text: bytes, what: str) -> Any:
    """What a JSON text holds; `what` names it in the message if it cannot be read."""
    if len(text) > LARGEST:
        raise InputError(f"{what} has {len(text)} bytes, more than the {LARGEST} that are read as JSON")
    try:
        return json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_constant,
        )
    except RecursionError:
        raise InputError(f"{what} cannot be read as JSON (it is nested too deep)") from None
    except ValueError as error:  # of Unicode and of JSON, and our own
        raise InputError(f"{what} cannot be read as JSON ({error})") from error


def check_shape(data: Any, shape: Any, what: str) -> Any:
    """The data, if it has the shape: a type or several; a list of one shape; an object with at least these members."""
    if isinstance(shape, dict):
        check_shape(data, object if isinstance(data, dict) else dict, what)
        for name, part in shape.items():
            if name not in data:
                raise InputError(f"{what} has no {name!r}")
            check_shape(data[name], part, f"{name!r} of {what}")
    elif isinstance(shape, list):
        for item in check_shape(data, object if isinstance(data, list) else list, what):
            check_shape(item, shape[0], f"a part of {what}")
    elif not isinstance(data, shape) or (isinstance(data, bool) and shape not in (bool, object)):
        raise InputError(f"{what} is {type(data).__name__}, which it cannot be")
    return data


def json_bytes(data: object, indent: int | None = None) -> bytes:
    """Data as JSON in UTF-8; undecodable bytes of a file's name are written as JSON's own escapes."""
    return json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def as_json(data: object) -> Any:
    """Data as JSON would give it back: lists for tuples, texts for the keys of objects."""
    return json.loads(json.dumps(data))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name[:80]!r} is there twice")
        found[name] = value
    return found


def _integer(text: str) -> int:
    if (digits := len(text.lstrip("-"))) > DIGITS:
        raise ValueError(f"an integer of {digits} digits")
    return int(text)


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")
