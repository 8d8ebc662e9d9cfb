"""Text from elsewhere, such as paths and names, as it can be printed in one line of a terminal."""

from __future__ import annotations

import unicodedata

BREAKING = ("Cc", "Cs", "Zl", "Zp")  # control characters, undecodable bytes, line and paragraph separators
TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # they turn what is printed around


def steers(character: str) -> bool:
    """Whether the character would break or steer the line in which it is printed."""
    return unicodedata.category(character) in BREAKING or unicodedata.bidirectional(character) in TURNING


def shown(text: object) -> str:
    r"""The text as it can be printed: characters that would break or steer the line are written out.

    >>> shown("two\nlines")
    'two\\nlines'
    """
    return "".join(c.encode("unicode_escape").decode("ascii") if steers(c) else c for c in str(text))
