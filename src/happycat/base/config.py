"""Config fields with a help text and a checked range; the command line's flags are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
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


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A dataclass whose fields are checked when it is made."""

    def __post_init__(self) -> None:
        for f in fields(self):
            value, metadata = getattr(self, f.name), f.metadata
            if value is None:
                continue
            if metadata.get("choices") and value not in metadata["choices"]:
                raise InputError(f"{f.name} must be {' or '.join(metadata['choices'])}, got {value!r}")
            if metadata.get("low") is not None and not value >= metadata["low"]:
                raise InputError(f"{f.name} must be at least {metadata['low']:g}, got {value}")
            if metadata.get("high") is not None and not value <= metadata["high"]:
                raise InputError(f"{f.name} must be at most {metadata['high']:g}, got {value}")
