"""What is printed of paths and names cannot break or steer a line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from happycat.base.text import FORMULA, NUMBER, as_given, defused, shown


def test_what_would_break_or_steer_a_line_is_written_out():
    assert shown("a\nb\udcff é 猫\u202f.png") == "a\\nb\\udcff é 猫\u202f.png"
    assert shown("\x1b[2J\x9b\u202egnp.\u2066שלום👩\u200d🌾") == "\\x1b[2J\\x9b\\u202egnp.\\u2066שלום👩\u200d🌾"
    assert shown("one\u2028two\u2029") == "one\\u2028two\\u2029"
    assert shown(Path("a/b")) == str(Path("a/b"))
    assert shown(14) == "14"


def test_a_correction_needs_neither_torch_nor_pillow():
    code = (
        "import sys, happycat.cli.corrections as c; print(c.shown.__module__, *({'torch', 'PIL'} & sys.modules.keys()))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["happycat.base.text"]


@given(st.text(alphabet="'=+-@\t\r1e.a", max_size=6))
@example("'=1+2")
@example("-1")
def test_no_cell_is_run_and_each_is_read_as_it_was(cell):
    written = defused(cell)
    assert as_given(written) == cell
    assert not written.startswith(FORMULA) or NUMBER.fullmatch(written)
