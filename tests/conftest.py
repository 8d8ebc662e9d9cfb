"""What every test has: one thread, and a run that was not interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.helpers.browser import chromium
from tests.helpers.runs import quick_run

torch.set_num_threads(1)  # tests run beside each other


@pytest.fixture(autouse=True)
def as_it_was():
    """A command may set the number of threads of its process; the bits of a sum depend on it."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """The folder of a run that was not interrupted."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    quick_run(folder)
    return folder


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all tests that look at pages."""
    browser = chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()
