"""Damage for fuzzing with hypothesis: files with bytes changed, odd values for JSON, and the run over many inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from happycat.base.errors import HappycatError
from happycat.base.text import shown

ODD_BYTES = [b"\0", b"\xff", b"\xff\xfe", b"\n", b",", b'"', b"\x1b[2J", b"\xff" * 8, b"\x7f\xff\xff\xff", b"9" * 30]

ODD_TEXT = st.one_of(
    st.sampled_from(["", " ", "\0", "..", "../../x", "\x1b[2J", "\u202e", "\ud800", "=1+2", "#0", "id:1", "a" * 10**4]),
    st.text(max_size=20),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2**31, 2**63, 10**30, 0.5, 1e300, float("nan"), float("inf")]),
    st.integers(-3, 60),
    ODD_TEXT,
)
ODD_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


@st.composite
def damaged(draw: Callable[..., Any], whole: bytes) -> bytes:
    """A file's content with one to four changes: bits flipped, bytes overwritten, put in, left out or cut off."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(content)))
        match draw(st.sampled_from(["flip", "flip", "overwrite", "insert", "leave out", "cut", "again"])):
            case "flip" if place < len(content):
                content[place] ^= 1 << draw(st.integers(0, 7))
            case "overwrite":
                other = draw(st.sampled_from(ODD_BYTES) | st.binary(max_size=8))
                content[place : place + len(other)] = other
            case "insert":
                content[place:place] = draw(st.sampled_from(ODD_BYTES) | st.binary(max_size=8))
            case "leave out":
                del content[place : place + draw(st.integers(1, 64))]
            case "again":
                content[place:place] = content[place : place + draw(st.integers(1, 64))]
            case "cut" if draw(st.booleans()):
                del content[place:]
    return bytes(content)


def try_many(inputs: st.SearchStrategy, check: Callable[[Any], object], number: int) -> None:
    """Check so many inputs, always the same ones; the first that fails is made as small as can be and shown."""
    tried = 0

    @settings(max_examples=number, derandomize=True, database=None, deadline=None, suppress_health_check=[*HealthCheck])
    @given(inputs)
    def run(one: Any) -> None:
        nonlocal tried
        tried += 1
        check(one)

    run()
    print(f"{tried} inputs tried")
    assert tried >= number / 2  # hypothesis may see that there are no more that differ


@contextmanager
def in_one_line() -> Iterator[None]:
    """What may be refused, but by nothing else than an error of happycat that is one line when it is printed."""
    try:
        yield
    except HappycatError as error:
        said = shown(error)  # as the commands print it
        assert said.strip(), "nothing is said"
        assert len(said) < 2000, f"{len(said)} characters: {said[:300]}"
        assert "\n" not in said
