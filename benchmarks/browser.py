"""Is the app fluid with very many images? The first screen, scrolling and actions in a headless Chromium.

    OMP_NUM_THREADS=1 python benchmarks/browser.py FOLDER --images 20000 --known 100 --new 100 --largest 5000

FOLDER has real images, which are repeated with small changes until there are enough; their vectors are random
directions (benchmarks/app.py), `--largest` of them of one class. The app is served as `happycat app` does. For each
view a line is printed: the elements in the document at most, the processor's time in the page's process, the longest
task and the longest time between two frames (which other processes prolong), the memory of the page's script. It needs
the extra `dev` (selenium), Chromium and Linux.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app import make_model
from selenium import webdriver

FRAMES = 60  # that are scrolled

# What the page's thread did: long tasks, when the first screen was there, when its pictures were
WATCH = """
  window.tasks = [];
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask", buffered: true });
  window.ready = null;
  const seen = (one) => one.getBoundingClientRect().top < innerHeight && one.getBoundingClientRect().bottom > 0;
  const look = () => {
    window.ready ??= document.body?.classList.contains("ready") ? performance.now() : null;
    const pictures = window.ready ? [...document.querySelectorAll(".view:not([hidden]) .thumb img")].filter(seen) : [];
    if (pictures.length && pictures.every((one) => one.complete)) window.pictures = performance.now();
    else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
"""
# Scroll by `step` pixels a frame
SCROLL = """
  const [step, frames] = arguments;
  const report = { frames: 0, longest: 0, elements: 0 };
  let before = performance.now();
  window.report = null;
  window.tasks.splice(0);
  document.documentElement.style.scrollBehavior = "auto";
  const next = (now) => {
    report.frames += 1;
    report.longest = Math.max(report.longest, now - before);
    report.elements = Math.max(report.elements, document.getElementsByTagName("*").length);
    before = now;
    if (report.frames === frames) {
      return setTimeout(() => (window.report = { ...report, task: Math.max(0, ...window.tasks) }), 100);
    }
    scrollBy(0, step);
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
"""


@contextmanager
def served(model: Path) -> Iterator[str]:
    """The address of the app of a model."""
    command = [sys.executable, "-m", "happycat", "app", str(model), "--no-browser"]
    app = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert app.stdout is not None
        found = re.search(r"http://\S+", app.stdout.readline())
        if found is None:
            raise SystemExit("the app did not start")
        yield found[0]
    finally:
        app.terminate()
        app.wait(30)


def chromium() -> webdriver.Chrome:
    """A headless Chromium that watches the tasks of each page."""
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-background-networking", "window-size=1280,1000"):
        options.add_argument(f"--{flag}")
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    browser.set_script_timeout(110)
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    browser.execute_cdp_cmd("Performance.enable", {})
    return browser


def heap(browser: webdriver.Chrome) -> float:
    """The memory of the page's script in megabytes."""
    found = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return next(one["value"] for one in found if one["name"] == "JSHeapUsedSize") / 1e6


def busy(browser: webdriver.Chrome) -> float:
    """Seconds that the processor worked for pages so far, in all processes of the browser that show them (Linux)."""
    parents, times = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            parents[int(process.name)] = int(fields[1])
            if b"--type=renderer" in (process / "cmdline").read_bytes():
                times[int(process.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ours(process: int) -> bool:
        return process == browser.service.process.pid or (process in parents and ours(parents[process]))

    return sum(seconds for process, seconds in times.items() if ours(process))


def until(browser: webdriver.Chrome, script: str, seconds: float = 300) -> Any:
    """What a script returns, once it is something."""
    end = time.monotonic() + seconds
    while not (found := browser.execute_script(f"return {script}")):
        if time.monotonic() > end:
            raise SystemExit(f"it takes too long: {script}")
        time.sleep(0.05)
    return found


def open_app(browser: webdriver.Chrome, address: str) -> None:
    """Open the first screen and print how long it took."""
    browser.get(address)
    pictures = until(browser, "window.pictures")
    ready, tasks = browser.execute_script("return [window.ready, window.tasks]")
    print(f"first screen after {ready / 1000:.1f} s, its pictures after {pictures / 1000:.1f} s")
    print(f"  tasks of more than 50 ms: {', '.join(f'{one:.0f}' for one in tasks) or 'none'}")
    print(f"  {busy(browser):.1f} s of CPU in the page's process, {heap(browser):.0f} MB", flush=True)


def scroll(browser: webdriver.Chrome, name: str, view: str) -> None:
    """Scroll through a view and back, and print what that cost."""
    browser.execute_script(f"location.hash = {view!r}")
    until(browser, "document.querySelector('.view:not([hidden]) .thumb')")
    time.sleep(1)
    for speed, step in (("slowly", 60), ("fast", 800), ("up", -800)):
        before = busy(browser)
        browser.execute_script(SCROLL, step, FRAMES)
        found = until(browser, "window.report")
        work = 1000 * (busy(browser) - before) / FRAMES
        print(
            f"{name}, {speed}: {found['elements']} elements at most, {work:.0f} ms of CPU a frame, longest task "
            f"{found['task']:.0f} ms, longest frame {found['longest']:.0f} ms, "
            f"{heap(browser):.0f} MB",
            flush=True,
        )


def main() -> None:
    """Print what is seen in the browser."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    for name, usual in (("images", 20000), ("known", 100), ("new", 100), ("features", 384), ("largest", 5000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--keep", type=Path, help="a folder for the model, which is used again if it is there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        model = folder / "shop.cat"
        if not model.exists():
            make_model(folder, given.images, given.known, given.new, given.features, given.folder, given.largest)
        with served(model) as address:
            browser = chromium()
            try:
                open_app(browser, address)
                scroll(browser, "the classes", "#classes")
                scroll(browser, f"a class of {given.largest}", f"#class-{given.known}")
            finally:
                browser.quit()


if __name__ == "__main__":
    main()
