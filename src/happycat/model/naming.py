"""Names of classes: which are allowed, when two are the same, and how a person refers to a class."""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from happycat.base.errors import InputError
from happycat.base.text import shown, steers

Name = str | int | float

LONGEST = 200
LARGEST_INT, LARGEST_FLOAT = 2**62, 2.0**53  # above them, the next whole number is not the next number any more
OURS = re.compile(r"unknown|class\s+\d+|#\d+|id:\s*\d+|name:.*", re.IGNORECASE | re.DOTALL)


class Numbering(NamedTuple):
    """How classes without a name are numbered where all labelled names are numbers; set once, at fit."""

    first: int  # the number of the first class that is not labelled
    labelled: int  # how many classes are
    unknown: int  # the number of images that fit no class

    @classmethod
    def of(cls, labelled: Sequence[Name]) -> Numbering | None:
        """Numbers above the largest labelled name for new classes; −1, or one below the smallest, for no class."""
        numbers = [name for name in labelled if not isinstance(name, str)]
        if len(numbers) < len(labelled) or not numbers:
            return None
        low = min(numbers)
        return cls(math.ceil(max(numbers) + 1), len(numbers), -1 if low >= 0 else math.floor(low - 1))

    def number(self, class_id: int) -> int:
        """What a class without a name is called."""
        return self.first + class_id - self.labelled

    def reserves(self, name: Name, class_id: int | None) -> bool:
        """Whether the name is a number that another class has until it is named, or images that fit no class."""
        value = as_number(name)
        if value is None or (class_id is not None and value == self.number(class_id)):
            return False
        return value == self.unknown or (value >= self.first and value == int(value))


class Reference(NamedTuple):
    """What a person calls a class by: an id, a name, or a word that may be either."""

    id: int | None
    name: str | None

    @classmethod
    def of(cls, which: int | str) -> Reference:
        """`#14` and `id:14` are ids, `name:14` is a name, `class 14` an id; another word or a number is either."""
        if not isinstance(which, str):
            try:
                return cls(operator.index(which), str(which))
            except TypeError:
                raise InputError(f"a class is given by its id or its name, not by {which!r}") from None
        if which.startswith("name:"):
            return cls(None, which.removeprefix("name:"))
        if match := re.fullmatch(r"(?:#|id:\s*|class\s+)(\d+)", which.strip(), re.ASCII):
            return cls(_id(match[1]), None)
        return cls(_id(which), which)


def checked_name(name: Any) -> Name:
    """The name as a str, int or float, or an error that says why it is none."""
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, bool):
        name = int(name)
    if isinstance(name, float) and not math.isfinite(name):
        raise InputError(f"{name} is no name of a class; give text or a finite number")
    if isinstance(name, int | float):
        if abs(name) >= (LARGEST_INT if isinstance(name, int) else LARGEST_FLOAT):
            raise InputError(f"{name} is too large a number to name a class; take a smaller one, or text")
        return name
    if not isinstance(name, str):
        raise InputError(f"a class is called by text or a number, not by {name!r}")
    if not name.strip():
        raise InputError(f"{name!r} is no name: it needs at least one letter")
    if len(name) > LONGEST:
        raise InputError(f"a name has at most {LONGEST} characters, not {len(name)} ('{shown(name[:20])}'…)")
    if any(steers(c) and unicodedata.category(c) != "Cs" for c in name):  # a folder's name may have undecodable bytes
        raise InputError(f"the name '{shown(name)}' has control characters; leave them out")
    if OURS.fullmatch(name.strip()):
        raise InputError(f"{name!r} is what happycat itself calls things; take another name")
    return name


def same_name(one: Name | None, two: Name | None) -> bool:
    """Whether two names look the same where they are written: 14, 14.0 and "14" are the same."""
    if one is None or two is None:
        return False
    if str(one) == str(two):
        return True
    if isinstance(one, str) and isinstance(two, str):
        return False
    return (number := as_number(one)) is not None and number == as_number(two)


def _id(word: str) -> int | None:
    """A word of digits as an id; ids have no more than a few."""
    return int(word) if re.fullmatch(r"\d{1,9}", word, re.ASCII) else None


def as_number(name: Name) -> int | float | None:
    """The number that a name is or spells; None if it is none."""
    if not isinstance(name, str):
        return name
    for kind in (int, float):
        try:
            value = kind(name)
        except ValueError:
            continue
        return value if math.isfinite(value) else None
    return None
