"""Errors: a message is as long as a person can read."""

from __future__ import annotations

import pytest

from happycat.base.errors import HappycatError, InputError, StorageError


@pytest.mark.parametrize("kind", [HappycatError, InputError, StorageError])
def test_of_a_very_long_message_the_middle_is_left_out(kind):
    said = str(kind(f"the file says {'x' * 10_000}; make it again"))
    assert len(said) == 1000
    assert said.startswith("the file says xxx")
    assert " … " in said
    assert said.endswith("xxx; make it again")
    for whole in ("short", "y" * 1000):
        assert str(kind(whole)) == whole
