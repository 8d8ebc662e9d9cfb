"""A person who looks at pages in a real browser."""

from __future__ import annotations

import pytest

from happycat.report.html import write_page
from tests.helpers.browser import Onlooker
from tests.report.pages import full_page


class Visitor(Onlooker):
    """A person at a page."""

    def __init__(self, browser):
        from selenium.webdriver import ActionChains

        super().__init__(browser)
        self.hand = ActionChains(browser, duration=0)

    def open(self, page, path):
        write_page(page, path)
        self.browser.get(path.as_uri())
        self.run("document.documentElement.style.scrollBehavior = 'auto'")
        return self

    def type(self, selector, text):
        self.one(selector).clear()
        self.one(selector).send_keys(text)

    def bring(self, selector, block="center"):
        """Scroll to an element, and let the page hear of it: a note that is shown before is hidden by the scroll."""
        self.run("arguments[0].scrollIntoView({block: arguments[1]})", self.one(selector), block)
        self.settle()

    def settle(self):
        """Wait for two frames: by then a scroll was told of, and the map knows its size."""
        self.browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def point(self, selector):
        self.bring(selector)
        self.hand.move_to_element(self.one(selector)).perform()

    def wheel(self, selector, amount):
        from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

        self.hand.scroll_from_origin(ScrollOrigin.from_element(self.one(selector)), 0, amount).perform()

    def zoom(self):
        return float(self.one("canvas").get_attribute("data-zoom"))

    def painted(self):
        """The map's pixels."""
        self.settle()
        return self.run("document.querySelector('canvas').toDataURL()")


@pytest.fixture
def newcomer(browser):
    """Somebody who has yet to open a page."""
    yield Visitor(browser)
    assert browser.get_log("browser") == []


@pytest.fixture
def visitor(newcomer, tmp_path):
    return newcomer.open(full_page(), tmp_path / "page.html")
