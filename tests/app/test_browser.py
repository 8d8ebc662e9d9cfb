"""The app in a real browser: naming, dragging, selecting, undo, review keys, discovering, two tabs."""

from __future__ import annotations

import shutil
import threading
import time

import pytest
import uvicorn

from happycat.app.desk import Desk
from happycat.app.discovering import Discoveries
from happycat.app.routes import make_app
from happycat.app.serving import Server, listening
from happycat.model.editor import Editor
from tests.app.shop import discover

TOKEN = "token"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    flags = "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    for flag in (*flags.split(), "disable-component-update", "disable-sync", "window-size=1280,1000"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=webdriver.ChromeService(driver), options=options)
    yield browser
    browser.quit()


class Running:
    """The app of a model, served by a thread."""

    def __init__(self, model):
        self.editor = Editor(model)
        self.desk = Desk(self.editor)
        self.discoveries = Discoveries(self.desk, lambda inbox, number, progress: None)
        self.socket = listening(0)
        port = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/{TOKEN}/"
        app = make_app(self.desk, self.discoveries, TOKEN, port)
        ready = threading.Event()
        self.server = Server(uvicorn.Config(app, log_level="error", lifespan="off"), ready.set)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()
        assert ready.wait(10)

    def stop(self):
        self.server.force_exit = self.server.should_exit = True
        self.thread.join(10)
        self.desk.job.cancel(10)
        self.socket.close()


class Person:
    """A person at the app."""

    def __init__(self, browser, app):
        from selenium.webdriver import ActionChains

        self.browser, self.app = browser, app
        self.hand = ActionChains(browser, duration=20)

    def open(self, view=""):
        self.browser.get("about:blank")
        self.browser.get(self.app.address + view)
        self.until(lambda: self.run("document.body.classList.contains('ready')"))
        self.run("document.documentElement.style.scrollBehavior = 'auto'")

    def run(self, script, *arguments):
        return self.browser.execute_script(f"return {script}", *arguments)

    def one(self, selector):
        return self.browser.find_element("css selector", selector)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def shown(self, selector):
        return [element for element in self.all(selector) if element.is_displayed()]

    def until(self, true, seconds=15):
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if true():
                    return
            except (NoSuchElementException, StaleElementReferenceException):
                pass  # it is drawn anew
            time.sleep(0.02)
        raise AssertionError("it takes too long")

    def click(self, selector):
        element = self.one(selector) if isinstance(selector, str) else selector
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def chord(self, *keys):
        """Press the keys together."""
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.browser)
        for key in keys:
            chain.key_down(key)
        for key in keys:
            chain.key_up(key)
        chain.perform()

    def version(self, number):
        """Wait until the model is at that version and the page shows it."""
        self.until(lambda: self.app.editor.version == number)
        self.until(lambda: self.run("document.querySelector('#toasts').textContent !== ''"))

    def card(self, number):
        return f".card[data-drop='{number}']"

    def given(self, number):
        return [i for i, row in enumerate(self.app.editor.assigned()) if row.id == number]


@pytest.fixture
def person(browser, model):
    app = Running(model)
    person = Person(browser, app)
    person.open()
    yield person
    person.browser.get("about:blank")
    app.stop()
    assert [entry for entry in browser.get_log("browser") if "status of 40" not in entry["message"]] == []


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


def test_review_by_keys_alone(person):
    from selenium.webdriver.common.keys import Keys

    person.open("#review")
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
    person.until(lambda: f"checked {len(shown) - 1} of 56" in person.one("#checked").text)
    person.press("z")
    person.until(lambda: person.app.editor.version == 2)

    person.until(lambda: len(person.all(".review-grid .thumb")) == len(shown))
    person.press("e")
    person.until(lambda: person.run("document.activeElement.id") == "review-name")
    person.press("fox", Keys.ENTER)
    person.until(lambda: "fox" in person.one("#review h2").text)
    person.press("g")
    person.until(lambda: "Are all of these fox?" in person.one("#review h2").get_attribute("textContent"))
    person.press("n")
    person.until(lambda: "to check" in person.one("#review .note").text)
    person.press("A")
    person.until(lambda: sum(row.said == "confirmed" for row in person.app.editor.assigned()) == len(shown))


def test_a_class_grows_by_bisecting_its_candidates(person):
    person.open("#review")
    person.until(lambda: person.shown(".review-grid .thumb"))
    number = person.app.editor.assigned()[int(person.one(".review-grid .thumb").get_attribute("data-dot"))].id
    ranked = person.app.editor.ranked(number)
    assert 24 < len(ranked) <= 48  # two pages
    person.press("g")
    person.until(lambda: "Page 1 of 2" in person.one("#review .note").text)
    person.press("x", "y")
    person.until(lambda: "Page 2 of 2" in person.one("#review .note").text)
    person.press("n")
    person.until(lambda: person.app.editor.version == 3)
    rows = person.app.editor.assigned()
    assert [i for i, row in enumerate(rows) if row.said == "confirmed"] == sorted(ranked[1:24])
    assert all(rows[i].id == number for i in ranked[1:24])


def test_review_goes_on_with_unsure_images_and_questions(person):
    person.open("#review")
    for _ in range(12):
        title = person.one("#review h2").text
        if title == "Which class is it?":
            break
        person.press("A")
        person.until(lambda title=title: person.one("#review h2").text != title)
    person.until(lambda: person.all("#review .candidates button"))
    left = sum(not row.said for row in person.app.editor.assigned())
    person.press("1")
    person.until(lambda: sum(not row.said for row in person.app.editor.assigned()) == left - 1)
    for _ in range(left):
        person.press("i")
    person.until(lambda: person.one("#review h2").text not in ("Which class is it?", "Questions"))
    if "Done" not in person.one("#review").text and person.all(".question"):
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

    person.app.discoveries._discover = work
    inbox = person.app.editor.path.parent / "more"
    inbox.mkdir()
    person.open("#discover")
    person.one("#inbox").send_keys(str(inbox))
    person.one("#number").send_keys("2")
    person.click("#discover-form .main")
    person.until(lambda: "of 40" in person.one("#job").text)
    assert "Extracting features" in person.one("#job").text
    person.browser.refresh()  # in the middle
    person.until(lambda: person.shown("#job-cancel"))
    person.click("#job-cancel")
    person.until(lambda: "the model is as it was" in person.one("#toasts").text)
    assert person.app.editor.version == 2

    person.open("#discover")
    person.one("#inbox").send_keys(str(inbox))
    person.one("#number").send_keys("2")
    person.click("#discover-form .main")
    person.until(lambda: person.shown("#job"))
    go.set()
    person.until(lambda: "#classes" in person.browser.current_url)
    person.until(lambda: {"8", "9"} <= {card.get_attribute("data-drop") for card in person.all("#new-cards .card")})
    assert "42" in person.one(".figures").text


def test_dropped_files_become_an_inbox(person, tmp_path):
    got = []
    person.app.discoveries._discover = lambda inbox, number, progress: got.append(inbox)
    (tmp_path / "text.png").write_text("no image")
    pictures = sorted((tmp_path / "inbox").glob("*.png"))[:3]
    person.open("#discover")
    person.one("#files").send_keys("\n".join(map(str, (*pictures, tmp_path / "text.png"))))
    person.until(lambda: got == [tmp_path / "shop-inbox-1"])
    assert sorted(path.name for path in got[0].iterdir()) == [path.name for path in pictures]
    assert "text.png: not an image" in person.one("#uploaded").text


def test_reloading_loses_nothing_and_the_history_jumps(person):
    from selenium.webdriver.common.keys import Keys

    person.click(f"{person.card(6)} .name")
    person.press("fox", Keys.ENTER)
    person.version(3)
    person.browser.refresh()
    person.until(lambda: person.one(f"{person.card(6)} h3").text == "fox")
    person.open("#history")
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

    person.open("#map")
    canvas = person.one("#view-map canvas")
    person.until(lambda: canvas.get_attribute("data-zoom") == "1.00")
    size = canvas.size
    x, y = size["width"] // 2 - 4, size["height"] // 2 - 4
    person.hand.move_to_element_with_offset(canvas, -x, -y).key_down(Keys.SHIFT).click_and_hold()
    for across, down in ((x, -y), (x, y), (-x, y), (-x, -y)):
        person.hand.move_to_element_with_offset(canvas, across, down)
    person.hand.release().key_up(Keys.SHIFT).perform()
    person.until(lambda: person.one("#actions b").text == "56 selected")


@pytest.mark.parametrize("width", [1280, 390])
def test_no_view_is_wider_than_the_window(person, width):
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    person.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    for view in ("classes", "review", "map", "unsure", "discover", "history", "class-6"):
        person.open(f"#{view}")
        assert person.run("document.documentElement.scrollWidth") <= width, view
    person.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
