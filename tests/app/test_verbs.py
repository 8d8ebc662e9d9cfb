"""The app's state and every verb, as JSON."""

from __future__ import annotations

import pytest

from happycat.app import difference


def test_state_and_images(still):
    state = still.state()
    images = still.get(f"api/images/{state['review']['id']}").json()
    assert len(images["path"]) == len(images["x"]) == len(state["cls"]) == len(state["said"]) == 56
    assert {one["label"] for one in state["classes"]} == {"class 6", "class 7", *(f"c{i}" for i in range(6))}
    assert [one["kind"] for one in state["classes"][:3]] == ["new", "new", "labelled"]
    assert (state["undo"], state["redo"], state["version"]) == (True, False, 2)
    assert "images in 2 new classes, " in state["sentence"]
    assert still.get("api/images/other").status_code == 409
    assert still.get("api/pulse").json() == {"tag": state["tag"], "discovery": None}
    assert "<svg" in still.get("api/number").text


def test_a_model_without_images_is_shown_as_such(visit):
    state = visit.done("undo")
    assert (state["review"], state["classes"], state["cls"]) == (None, [], [])
    assert state["sentence"] == "Nothing was discovered yet."
    assert visit.get("api/number").text == ""
    assert visit.do("confirm", images=[0]).status_code == 400
    assert visit.get("api/candidates/0").status_code == 400
    assert len(visit.done("redo")["cls"]) == 56


def members(state, number):
    return [i for i, c in enumerate(state["cls"]) if c == number]


def test_every_verb_for_images(visit):
    three = members(visit.state(), 6)[:3]
    moved = visit.done("move", images=three, to=7)
    assert [(moved["cls"][i], moved["said"][i]) for i in three] == [(7, 1)] * 3
    assert moved["history"][-1]["images"] == 3
    assert visit.done("undo")["cls"][three[0]] == 6
    assert visit.done("redo")["cls"][three[0]] == 7
    own = members(visit.state(), 6)
    assert visit.done("confirm", images=own[:2])["said"][own[0]] == 1
    ignored = visit.done("ignore", images=own[2:3])
    assert (ignored["said"][own[2]], ignored["cls"][own[2]]) == (2, None)
    assert visit.done("unignore", images=own[2:3])["said"][own[2]] == 0
    assert visit.done("reject", images=own[3:4])["cls"][own[3]] != 6
    made = visit.done("new_class", images=own[4:6], name="owl")
    assert [one["id"] for one in made["classes"] if one["label"] == "owl"] == [made["cls"][own[4]]]
    before = visit.done("go_to", number=2)
    own = members(before, 6)
    done = visit.done("review", images=own[:4], others=own[4:6])
    assert [one["what"] for one in done["history"][-2:]] == ["confirm 4 images", "reject 2 images"]
    assert visit.done("go_to", number=2)["redo"] is True


def test_every_verb_for_classes(visit):
    named = visit.done("name", which=6, name="fox")
    assert {one["id"]: one["name"] for one in named["classes"]}[6] == "fox"
    assert visit.do("apart", which=0, other=6).status_code == 200
    assert visit.do("merge", which=6, other=0).status_code == 400
    merged = visit.done("merge", which=6, other=7)
    assert 7 not in merged["cls"]
    assert visit.done("undo")["cls"].count(7) > 10
    halves = visit.done("split", which=7)
    assert {one["id"] for one in halves["classes"]} > {6, 7, 8}
    visit.do("undo")
    examples = members(visit.state(), 7)[:3]
    by = visit.done("split_by", which=7, images=examples)
    assert len({by["cls"][i] for i in examples} - {7}) == 1
    assert 6 not in visit.done("drop", which=6)["cls"]


def test_classes_that_are_alike_are_suggested_until_a_person_says_no(visit, monkeypatch):
    monkeypatch.setattr("happycat.app.state.ALIKE", -1)
    other, label = {one["id"]: one["alike"] for one in visit.state()["classes"]}[6]
    assert label == f"c{other}"
    state = visit.done("apart", which=6, other=other)
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
    assert visit.done("answer", key=first, yes=True)["version"] == 3
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
def test_a_mistake_is_one_line_and_no_version(still, verb, values):
    answer = still.do(verb, **values)
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]
    assert still.editor.version == 2


def test_splitting_off_all_images_of_a_class_is_a_mistake(still):
    assert still.do("split_by", which=6, images=members(still.state(), 6)).status_code == 400


def test_a_tab_that_is_behind_is_told(visit):
    old = visit.state()["tag"]
    visit.do("name", which=6, name="fox")
    answer = visit.post("api/do/confirm", {"tag": old, "images": [0]})
    assert (answer.status_code, answer.json()["stale"]) == (409, True)
    assert visit.editor.version == 3
    assert visit.get("api/pulse").json()["tag"] != old


def test_an_action_is_answered_with_what_it_changed(visit):
    before = visit.state()
    image = members(before, 6)[0]
    answer = visit.do("move", images=[image], to=7).json()
    after = visit.state()
    assert (answer["since"], answer["tag"], answer["version"]) == (before["tag"], after["tag"], 3)
    changed = {i for i in range(56) if any(before[name][i] != after[name][i] for name in difference.COLUMNS)}
    assert image in changed
    assert set(answer["images"]["places"]) == changed
    assert answer["images"]["cls"] == [after["cls"][i] for i in answer["images"]["places"]]
    assert {one["id"] for one in answer["changed"]} >= {6, 7}
    assert answer["order"] == [one["id"] for one in after["classes"]]
    assert (answer["kept"], answer["history"]) == (2, after["history"][2:])
    undone = visit.do("undo").json()
    assert (undone["kept"], undone["history"], undone["images"]["cls"]) == (3, [], [before["cls"][i] for i in changed])
    named = visit.do("name", which=7, name="fox").json()
    assert (named["images"]["places"], [one["id"] for one in named["changed"]]) == ([], [7])
    assert (named["kept"], len(named["history"])) == (2, 1)
    assert "cls" in visit.do("go_to", number=1).json()  # no images: all is another
