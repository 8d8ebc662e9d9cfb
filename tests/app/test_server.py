"""The app's server: who may ask, what is served, every verb, limits."""

from __future__ import annotations

import json
import os
import threading
import time
from io import BytesIO

import pytest
from PIL import Image
from starlette.testclient import TestClient

from happycat.app import inbox as inboxes
from happycat.app import routes
from happycat.app.desk import Desk
from happycat.app.discovering import Discoveries
from happycat.app.guard import new_token
from happycat.app.inbox import clean_name
from happycat.app.pictures import Thumbnails
from happycat.app.routes import make_app
from happycat.base.errors import InputError
from happycat.model.editor import Editor

TOKEN, HOST = "s3cret", "127.0.0.1:8123"
ORIGIN = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}


class Visit:
    """A browser's tab: requests as the page makes them."""

    def __init__(self, client, editor, desk, discoveries):
        self.client, self.editor, self.desk, self.discoveries = client, editor, desk, discoveries

    def get(self, path, **more):
        return self.client.get(f"/{TOKEN}/{path}", **more)

    def post(self, path, values=None, **more):
        headers = {**ORIGIN, **more.pop("headers", {})}
        return self.client.post(f"/{TOKEN}/{path}", json=values or {}, headers=headers, **more)

    def do(self, verb, **values):
        return self.post(f"api/do/{verb}", {"tag": self.state()["tag"], **values})

    def state(self):
        return self.get("api/state").json()


@pytest.fixture
def visit(model):
    editor = Editor(model)
    desk = Desk(editor)
    discoveries = Discoveries(desk, lambda inbox, number, progress: None)
    app = make_app(desk, discoveries, TOKEN, 8123)
    with TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False) as client:
        yield Visit(client, editor, desk, discoveries)


def test_the_page_and_its_scripts_are_served_with_a_strict_policy(visit):
    page = visit.get("")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "<script>" not in page.text
    assert "style=" not in page.text
    assert "http" not in page.text
    for name, kind in (("app.js", "javascript"), ("map.js", "javascript"), ("page.css", "css")):
        got = visit.get(f"static/{name}")
        assert (got.status_code, kind in got.headers["content-type"]) == (200, True), name


def test_no_script_asks_another_computer(visit):
    for name, read in routes._static_files().items():
        text = read().decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, name
        assert "https://" not in text, name
        assert "innerHTML" not in text, name


@pytest.mark.parametrize("token", ["", "S3CRET", "s3cre", "s3cret2", "é"])
def test_without_the_token_there_is_nothing(visit, token):
    for path in ("", "api/state", "thumb/x/0", "static/app.js"):
        assert visit.client.get(f"/{token}/{path}").status_code == 404
    assert visit.client.get("/").status_code == 404
    assert visit.client.get(f"/{TOKEN}").status_code == 404


def test_tokens_are_long_and_differ():
    assert len({new_token() for _ in range(50)}) == 50
    assert len(new_token()) >= 32


@pytest.mark.parametrize("host", ["evil.example:8123", "127.0.0.1", "127.0.0.1:80", "[::1]:8123", ""])
def test_another_host_is_refused(visit, host):
    assert visit.get("api/state", headers={"host": host}).status_code == 421


def test_localhost_is_this_computer(visit):
    assert visit.get("api/state", headers={"host": "localhost:8123"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"},
        {"origin": f"http://{HOST}", "sec-fetch-site": "same-site"},
        {},
    ],
)
@pytest.mark.parametrize("path", ["api/do/undo", "api/discover", "api/cancel", "api/inbox", "api/inbox/file"])
def test_another_origin_changes_nothing(visit, headers, path):
    before = sorted(visit.editor.path.parent.iterdir())
    answer = visit.client.post(f"/{TOKEN}/{path}", content="{}", headers=headers)
    assert answer.status_code == 403
    assert visit.editor.version == 2
    assert sorted(visit.editor.path.parent.iterdir()) == before


def test_changes_are_not_made_by_get(visit):
    for path in ("api/do/undo", "api/discover", "api/cancel", "api/inbox"):
        assert visit.get(path).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "static/../guard.py",
        "static/..%2fguard.py",
        "static/%2e%2e%2fguard.py",
        "static/guard.py",
        "static//etc/passwd",
        "thumb/{id}/../../shop.cat",
        "thumb/{id}/-1",
        "thumb/{id}/100000",
        "thumb/{id}/0/../../../x",
        "image/{id}/..%2f..%2fshop.cat",
        "thumb/other/0",
    ],
)
def test_no_other_file_is_served(visit, path):
    number = visit.state()["review"]["id"]
    assert visit.get(path.format(id=number)).status_code == 404


def test_a_link_out_of_the_folder_is_not_followed(visit, tmp_path):
    outside = tmp_path / "outside.png"
    Image.new("RGB", (8, 8)).save(outside)
    object.__setattr__(visit.editor.review, "root", tmp_path / "inbox")
    own = visit.editor.review.root / visit.editor.review.keys[0]
    own.unlink()
    os.symlink(outside, own)
    number = visit.state()["review"]["id"]
    assert visit.get(f"thumb/{number}/0").status_code == 404
    assert visit.get(f"image/{number}/0").status_code == 404
    assert visit.get(f"thumb/{number}/1").status_code == 200


def test_pictures(visit):
    number = visit.state()["review"]["id"]
    small = visit.get(f"thumb/{number}/3")
    assert Image.open(BytesIO(small.content)).size == (160, 160)
    assert "immutable" in small.headers["cache-control"]
    whole = visit.get(f"image/{number}/3")
    assert whole.headers["content-type"] == "image/png"
    assert Image.open(BytesIO(whole.content)).size == (48, 48)


def test_thumbnails_are_made_once_and_the_oldest_go(monkeypatch):
    made = []
    monkeypatch.setattr("happycat.app.pictures.thumbnail", lambda path: made.append(path) or b"x" * 10)
    thumbnails = Thumbnails(memory=25)
    for name in "abbaca":
        thumbnails.of(name)
    assert made == ["a", "b", "c"]
    thumbnails.of("b")
    assert made == ["a", "b", "c", "b"]


def test_state_and_images(visit):
    state = visit.state()
    images = visit.get(f"api/images/{state['review']['id']}").json()
    assert len(images["path"]) == len(images["x"]) == len(state["cls"]) == len(state["said"]) == 56
    assert {one["label"] for one in state["classes"]} == {"class 6", "class 7", *(f"c{i}" for i in range(6))}
    assert [one["kind"] for one in state["classes"][:3]] == ["new", "new", "labelled"]
    assert (state["undo"], state["redo"], state["version"]) == (True, False, 2)
    assert "images in 2 new classes, " in state["sentence"]
    assert visit.get("api/images/other").status_code == 409
    assert visit.get("api/pulse").json() == {"tag": state["tag"], "discovery": None}
    assert "<svg" in visit.get("api/number").text


def test_a_model_without_images_is_shown_as_such(visit):
    state = visit.do("undo").json()
    assert (state["review"], state["classes"], state["cls"]) == (None, [], [])
    assert state["sentence"] == "Nothing was discovered yet."
    assert visit.get("api/number").text == ""
    assert visit.do("confirm", images=[0]).status_code == 400
    assert visit.get("api/candidates/0").status_code == 400
    assert len(visit.do("redo").json()["cls"]) == 56


def members(state, number):
    return [i for i, c in enumerate(state["cls"]) if c == number]


def test_every_verb_for_images(visit):
    three = members(visit.state(), 6)[:3]
    moved = visit.do("move", images=three, to=7).json()
    assert [(moved["cls"][i], moved["said"][i]) for i in three] == [(7, 1)] * 3
    assert moved["history"][-1]["images"] == 3
    assert visit.do("undo").json()["cls"][three[0]] == 6
    assert visit.do("redo").json()["cls"][three[0]] == 7
    own = members(visit.state(), 6)
    assert visit.do("confirm", images=own[:2]).json()["said"][own[0]] == 1
    ignored = visit.do("ignore", images=own[2:3]).json()
    assert (ignored["said"][own[2]], ignored["cls"][own[2]]) == (2, None)
    assert visit.do("unignore", images=own[2:3]).json()["said"][own[2]] == 0
    assert visit.do("reject", images=own[3:4]).json()["cls"][own[3]] != 6
    made = visit.do("new_class", images=own[4:6], name="owl").json()
    assert [one["id"] for one in made["classes"] if one["label"] == "owl"] == [made["cls"][own[4]]]
    before = visit.do("go_to", number=2).json()
    own = members(before, 6)
    done = visit.do("review", images=own[:4], others=own[4:6]).json()
    assert [one["what"] for one in done["history"][-2:]] == ["confirm 4 images", "reject 2 images"]
    assert visit.do("go_to", number=2).json()["redo"] is True


def test_every_verb_for_classes(visit):
    named = visit.do("name", which=6, name="fox").json()
    assert {one["id"]: one["name"] for one in named["classes"]}[6] == "fox"
    assert visit.do("apart", which=0, other=6).status_code == 200
    assert visit.do("merge", which=6, other=0).status_code == 400
    merged = visit.do("merge", which=6, other=7).json()
    assert 7 not in merged["cls"]
    assert visit.do("undo").json()["cls"].count(7) > 10
    halves = visit.do("split", which=7).json()
    assert {one["id"] for one in halves["classes"]} > {6, 7, 8}
    visit.do("undo")
    examples = members(visit.state(), 7)[:3]
    by = visit.do("split_by", which=7, images=examples).json()
    assert len({by["cls"][i] for i in examples} - {7}) == 1
    assert 6 not in visit.do("drop", which=6).json()["cls"]


def test_classes_that_are_alike_are_suggested_until_a_person_says_no(visit, monkeypatch):
    monkeypatch.setattr("happycat.app.state.ALIKE", -1)
    other, label = {one["id"]: one["alike"] for one in visit.state()["classes"]}[6]
    assert label == f"c{other}"
    state = visit.do("apart", which=6, other=other).json()
    assert {one["id"]: one["alike"] for one in state["classes"]}[6][0] != other


def test_the_separation_of_a_class_is_computed_when_asked_for_and_kept(visit):
    def shown():
        return {one["id"]: one["separation"] for one in visit.state()["classes"]}

    wanted = {one.id: one.separation for one in visit.editor.summaries()}
    assert shown()[6] is None
    assert visit.get("api/separation/6").json() == pytest.approx(wanted[6])
    visit.do("name", which=7, name="fox")
    assert (shown()[6], shown()[7]) == (pytest.approx(wanted[6]), None)
    visit.do("confirm", images=members(visit.state(), 6)[:2])
    assert shown()[6] is not None
    visit.do("reject", images=members(visit.state(), 6)[:1])
    assert shown()[6] is None
    assert visit.get("api/separation/99").status_code == 400


def test_looking(visit):
    own = members(visit.state(), 6)
    found = visit.get(f"api/candidates/{own[0]}").json()
    assert (found[0]["label"], len(found)) == ("class 6", 5)
    assert visit.get("api/candidates/999").status_code == 400
    ranked = visit.get("api/ranked/6").json()
    assert not set(ranked) & set(own)
    assert visit.get("api/ranked/99").status_code == 400
    questions = visit.get("api/questions").json()
    first = questions[0]["key"]
    assert visit.do("answer", key=first, yes="yes").status_code == 400
    assert visit.do("answer", key="made up", yes=True).status_code == 400
    assert visit.do("answer", key=first, yes=True).json()["version"] == 3
    assert first not in [one["key"] for one in visit.get("api/questions").json()]


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("move", {"images": [], "to": 6}),
        ("move", {"images": [-1], "to": 6}),
        ("move", {"images": [56], "to": 6}),
        ("move", {"images": [True], "to": 6}),
        ("move", {"images": ["../x"], "to": 6}),
        ("move", {"images": [0], "to": "c0"}),
        ("move", {"images": [0], "to": 99}),
        ("move", {"images": [0]}),
        ("move", {"images": "0", "to": 6}),
        ("name", {"which": 6, "name": " "}),
        ("name", {"which": 6, "name": {"a": 1}}),
        ("name", {"which": 6, "name": "c0"}),
        ("name", {"which": 6, "name": "x" * 10_000}),
        ("merge", {"which": 6, "other": 6}),
        ("go_to", {"number": 99}),
        ("redo", {}),
        ("__init__", {}),
    ],
)
def test_a_mistake_is_one_line_and_no_version(visit, verb, values):
    answer = visit.do(verb, **values)
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]
    assert visit.editor.version == 2


def test_splitting_off_all_images_of_a_class_is_a_mistake(visit):
    assert visit.do("split_by", which=6, images=members(visit.state(), 6)).status_code == 400


def test_a_tab_that_is_behind_is_told(visit):
    old = visit.state()["tag"]
    visit.do("name", which=6, name="fox")
    answer = visit.post("api/do/confirm", {"tag": old, "images": [0]})
    assert (answer.status_code, answer.json()["stale"]) == (409, True)
    assert visit.editor.version == 3
    assert visit.get("api/pulse").json()["tag"] != old


@pytest.mark.parametrize("body", [b"[1]", b"{", b"\xff", b"null", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(visit, body):
    answer = visit.client.post(f"/{TOKEN}/api/do/undo", content=body, headers=ORIGIN)
    assert answer.status_code == 400


def test_a_huge_body_is_refused(visit):
    content = b'{"tag": "' + b"x" * routes.BODY + b'"}'
    answer = visit.client.post(f"/{TOKEN}/api/do/undo", content=content, headers=ORIGIN)
    assert (answer.status_code, "MB" in answer.json()["error"]) == (400, True)


def test_markup_in_names_is_text(visit):
    name = "</script><img src=x onerror=alert(1)>"
    state = visit.do("name", which=6, name=name)
    assert state.headers["content-type"] == "application/json"
    assert name in [one["label"] for one in json.loads(state.text)["classes"]]


def test_paths_that_are_no_text(visit):
    keys = ("a\udcff.png", *visit.editor.review.keys[1:])
    object.__setattr__(visit.editor.review, "keys", keys)
    number = visit.state()["review"]["id"]
    assert visit.get(f"api/images/{number}").json()["path"][0] == "a\udcff.png"
    assert visit.get(f"thumb/{number}/0").status_code == 404


# Discovering


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

    visit.discoveries._discover = discover
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

    visit.discoveries._discover = discover
    visit.post("api/discover", {"path": str(tmp_path)})
    until(lambda: visit.get("api/pulse").json()["discovery"]["state"] == "failed")
    assert visit.get("api/pulse").json()["discovery"]["error"].startswith(message)


@pytest.mark.parametrize(
    "values", [{}, {"path": ""}, {"path": "/nowhere/at/all"}, {"path": "a\0b"}, {"path": 3}, {"path": ".", "new": "x"}]
)
def test_an_inbox_that_cannot_be_is_refused(visit, values):
    assert visit.post("api/discover", values).status_code == 400


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
