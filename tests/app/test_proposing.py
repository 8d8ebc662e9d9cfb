"""Proposals, another number of classes, teaching and drafts of names, in a real browser."""

from __future__ import annotations

from tests.app.shop import discover

# Drop a file onto an element, as the browser does when a person drags it from her desktop
DROP = """(async (selector, name) => {
  const data = new DataTransfer();
  const picture = await (await fetch(document.querySelector('.thumb img').src)).blob();
  data.items.add(new File([picture], name, {type: 'image/jpeg'}));
  const target = document.querySelector(selector);
  for (const kind of ['dragover', 'drop']) {
    target.dispatchEvent(new DragEvent(kind, {dataTransfer: data, bubbles: true, cancelable: true}));
  }
})(arguments[0], arguments[1])"""

COMPARED = """(async () => {
  const {Store} = await import(new URL('static/store.js', document.baseURI));
  const store = new Store();
  await store.load();
  const plain = (state) => JSON.stringify(Object.entries(state).sort());
  for (const [verb, values] of arguments[0]) {
    await store.act(verb, values);
    const whole = await (await fetch('api/state')).json();
    if (plain(store.state) !== plain(whole)) return verb;
  }
  return 'all the same';
})()"""


def test_a_proposal_is_looked_at_and_accepted_in_part(person):
    discover(person.app.editor.path, person.app.editor.path.parent / "more", [0, 22, 23], propose=True)
    person.go("#discover")
    person.until(lambda: "2 new classes in 42 images" in person.text("#proposal-list"))
    person.click("#proposal-list button")
    person.until(lambda: len(person.shown("#proposal-cards .card")) == 2)
    assert "Nothing in the model has changed" in person.text("#view-proposal")
    person.until(lambda: person.run("document.querySelector('#proposal-cards img').naturalWidth") == 160)
    person.click("#take-8")
    assert person.text("#proposal-accept") == "Accept 1 of 2"
    assert person.app.editor.version == 2
    person.click("#proposal-accept")
    person.until(lambda: person.shown(person.card(9)))
    assert person.app.editor.version == 3
    assert not person.all(person.card(8))
    assert not person.shown("#proposal-tab")


def test_a_discovery_is_proposed_and_refused(person):
    inbox = person.app.editor.path.parent / "more"
    inbox.mkdir()

    def propose(inbox, number, progress):
        return discover(person.app.editor.path, inbox, [0, 22, 23], number, propose=True)

    person.app.discoveries.work.propose = propose
    person.go("#discover")
    person.one("#inbox").send_keys(str(inbox))
    person.one("#number").send_keys("2")
    person.click("#propose")
    person.click("#discover-form .main")
    person.until(lambda: len(person.shown("#proposal-cards .card")) == 2)
    person.click("#proposal-refuse")
    person.until(lambda: person.shown("#ask"))
    person.click("#ask .main")
    person.until(lambda: "the model is as it was" in person.text("#toasts"))
    assert person.app.editor.version == 2
    assert not person.shown("#proposals")


def test_the_slider_shows_what_would_change_and_changes_it(person):
    person.go("#discover")
    slide = "(() => { const s = document.querySelector('#slider'); s.value = arguments[0]; s.oninput(); })()"
    assert person.text("#again-note") == "As many as now."
    person.browser.execute_script(slide.replace("arguments[0]", "1"))
    person.until(lambda: "class 6 and class 7 become one" in person.text("#again-changes").lower())
    assert "Computed with the discovery's own search" in person.text("#again-note")
    assert len(person.all("#again-changes img")) == 6
    person.click("#again-start")
    person.until(lambda: person.shown("#ask"))
    person.click("#ask .main")
    person.until(lambda: person.shown(person.card(8)))
    assert person.app.editor.history[-1]["what"] == "discover again with 1 new class"
    person.click("#undo")
    person.until(lambda: person.all(person.card(7)))


def test_a_typed_name_is_not_lost(person):
    person.click(f"{person.card(6)} .name")
    person.press("re")
    person.app.editor.confirm(person.given(6)[:2])  # elsewhere: the card is drawn anew
    person.look_again()
    person.until(lambda: "2 checked" in person.text(f"{person.card(6)} .head"))
    person.press("d fox")
    person.browser.refresh()
    person.until(lambda: person.run("document.querySelector('#name-6')?.value") == "red fox")
    assert person.app.editor.version == 3  # nothing was named
    person.click(f"{person.card(6)} .name")
    person.press("\ue007")
    person.until(lambda: person.text(f"{person.card(6)} h3") == "red fox")
    person.click("#undo")
    person.until(lambda: person.run("document.querySelector('#name-6')?.value") == "")


def test_files_are_taught_by_dropping_them_onto_a_card(person):
    lessons = []

    def teach(lesson, ask, progress):
        lessons.append((lesson, ask("2 images of fox are in class 6. Are they the same?")))
        return "1 image learned."

    person.app.discoveries.work.teach = teach
    person.run(DROP, person.card(6), "a.jpg")
    person.until(lambda: "Is this image of class 6?" in person.text("#ask"))
    person.click("#ask .main")
    person.until(lambda: "Are they the same?" in person.text("#ask"))
    person.click("#ask .row button")  # no
    person.until(lambda: "1 image learned." in person.text("#toasts"))
    ((lesson, same),) = lessons
    assert (lesson.to, [path.name for path in lesson.source], same) == (6, ["a.jpg"], False)

    person.run("location.hash = '#teach'")
    person.until(lambda: person.shown("#taught-name"))
    person.one("#taught-name").send_keys("owl")
    picture = sorted((person.app.editor.path.parent / "inbox").glob("*.png"))[0]
    person.one("#taught-files").send_keys(str(picture))
    person.click("#teach-files .main")
    person.until(lambda: person.shown("#ask"))
    person.click("#ask .main")
    person.until(lambda: len(lessons) == 2)
    assert (lessons[1][0].name, lessons[1][1]) == ("owl", True)


def test_classes_that_are_perhaps_the_same_are_merged(person, monkeypatch):
    monkeypatch.setattr("happycat.model.editor.Editor.twins", lambda editor: {6: 7} if editor.version == 2 else {})
    person.open()
    person.until(lambda: "Perhaps the same as class 7?" in person.text(f"{person.card(6)} .suggestion"))
    person.click(f"{person.card(6)} .suggestion button")
    person.until(lambda: not person.all(person.card(6)))


def test_a_tab_that_takes_differences_shows_the_whole_state(person):
    own, other = person.given(6), person.given(7)
    acts = [("name", {"which": 6, "name": "fox"}), ("move", {"images": own[:2], "to": 7}), ("undo", {}), ("undo", {})]
    acts += [("redo", {}), ("merge", {"which": 6, "other": 7}), ("undo", {}), ("confirm", {"images": other[:3]})]
    acts += [("go_to", {"number": 1}), ("go_to", {"number": 4}), ("drop", {"which": 6})]
    assert person.run(COMPARED, acts) == "all the same"
