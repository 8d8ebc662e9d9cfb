"""Fields of a config that say what they mean and check their range; the command line's flags come from them."""

from __future__ import annotations

from dataclasses import field, fields

from happycat.base.errors import InputError


def setting(default, text: str, low: float | None = None, high: float | None = None):
    """A value with its help text and, for a number, its range."""
    return field(default=default, metadata={"help": text, "low": low, "high": high})


def choice(default: str | None, choices: tuple[str, ...], text: str):
    """A value that is one of several words."""
    return field(default=default, metadata={"help": f"{text}: {' or '.join(choices)}", "choices": choices})


class Checked:
    """A dataclass whose fields are checked when it is made."""

    def __post_init__(self):
        for f in fields(self):
            value, about = getattr(self, f.name), f.metadata
            if value is None:
                continue
            if about.get("choices") and value not in about["choices"]:
                raise InputError(f"{f.name} must be {' or '.join(about['choices'])}, got {value!r}")
            if about.get("low") is not None and not value >= about["low"]:
                raise InputError(f"{f.name} must be at least {about['low']:g}, got {value}")
            if about.get("high") is not None and not value <= about["high"]:
                raise InputError(f"{f.name} must be at most {about['high']:g}, got {value}")
