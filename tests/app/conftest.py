"""The model that the app's tests look at: made once, copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.app.shop import make_shop


@pytest.fixture(scope="session")
def first_shop(tmp_path_factory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def model(first_shop, tmp_path) -> Path:
    """A copy of the model with its images, to be changed."""
    shutil.copytree(first_shop.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "shop.cat"
