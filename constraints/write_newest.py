"""Writes newest.txt: the installed versions of all that happycat needs, directly or not, without its extras.

    .venv/bin/python constraints/write_newest.py

Run it where the figures of the demo were made.
"""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEAD = f"""\
# The versions with which the figures of the demo in README.md were made, on Linux with Python {{python}}.
# Used by: pip install -c constraints/newest.txt .
# Written by: {Path(__file__).name}
"""


def needed(package: str, extras: frozenset[str] = frozenset()) -> dict[str, str]:
    """The versions of what a package needs here, by name; `extras` are those of its own that are asked for."""
    found: dict[str, str] = {}
    left, seen = [(package, extras)], set()
    while left:
        name, extras = left.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found[canonicalize_name(name)] = distribution(name).version
        for text in distribution(name).requires or []:
            one = Requirement(text)
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                left.append((one.name, frozenset(one.extras)))
    del found[package]
    return found


def main() -> None:
    lines = [f"{name}=={version}\n" for name, version in sorted(needed("happycat").items())]
    head = HEAD.format(python=".".join(map(str, sys.version_info[:2])))
    Path(__file__).with_name("newest.txt").write_text(head + "".join(lines), "utf-8")


if __name__ == "__main__":
    main()
