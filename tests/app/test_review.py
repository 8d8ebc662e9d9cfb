"""The app's review by keys alone, and discoveries, in a real browser."""

from __future__ import annotations

import threading

from tests.app.shop import discover


def test_review_by_keys_alone(person):
    from selenium.webdriver.common.keys import Keys

    person.go("#review")
    person.until(lambda: person.shown(".review-grid .thumb"))
    shown = [int(thumb.get_attribute("data-dot")) for thumb in person.all(".review-grid .thumb")]
    number = person.app.editor.assigned()[shown[0]].id
    person.press(Keys.ARROW_RIGHT, "x")
    person.until(lambda: len(person.all(".review-grid [aria-selected=false]")) == 1)
    person.press(Keys.ENTER)
    person.version(4)
    rows = person.app.editor.assigned()
    assert rows[shown[1]].id != number
    assert all(rows[i].said == "confirmed" for i in (shown[0], *shown[2:]))
    person.until(lambda: f"checked {len(shown) - 1} of 56" in person.text("#checked"))
    person.press("z")
    person.until(lambda: person.app.editor.version == 2)

    person.until(lambda: len(person.all(".review-grid .thumb")) == len(shown))
    person.press("e")
    person.until(lambda: person.run("document.activeElement.id") == "review-name")
    person.press("fox", Keys.ENTER)
    person.until(lambda: "fox" in person.text("#review h1"))
    person.press("g")
    person.until(lambda: "Are all of these fox?" in person.text("#review h1"))
    person.until(lambda: "Page 1 of" in person.text("#review .note"))  # before, there is nothing to answer
    person.press("n")
    person.until(lambda: "to check" in person.text("#review .note"))
    person.press("A")
    person.until(lambda: sum(row.said == "confirmed" for row in person.app.editor.assigned()) == len(shown))


def test_a_class_grows_by_bisecting_its_candidates(person):
    person.go("#review")
    person.until(lambda: person.shown(".review-grid .thumb"))
    number = person.app.editor.assigned()[int(person.one(".review-grid .thumb").get_attribute("data-dot"))].id
    ranked = person.app.editor.ranked(number)
    assert 24 < len(ranked) <= 48  # two pages
    person.press("g")
    person.until(lambda: "Page 1 of 2" in person.text("#review .note"))
    person.press("x", "y")
    person.until(lambda: "Page 2 of 2" in person.text("#review .note"))
    person.press("n")
    person.until(lambda: person.app.editor.version == 3)
    rows = person.app.editor.assigned()
    assert [i for i, row in enumerate(rows) if row.said == "confirmed"] == sorted(ranked[1:24])
    assert all(rows[i].id == number for i in ranked[1:24])


def test_review_goes_on_with_unsure_images_and_questions(person):
    person.go("#review")
    for _ in range(12):
        title = person.text("#review h1")
        if title == "Which class is it?":
            break
        person.press("A")
        person.until(lambda title=title: person.text("#review h1") != title)
    person.until(lambda: person.all("#review .candidates button"))
    left = sum(not row.said for row in person.app.editor.assigned())
    person.press("1")
    person.until(lambda: sum(not row.said for row in person.app.editor.assigned()) == left - 1)
    for _ in range(left):
        person.press("i")
    person.until(lambda: person.text("#review h1") not in ("Which class is it?", "Questions"))
    if "Done" not in person.text("#review") and person.all(".question"):
        version = person.app.editor.version
        person.press("n")
        person.until(lambda: person.app.editor.version > version)


def test_a_discovery_shows_its_progress_and_is_cancelled_or_done(person):
    go = threading.Event()

    def work(inbox, number, progress):
        advance = progress.step("extracting features", 40)
        while not go.wait(0.02):
            advance(1)
        discover(person.app.editor.path, inbox, [0, 22, 23], number)

    person.app.discoveries.work.discover = work
    inbox = person.app.editor.path.parent / "more"
    inbox.mkdir()
    person.go("#discover")
    person.one("#inbox").send_keys(str(inbox))
    person.one("#number").send_keys("2")
    person.click("#discover-form .main")
    person.until(lambda: "of 40" in person.text("#job"))
    assert "Extracting features" in person.text("#job")
    person.browser.refresh()  # in the middle
    person.until(lambda: person.shown("#job-cancel"))
    person.click("#job-cancel")
    person.until(lambda: "the model is as it was" in person.text("#toasts"))
    assert person.app.editor.version == 2

    for field, value in (("#inbox", str(inbox)), ("#number", "2")):
        person.one(field).clear()
        person.one(field).send_keys(value)
    person.click("#discover-form .main")
    person.until(lambda: person.shown("#job"))
    go.set()
    person.until(lambda: "#classes" in person.browser.current_url)
    person.until(lambda: {"8", "9"} <= {card.get_attribute("data-drop") for card in person.all("#new-cards .card")})
    assert "42" in person.one(".figures").text


def test_dropped_files_become_an_inbox(person, tmp_path):
    folder = person.app.editor.path.parent
    got = []
    person.app.discoveries.work.discover = lambda inbox, number, progress: got.append(inbox)
    (tmp_path / "text.png").write_text("no image")
    pictures = sorted((folder / "inbox").glob("*.png"))[:3]
    person.go("#discover")
    person.one("#files").send_keys("\n".join(map(str, (*pictures, tmp_path / "text.png"))))
    person.until(lambda: got == [folder / "shop-inbox-1"])
    assert sorted(path.name for path in got[0].iterdir()) == [path.name for path in pictures]
    assert "text.png: not an image" in person.one("#uploaded").text


def test_what_is_still_looked_for_can_be_left(person, monkeypatch):
    from selenium.webdriver.common.keys import Keys

    go, ranked = threading.Event(), type(person.app.editor).ranked
    monkeypatch.setattr(type(person.app.editor), "ranked", lambda *values: go.wait(60) and ranked(*values))
    person.go("#review")
    person.until(lambda: person.shown(".review-grid .thumb"))
    title = person.text("#review h1")
    person.press("g")
    person.until(lambda: "Looking for candidates" in person.text("#review .note"))
    person.press(Keys.ESCAPE)
    person.until(lambda: person.text("#review h1") == title)
    go.set()
    came = "performance.getEntriesByType('resource').some((one) => one.name.includes('api/ranked'))"
    person.until(lambda: person.run(came))
    assert "to check" in person.text("#review .note")  # they came, and did not take its place
