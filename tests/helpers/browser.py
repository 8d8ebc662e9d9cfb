"""A headless Chromium for the tests in a real browser; they are skipped where there is none."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

# Nothing that a test does not look at: no network of its own, no pages of the browser itself, no animation
FLAGS = (
    "headless=new no-sandbox disable-gpu disable-quic no-first-run disable-background-networking disable-sync "
    "disable-component-update disable-extensions disable-default-apps disable-smooth-scrolling mute-audio "
    "force-device-scale-factor=1 window-size=1280,1000"
)

MISLABELLED = """(() => {
  const label = (one) => one.getAttribute("aria-label")
    ?? document.getElementById(one.getAttribute("aria-labelledby"))?.textContent.trim() ?? "";
  const named = [...document.querySelectorAll("button, a, section, [role=region]")];
  const shown = named.filter((one) => one.checkVisibility());
  const seen = (one) => one.innerText.trim().toLowerCase();
  const other = (one) => one.ariaLabel && /\\w/.test(seen(one)) && !label(one).toLowerCase().includes(seen(one));
  const regions = shown.filter((one) => one.matches("section, [role=region]")).map(label);
  const twice = regions.filter((one, n) => regions.indexOf(one) !== n);
  return [...shown.filter((one) => one.matches("button, a") && other(one)).map((one) => one.outerHTML), ...twice];
})()"""


def chromium(profile: Path):
    """A browser with a profile of its own, which keeps what pages write to the console."""
    webdriver = pytest.importorskip("selenium.webdriver")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS.split(), f"user-data-dir={profile}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=webdriver.ChromeService(driver), options=options)


class Onlooker:
    """Somebody who looks at what a browser shows."""

    def __init__(self, browser):
        self.browser = browser

    def run(self, script, *arguments):
        return self.browser.execute_script(f"return {script}", *arguments)

    def one(self, selector):
        return self.browser.find_element("css selector", selector)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def shown(self, selector):
        """The elements that are there for the eye; one request for all of them."""
        visible = "one.checkVisibility({visibilityProperty: true})"
        return self.run(f"[...document.querySelectorAll(arguments[0])].filter((one) => {visible})", selector)

    def click(self, selector):
        element = self.one(selector) if isinstance(selector, str) else selector
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def until(self, true, seconds=60):
        """Wait until something is true; meanwhile elements may be drawn anew."""
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if true():
                    return
            except (NoSuchElementException, StaleElementReferenceException):
                pass
            time.sleep(0.02)
        raise AssertionError("it takes too long")

    def mislabelled(self):
        """Controls and regions that a screen reader calls otherwise than what is seen, or like another one."""
        return self.run(MISLABELLED)

    def resize(self, width=None, height=844):
        """Look with a window of that size, a phone's if it is narrow; without one, with that of the start."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": (width or 0) < 500}
        command = "setDeviceMetricsOverride" if width else "clearDeviceMetricsOverride"
        self.browser.execute_cdp_cmd(f"Emulation.{command}", metrics if width else {})
