"""Films the app, docs/app.gif, with a model and a discovery whose images are there.

    python docs/film_app.py MODEL NAME NAME [--out docs]

It opens `happycat app` on a copy of the model in a headless Chromium and does what a person would: names two classes,
moves pictures, undoes that, and reviews a class by keys. It needs the extra `dev` (selenium) and Chromium.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

WINDOW = (1120, 760)  # of the browser
WIDTH = 800  # of the film
COLOURS = 200


class Film:
    """A browser at the app, and what was seen so far."""

    def __init__(self, address: str):
        options = webdriver.ChromeOptions()
        for flag in ("headless", "no-sandbox", "disable-gpu", "hide-scrollbars", "disable-background-networking"):
            options.add_argument(f"--{flag}")
        options.add_argument("--window-size={},{}".format(*WINDOW))
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
        self.browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        self.frames: list[tuple[Image.Image, int]] = []
        self.browser.get(address)
        self.until(lambda: self.run("document.body.classList.contains('ready')"))
        self.run("document.documentElement.style.scrollBehavior = 'auto'")

    def run(self, script: str, *values: object) -> object:
        return self.browser.execute_script(f"return {script}", *values)

    def all(self, selector: str) -> list:
        return self.browser.find_elements("css selector", selector)

    def until(self, true: Callable[[], object], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                raise SystemExit("the app does not do what is filmed")
            time.sleep(0.05)

    def look(self, milliseconds: int, wait: float = 0.4) -> None:
        """Take a frame that is shown so long, once pictures had time to come."""
        time.sleep(wait)
        shot = Image.open(io.BytesIO(self.browser.get_screenshot_as_png())).convert("RGB")
        self.frames.append((shot, milliseconds))

    def type(self, text: str, part: int = 4) -> None:
        for start in range(0, len(text), part):
            ActionChains(self.browser).send_keys(text[start : start + part]).perform()
            self.look(160, 0.05)

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def centre(self, element: object) -> None:
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)

    def save(self, path: Path) -> None:
        height = round(WIDTH * WINDOW[1] / WINDOW[0])
        small = [frame.resize((WIDTH, height), Image.Resampling.LANCZOS) for frame, _ in self.frames]
        sheet = Image.new("RGB", (WIDTH, height * len(small)))
        for place, frame in enumerate(small):
            sheet.paste(frame, (0, place * height))
        palette = sheet.quantize(COLOURS)
        flat = [frame.quantize(COLOURS, palette=palette, dither=Image.Dither.NONE) for frame in small]
        flat[0].save(
            path,
            save_all=True,
            append_images=flat[1:],
            duration=[time for _, time in self.frames],
            loop=0,
            optimize=True,
        )


def act(film: Film, names: list[str]) -> None:
    """What a person does."""
    film.look(1800, 3)
    for name in names:
        field = next(one for one in film.all("#new-cards .card .name") if not one.get_attribute("value"))
        film.centre(field)
        field.click()
        film.look(500, 1)
        film.type(name)
        film.press(Keys.ENTER)
        film.look(900, 1)
    card = film.all("#new-cards .card")[2]
    film.centre(card)
    film.until(lambda: card.find_elements("css selector", ".thumb"))
    thumbs = card.find_elements("css selector", ".thumb")[-3:]
    for thumb in thumbs:
        thumb.find_element("css selector", ".tick").click()
        film.look(350, 0.2)
    film.press("m")
    film.look(600)
    film.type(names[0])
    film.press(Keys.ENTER)
    film.look(1300, 1.5)
    film.all("#undo")[0].click()
    film.look(1300, 1.5)
    film.run("location.hash = '#review'")
    film.until(lambda: film.all(".review-grid .thumb"))
    film.look(1500, 2)
    film.press(Keys.ARROW_RIGHT, "x")
    film.look(900)
    film.press(Keys.ENTER)
    film.look(1300, 1.5)
    film.run("location.hash = '#map'")
    film.look(2200, 2.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / given.model.name
        shutil.copy(given.model, copy)
        command = [sys.executable, "-m", "happycat", "app", str(copy), "--no-browser"]
        app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert app.stdout is not None
            found = re.search(r"http://\S+", app.stdout.readline())
            if found is None:
                raise SystemExit("the app did not start")
            film = Film(found[0])
            try:
                act(film, given.names)
            finally:
                film.browser.quit()
        finally:
            app.terminate()
            app.wait(30)
    film.save(given.out / "app.gif")


if __name__ == "__main__":
    main()
