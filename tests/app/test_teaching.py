"""Teaching in the app: a labelled folder, dropped files of a class, and the question whether two are the same."""

from __future__ import annotations

import pytest

from happycat import Happycat
from happycat.app.discovering import Lesson
from happycat.base.progress import SILENT
from happycat.cli.app import teach_next
from happycat.model.editor import Editor
from tests.app.test_discovering import drop, png, until
from tests.helpers.vectors import clouds


def ended(visit):
    until(lambda: visit.get("api/pulse").json()["discovery"]["state"] not in ("running", "cancelling"))
    return visit.get("api/pulse").json()["discovery"]


@pytest.fixture
def lessons(visit):
    got = []
    visit.discoveries.work.teach = lambda lesson, ask, progress: got.append(lesson) or "3 images learned."
    return got


def test_a_labelled_folder_is_taught(visit, lessons, tmp_path):
    assert visit.post("api/teach", {"path": str(tmp_path / "inbox")}).status_code == 200
    job = ended(visit)
    assert (job["what"], job["state"], job["message"]) == ("lesson", "done", "3 images learned.")
    assert lessons == [Lesson(tmp_path / "inbox")]


@pytest.mark.parametrize("values", [{"name": " fox "}, {"to": 6}])
def test_dropped_files_of_a_class_are_taught_and_their_copies_go(visit, lessons, tmp_path, values):
    folder = tmp_path / "shop-taught-1"
    assert visit.post("api/inbox", {"teach": True}).json() == {"path": str(folder)}
    drop(visit, "a.png", png())
    drop(visit, "b.png", png())
    visit.post("api/teach", values)
    ended(visit)
    files = [folder / "a.png", folder / "b.png"]
    assert lessons == [Lesson(files, "fox" if "name" in values else None, values.get("to"))]
    assert not folder.exists()


@pytest.mark.parametrize(
    "values", [{}, {"name": " "}, {"to": "6"}, {"path": ""}, {"path": "/nowhere"}, {"name": "fox"}]
)
def test_what_cannot_be_taught_is_one_line(visit, values):
    visit.post("api/inbox", {"teach": True})  # empty
    answer = visit.post("api/teach", values)
    assert (answer.status_code, "\n" in answer.json()["error"]) == (400, False)


@pytest.mark.parametrize("yes", [True, False])
def test_the_person_is_asked_on_the_way(visit, tmp_path, yes):
    heard = []
    visit.discoveries.work.teach = lambda lesson, ask, progress: heard.append(ask("Are they the same?"))
    assert visit.post("api/answer", {"yes": yes}).status_code == 400  # nothing is asked
    visit.post("api/teach", {"path": str(tmp_path)})
    until(lambda: visit.get("api/pulse").json()["discovery"]["question"] == "Are they the same?")
    assert visit.post("api/answer", {"yes": "yes"}).status_code == 400
    assert visit.post("api/answer", {"yes": yes}).status_code == 200
    assert (ended(visit)["state"], heard) == ("done", [yes])


def test_a_question_can_be_cancelled(visit, tmp_path):
    visit.discoveries.work.teach = lambda lesson, ask, progress: ask("Are they the same?")
    visit.post("api/teach", {"path": str(tmp_path)})
    until(lambda: visit.get("api/pulse").json()["discovery"]["question"])
    visit.post("api/cancel")
    job = ended(visit)
    assert (job["state"], job["question"]) == ("cancelled", None)


# What the command gives the app to do; vectors stand for the files


@pytest.fixture
def seen(monkeypatch):
    """Files are read as vectors of class 20, which the model has discovered."""

    def instead(verb):
        own = getattr(Happycat, verb)
        return lambda cat, files, *more, **named: own(cat, clouds([20], len(files), seed=9)[0], *more, **named)

    for verb in ("teach", "move"):
        monkeypatch.setattr(Happycat, verb, instead(verb))


@pytest.mark.parametrize("same", [True, False])
def test_a_discovered_class_that_looks_the_same_is_asked_about(model, seen, same):
    asked = []
    files = [model.parent / f"{i}.png" for i in range(4)]

    def ask(question):
        asked.append(question)
        return same

    said = teach_next(model, Lesson(files, name="fox"), ask, SILENT, {})
    editor = Editor(model)
    (fox,) = [entry for entry in editor.registry if entry.name == "fox"]
    twin = fox.id in (6, 7)
    assert (twin, len(asked)) == (same, 1)
    assert asked[0].endswith("which was discovered. Are they the same?")
    assert said == f"4 images learned; {'discovered and named now' if same else 'new'}: fox."
    assert editor.history[-1]["what"] == "teach 4 images of fox"
    assert editor.history[-1]["images"] == 4


def test_files_dropped_onto_a_class_without_a_name_are_of_it(model, seen):
    files = [model.parent / f"{i}.png" for i in range(3)]
    assert teach_next(model, Lesson(files, to=6), None, SILENT, {}) == "3 images learned; more images of class 6."
    assert Editor(model).history[-1]["what"] == "teach 3 images of class 6"
