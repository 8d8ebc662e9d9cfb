"""A person who looks at pages in a real browser."""

from __future__ import annotations

import shutil

import pytest

from happycat.report.html import write_page
from tests.report.pages import full_page


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    flags = "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    for flag in (*flags.split(), "disable-component-update", "disable-sync", "window-size=1280,900"):
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=webdriver.ChromeService(driver), options=options)
    yield browser
    browser.quit()


class Visitor:
    """A person at a page."""

    def __init__(self, browser):
        from selenium.webdriver import ActionChains

        self.browser, self.hand = browser, ActionChains(browser, duration=0)

    def open(self, page, path):
        write_page(page, path)
        self.browser.get(path.as_uri())
        self.run("document.documentElement.style.scrollBehavior = 'auto'")
        return self

    def run(self, script, *arguments):
        return self.browser.execute_script(f"return {script}", *arguments)

    def one(self, selector):
        return self.browser.find_element("css selector", selector)

    def shown(self, selector):
        return [e for e in self.browser.find_elements("css selector", selector) if e.is_displayed()]

    def click(self, selector):
        self.run("arguments[0].scrollIntoView({block: 'center'})", self.one(selector))
        self.one(selector).click()

    def type(self, selector, text):
        self.one(selector).clear()
        self.one(selector).send_keys(text)

    def point(self, selector):
        self.run("arguments[0].scrollIntoView({block: 'center'})", self.one(selector))
        self.hand.move_to_element(self.one(selector)).perform()

    def wheel(self, selector, amount):
        from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

        self.hand.scroll_from_origin(ScrollOrigin.from_element(self.one(selector)), 0, amount).perform()

    def until(self, true):
        from selenium.webdriver.support.wait import WebDriverWait

        WebDriverWait(self.browser, 20).until(lambda _: true())

    def zoom(self):
        return float(self.one("canvas").get_attribute("data-zoom"))

    def painted(self):
        """The map's pixels."""
        self.browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        return self.run("document.querySelector('canvas').toDataURL()")


@pytest.fixture
def visitor(browser, tmp_path):
    yield Visitor(browser).open(full_page(), tmp_path / "page.html")
    assert browser.get_log("browser") == []
