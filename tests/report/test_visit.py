"""The page in a real browser: cards, map, pictures, numbers, phones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.report.pages import HOSTILE, card, dot, full_page


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


def test_name_becomes_a_command_to_copy(visitor):
    button = visitor.one(".card[data-id='7'] .copy")
    assert not button.is_enabled()
    for name, quoted in (
        ("rote Bete, jung", '"rote Bete, jung"'),
        ("it's $HOME", "'it'\\''s $HOME'"),
        ("-x", '-- "-x"'),
        ('a "b" `c` \\', "'a \"b\" `c` \\'"),
    ):
        visitor.type(".card[data-id='7'] .name", name)
        command = f"happycat name \"my model.happycat\" '#7' {quoted}"
        assert visitor.one(".card[data-id='7'] .command").text == command
    visitor.click(".card[data-id='7'] .copy")
    visitor.until(lambda: button.text == "Copied")
    visitor.one("#card-filter").send_keys("\ue009v\ue000")  # Ctrl+V
    visitor.until(lambda: visitor.one("#card-filter").get_attribute("value") == command)


def test_map_zooms_and_its_legend_filters(visitor):
    visitor.bring("#map", "start")
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


def test_pointing_at_an_image_tells_about_it(newcomer, tmp_path):
    dots = (dot(0, 0, x=0, y=0), dot(1, 0, x=2, y=2), dot(2, 0, 0.31, path=f"in/{HOSTILE[0]}", x=0.964, y=1))
    cards = (card(0, "new", label=HOSTILE[1], typical=(0,)),)
    newcomer.open(full_page(dots=dots, cards=cards), tmp_path / "page.html")
    tip = newcomer.one("#tip")
    assert not tip.is_displayed()
    newcomer.point("canvas")  # its middle
    newcomer.until(tip.is_displayed)
    for text in (HOSTILE[0], HOSTILE[1], "31%, unsure"):
        assert text in tip.text
    assert newcomer.shown("#tip img")
    newcomer.point("h1")
    newcomer.until(lambda: not tip.is_displayed())
    newcomer.bring("#map", "start")
    newcomer.until(lambda: tip.is_displayed() or newcomer.one("canvas").send_keys("n"))
    newcomer.until(lambda: "%" in tip.text)
    newcomer.point(".thumb")
    newcomer.until(lambda: "inbox/0.jpg" in tip.text)


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
def test_nothing_is_cut_off_or_wider_than_the_window(visitor, width):
    def fits(selector):
        box = visitor.run("document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", selector)
        inner = visitor.run("document.querySelector(arguments[0]).scrollWidth", selector)
        return box["left"] >= 0 and box["right"] <= width and inner <= box["width"] + 1

    visitor.resize(width)
    assert visitor.run("document.documentElement.scrollWidth") <= width
    found = [fits("#known .scroll"), fits(".card"), fits(".meanings")]
    assert bool(visitor.shown(".command")) == (width > 500)
    visitor.click("[data-all='7']")
    found.append(fits("#all"))
    visitor.click("#all .thumb")
    found += [fits("#large"), fits("#large .side")]
    visitor.resize()
    assert found == [True] * 6


def test_no_label_of_a_chart_is_cut(visitor):
    """With a pixel to spare for other fonts on both sides; every chart clips at its edges."""
    boxes = visitor.run(
        "[...document.querySelectorAll('.chart text')].map((one) => "
        "[one.textContent, one.getBBox().x, one.getBBox().width, one.ownerSVGElement.viewBox.baseVal.width])"
    )
    assert "100%" in [text for text, *_ in boxes]
    assert [text for text, left, width, whole in boxes if left < 1 or left + width > whole - 1] == []


def test_a_screen_reader_says_what_is_seen(visitor):
    assert visitor.mislabelled() == []


def test_rows_of_the_history_are_aligned(newcomer, tmp_path):
    history = ((1, "2024-05-17T10:00:00+02:00", "fit labelled"), (2, "now", "discover inbox"))
    newcomer.open(full_page(history=history), tmp_path / "page.html")
    assert len({element.location["x"] for element in newcomer.shown("#history .history span")}) == 1


def with_files(root):
    """A page whose class 7 has three images: a file, one with an odd name that is no text, and one that is gone."""
    from PIL import Image

    root.mkdir()
    names = ["a.png", "x #1 50% ö?\udcff.png", "gone.png"]
    for name in names[:2]:
        Image.new("RGB", (40, 30), "red").save(root / name, "PNG")
    dots = [dot(i, 7, 0.9 - i / 10, path=name) for i, name in enumerate(names)]
    cards = (card(7, "new", images=4, typical=(0,)),)
    return full_page(root=root, dots=(*dots, dot(3, 7, 0.2, path="b.png", thumbnail=None)), cards=cards)


def test_all_images_of_a_class_and_each_original_large(newcomer, tmp_path):
    from selenium.webdriver.common.keys import Keys

    def note(words):
        newcomer.until(lambda: words in newcomer.one("#large-note").text)

    newcomer.open(with_files(tmp_path / "in box"), tmp_path / "page.html")
    newcomer.click("[data-all='7']")
    assert newcomer.one("#all-title").text.replace("\n", " ") == "class 7 4 images"
    assert "1 have no small picture" in newcomer.one("#all-note").text
    thumbs = newcomer.shown("#all .thumb")
    assert [thumb.text for thumb in thumbs] == ["90%", "80%", "70%", "b.png\n20%"]
    thumbs[0].click()
    note("The original, 40 × 30 pixels.")
    assert newcomer.one("#large-original").get_attribute("href").endswith("/in%20box/a.png")
    assert (newcomer.one("#large-words").text, newcomer.one("#large-place").text) == ("Probability 90%", "1 of 4")
    newcomer.hand.send_keys(Keys.ARROW_RIGHT).perform()
    note("The original, 40 × 30 pixels.")
    assert newcomer.one("#large-original").get_attribute("href").endswith("/x%20%231%2050%25%20%C3%B6%3F%ff.png")
    newcomer.one("#large-next").click()
    note("The original is no longer where it was, or cannot be shown here. This is the page's small picture.")
    assert newcomer.shown("#large-frame img")
    newcomer.hand.send_keys(Keys.ESCAPE).perform()
    newcomer.until(lambda: not newcomer.shown("#large"))
    newcomer.hand.send_keys(Keys.ESCAPE).perform()
    newcomer.until(lambda: not newcomer.shown("#all"))
    assert newcomer.run("document.activeElement.dataset.all") == "7"
    assert all("ERR_FILE_NOT_FOUND" in line["message"] for line in newcomer.browser.get_log("browser"))


def test_images_are_opened_by_keys_alone(visitor):
    from selenium.webdriver.common.keys import Keys

    visitor.run("document.querySelector('[data-all]').focus()")
    visitor.hand.send_keys(Keys.ENTER).perform()
    visitor.until(lambda: visitor.run("document.activeElement.id") == "all-close")
    visitor.hand.send_keys(Keys.TAB, Keys.ARROW_RIGHT, Keys.ENTER).perform()
    visitor.until(lambda: visitor.one("#large-place").text == "2 of 10")
    assert visitor.one("#large-note").text == "The page has no link to the original."
    visitor.hand.send_keys(Keys.ESCAPE, Keys.ESCAPE).perform()
    visitor.until(lambda: not visitor.shown("dialog"))
    visitor.bring("#map", "start")
    # again, if the mouse was found to be elsewhere on the map meanwhile
    visitor.until(lambda: visitor.shown("#large") or visitor.one("canvas").send_keys("n", Keys.ENTER))


def test_the_note_on_an_image_is_above_the_dialog(visitor):
    visitor.click("[data-all='7']")
    visitor.point("#all .thumb")
    visitor.until(lambda: visitor.shown("#tip"))
    box = visitor.one("#tip").rect
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 - visitor.run("scrollY"))
    visitor.run("arguments[0].style.pointerEvents = 'auto'", visitor.one("#tip"))
    assert visitor.run("document.elementFromPoint(...arguments).closest('#tip') !== null", *middle)


def test_numbers_are_explained_on_hover_focus_and_tap(visitor):
    from selenium.webdriver.common.keys import Keys

    meaning = visitor.one("#meaning")
    for word in {element.get_attribute("data-meaning") for element in visitor.shown("[data-meaning]")}:
        visitor.run("document.querySelector(arguments[0]).focus()", f"[data-meaning='{word}']")
        assert meaning.is_displayed()
        assert meaning.text == visitor.one(f"#meaning-{word}").text != ""
    visitor.hand.send_keys(Keys.ESCAPE).perform()
    assert not meaning.is_displayed()
    visitor.run("document.activeElement.blur()")
    visitor.click(".figures [data-meaning='unsure']")
    assert "no class has half of the probability" in meaning.text
    visitor.point("h1")
    visitor.until(lambda: not meaning.is_displayed())


def test_marks_of_classes_differ_in_shape_or_tone(newcomer, tmp_path):
    classes = [(id, "labelled" if id < 24 else "new") for id in range(60)]
    page = full_page(
        cards=tuple(card(id, kind, images=1) for id, kind in classes), dots=tuple(dot(id, id) for id, _ in classes)
    )
    newcomer.open(page, tmp_path / "page.html")
    looks = newcomer.run(
        "[...document.querySelectorAll('#legend .entry svg')].map((one) => "
        "[one.firstChild.getAttribute('d'), getComputedStyle(one).color])"
    )
    assert len({tuple(look) for look in looks}) == len(looks) == 60
    assert not {shape for shape, _ in looks[:36]} & {shape for shape, _ in looks[36:]}  # new ones, known ones


def test_pointing_at_a_mark_shows_its_class_in_the_legend(newcomer, tmp_path):
    dots = (dot(0, 0, x=0, y=0), dot(1, 0, x=2, y=2), dot(2, 1, x=0.964, y=1))
    cards = (card(0, "labelled", label="cat"), card(1, "found", label="dog"))
    newcomer.open(full_page(dots=dots, cards=cards), tmp_path / "page.html")
    newcomer.bring("#map", "start")
    before = newcomer.painted()
    newcomer.point("canvas")  # its middle
    newcomer.until(lambda: [item.text.split("\n")[0] for item in newcomer.shown("#legend .lit")] == ["dog"])
    assert newcomer.painted() != before
    newcomer.point("h1")
    newcomer.until(lambda: not newcomer.shown("#legend .lit"))
    assert newcomer.painted() == before


RECORD = """
  window.written = [];
  const pen = CanvasRenderingContext2D.prototype;
  pen.fillText = function (text, x, y) { window.written.push([text, x, y, this.measureText(text).width]); };
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_labels_cover_no_mark_and_no_other_label(newcomer, tmp_path, width):
    rng = np.random.default_rng(0)
    centres = rng.uniform(0, 100, (16, 2))
    places = [(k, *(centres[k] + rng.normal(size=2) * 4)) for k in range(16) for _ in range(25)]
    dots = tuple(dot(i, k, x=float(x), y=float(y), thumbnail=None) for i, (k, x, y) in enumerate(places))
    cards = tuple(card(k, "new" if k < 6 else "labelled", label=f"a long name {k}", images=25) for k in range(16))
    script = newcomer.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": RECORD})
    newcomer.resize(width)
    newcomer.open(full_page(dots=dots, cards=cards), tmp_path / "page.html")
    newcomer.run("window.written.splice(0)")
    newcomer.run("document.querySelector('#legend-all').click()")
    newcomer.painted()
    labels = newcomer.run("window.written")
    colours = [newcomer.run(COLOURS, x - w / 2, y - 6, w, 12) for _, x, y, w in labels]
    newcomer.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    newcomer.resize()
    assert all("willReadFrequently" in line["message"] for line in newcomer.browser.get_log("browser"))
    assert colours == [1] * len(labels)  # the paper's alone
    assert len({text for text, *_ in labels}) == len(labels) > 8
    for n, (_, x, y, w) in enumerate(labels):
        assert not any(abs(x - a) < (w + v) / 2 and abs(y - b) < 12 for _, a, b, v in labels[:n])


COLOURS = """((x, y, width, height) => {
  const pixels = document.querySelector("canvas").getContext("2d").getImageData(x, y, width, height).data;
  return new Set(new Uint32Array(pixels.buffer)).size;
})(...arguments)"""
