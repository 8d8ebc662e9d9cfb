"""What every test has: one thread, and a run that was not interrupted.

Nothing heavy is imported above: the process that hands out the tests reads this file too, and needs none of it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Tests run beside each other."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def rough_maps():
    """The map of a discovery with as few steps as t-SNE allows: most of the time of a small one."""
    from happycat.model import map

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(map, "TSNE", partial(map.TSNE, max_iter=250))
        yield


@pytest.fixture(autouse=True)
def as_it_was():
    """A command may set the number of threads of its process; the bits of a sum depend on it."""
    import torch

    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """The folder of a run that was not interrupted."""
    from tests.helpers.runs import quick_run

    folder = tmp_path_factory.mktemp("finished") / "run"
    quick_run(folder)
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    """The pictures of a run are not drawn, which takes as long as a small run itself; for tests of something else."""
    from happycat.benchmark import drawings

    monkeypatch.setattr(drawings, "draw_run", lambda record, images, title: record.folder / "summary.png")


@pytest.fixture
def fewer_digits(monkeypatch):
    """A third of the data set of digits, and of what a stage has of it: for tests whether things run."""
    from sklearn.datasets import load_digits
    from sklearn.utils import Bunch

    from happycat.images.datasets import digits

    whole = load_digits()
    third = Bunch(images=whole.images[::3], target=whole.target[::3])
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda: third)
    for images, number in (("new_per_class", 40), ("old_per_class", 8)):  # a stage is a batch of 128
        monkeypatch.setitem(digits.PUBLISHED.protocol, images, number)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all tests that look at pages."""
    from tests.helpers.browser import chromium

    browser = chromium(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()
