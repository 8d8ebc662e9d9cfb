"""Config fields with a help text and a checked range; the command line's flags are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import TypeVar

from happycat.base.errors import InputError

Value = TypeVar("Value")
Word = TypeVar("Word", bound="str | None")


def described(text: str, low: float | None = None, high: float | None = None) -> dict[str, object]:
    """The metadata of a field: its help text and, for a number, its range."""
    return {"help": text, "low": low, "high": high}


def setting(default: Value, text: str, low: float | None = None, high: float | None = None) -> Value:
    """A value with its help text and, for a number, its range."""
    return field(default=default, metadata=described(text, low, high))


def choice(default: Word, choices: tuple[str, ...], text: str) -> Word:
    """A value that is one of several words."""
    return field(default=default, metadata={"help": f"{text}: {' or '.join(choices)}", "choices": choices})


KINDS = {"int": (Integral, "a whole number"), "float": (Real, "a number"), "bool": (bool, "true or false")}


def check_kind(name: str, value: object, annotation: object) -> None:
    """Refuse a value that is no number, or not true or false, where the field's annotation says so."""
    kind = str(getattr(annotation, "__name__", annotation)).partition(" |")[0]
    if kind not in KINDS:
        return
    wanted, words = KINDS[kind]
    if not isinstance(value, wanted) or (kind != "bool" and isinstance(value, bool)):
        raise InputError(f"{name} must be {words}, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A dataclass whose fields are checked when it is made."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value, metadata = getattr(self, f.name), f.metadata
            if value is None:
                continue
            check_kind(f.name, value, f.type)
            if metadata.get("choices") and value not in metadata["choices"]:
                raise InputError(f"{f.name} must be {' or '.join(metadata['choices'])}, got {value!r}")
            if metadata.get("low") is not None and not value >= metadata["low"]:
                raise InputError(f"{f.name} must be at least {metadata['low']:g}, got {value}")
            if metadata.get("high") is not None and not value <= metadata["high"]:
                raise InputError(f"{f.name} must be at most {metadata['high']:g}, got {value}")
