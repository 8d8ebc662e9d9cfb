"""The app by keyboard and screen reader, in a real browser: the focus is kept, actions are read out; virtual cards."""

from __future__ import annotations

import pytest

IN_CARD = "document.activeElement.matches('.card[data-drop=\"6\"] .thumb')"
FOCUSED = "document.activeElement.dataset.dot ?? document.activeElement.textContent"


@pytest.fixture
def thumb(person):
    """The number of the first picture of class 6, which has the focus."""
    person.run("document.querySelector(arguments[0]).focus()", f"{person.card(6)} .thumb")
    return person.run(FOCUSED)


def test_the_focus_stays_on_a_picture_whose_card_is_drawn_anew(person, thumb):
    person.run("document.querySelector(arguments[0]).classList.add('before')", person.card(6))
    person.app.editor.confirm([int(thumb)])  # elsewhere
    person.look_again()
    person.until(lambda: "1 checked" in person.text(f"{person.card(6)} .head"))
    assert not person.all(".before")
    assert person.run(IN_CARD)  # a confirmed picture may not be shown any more: the one in its place has the focus


def test_the_focus_comes_back_from_the_bar_of_selected_pictures(person, thumb):
    person.press(" ")
    person.run("document.querySelector('#actions [data-key=c]').focus()")
    person.press("\ue007")  # Enter
    person.version(3)
    person.until(lambda: not person.shown("#actions"))
    assert person.run(IN_CARD)


def test_a_large_picture_is_read_out_and_gives_the_focus_back(person, thumb):
    from selenium.webdriver.common.keys import Keys

    person.press(Keys.ENTER)
    person.until(lambda: person.all("#picture .candidates button"))
    assert person.text("#picture [role=status]").startswith("1 of 12: class 6, ")
    person.run("[...document.querySelectorAll('#picture button')].find((one) => one.textContent === 'Next').focus()")
    person.press(Keys.ENTER)
    person.until(lambda: person.text("#picture [role=status]").startswith("2 of 12"))
    assert person.run(FOCUSED) == "Next"
    person.press("c")
    person.version(3)
    person.until(lambda: person.text("#picture #toasts") == "Confirmed")  # within the dialog: it can be read out
    person.press(Keys.ESCAPE)
    person.until(lambda: person.run("document.querySelector('#toasts').parentElement === document.body"))
    assert person.run(IN_CARD)


def test_dialogs_are_called_by_what_they_ask(person, thumb):
    from selenium.webdriver.common.keys import Keys

    person.press(" ", "n")
    person.until(lambda: person.shown("#ask"))
    assert person.one("#ask").get_attribute("aria-label") == "A new class of these images"
    person.press(Keys.ESCAPE)
    person.until(lambda: not person.shown("#ask"))
    person.press("m")
    person.until(lambda: person.shown("#chooser"))
    person.press(Keys.ARROW_DOWN)
    assert person.one("#chooser").get_attribute("aria-label") == "Move 1 to"
    pointed = person.one("#chooser input").get_attribute("aria-activedescendant")
    assert person.one(f"#{pointed}").get_attribute("aria-selected") == "true"
    assert person.run("document.querySelector('#chooser li:nth-child(2)').id") == pointed
    person.press(Keys.ESCAPE)
    person.until(lambda: not person.shown("#chooser"))
    assert person.run(FOCUSED) == thumb


def test_the_focus_follows_the_review(person):
    from selenium.webdriver.common.keys import Keys

    person.go("#review")
    person.until(lambda: person.run("document.activeElement.matches('.review-grid .present')"))
    second = person.all(".review-grid .thumb")[1].get_attribute("data-dot")
    person.press(Keys.ARROW_RIGHT, " ")
    person.until(lambda: person.all(".review-grid [aria-selected=false]"))
    assert person.run(FOCUSED) == second
    person.run("[...document.querySelectorAll('.review-keys button')].at(-2).focus()")
    title = person.text("#review h1")
    person.press(Keys.ENTER)
    person.until(lambda: person.text("#review h1") != title)
    assert person.run(FOCUSED) == "N Next class"


def test_review_takes_the_focus_and_a_screen_reader_leaves_the_keys_to_it(person):
    from selenium.webdriver.common.keys import Keys

    person.run("document.querySelector('nav a[href$=review]').focus()")
    person.press(Keys.ENTER)
    person.until(lambda: person.run("document.activeElement.matches('.review-grid .present')"))
    assert person.run("document.activeElement.closest('[role=application]').id") == "review"
    assert person.run("document.activeElement.querySelector('.caption').ariaHidden") == "true"  # its label says it
    person.press("x")
    person.until(lambda: person.all(".review-grid [aria-selected=false]"))
    person.press("e")
    person.press("fox", Keys.ENTER)
    person.until(lambda: "fox" in person.text("#review h1"))
    person.until(lambda: person.run("document.activeElement.matches('.review-grid .present')"))


def test_what_is_gone_leaves_the_focus_to_something_else(person, thumb):
    for gone in (6, 7):
        person.app.editor.drop(gone)  # elsewhere
    person.look_again()
    person.until(lambda: not person.all(person.card(6)))
    assert person.run("document.activeElement !== document.body")


def test_a_problem_is_shown_until_it_is_dismissed(person):
    person.go("#discover")
    person.one("#inbox").send_keys("/nowhere/at/all")
    person.click("#discover-form .main")
    person.until(lambda: person.text("#toasts").startswith("There is no folder or file /nowhere/at/all"))
    person.click("#toasts [aria-label=Dismiss]")
    assert person.text("#toasts") == ""


def test_only_cards_near_the_window_have_their_content(person):
    person.resize(390, 600)  # where a card is higher than the window
    person.until(lambda: person.all("#known-cards .far"))
    assert not person.all("#known-cards .thumb")
    first = "#new-cards .card:first-child"
    height, name = person.one(first).size["height"], person.text(f"{first} h3")
    person.run("scrollTo(0, document.documentElement.scrollHeight)")
    person.until(lambda: person.all("#known-cards .thumb"))
    person.until(lambda: person.all(f"{first}.far"))
    assert not person.all(f"{first} .thumb")
    assert (person.one(first).size["height"], person.text(f"{first} h3")) == (height, name)
    person.run("scrollTo(0, 0)")
    person.until(lambda: person.all(f"{first} .thumb"))
    person.resize()
