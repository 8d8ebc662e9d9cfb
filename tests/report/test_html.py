import dataclasses
import json
import re
from html.parser import HTMLParser

import pytest

from happycat.base.errors import InputError, StorageError
from happycat.report.charts import Number, Run
from happycat.report.classes import CONFIDENCE, SEPARATION
from happycat.report.html import Page, render, write_page
from tests.report.pages import HOSTILE, card, dot, full_page

SECTIONS = ("new", "map", "known", "unsure", "number", "accuracy", "skipped", "history", "meanings")


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


def test_which_classes_are_too_small_to_be_counted_is_said():
    record = {"number": 1, "low": 0, "high": 1, "numbers": [0, 1], "curve": [0.4, 0.6], "smallest": 9}
    assert "of fewer than about 9 images" in Elements(render(full_page(number=Number.of(record), runs=()))).text
    for silent in (Number.of({**record, "smallest": None}), Number(number=1, low=1, high=1, given=True, smallest=9)):
        assert "of fewer than" not in Elements(render(full_page(number=silent, runs=()))).text


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


def test_originals_are_linked_without_saying_where_this_computer_has_them(tmp_path):
    def originals(page, path):
        write_page(page, path)
        html = path.read_text("utf-8")
        assert str(tmp_path) not in html
        return json.loads(Elements(html).data)["originals"]

    page = full_page(root=tmp_path / "in box" / "March #1")
    assert originals(page, tmp_path / "shop-2" / "page.html") == "../in%20box/March%20%231/"
    assert originals(page, tmp_path / "in box" / "page.html") == "March%20%231/"
    assert originals(full_page(root=tmp_path), tmp_path / "page.html") == "./"
    assert originals(full_page(), tmp_path / "page.html") is None


def test_what_has_no_small_picture_is_said():
    text = re.sub(r"\s+", " ", Elements(render(full_page(left_out=20, gone=1))).text)
    assert "30 of the 50 images have a small picture in this page" in text
    assert "1 file could not be read" in text
    assert "small picture in this page" not in Elements(render(full_page())).text


def test_every_number_has_its_meaning_in_words():
    page = Elements(render(full_page(shown="v", since=((3, "now", "name"),))))
    referred = [attributes["data-meaning"] for _, attributes in page.tags if "data-meaning" in attributes]
    described = [attributes["aria-describedby"] for _, attributes in page.tags if "data-meaning" in attributes]
    assert described == [f"meaning-{word}" for word in referred]
    assert set(described) <= page.ids()
    figures = {"images", "in-new", "in-known", "in-none", "unsure", "skipped"}
    of_a_class = {"id", "class-images", "stage", "separation", "confidence", "similarity", "probability"}
    assert set(referred) == figures | of_a_class | {
        *("new-classes", "known-classes", "learned-from", "number", "plausible")
    }
    assert {f"meaning-{word}" for word in ("all", "old", "new", "strict", "forgetting", "version")} <= page.ids()


def test_all_images_of_every_class_that_has_some_can_be_shown():
    page = Elements(render(full_page()))
    shown = [int(attributes["data-all"]) for tag, attributes in page.tags if "data-all" in attributes]
    assert sorted(shown) == [0, 1, 7, 8]
