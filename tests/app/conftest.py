"""The model that the app's tests look at, made once and copied for each test; a visit to its server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from happycat.app.desk import Desk
from happycat.app.discovering import Discoveries
from happycat.app.routes import make_app
from happycat.model.editor import Editor
from tests.app.people import Person, Running
from tests.app.shop import make_shop
from tests.app.visits import HOST, TOKEN, Visit, no_work


@pytest.fixture(scope="session")
def first_shop(tmp_path_factory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def model(first_shop, tmp_path) -> Path:
    """A copy of the model with its images, to be changed."""
    shutil.copytree(first_shop.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "shop.cat"


@pytest.fixture
def visit(model):
    with visited(model) as visit:
        yield visit


@pytest.fixture(scope="session")
def still(first_shop):
    """A visit whose requests are all refused, or only look: the model stays as it is."""
    content = first_shop.read_bytes()
    with visited(first_shop) as visit:
        yield visit
    assert first_shop.read_bytes() == content


@contextmanager
def visited(model: Path) -> Iterator[Visit]:
    editor = Editor(model)
    desk = Desk(editor)
    discoveries = Discoveries(desk, no_work())
    app = make_app(desk, discoveries, TOKEN, 8123)
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as client:
        yield Visit(client, editor, desk, discoveries)


@pytest.fixture(scope="module")
def running(browser, first_shop, tmp_path_factory):
    """The app of a copy of the model, served to all tests of a module."""
    folder = tmp_path_factory.mktemp("running")
    shutil.copytree(first_shop.parent, folder, dirs_exist_ok=True)
    app = Running(folder / "shop.cat")
    yield app
    browser.get("about:blank")
    app.stop()


@pytest.fixture
def person(browser, running, first_shop):
    """A person at the app, which is as it was at first."""
    running.begin_again(first_shop)
    person = Person(browser, running)
    person.open()
    yield person
    person.run("sessionStorage.clear()")
    running.desk.job.cancel(10)
    assert [entry for entry in browser.get_log("browser") if "status of 40" not in entry["message"]] == []
