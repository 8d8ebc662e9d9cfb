"""Proposals in the app: looked at without a change, accepted whole or in part, refused."""

from __future__ import annotations

import pytest

from tests.app.shop import discover
from tests.app.test_discovering import until


@pytest.fixture
def folder(model):
    """A proposal beside the model, as the command makes one: two new classes."""
    return discover(model, model.parent / "more", [0, 22, 23], propose=True)


def proposal(visit, verb, folder, **more):
    return visit.post(f"api/proposal/{verb}", {"folder": str(folder), **more})


def test_a_proposal_is_looked_at_and_nothing_changes(folder, visit):
    before = visit.state()
    content = visit.editor.path.read_bytes()
    (listed,) = visit.get("api/proposals").json()
    assert (listed["folder"], listed["new"], listed["total"]) == (str(folder), 2, 42)
    shown = proposal(visit, "look", folder).json()
    assert [one["id"] for one in shown["classes"] if one["kind"] == "new"] == [8, 9]
    assert (len(shown["cls"]), len(shown["images"]["path"]), shown["fits"]) == (42, 42, True)
    number = shown["images"]["id"]
    assert visit.get(f"thumb/{number}/0").status_code == 200
    assert visit.get(f"thumb/{before['review']['id']}/0").status_code == 200
    assert visit.state() == before
    assert visit.editor.path.read_bytes() == content


@pytest.mark.parametrize(("only", "taken"), [(None, {8, 9}), ([9], {9})])
def test_a_proposal_is_accepted_whole_or_in_part(folder, visit, only, taken):
    state = proposal(visit, "accept", folder, only=only).json()
    assert (state["version"], {one["id"] for one in state["classes"] if one["kind"] == "new"}) == (3, taken)
    assert visit.get("api/proposals").json() == []
    assert visit.done("undo")["version"] == 2


def test_a_proposal_is_refused(folder, visit):
    assert proposal(visit, "refuse", folder).status_code == 200
    assert visit.get("api/proposals").json() == []
    assert visit.state()["version"] == 2
    assert (folder / "review.safetensors").is_file()  # the folder is the person's


def test_a_proposal_for_an_earlier_version_is_only_looked_at(folder, visit):
    visit.done("name", which=6, name="fox")
    assert visit.get("api/proposals").json() == []
    assert proposal(visit, "look", folder).json()["fits"] is False
    answer = proposal(visit, "accept", folder)
    assert (answer.status_code, "was changed since" in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize("values", [{}, {"folder": ""}, {"folder": 3}, {"folder": "/nowhere"}, {"folder": "a\0b"}])
@pytest.mark.parametrize("verb", ["look", "accept", "refuse", "other"])
def test_what_is_no_proposal_is_one_line(still, verb, values):
    answer = still.post(f"api/proposal/{verb}", values)
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize("only", [[], "8", [0], [99], ["8"]])
def test_classes_that_are_not_new_ones_of_it_are_refused(folder, visit, only):
    assert proposal(visit, "accept", folder, only=only).status_code == 400
    assert visit.state()["version"] == 2


def test_a_discovery_can_be_proposed(visit, tmp_path):
    (tmp_path / "more").mkdir()

    def propose(inbox, number, progress):
        return discover(visit.editor.path, inbox, [0, 22, 23], number, propose=True)

    visit.discoveries.work.propose = propose
    visit.post("api/discover", {"path": str(tmp_path / "more"), "new": 2, "propose": True})
    until(lambda: visit.get("api/pulse").json()["discovery"]["state"] == "done")
    job = visit.get("api/pulse").json()["discovery"]
    assert (job["what"], job["result"]) == ("proposal", str(tmp_path / "shop-3"))
    assert (visit.state()["version"], len(visit.get("api/proposals").json())) == (2, 1)
