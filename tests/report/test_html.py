import dataclasses
import json
import re
import shutil
from html.parser import HTMLParser

import pytest

from happycat.base.errors import InputError, StorageError
from happycat.report.charts import Number, Run
from happycat.report.classes import CONFIDENCE, SEPARATION, ClassSummary
from happycat.report.html import Dot, Page, render, write_page

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><b>'&\u2028\u2029", "--x; $(y)")
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="
SECTIONS = ("new", "map", "known", "unsure", "number", "accuracy", "skipped", "history", "meanings")


def dot(i, cls, probability=0.9, thumbnail=PIXEL, **changes):
    values = {"path": f"inbox/{i}.jpg", "x": i % 7, "y": i // 7, "unsure": probability < 0.5}
    return Dot(cls=cls, probability=probability, thumbnail=thumbnail, **{**values, **changes})


def card(id, kind, **changes):
    values = {"label": f"class {id}", "name": None, "stage": 1, "images": 10, "total": 20}
    return ClassSummary(id=id, kind=kind, **{**values, **changes})


def full_page(**changes):
    """Two known classes, two new ones and all sections."""
    dots = tuple(dot(i, (0, 1, 7, 8, None)[i % 5], 0.3 if i % 5 == 4 or i % 9 == 0 else 0.9) for i in range(50))
    near = ((0, "cat", 0.62), (1, "dog", 0.41))
    cards = (
        card(0, "labelled", label="cat", name="cat", stage=0, confidence=0.8, typical=(0, 5)),
        card(1, "found", images=11, typical=(1,)),
        card(2, "labelled", label="ant", images=0),
        card(3, "dropped", images=0),
        card(7, "new", images=10, confidence=0.9, separation=0.7, nearest=near, typical=(2, 7), doubtful=(12,)),
        card(8, "new", images=9, confidence=0.95, separation=0.8, nearest=near, typical=(3, 8)),
    )
    scores = (
        {"all": 90.0, "old": 90.0, "new": None, "base": 90.0},
        {"all": 80.0, "old": 85.0, "new": 60.0, "base": 88.0},
    )
    shares = {"confidence_old": (0.1,) * 10, "confidence_new": (0.0,) * 9 + (1.0,)}
    values = {
        "title": "inbox",
        "sentence": "Two new classes.",
        "made": "2024-05-17",
        "version": "0.1",
        "model": "my model.happycat",
        "cards": cards,
        "dots": dots,
        "number": Number(number=2, low=1, high=3, numbers=(0, 1, 2, 3), curve=(0.0, 5.0, 8.0, 7.5)),
        "skipped": (("inbox/broken.jpg", "cannot be read"),),
        "duplicates": 3,
        "history": ((1, "2024-05-01", "learned 2 classes"),),
        "runs": (Run(name="calm", scores=scores, **shares),),
    }
    return Page(**{**values, **changes})


class Elements(HTMLParser):
    """All tags with their attributes, all text outside of scripts, and the scripts' data."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text, self.data, self.inside = [], "", "", None
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = (tag, dict(attributes).get("type"))

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        if self.inside == ("script", "application/json"):
            self.data += text
        elif not self.inside or self.inside[0] not in ("script", "style"):
            self.text += text

    def ids(self):
        return {attributes["id"] for _, attributes in self.tags if "id" in attributes}


def test_all_sections():
    page = Elements(render(full_page()))
    assert set(SECTIONS) <= page.ids()
    links = [attributes.get("href") for tag, attributes in page.tags if tag == "a"]
    assert [link for link in links if link][1 : len(SECTIONS) + 1] == [f"#{name}" for name in SECTIONS]
    texts = ("Two new classes.", "0.62", "between 1 and 3", "cannot be read", "learned 2 classes", "Dropped: class 3.")
    for text in texts:
        assert text in re.sub(r"\s+", " ", page.text)
    assert "No image went to ant." in page.text


@pytest.mark.parametrize(
    ("without", "changes"),
    [
        ({"map", "known", "unsure", "new"}, {"cards": (), "dots": ()}),
        ({"meanings"} | set(SECTIONS[:6]), {"cards": (), "dots": (), "runs": (), "number": None}),
        ({"number"}, {"number": None}),
        ({"accuracy"}, {"runs": ()}),
        ({"skipped"}, {"skipped": (), "duplicates": 0}),
        ({"history"}, {"history": ()}),
        ({"unsure", "new"}, {"cards": (card(0, "labelled"),), "dots": (dot(0, 0),)}),
        ({"known", "unsure"}, {"cards": (card(0, "new"),), "dots": (dot(0, 0),)}),
    ],
)
def test_section_without_data_is_left_out(without, changes):
    page = Elements(render(full_page(**changes)))
    assert set(SECTIONS) - page.ids() == without
    linked = {attributes.get("href") for tag, attributes in page.tags if tag == "a"}
    assert not linked & {f"#{name}" for name in without}


def test_nothing_but_a_sentence():
    page = Elements(render(Page(title="t", sentence="Nothing is new.", made="", version="")))
    assert "Nothing is new." in page.text
    assert not set(SECTIONS) & page.ids()


def test_figures():
    text = Elements(render(full_page())).text
    for words in ("images50", "in 2 new classes20", "in 2 known classes20", "fit no class10", "unsure15", "skipped1"):
        assert words in text


def named(name):
    """A page on which everything that can have a name has this one."""
    cards = (
        card(0, "labelled", label=name, images=0),
        card(1, "new", name=name, label=name, nearest=((0, name, 0.5),), typical=(0,)),
        card(2, "dropped", label=name),
        card(3, "found", label=name, name=name),
    )
    run = Run(name=name, scores=({"all": 1.0, "old": 1.0, "new": None, "base": 1.0},))
    dots = tuple(dot(i, 1, path=f"in/{name}{i}") for i in range(3))
    texts = {"title": name, "sentence": name, "made": name, "version": name, "model": name}
    return full_page(
        cards=cards,
        dots=dots,
        runs=(run,),
        skipped=((name, name),),
        history=((1, name, name),),
        shown=name,
        since=((2, name, name),),
        **texts,
    )


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name):
    page, harmless = Elements(render(named(name))), Elements(render(named("moth")))
    assert [(tag, list(values)) for tag, values in page.tags] == [(tag, list(values)) for tag, values in harmless.tags]
    assert page.text.count(name) == harmless.text.count("moth") > 10
    data = json.loads(page.data)
    assert (data["model"], data["path"][0], data["classes"][0]["name"]) == (name, f"in/{name}0", name)
    assert not re.search("[<>&\u2028\u2029]", page.data)


def test_nothing_is_fetched():
    html = render(full_page())
    policy = next(a["content"] for _, a in Elements(html).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert {"default-src 'none'", "img-src data: file:"} <= {part.strip() for part in policy.split(";")}
    assert set(re.findall(r"https?://[^\s\"'<]*", html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|innerHTML", html)
    loaded = [a[key] for tag, a in Elements(html).tags for key in ("src", "href") if key in a and tag != "a"]
    assert all(address.startswith("data:") for address in loaded)


def test_no_image_data_without_thumbnails():
    page = full_page()
    bare = dataclasses.replace(page, dots=tuple(dataclasses.replace(d, thumbnail=None) for d in page.dots))
    assert "data:image" in render(page)
    assert "data:image" not in render(bare)
    assert "Examples" not in Elements(render(bare)).text
    assert "Show all" in Elements(render(bare)).text  # by name


def test_accuracy_curve_is_broken_where_there_is_no_value():
    scores = tuple({"all": value, "base": 90.0} for value in (90.0, None, 80.0, 70.0))
    html = render(full_page(runs=(Run(name="run", scores=scores),), number=None))
    lines = [attributes["d"] for tag, attributes in Elements(html).tags if attributes.get("class") == "line"]
    assert [re.sub("[^ML]", "", line) for line in lines] == ["MML", "MLLL"]


def test_number_that_was_told():
    text = Elements(render(full_page(number=Number(number=4, low=4, high=4, given=True)))).text
    assert "The number was given" in text
    assert "complexity penalty" not in text


@pytest.mark.parametrize(
    ("measure", "title", "sentence"),
    [
        ({"measure": "probability"}, "Probability of each number (%)", "The estimate is the median"),
        ({"measure": "silhouette"}, "Silhouette of each number", "The estimate is its highest point"),
        ({}, "Score of each number", "less a complexity penalty for each class"),  # an earlier record
    ],
)
def test_curve_of_the_number_is_called_what_it_is(measure, title, sentence):
    record = {"number": 2, "low": 1, "high": 3, "numbers": [0, 1, 2, 3], "curve": [0.125, 0.25, 0.5, 0.125], **measure}
    html = render(full_page(number=Number.of(record), runs=()))
    text = re.sub(r"\s+", " ", Elements(html).text)
    assert title in text
    assert sentence in text
    others = {"Probability of", "Silhouette of", "Score of"} - {title.split(" each")[0]}
    assert not any(other in text for other in others)
    share = "Probability at 2: 50.0" in html
    assert share == (measure == {"measure": "probability"})


def test_nothing_new_is_one_point():
    record = {"number": 0, "low": 0, "high": 0, "numbers": [0], "curve": [1.0], "measure": "probability"}
    page = Elements(render(full_page(number=Number.of(record), runs=())))
    assert "No other number is nearly as plausible" in page.text
    (best,) = [a for _, a in page.tags if a.get("class") == "best"]
    assert 0 < float(best["cx"]) < 360


def test_that_perhaps_nothing_is_new_is_said():
    record = {"number": 1, "low": 0, "high": 1, "numbers": [0, 1], "curve": [0.4, 0.6], "measure": "probability"}
    text = Elements(render(full_page(number=Number.of(record), runs=()))).text
    assert "Plausible: 0 or 1: perhaps nothing is new." in text
    told = Elements(render(full_page(number=Number(number=1, low=1, high=1, given=True)))).text
    assert "perhaps nothing" not in told


def test_why_the_number_is_rough_is_said():
    assert "Little is known <here>." in Elements(render(full_page(doubt="Little is known <here>."))).text
    assert "Little is known" not in Elements(render(full_page())).text


def test_axis_of_the_number_goes_to_the_end_of_its_interval():
    number = Number(number=5, low=4, high=14, numbers=tuple(range(10)), curve=(*range(6), 4.0, 3.0, 2.0, 1.0))
    page = Elements(render(full_page(number=number, runs=())))
    (line,) = [a["d"] for _, a in page.tags if a.get("class") == "line"]
    (band,) = [a for _, a in page.tags if a.get("class") == "band"]
    (best,) = [a for _, a in page.tags if a.get("class") == "best"]
    places = [float(word[1:]) for word in line.split()[::2]]  # of 0, 1, … 9
    step = (places[9] - places[0]) / 9
    ends = float(band["x"]), float(band["x"]) + float(band["width"])
    assert ends[0] == pytest.approx(places[4] - step / 2, abs=1)
    assert places[0] + 14 * step <= ends[1] <= 360
    assert float(best["cx"]) == places[5]
    assert re.search(r"\s14\s", page.text)


def test_separation_and_confidence_are_explained():
    text = re.sub(r"\s+", " ", Elements(render(full_page())).text)
    assert SEPARATION in text
    assert CONFIDENCE in text
    assert "70%" in text


def test_corrections_since_are_listed_beside_the_version():
    since = ((3, "2024-05-18", "name #7 'red panda'"), (4, "2024-05-19", "drop #3"))
    text = Elements(render(full_page(shown="Version 4 of shop.cat.", since=since))).text
    for words in ("Version 4 of shop.cat.", "2 corrections since the discovery", "name #7 'red panda'", "drop #3"):
        assert words in text
    assert "since the discovery" not in Elements(render(full_page())).text


def test_file_is_whole_or_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "new" / "page.html"
    write_page(full_page(sentence="first\udcff"), path)  # as a file name that is not UTF-8
    assert path.read_text("utf-8").endswith("</html>\n")
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]

    def refuse(*_):
        raise OSError("disk on fire")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(StorageError, match="disk on fire"):
        write_page(full_page(sentence="second"), path)
    assert "first?" in path.read_text("utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: dot(0, 0, x=float("nan")),
        lambda: dot(0, 0, thumbnail="https://example.org/x.png"),
        lambda: full_page(cards=(card(0, "new", typical=(99,)),), dots=()),
        lambda: full_page(cards=(), dots=(dot(0, 5),)),
    ],
)
def test_what_cannot_be_shown_is_refused(wrong):
    with pytest.raises(InputError):
        wrong()


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


def test_cards_are_filtered_and_sorted(visitor):
    def cards():
        return [element.get_attribute("data-name") for element in visitor.shown(".card")]

    assert cards() == ["class 7", "class 8"]
    visitor.one("#card-sort").send_keys("best separated")
    assert cards() == ["class 8", "class 7"]
    for wanted, left in (("CLASS 7", ["class 7"]), ("inbox/3.jpg", ["class 8"]), ("nowhere", [])):
        visitor.type("#card-filter", wanted)
        assert cards() == left
        assert visitor.one("#card-none").is_displayed() == (not left)


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("moth", '"moth"'),
        ("rote Bete, jung", '"rote Bete, jung"'),
        ("it's $HOME", "'it'\\''s $HOME'"),
        ('a "b" `c` \\', "'a \"b\" `c` \\'"),
        ("-x", '-- "-x"'),
    ],
)
def test_name_becomes_a_command_to_copy(visitor, name, quoted):
    button = visitor.one(".card[data-id='7'] .copy")
    assert not button.is_enabled()
    visitor.type(".card[data-id='7'] .name", name)
    command = f"happycat name \"my model.happycat\" '#7' {quoted}"
    assert visitor.one(".card[data-id='7'] .command").text == command
    visitor.click(".card[data-id='7'] .copy")
    visitor.until(lambda: button.text == "Copied")
    visitor.one("#card-filter").send_keys("\ue009v\ue000")  # Ctrl+V
    visitor.until(lambda: visitor.one("#card-filter").get_attribute("value") == command)


def test_map_zooms_and_its_legend_filters(visitor):
    visitor.run("document.querySelector('#map').scrollIntoView()")
    whole = visitor.painted()
    visitor.wheel("canvas", -100)  # scrolls the page, as long as the map was not clicked
    assert visitor.zoom() == 1
    visitor.click("[data-zoom=in]")
    assert visitor.zoom() == 1.6
    assert visitor.painted() != whole
    visitor.click("canvas")
    visitor.wheel("canvas", -100)
    visitor.until(lambda: visitor.zoom() > 1.6)
    visitor.one("canvas").send_keys("0")
    visitor.point("h1")
    assert visitor.painted() == whole

    visitor.click(".toggle")
    assert visitor.one(".toggle").get_attribute("aria-pressed") == "false"
    visitor.click("#legend-unsure")
    visitor.point("h1")
    part = visitor.painted()
    assert part != whole
    visitor.click("#legend-all")
    visitor.point("h1")
    assert visitor.painted() not in (part, whole)
    visitor.click("#legend-unsure")
    visitor.point("h1")
    assert visitor.painted() == whole


def test_pointing_at_an_image_tells_about_it(visitor, tmp_path):
    dots = (dot(0, 0, x=0, y=0), dot(1, 0, x=2, y=2), dot(2, 0, 0.31, path=f"in/{HOSTILE[0]}", x=0.964, y=1))
    cards = (card(0, "new", label=HOSTILE[1], typical=(0,)),)
    visitor.open(full_page(dots=dots, cards=cards), tmp_path / "page.html")
    tip = visitor.one("#tip")
    assert not tip.is_displayed()
    visitor.point("canvas")  # its middle
    visitor.until(tip.is_displayed)
    for text in (HOSTILE[0], HOSTILE[1], "31%, unsure"):
        assert text in tip.text
    assert visitor.shown("#tip img")
    visitor.point("h1")
    visitor.until(lambda: not tip.is_displayed())
    visitor.run("document.querySelector('#map').scrollIntoView()")
    visitor.until(lambda: (visitor.one("canvas").send_keys("n"), tip.is_displayed())[1])
    assert "%" in tip.text
    visitor.point(".thumb")
    visitor.until(lambda: "inbox/0.jpg" in tip.text)


def test_table_and_unsure_images(visitor):
    def classes():
        return [element.text for element in visitor.shown("tbody th")]

    assert classes() == ["class 1", "cat"]
    visitor.click("thead th:first-child button")
    assert classes() == ["cat", "class 1"]
    assert visitor.one("thead th").get_attribute("aria-sort") == "ascending"
    visitor.click("thead th:first-child button")
    assert classes() == ["class 1", "cat"]

    assert len(visitor.shown("#unsure .thumb")) == 15
    visitor.type("#unsure-filter", "class 8")
    assert len(visitor.shown("#unsure .thumb")) == 1
    visitor.type("#unsure-filter", "inbox")
    visitor.one("#unsure-class").send_keys("no class fits")
    assert len(visitor.shown("#unsure .thumb")) == 10
    assert all(image.get_attribute("alt") for image in visitor.shown("img"))


def test_theme_is_kept(visitor):
    def paper():
        return visitor.run("getComputedStyle(document.body).backgroundColor")

    before = paper()
    visitor.click("#theme")
    after = paper()
    assert after != before
    visitor.browser.refresh()
    assert paper() == after
    visitor.click("#theme")
    assert paper() == before


@pytest.mark.parametrize("width", [1280, 390])
def test_page_is_never_wider_than_the_window(visitor, width):
    metrics = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
    visitor.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    assert visitor.run("document.documentElement.scrollWidth") <= width
    visitor.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_rows_of_the_history_are_aligned(visitor, tmp_path):
    history = ((1, "2024-05-17T10:00:00+02:00", "fit labelled"), (2, "now", "discover inbox"))
    visitor.open(full_page(history=history), tmp_path / "page.html")
    assert len({element.location["x"] for element in visitor.shown("#history .history span")}) == 1
