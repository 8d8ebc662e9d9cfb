"""Another number of new classes in the app: its preview, applying it; and classes that are perhaps the same."""

from __future__ import annotations

import pytest

from happycat import Happycat
from happycat.model.editor import Editor
from happycat.model.review import Review
from happycat.model.twins import twins
from tests.app.test_discovering import until
from tests.app.test_teaching import ended
from tests.helpers.vectors import KNOWN, clouds


def preview(visit, number):
    answer = {}

    def known():
        answer.update(visit.get(f"api/number/{number}").json())
        return answer["state"] != "computing"

    until(known)
    return answer


def test_what_another_number_would_change_is_computed_in_the_background(visit):
    first = visit.get("api/number/1").json()
    assert first["state"] == "computing"
    one = preview(visit, 1)
    assert (one["now"], one["kept"]) == (2, 0)
    assert [change["text"] for change in one["changes"]] == ["class 6 and class 7 become one, of 28 images"]
    assert preview(visit, 2)["changes"] == []
    assert preview(visit, 10_000)["state"] == "failed"
    visit.done("name", which=6, name="fox")
    assert preview(visit, 1)["changes"][0]["classes"] == [7]  # computed anew: fox stays


def test_another_number_is_a_version_that_can_be_undone(visit):
    tag = visit.state()["tag"]
    assert visit.post("api/renumber", {"tag": tag, "number": 3}).status_code == 200
    assert ended(visit)["state"] == "done"
    state = visit.state()
    assert (state["version"], sum(one["kind"] == "new" for one in state["classes"])) == (3, 3)
    assert state["history"][-1]["what"] == "discover again with 3 new classes"
    assert visit.post("api/renumber", {"tag": tag, "number": 3}).status_code == 409  # the tab is behind
    assert sum(one["kind"] == "new" for one in visit.done("undo")["classes"]) == 2


@pytest.mark.parametrize("number", [None, -1, "3", True, 10_001])
def test_a_number_that_cannot_be_is_refused(still, number):
    assert still.post("api/renumber", {"tag": still.state()["tag"], "number": number}).status_code == 400


def test_new_classes_that_are_one_found_twice_are_suggested_until_a_person_says_no():
    X, y = clouds(range(KNOWN))
    cat = Happycat().fit(X, [f"c{label}" for label in y])
    found = cat.discover(clouds([20, 21, 22, 23, 24], 30, seed=4)[0], 6)  # one more than there are
    review = Review.of(found, cat.stage_)
    given = [row.id for row in found.assigned]
    parts = [{one for one in given[k : k + 30] if given[k : k + 30].count(one) > 4} for k in range(0, 150, 30)]
    ((one, two),) = [sorted(part) for part in parts if len(part) == 2]
    assert twins(cat, review) == {one: two, two: one}
    cat.hold_apart(one, two)
    assert twins(cat, review) == {}


def test_twins_are_asked_for_by_the_page(visit, monkeypatch):
    assert visit.get("api/twins").json() == {}
    monkeypatch.setattr(Editor, "twins", lambda editor: {6: 7, 7: 6})
    assert visit.get("api/twins").json() == {"6": 7, "7": 6}
    monkeypatch.undo()
    visit.done("undo")
    assert visit.get("api/twins").json() == {}
