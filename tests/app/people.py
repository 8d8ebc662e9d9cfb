"""A person at the app in a real browser, and the app that is served to her."""

from __future__ import annotations

import os
import shutil
import threading
import time

import uvicorn

from happycat.app.desk import Desk
from happycat.app.discovering import Discoveries
from happycat.app.routes import make_app
from happycat.app.serving import Server, listening
from happycat.model.editor import Editor
from tests.app.visits import no_work

TOKEN = "token"


class Running:
    """The app of a model, served by a thread."""

    def __init__(self, model):
        self.editor = Editor(model)
        self.desk = Desk(self.editor)
        self.discoveries = Discoveries(self.desk, no_work())
        self.socket = listening(0)
        port = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/{TOKEN}/"
        app = make_app(self.desk, self.discoveries, TOKEN, port)
        ready = threading.Event()
        self.server = Server(uvicorn.Config(app, log_level="error", lifespan="off"), ready.set)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()
        assert ready.wait(10)

    def begin_again(self, first):
        """Put the model back as it was at first, and take away what a test has made beside it."""
        model = self.editor.path
        for path in set(model.parent.iterdir()) - {model, model.parent / "inbox", model.parent / "shop-2"}:
            # a thumbnail that the last page still wanted may be written meanwhile
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        shutil.copyfile(first, model.with_name("first"))
        os.replace(model.with_name("first"), model)
        self.discoveries.work = no_work()

    def stop(self):
        self.server.force_exit = self.server.should_exit = True
        self.thread.join(10)
        self.desk.job.cancel(10)
        self.socket.close()


class Person:
    """A person at the app."""

    visits = 0

    def __init__(self, browser, app):
        from selenium.webdriver import ActionChains

        self.browser, self.app = browser, app
        self.hand = ActionChains(browser, duration=20)

    def open(self, view=""):
        Person.visits += 1  # another address, so that the page is loaded anew
        self.browser.get(f"{self.app.address}?{Person.visits}{view}")
        self.until(lambda: self.run("document.body.classList.contains('ready')"))
        self.run("document.documentElement.style.scrollBehavior = 'auto'")

    def look_again(self):
        """Come back to the tab: it asks at once what is new."""
        self.run("document.dispatchEvent(new Event('visibilitychange'))")

    def run(self, script, *arguments):
        return self.browser.execute_script(f"return {script}", *arguments)

    def text(self, selector):
        """The text of an element, or of none: it may just be drawn anew."""
        return self.run("document.querySelector(arguments[0])?.textContent ?? ''", selector)

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
