"""The app in a real browser: naming, dragging, selecting, undo, history, two tabs, the map."""

from __future__ import annotations

import pytest

HOSTILE = "<img src=x onerror=alert(1)>"


def test_names_are_typed_one_after_another(person):
    from selenium.webdriver.common.keys import Keys

    first, second = (int(card.get_attribute("data-drop")) for card in person.all("#new-cards .card"))
    person.click(f"{person.card(first)} .name")
    person.press(HOSTILE, Keys.ENTER)
    person.until(lambda: person.run("document.activeElement.id") == f"name-{second}")
    person.press("owl", Keys.ENTER)
    person.version(4)
    person.until(lambda: HOSTILE in person.one(f"{person.card(first)} h3").text)
    person.until(lambda: person.one(f"{person.card(second)} h3").text == "owl")
    assert not person.all(".card img[src='x']")
    assert {str(entry.name) for entry in person.app.editor.registry} >= {HOSTILE, "owl"}

    person.click(f"{person.card(second)} .name")  # a name that another class has
    person.chord(Keys.CONTROL, "a")
    person.press("c0", Keys.ENTER)
    person.until(lambda: person.shown("#ask"))
    person.click("#ask .main")
    person.until(lambda: not person.all(person.card(second)))
    assert person.app.editor.history[-1]["what"].startswith("merge")


def test_one_class_is_dragged_onto_another_and_back(person):
    from selenium.webdriver.common.keys import Keys

    before = len(person.given(6)), len(person.given(7))
    source, target = person.one(f"{person.card(7)} .head"), person.one(person.card(6))
    person.run("arguments[0].scrollIntoView({block: 'center'})", source)
    person.hand.click_and_hold(source).move_by_offset(20, 20).perform()
    assert person.shown("#tray li[data-drop='6']")
    person.run("document.querySelector('#tray').hidden = true")
    person.run("arguments[0].scrollIntoView({block: 'center'})", target)
    person.hand.move_to_element(target).release().perform()
    person.until(lambda: "Merge class 7 into class 6?" in person.one("#ask").text)
    person.click("#ask .main")
    person.until(lambda: not person.all(person.card(7)))
    assert len(person.given(6)) == pytest.approx(sum(before), abs=1)
    person.chord(Keys.CONTROL, "z")
    person.until(lambda: person.all(person.card(7)))
    assert (len(person.given(6)), len(person.given(7))) == before
    person.chord(Keys.CONTROL, Keys.SHIFT, "z")
    person.until(lambda: not person.all(person.card(7)))


def test_three_selected_pictures_are_moved(person):
    from selenium.webdriver.common.keys import Keys

    thumbs = person.all(f"{person.card(6)} .thumb")[:3]
    images = [int(thumb.get_attribute("data-dot")) for thumb in thumbs]
    person.click(thumbs[0].find_element("css selector", ".tick"))
    person.hand.key_down(Keys.SHIFT).click(thumbs[2]).key_up(Keys.SHIFT).perform()
    assert person.one("#actions b").text == "3 selected"
    person.press("m")
    person.until(lambda: person.shown("#chooser"))
    person.press("class 7", Keys.ENTER)
    person.version(3)
    assert set(images) <= set(person.given(7))
    person.until(lambda: not person.shown("#actions"))
    person.click("#undo")
    person.until(lambda: person.app.editor.version == 2)
    person.until(lambda: person.one("#redo").is_enabled())
    person.click("#redo")
    person.until(lambda: set(images) <= set(person.given(7)))


def test_pictures_are_dragged_onto_the_tray(person):
    thumbs = person.all(f"{person.card(6)} .thumb")
    image = int(thumbs[1].get_attribute("data-dot"))
    person.run("arguments[0].scrollIntoView({block: 'center'})", thumbs[1])
    person.hand.click_and_hold(thumbs[1]).move_by_offset(30, 30).perform()
    person.hand.move_to_element(person.one("#tray li[data-drop='0']")).release().perform()
    person.version(3)
    assert image in person.given(0)
    assert not person.shown("#picture")


def test_a_rectangle_and_the_keyboard_select(person):
    from selenium.webdriver.common.keys import Keys

    thumbs = person.all(f"{person.card(6)} .thumb")
    person.run("arguments[0].scrollIntoView({block: 'center'})", thumbs[0])
    person.hand.move_to_element_with_offset(thumbs[0], -10, -46).click_and_hold()
    person.hand.move_to_element(thumbs[1]).release().perform()
    assert person.one("#actions b").text == "2 selected"
    person.press(Keys.ESCAPE)
    assert not person.shown("#actions")
    person.run("arguments[0].focus()", thumbs[0])
    person.press(" ", Keys.ARROW_RIGHT, " ")
    assert person.one("#actions b").text == "2 selected"
    person.press("i")
    person.version(3)
    assert sum(row.said == "ignored" for row in person.app.editor.assigned()) == 2


def test_a_picture_is_shown_large_with_its_candidates(person):
    image = int(person.one(f"{person.card(6)} .thumb").get_attribute("data-dot"))
    person.click(f"{person.card(6)} .thumb")
    person.until(lambda: len(person.shown("#picture .candidates button")) == 5)
    assert "class 6" in person.one("#picture .side").text
    person.until(lambda: person.run("document.querySelector('#picture img').naturalWidth") == 48)
    other = person.all("#picture .candidates bdi")[1].text
    person.press("2")
    person.version(3)
    assert str(person.app.editor.assigned()[image].label) == other


def test_reloading_loses_nothing_and_the_history_jumps(person):
    from selenium.webdriver.common.keys import Keys

    person.click(f"{person.card(6)} .name")
    person.press("fox", Keys.ENTER)
    person.version(3)
    person.browser.refresh()
    person.until(lambda: person.one(f"{person.card(6)} h3").text == "fox")
    person.go("#history")
    rows = [row.text for row in person.all("#versions li")]
    assert len(rows) == 3
    assert "name #6 'fox'" in rows[0]
    person.click("#versions li:nth-child(2) button")
    person.until(lambda: person.app.editor.version == 2)
    person.until(lambda: "undone" in person.one("#versions li").get_attribute("class"))
    person.click("#versions li:first-child button")
    person.until(lambda: person.app.editor.version == 3)


def test_two_tabs_agree(person):
    from selenium.webdriver.common.keys import Keys

    first = person.browser.current_window_handle
    person.browser.switch_to.new_window("tab")
    person.open()
    person.click(f"{person.card(6)} .name")
    person.press("fox", Keys.ENTER)
    person.version(3)
    second = person.browser.current_window_handle
    person.browser.switch_to.window(first)
    person.look_again()
    person.until(lambda: person.one(f"{person.card(6)} h3").text == "fox")
    person.browser.switch_to.window(second)
    person.browser.close()
    person.browser.switch_to.window(first)


def test_a_tab_that_is_behind_is_told_and_refreshes(person):
    person.run("clearTimeout(0)")
    person.app.editor.name(6, "fox")  # another process; the tab has not asked yet
    person.click(f"{person.card(7)} .row button:nth-of-type(2)")  # split
    person.until(lambda: person.one(f"{person.card(6)} h3").text == "fox")
    assert person.app.editor.version in (3, 4)


def test_the_lasso_selects_on_the_map(person):
    from selenium.webdriver.common.keys import Keys

    person.go("#map")
    canvas = person.one("#view-map canvas")
    person.until(lambda: canvas.get_attribute("data-zoom") == "1.00")
    size = canvas.size
    x, y = size["width"] // 2 - 4, size["height"] // 2 - 4
    person.hand.move_to_element_with_offset(canvas, -x, -y).key_down(Keys.SHIFT).click_and_hold()
    for across, down in ((x, -y), (x, y), (-x, y), (-x, -y)):
        person.hand.move_to_element_with_offset(canvas, across, down)
    person.hand.release().key_up(Keys.SHIFT).perform()
    person.until(lambda: person.one("#actions b").text == "56 selected")


def test_no_view_is_wider_than_the_window(person):
    for width in (1280, 390):
        person.resize(width)
        for view in ("classes", "review", "map", "unsure", "discover", "teach", "history", "class-6"):
            person.run(f"location.hash = '#{view}'")
            person.until(lambda: person.shown(".view"))
            assert person.run("document.documentElement.scrollWidth") <= width, view
            assert person.mislabelled() == []
            if view == "map":
                assert person.one(".plane").size["width"] > 300  # beside the legend, or above it on a phone
    person.resize()


def test_the_card_in_view_stays_where_it_is_when_pictures_are_moved(person):
    from selenium.webdriver.common.keys import Keys

    thumbs = person.all(f"{person.card(6)} .thumb")[:2]
    person.run("arguments[0].scrollIntoView({block: 'center'})", thumbs[0])
    top = person.run("arguments[0].getBoundingClientRect().top", person.one(person.card(6)))
    for thumb in thumbs:
        person.click(thumb.find_element("css selector", ".tick"))
    person.press("m")
    person.until(lambda: person.shown("#chooser"))
    person.press("c0", Keys.ENTER)
    person.version(3)
    person.until(lambda: not person.shown("#actions"))
    now = person.run("arguments[0].getBoundingClientRect().top", person.one(person.card(6)))
    assert abs(now - top) < 40  # what is above may be a line shorter


def test_views_of_images_say_that_there_are_none(person):
    person.app.editor.go_to(1)  # before the first discovery
    person.look_again()
    person.until(lambda: person.shown("#nothing"))
    for view in ("#/map", "#/review", "#/unsure"):
        person.go(view)
        assert [one.get_attribute("id") for one in person.shown(".view")] == ["view-classes"]
        assert person.shown("#nothing a[href='#discover']")
