"""A person at the app in a real browser, and the app that is served to her."""

from __future__ import annotations

import os
import shutil
import threading

import uvicorn

from happycat.app.desk import Desk
from happycat.app.discovering import Discoveries
from happycat.app.routes import make_app
from happycat.app.serving import Server, listening
from happycat.model.editor import Editor
from tests.app.visits import no_work
from tests.helpers.browser import Onlooker

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
        assert ready.wait(60)

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


class Person(Onlooker):
    """A person at the app."""

    visits = 0

    def __init__(self, browser, app):
        from selenium.webdriver import ActionChains

        super().__init__(browser)
        self.app = app
        self.hand = ActionChains(browser, duration=20)

    def open(self, view=""):
        Person.visits += 1  # another address, so that the page is loaded anew
        self.browser.get(f"{self.app.address}?{Person.visits}{view}")
        self.until(lambda: self.run("document.body.classList.contains('ready')"))
        self.run("document.documentElement.style.scrollBehavior = 'auto'")

    def go(self, view):
        """Go to another view of the page, as its tab does."""
        turned = "addEventListener('hashchange', () => arguments[1](), {once: true}); location.hash = arguments[0]"
        self.browser.execute_async_script(turned, view)

    def look_again(self):
        """Come back to the tab: it asks at once what is new."""
        self.run("document.dispatchEvent(new Event('visibilitychange'))")

    def text(self, selector):
        """The text of an element, or of none: it may just be drawn anew."""
        return self.run("document.querySelector(arguments[0])?.textContent ?? ''", selector)

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
