"""The app's server: who may ask, what is served, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from happycat.app import routes
from happycat.app.guard import new_token
from happycat.app.pictures import Thumbnails
from happycat.model.editor import Editor
from tests.app.visits import HOST, ORIGIN, TOKEN

ROOT = Path(__file__).parents[2]


def test_the_page_and_its_scripts_are_served_with_a_strict_policy(still):
    page = still.get("")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "<script>" not in page.text
    assert "style=" not in page.text
    assert "http" not in page.text
    for name, kind in (("app.js", "javascript"), ("map.js", "javascript"), ("page.css", "css")):
        got = still.get(f"static/{name}")
        assert (got.status_code, kind in got.headers["content-type"]) == (200, True), name


def test_no_script_asks_another_computer(still):
    for name, read in routes._static_files().items():
        text = read().decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text, name
        assert "https://" not in text, name
        assert "innerHTML" not in text, name


@pytest.mark.parametrize("token", ["", "S3CRET", "s3cre", "s3cret2", "é"])
def test_without_the_token_there_is_nothing(still, token):
    for path in ("", "api/state", "thumb/x/0", "static/app.js"):
        assert still.client.get(f"/{token}/{path}").status_code == 404
    assert still.client.get("/").status_code == 404
    assert still.client.get(f"/{TOKEN}").status_code == 404


def test_tokens_are_long_and_differ():
    assert len({new_token() for _ in range(50)}) == 50
    assert len(new_token()) >= 32


@pytest.mark.parametrize("host", ["evil.example:8123", "127.0.0.1", "127.0.0.1:80", "[::1]:8123", ""])
def test_another_host_is_refused(still, host):
    assert still.get("api/state", headers={"host": host}).status_code == 421


def test_localhost_is_this_computer(still):
    assert still.get("api/state", headers={"host": "localhost:8123"}).status_code == 200


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
@pytest.mark.parametrize(
    "path",
    [
        "api/do/undo",
        "api/discover",
        "api/cancel",
        "api/inbox",
        "api/inbox/file",
        "api/teach",
        "api/renumber",
        "api/answer",
        "api/proposal/accept",
    ],
)
def test_another_origin_changes_nothing(still, headers, path):
    before = sorted(still.editor.path.parent.iterdir())
    answer = still.client.post(f"/{TOKEN}/{path}", content="{}", headers=headers)
    assert answer.status_code == 403
    assert still.editor.version == 2
    assert sorted(still.editor.path.parent.iterdir()) == before


def test_changes_are_not_made_by_get(still):
    for path in (
        "api/do/undo",
        "api/discover",
        "api/cancel",
        "api/inbox",
        "api/teach",
        "api/renumber",
        "api/proposal/accept",
    ):
        assert still.get(path).status_code == 405


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
def test_no_other_file_is_served(still, path):
    number = still.state()["review"]["id"]
    assert still.get(path.format(id=number)).status_code == 404


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


def test_pictures(still):
    number = still.state()["review"]["id"]
    small = still.get(f"thumb/{number}/3")
    assert Image.open(BytesIO(small.content)).size == (160, 160)
    assert "immutable" in small.headers["cache-control"]
    whole = still.get(f"image/{number}/3")
    assert whole.headers["content-type"] == "image/png"
    assert Image.open(BytesIO(whole.content)).size == (48, 48)


@pytest.fixture
def made(monkeypatch):
    """The names of the files that thumbnails were made of."""
    names = []
    content = b"x" * 8 + b"\xff\xd9"
    monkeypatch.setattr("happycat.app.pictures.thumbnail", lambda path: names.append(path.name) or content)
    return names


def test_thumbnails_are_made_once_and_the_oldest_go(made, tmp_path):
    thumbnails = Thumbnails(memory=25)
    for name in "abbaca":
        thumbnails.of(tmp_path / name)
    assert made == ["a", "b", "c"]
    thumbnails.of(tmp_path / "b")
    assert made == ["a", "b", "c", "b"]


def test_thumbnails_are_kept_in_the_folder_of_the_discovery(made, tmp_path):
    folder, image = tmp_path / "shop-2", tmp_path / "a.png"
    folder.mkdir()
    image.write_bytes(b"1")
    for _ in range(2):
        assert Thumbnails().of(image, folder).endswith(b"\xff\xd9")  # as after another start
    assert made == ["a.png"]
    image.write_bytes(b"22")  # another file takes its place
    Thumbnails().of(image, folder)
    (stored,) = (folder / "thumbnails").glob("*/*")
    assert made == ["a.png"] * 2
    for damaged in (b"half", bytes([stored.read_bytes()[0] ^ 1]) + stored.read_bytes()[1:]):
        stored.write_bytes(damaged)  # what is not as it was written is not shown
        Thumbnails().of(image, folder)
    assert made == ["a.png"] * 4
    shutil.rmtree(folder)
    Thumbnails().of(image, folder)
    assert not folder.exists()  # the person deleted it


def test_stored_thumbnails_are_bounded(made, tmp_path):
    for name in "abc":
        (tmp_path / name).touch()
        Thumbnails(disk=100).of(tmp_path / name, tmp_path)
    assert len(list((tmp_path / "thumbnails").glob("*/*"))) == 2


@pytest.mark.parametrize("body", [b"[1]", b"{", b"\xff", b"null", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(still, body):
    answer = still.client.post(f"/{TOKEN}/api/do/undo", content=body, headers=ORIGIN)
    assert answer.status_code == 400


def test_a_huge_body_is_refused(still):
    content = b'{"tag": "' + b"x" * routes.BODY + b'"}'
    answer = still.client.post(f"/{TOKEN}/api/do/undo", content=content, headers=ORIGIN)
    assert (answer.status_code, "MB" in answer.json()["error"]) == (400, True)


def test_markup_in_names_is_text(visit):
    name = "</script><img src=x onerror=alert(1)>"
    state = visit.do("name", which=6, name=name)
    assert state.headers["content-type"] == "application/json"
    assert name in [one["label"] for one in json.loads(state.text)["changed"]]


def test_paths_that_are_no_text(visit):
    keys = ("a\udcff.png", *visit.editor.review.keys[1:])
    object.__setattr__(visit.editor.review, "keys", keys)
    number = visit.state()["review"]["id"]
    assert visit.get(f"api/images/{number}").json()["path"][0] == "a\udcff.png"
    assert visit.get(f"thumb/{number}/0").status_code == 404


def test_the_benchmark_of_many_images_makes_a_model_that_the_app_opens(tmp_path):
    spec = importlib.util.spec_from_file_location("app_benchmark", ROOT / "benchmarks" / "app.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    model = benchmark.make_model(tmp_path, images=40, known=3, new=2, features=8, pictures=None)
    assert len(Editor(model).review.keys) == 40
