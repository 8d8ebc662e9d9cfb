"""Text from elsewhere, such as paths and names, as it can be printed in a terminal and written into a table (CSV)."""

from __future__ import annotations

import re
import unicodedata

BREAKING = ("Cc", "Cs", "Zl", "Zp")  # control characters, undecodable bytes, line and paragraph separators
TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")  # they turn what is printed around

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet may run (CSV injection)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def steers(character: str) -> bool:
    """Whether the character would break or steer the line in which it is printed."""
    return unicodedata.category(character) in BREAKING or unicodedata.bidirectional(character) in TURNING


def shown(text: object) -> str:
    r"""The text as it can be printed: characters that would break or steer the line are written out.

    >>> shown("two\nlines")
    'two\\nlines'
    """
    return "".join(c.encode("unicode_escape").decode("ascii") if steers(c) else c for c in str(text))


def defused(cell: object) -> str:
    """A cell of a CSV file; an apostrophe before one such as =1+2 keeps a spreadsheet from running it as a formula.

    >>> defused("=1+2"), defused("'=1+2"), defused("lion's"), defused(-1)
    ("'=1+2", "''=1+2", "lion's", '-1')
    """
    text = str(cell)
    return f"'{text}" if _runs(text) else text


def as_given(cell: str) -> str:
    """What a cell was before it was defused."""
    return cell[1:] if cell.startswith("'") and _runs(cell) else cell


def _runs(cell: str) -> bool:
    """Whether a spreadsheet may run the cell, or would but for the apostrophes before it; it runs no number."""
    bare = cell.lstrip("'")
    return bare.startswith(FORMULA) and NUMBER.fullmatch(bare) is None
