"""Fuzzing of the app's requests and of proposals: a clear answer, no error of the server, and the model stays whole."""

from __future__ import annotations

import copy
import json
import random
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import strategies as st

from happycat.app.verbs import VERBS
from happycat.base.errors import HappycatError
from happycat.base.text import shown
from happycat.model import file as model_file
from happycat.model.discovering import PROPOSAL, accept
from happycat.model.reading import open_model
from tests.app.conftest import visited
from tests.app.shop import discover, make_shop
from tests.app.visits import ORIGIN, TOKEN
from tests.helpers.damage import ODD_JSON, ODD_TEXT, try_many
from tests.helpers.forgery import change_something, put_together, taken_apart

NUMBERS = [pytest.param(30, id="few"), pytest.param(6_000, id="many", marks=pytest.mark.slow)]
CLEAR = {200, 400, 403, 404, 405, 409}

POSTS = [
    *(f"api/do/{verb}" for verb in [*VERBS, "answer", "x", "%00", "__class__"]),
    *(f"api/proposal/{verb}" for verb in ("look", "accept", "refuse", "x")),
    *("api/discover", "api/teach", "api/renumber", "api/answer", "api/cancel", "api/inbox", "api/inbox/file"),
]
GETS = ["api/candidates", "api/ranked", "api/separation", "api/number", "api/images", "thumb/x", "image/x", "static"]
KEYS = ["which", "other", "images", "others", "to", "name", "number", "folder", "only", "key", "yes", "path", "tag"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    return make_shop(tmp_path_factory.mktemp("shop"))


def assert_clear(answer) -> None:
    assert answer.status_code in CLEAR, f"{answer.status_code}: {answer.text[:500]}"
    if answer.headers.get("content-type") == "application/json" and answer.status_code != 200:
        said = answer.json()["error"]
        assert said.strip()
        assert "\n" not in shown(said)


@pytest.mark.parametrize("number", NUMBERS)
def test_requests(shop, tmp_path, number):
    shutil.copytree(shop.parent, tmp_path, dirs_exist_ok=True)
    model = tmp_path / shop.name
    likely = st.integers(-1, 10) | st.lists(st.integers(-1, 60), max_size=5) | st.sampled_from(["red", "c0"]) | ODD_JSON
    bodies = st.dictionaries(st.sampled_from(KEYS), likely, max_size=4)
    posts = st.tuples(st.sampled_from(POSTS), bodies, st.booleans())
    raw = st.tuples(st.sampled_from(POSTS), st.binary(max_size=30), st.just(False))
    gets = st.tuples(st.sampled_from(GETS), st.integers(-2, 10**20) | ODD_TEXT, st.none())
    with visited(model) as visit:

        def check(request: tuple) -> None:
            path, body, current = request
            if current is None:
                assert_clear(visit.client.get(f"/{TOKEN}/{path}/" + _quoted(body)))
            elif isinstance(body, bytes):
                assert_clear(visit.client.post(f"/{TOKEN}/{path}", content=body, headers=ORIGIN))
            else:
                tag = {"tag": visit.state()["tag"]} if current else {}
                content = _dumped({**body, **tag})
                assert_clear(visit.client.post(f"/{TOKEN}/{path}", content=content, headers=ORIGIN))
            visit.desk.job.cancel(5)

        try_many(posts | raw | gets, check, number)
        assert visit.state()["tag"]
    assert model_file.damaged_versions(model) == []
    assert len(open_model(model).registry)


def _quoted(value: object) -> str:
    return quote(str(value).encode("utf-8", "surrogatepass"), safe="")


def _dumped(values: dict) -> bytes:
    return json.dumps(values).encode()  # with NaN, Infinity and lone surrogates, as Python writes them


@pytest.mark.parametrize("number", [pytest.param(12, id="few"), pytest.param(5_000, id="many", marks=pytest.mark.slow)])
def test_forged_proposals(shop, tmp_path, number):
    """Right checksums, anything else inside: the model is as it was, or has one version more that works."""
    shutil.copytree(shop.parent, tmp_path / "whole", dirs_exist_ok=True)
    model = tmp_path / "whole" / shop.name
    put_together(model, taken_apart(model))  # so that what both have is the same in the forged file
    results = discover(model, tmp_path / "more", [0, 22, 23], propose=True)
    proposal, before = results / PROPOSAL, model.read_bytes()
    content = taken_apart(proposal)
    accepted = 0
    for seed in range(number):
        chance, forged = random.Random(seed), copy.deepcopy(content)
        done = [change_something(forged, chance) for _ in range(chance.choice([1, 1, 2]))]
        model.write_bytes(before)
        try:
            put_together(proposal, forged)
        except (TypeError, ValueError, KeyError, AttributeError):  # what was changed cannot be written at all
            continue
        try:
            _look(model, results)
            accept(model, results)
            accepted += 1
        except HappycatError:
            assert model.read_bytes() == before, f"seed {seed}: {done}"
        except BaseException:
            print(f"seed {seed}: {done}")
            raise
        assert model_file.damaged_versions(model) == []
        assert len(open_model(model).registry), f"seed {seed}: {done}"
    assert 0 < accepted < number


def _look(model: Path, folder: Path) -> None:
    with visited(model) as visit:
        assert_clear(visit.get("api/proposals"))
        assert_clear(visit.post("api/proposal/look", {"folder": str(folder)}))
