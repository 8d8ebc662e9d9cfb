"""Discoveries from the app: progress, cancel, and inboxes of dropped files."""

from __future__ import annotations

import threading
import time
from io import BytesIO

import pytest
from PIL import Image

from happycat.app import inbox as inboxes
from happycat.app.inbox import clean_name
from happycat.base.errors import InputError
from tests.app.visits import ORIGIN, TOKEN


def until(true):
    for _ in range(500):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it takes too long")


def test_a_discovery_has_progress_and_can_be_cancelled(visit, tmp_path):
    go = threading.Event()

    def discover(inbox, number, progress):
        advance = progress.step("extracting features", 100)
        while True:
            advance(1)
            go.wait(0.005)

    visit.discoveries.work.discover = discover
    assert visit.post("api/discover", {"path": str(tmp_path / "inbox"), "new": 3}).status_code == 200
    until(lambda: visit.get("api/pulse").json()["discovery"]["done"] > 3)
    progress = visit.get("api/pulse").json()["discovery"]
    assert (progress["state"], progress["step"], progress["total"]) == ("running", "extracting features", 100)
    assert visit.post("api/discover", {"path": str(tmp_path / "inbox")}).status_code == 409
    answer = visit.do("name", which=6, name="fox")
    assert (answer.status_code, answer.json()["stale"]) == (409, False)
    assert "under way" in answer.json()["error"]
    visit.post("api/cancel")
    until(lambda: visit.get("api/pulse").json()["discovery"]["state"] == "cancelled")
    assert visit.do("name", which=6, name="fox").status_code == 200


@pytest.mark.parametrize(
    ("error", "message"), [(InputError("no image"), "no image"), (ValueError("x"), "the discovery failed: ValueError")]
)
def test_a_discovery_that_fails_says_why(visit, tmp_path, error, message):
    def discover(inbox, number, progress):
        raise error

    visit.discoveries.work.discover = discover
    visit.post("api/discover", {"path": str(tmp_path)})
    until(lambda: visit.get("api/pulse").json()["discovery"]["state"] == "failed")
    assert visit.get("api/pulse").json()["discovery"]["error"].startswith(message)


@pytest.mark.parametrize(
    "values", [{}, {"path": ""}, {"path": "/nowhere/at/all"}, {"path": "a\0b"}, {"path": 3}, {"path": ".", "new": "x"}]
)
def test_an_inbox_that_cannot_be_is_refused(still, values):
    assert still.post("api/discover", values).status_code == 400


# Dropped files


def png():
    buffer = BytesIO()
    Image.new("RGB", (9, 9), "red").save(buffer, "PNG")
    return buffer.getvalue()


def drop(visit, name, content):
    return visit.client.post(f"/{TOKEN}/api/inbox/file", params={"name": name}, content=content, headers=ORIGIN)


def test_dropped_files_are_kept_beside_the_model_if_they_are_images(visit, tmp_path):
    assert drop(visit, "a.png", png()).status_code == 400  # no inbox yet
    folder = tmp_path / "shop-inbox-1"
    assert visit.post("api/inbox").json() == {"path": str(folder)}
    for name in ("a.png", "a.png", "../../b.png", "c\n:.png"):
        assert drop(visit, name, png()).json() == {"refused": None}
    assert drop(visit, "text.png", b"hello").json()["refused"] == "not an image"
    assert drop(visit, "page.html", b"<script>").json()["refused"] == "not an image"
    assert sorted(path.name for path in folder.iterdir()) == ["a (2).png", "a.png", "b.png", "c__.png"]
    assert visit.post("api/inbox").json()["path"].endswith("shop-inbox-2")


def test_dropped_files_are_limited(visit, tmp_path, monkeypatch):
    visit.post("api/inbox")
    monkeypatch.setattr(inboxes, "LARGEST", 1000)
    assert "MB" in drop(visit, "a.png", b"x" * 2000).json()["error"]
    monkeypatch.setattr(inboxes, "MOST", 1)
    assert drop(visit, "a.png", png()).status_code == 200
    assert "at most" in drop(visit, "b.png", png()).json()["error"]
    assert [path.name for path in (tmp_path / "shop-inbox-1").iterdir()] == ["a.png"]


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        ("C:\\x\\y.png", "y.png"),
        ("/etc/passwd", "passwd"),
        ("..", "image"),
        ("", "image"),
        ("a\0b\n.png", "a_b_.png"),
        ("NUL.png", "_NUL.png"),
        ("käse 1.png", "käse 1.png"),
        ("x" * 500 + ".png", "x" * 120 + ".png"),
    ],
)
def test_names_are_cleaned(name, clean):
    assert clean_name(name) == clean
