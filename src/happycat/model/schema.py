"""The schema of a model file: what its JSON and its arrays must be. A right checksum does not make them so.

A check of JSON is a function of the value that says whether it may stand there. Arrays are checked by their list:
names, types and shapes, in which a letter is the same number wherever it stands.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from happycat.model.blobs import StoredArray

Check = Callable[[Any], bool]
Shape = tuple[str | int, ...]

MOST_IDS = 100_000  # classes that a model has ever had
MOST = 2**53  # images, stages: whole numbers that a float64 holds, too
LARGEST = 1e19  # in an array: its square is a float32
VECTORS = "vectors"  # stands for a backbone where features are given


def whole(low: int = 0, high: int = MOST) -> Check:
    """A whole number of that range; true and false are none."""
    return lambda value: type(value) is int and low <= value <= high


def real(low: float, high: float) -> Check:
    """A number of that range."""
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def text(value: Any) -> bool:
    """A text that can be a path, too: without NUL, and of characters that the name of a file can have."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold
        return False
    return True


def flag(value: Any) -> bool:
    """True or false."""
    return isinstance(value, bool)


def moment(value: Any) -> bool:
    """A time as in ISO 8601."""
    try:
        return isinstance(value, str) and bool(datetime.datetime.fromisoformat(value).astimezone())
    except (ValueError, OverflowError, OSError):
        return False


def sha256(value: Any) -> bool:
    """A SHA-256 in hex."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def maybe(check: Check) -> Check:
    """That, or null."""
    return lambda value: value is None or check(value)


def several(check: Check, number: int | None = None) -> Check:
    """A list of such values, of so many if that is given."""
    return lambda value: (
        isinstance(value, list | tuple) and number in (None, len(value)) and all(check(one) for one in value)
    )


def keyed(required: Mapping[str, Check], more: Mapping[str, Check] | None = None) -> Check:
    """An object with these keys, and perhaps some `more`."""
    return lambda value: isinstance(value, dict) and wrong_key(value, required, more or {}) is None


def wrong_key(value: Mapping[str, Any], required: Mapping[str, Check], more: Mapping[str, Check]) -> str | None:
    """The first key that is missing or whose value may not stand there."""
    for name, check in required.items():
        if name not in value or not check(value[name]):
            return name
    return next((name for name, check in more.items() if name in value and not check(value[name])), None)


COUNT = {  # an estimate of the number of classes
    **dict.fromkeys(("number", "low", "high"), whole()),
    "numbers": several(whole()),
    "curve": several(real(-1e300, 1e300)),
}
MORE_OF_COUNT = {"measure": text, "smallest": maybe(whole(1))}
FOUND = {"images": whole(), "new": several(whole(high=MOST_IDS))}
MORE_OF_FOUND = {
    **dict.fromkeys(("unsure", "skipped", "duplicates"), whole()),
    "count": maybe(keyed(COUNT, MORE_OF_COUNT)),
}
DESCRIPTION = {"number": whole(1), "what": text, "when": moment, "happycat": text}
MORE_OF_VERSION = {"images": whole(), "review": sha256, "results": text, "found": keyed(FOUND, MORE_OF_FOUND)}
BASE = {"backbone": text, "weights": maybe(text), "precision": maybe(text), "views": whole(1, 1000)}
MORE_OF_BASE = {
    "image_size": maybe(whole(1, 100_000)),
    "mirror": flag,
    "crop_share": real(0.01, 1),
    "fingerprint": text,
}
CLASSES = {
    "classes": several(lambda value: isinstance(value, dict)),
    "next_id": whole(1, MOST_IDS),
    "chunks": whole(1, MOST_IDS),
    "numbering": maybe(several(whole(-(2**62), 2**62), 3)),
    "counts": maybe(lambda value: isinstance(value, dict)),
    "apart": several(several(whole(high=MOST_IDS), 2)),
}
COUNTS = {"stage": whole(), "total": whole(), "by_id": several(several(whole(), 2)), "exact": flag}
STATE = {"stage": whole(), "mean_cosine": real(-1.01, 1.01), "random_state": whole(-(2**62), 2**62)}
ENTRY = {"name": lambda value: type(value) in (str, int, float, type(None)), "stage": whole(), "rows": several(whole())}
MORE_OF_ENTRY = {
    **dict.fromkeys(("dropped", "taught", "ignored"), flag),
    "merged_into": whole(high=MOST_IDS),
    "merge": whole(),
}
REVIEW = {
    "keys": several(text),
    "root": maybe(text),
    "stage": whole(),
    "found": whole(),
    "count": maybe(keyed(COUNT, MORE_OF_COUNT)),
    "skipped": several(several(text, 2)),
    "duplicates": whole(),
}

# Types and shapes of arrays: D numbers in a feature, d dimensions of the discriminant space; # is a number, and letters
# that stand beside one are of that number.
SCALARS = ("exponent", "temperature", "softmax_temperature", "shortfall", "deviation", "duplicate_cosine")
ARRAYS: dict[str, tuple[str, Shape]] = {
    **dict.fromkeys(SCALARS, ("float32", ())),
    "space.mean": ("float32", ("D",)),
    "space.projection": ("float32", ("D", "d")),
    "number_values": ("float32", ("M", 5)),
    "pool.#.vectors": ("float32", ("r#", "d")),
    "pool.#.counts": ("int64", ("r#",)),
    "pool.#.thresholds": ("float32", ("r#",)),
    "pool.#.children": ("int64", ("r#", 2)),
    "pool.#.sizes": ("int64", ("r#",)),
    "pool.#.lengths": ("float32", ("r#",)),
}
CHANGED: dict[str, tuple[str, Shape]] = {
    "changed.rows": ("int64", ("c",)),
    "changed.vectors": ("float32", ("c", "d")),
    "changed.thresholds": ("float32", ("c",)),
    "changed.sizes": ("int64", ("c",)),
    "changed.lengths": ("float32", ("c",)),
}
SAID: dict[str, tuple[str, Shape]] = {"said.#": ("int32", ("s#", 7)), "rejected.#": ("int32", ("q#", 2))}


def check_keys(
    value: Mapping[str, Any], required: Mapping[str, Check], more: Mapping[str, Check] | None, what: str
) -> None:
    """A KeyError for a key of the JSON object that is missing, a ValueError for a value that may not stand there."""
    wrong = wrong_key(value, required, more or {})
    if wrong is not None and wrong not in value:
        raise KeyError(wrong)
    if wrong is not None:
        raise ValueError(f"{wrong} of {what} is not what it should be")


def check_description(description: dict[str, Any]) -> None:
    """A KeyError or ValueError if this is not what a version says of itself."""
    check_keys(description, DESCRIPTION, MORE_OF_VERSION, "a version")
    if "review" in description and "results" not in description:
        raise KeyError("results")


def bearable(array: np.ndarray) -> bool:
    """Whether all numbers of an array are finite, and can be squared in float32."""
    return array.dtype.kind != "f" or bool((np.abs(array) <= min(LARGEST, float(np.finfo(array.dtype).max))).all())


def check_arrays(entries: Mapping[str, StoredArray], chunks: int) -> None:
    """A KeyError or ValueError if an array of a version is missing, superfluous, or of another type or shape."""
    levels = sum(name.startswith("said.") for name in entries)
    wanted = {name: one for name, one in ARRAYS.items() if "#" not in name}
    wanted |= _numbered({name: one for name, one in ARRAYS.items() if "#" in name}, chunks)
    wanted |= _numbered(SAID, levels)
    wanted |= CHANGED if "changed.rows" in entries else {}
    sizes: dict[str, int] = {}
    for name, (dtype, shape) in wanted.items():
        if name not in entries:
            raise KeyError(name)
        found = entries[name]
        if found.dtype != dtype or len(found.shape) != len(shape):
            raise ValueError(f"{name} is of {found.dtype} {list(found.shape)}")
        for letter, size in zip(shape, found.shape, strict=True):
            known = letter if isinstance(letter, int) else sizes.setdefault(letter, size)
            if size != known or (isinstance(letter, str) and letter[0] in "Ddr" and size == 0):
                raise ValueError(f"{name} is of {found.dtype} {list(found.shape)}")
    if strange := sorted(entries.keys() - wanted.keys()):
        raise ValueError(f"the array {strange[0]!r} is none of a model's")


def _numbered(named: Mapping[str, tuple[str, Shape]], number: int) -> dict[str, tuple[str, Shape]]:
    """The arrays with each of the numbers 0, 1, … in the place of #."""
    return {
        name.replace("#", str(k)): (
            dtype,
            tuple(one.replace("#", str(k)) if isinstance(one, str) else one for one in shape),
        )
        for k in range(number)
        for name, (dtype, shape) in named.items()
    }
