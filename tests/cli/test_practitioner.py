"""The whole story of one's own images, command by command, on digits with the embedded backbone."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from happycat.backbone import extraction
from happycat.base import disk
from happycat.cli import main
from happycat.methods import pretraining
from happycat.methods.calm import CalmConfig
from happycat.model import file as model_file


def say(*words) -> tuple[int, str, str]:
    """Run a command; its exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["happycat", *map(str, words)])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as stop:
            main()
    return stop.value.code or 0, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> Path:
    """A folder with labelled digits, an inbox with two new ones, and a model of the labelled ones, hardly trained."""
    folder = tmp_path_factory.mktemp("story")
    write_digits(folder, each=50)
    (folder / "labelled/5").rename(folder / "labelled/[b] :cat:")
    (folder / "inbox/broken.jpg").write_bytes(b"\xff\xd8\xff")
    (folder / "inbox/<b>&'.png").write_bytes((folder / "inbox/0 50.png").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pretraining.SMALL_VIT, "base_epochs", 2)
        patch.setattr("happycat.model.embedding.CalmConfig", partial(CalmConfig, episodes=2))
        told = say("fit", folder / "labelled", "-o", folder / "shop.cat", "--backbone", "scratch_vit", "--no-mirror")
    assert told[0] == 0, told[2]
    (folder / "fit.txt").write_text(told[1])
    return folder


def write_digits(folder: Path, each: int) -> None:
    """So many labelled images of each of six digits; some more of them, and two other digits, in an inbox."""
    digits = load_digits()
    pixels = (digits.images * 15.9).astype(np.uint8)
    for c in range(8):
        for k, i in enumerate(np.flatnonzero(digits.target == c)[: each + 20]):
            place = f"labelled/{c}" if c < 6 and k < each else "inbox/a/b" if k % 2 else "inbox"
            (folder / place).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels[i]).resize((16, 16)).save(folder / place / f"{c} {k}.png")


@pytest.fixture
def model(story, tmp_path) -> Path:
    """A copy of the model, to be changed."""
    copy = tmp_path / "shop.cat"
    copy.write_bytes((story / "shop.cat").read_bytes())
    return copy


@pytest.fixture(scope="module")
def discovered(story) -> tuple[Path, str]:
    """The model after the inbox, and what was said."""
    model = story / "found" / "shop.cat"
    model.parent.mkdir()
    model.write_bytes((story / "shop.cat").read_bytes())
    code, out, err = say("discover", model, story / "inbox", "--new", 2)
    assert code == 0, err
    return model, out


def test_fit_tells_what_it_came_to(story):
    told = (story / "fit.txt").read_text()
    assert "300 images, 6 classes" in told
    assert "[b] :cat:" in told  # a name is no markup
    assert "images that were held out are right" in told
    assert "version 1" in told


def test_discover_tells_where_every_image_went(story, discovered):
    model, said = discovered
    assert "2 new classes" in said
    assert "1 images are there twice" in said
    assert "1 files could not be used" in said
    results = model.parent / "shop-2"
    with open(results / "assignments.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 260
    assert {row["id"] for row in rows} <= {"", *map(str, range(8))}
    assert all(float(row["probability"]) <= 1 for row in rows)
    assert (results / "skipped.csv").read_text().splitlines()[1].startswith("broken.jpg,")
    page = (results / "page.html").read_text()
    assert "data:image/webp" in page
    assert "<b>&'" not in page


def counted(model) -> dict[int, int]:
    """The images that `show` says each class has, exactly."""
    told = json.loads(say("show", model, "--json")[1])
    assert told["counted"]["exact"]
    return {c["id"]: c["images"] for c in told["classes"]}


def predicted(model, inbox) -> Counter:
    """The images that `predict` gives to each class; each content once."""
    rows = [json.loads(line) for line in say("predict", model, inbox, "--json")[1].splitlines()]
    return Counter(row["id"] for row in rows if "<b>" not in row["image"])  # which is there twice


def test_corrections_say_what_predict_then_gives(story, discovered, tmp_path):
    model = tmp_path / "shop.cat"
    model.write_bytes(discovered[0].read_bytes())
    inbox = story / "inbox"
    for words in (("split", 6), ("split", 7), ("merge", "#6", "#9"), ("split", "0"), ("drop", 8), ("split", 6)):
        code, out, err = say(words[0], model, *words[1:])
        assert code == 0, err
        given, shown = predicted(model, inbox), counted(model)
        assert {number: images for number, images in shown.items() if images} == {
            number: images for number, images in given.items() if number is not None
        }
        said = re.findall(r"(?:class (\d+)|\b0) \((\d+) images?\)", out)
        assert len(said) == (2 if words[0] == "split" else 0)
        assert all(given[int(number or 0)] == int(images) for number, images in said)
    assert say("report", model, "-o", tmp_path / "page.html", "--no-images")[0] == 0
    last = counted(model)
    say("undo", model)
    assert counted(model) != last
    folder = discovered[0].parent / "shop-2"
    try:
        folder.rename(tmp_path / "away")
        assert re.search(r"class 7 \(about \d+ images", say("split", model, 7)[1])
        assert "about" in say("show", model)[1]
    finally:
        (tmp_path / "away").rename(folder)


def test_more_new_classes_than_files_are_refused_before_an_image_is_read(story, model, monkeypatch):
    monkeypatch.setattr("happycat.images.collecting.reason_against", lambda path: pytest.fail(f"{path} was read"))
    code, out, err = say("discover", model, story / "inbox", "--new", 99999)
    assert (code, out) == (2, "")
    assert "262 images cannot form 99999 new classes; give a smaller number, or 'auto'" in err


def test_the_page_can_be_made_again_without_pictures(discovered, tmp_path):
    assert say("report", discovered[0], "-o", tmp_path / "page.html", "--no-images")[0] == 0
    page = (tmp_path / "page.html").read_text()
    assert "data:image" not in page
    assert "class 6" in page
    assert say("report", discovered[0], "-o", tmp_path / "with.html")[0] == 0
    assert "data:image/webp" in (tmp_path / "with.html").read_text()


def test_predict_says_csv_json_and_reads_from_a_pipe(story, model, monkeypatch):
    images = [story / "labelled/3/3 1.png", story / "labelled/4"]
    code, out, _ = say("predict", model, *images, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (code, len(rows)) == (0, 51)
    assert all(0 < float(row["probability"]) <= 1 for row in rows)
    told = [json.loads(line) for line in say("predict", model, images[0], "--json")[1].splitlines()]
    assert [row["class"] for row in told] == [row["class"] for row in rows if row["image"] == str(images[0])]
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{images[0]}\n"))
    assert say("predict", model)[1].split("\t")[1] == told[0]["class"]


def test_what_cannot_be_read_is_told_and_the_rest_is_predicted(story, model):
    code, out, err = say("predict", model, story / "inbox/broken.jpg", story / "labelled/3/3 1.png")
    assert code == 0
    assert "broken.jpg" in err
    assert len(out.splitlines()) == 1
    assert say("predict", model, story / "inbox/broken.jpg")[0] == 2


@pytest.mark.parametrize("flag", ["--copy-to", "--link-to"])
def test_images_are_sorted_into_folders_once(story, model, tmp_path, flag):
    image = story / "labelled/3/3 1.png"
    said = [say("predict", model, image, flag, tmp_path / "sorted") for _ in range(2)]
    assert [code for code, _, _ in said] == [0, 0]
    assert said[0][2].endswith(f"happycat: 1 images sorted into {tmp_path / 'sorted'}\n")
    assert said[1][2].endswith(f"happycat: 0 images sorted into {tmp_path / 'sorted'}; 1 were there already\n")
    (folder,) = (tmp_path / "sorted").iterdir()
    assert folder.name in {"0", "1", "2", "3", "4", "[b] _cat_", "unknown"}
    (found,) = folder.iterdir()
    assert found.name == "3 1.png"
    assert found.is_symlink() == (flag == "--link-to")
    assert found.read_bytes() == image.read_bytes()


def test_json_and_csv_say_whether_it_is_unsure(story, model):
    told = [json.loads(line) for line in say("predict", model, story / "inbox", "--json")[1].splitlines()]
    rows = list(csv.DictReader(io.StringIO(say("predict", model, story / "inbox", "--csv")[1])))
    assert {row["unsure"] for row in told} == {True, False}
    assert [row["unsure"] == "yes" for row in rows] == [row["unsure"] for row in told]


def test_no_control_character_of_a_name_reaches_the_terminal(story, tmp_path):
    """Images, folders and a model with a colour code, a line break and C1 codes in their names; then a class."""
    bad = "\x1b[31m\x9b2J\n"
    labelled, model = tmp_path / f"labelled{bad}", tmp_path / f"shop{bad}.cat"
    for name in ("3", "4"):
        shutil.copytree(story / "labelled" / name, labelled / name)
    image, broken = labelled / "3" / f"im{bad}age.png", labelled / "3" / f"bro{bad}ken.png"
    shutil.copy(story / "labelled/3/3 1.png", image)
    broken.write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pretraining.SMALL_VIT, "base_epochs", 1)
        patch.setattr("happycat.model.embedding.CalmConfig", partial(CalmConfig, episodes=1))
        said = [say("fit", labelled, "-o", model, "--backbone", "scratch_vit", "--no-mirror")]
    predict = ("predict", model, image, broken)
    said += [say(*predict), say(*predict, "--json", "--copy-to", tmp_path / f"to{bad}")]
    said += [say("show", model), say("predict", f"none{bad}.cat", image), say("discover", model, f"no{bad}where")]
    said += [say("name", model, 0, f"cat{bad}")]  # refused
    assert [code for code, _, _ in said] == [0, 0, 0, 0, 2, 2, 2]
    for _, out, err in said:
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", out.replace("\t", "") + err)
    assert json.loads(said[2][1])["image"] == str(image)  # JSON's own escapes: nothing is lost
    assert len(said[1][1].splitlines()) == 1
    (row,) = csv.DictReader(io.StringIO(say(*predict, "--csv")[1], newline=""))
    assert row["image"] == str(image)


@pytest.fixture
def stops_in_the_third_shard(monkeypatch) -> list[int]:
    """Ctrl-C when the tail is given its third shard of 64 images. How many images each shard had."""
    embedded: list[int] = []
    through = extraction.FeatureExtractor._through_tail

    def slowly(self, rows):
        if len(embedded) == 2 and 0 not in embedded:
            embedded.append(0)
            raise KeyboardInterrupt
        embedded.append(len(rows.cls) // 3)
        return through(self, rows)

    monkeypatch.setattr(extraction.FeatureExtractor, "_through_tail", slowly)
    return embedded


def test_an_interrupted_discovery_says_what_is_kept_and_goes_on(story, model, stops_in_the_third_shard):
    before = model.read_bytes()
    code, out, err = say("discover", model, story / "inbox", "--new", 2)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == (
        f"happycat: interrupted; 128 of 260 images are embedded and kept in {model}.cache; "
        f"the same command goes on from there; {model} is as it was"
    )
    assert model.read_bytes() == before
    assert say("discover", model, story / "inbox", "--new", 2)[0] == 0
    assert sum(stops_in_the_third_shard) == 260  # what was done was not done again
    assert not Path(f"{model}.cache").exists()


def test_an_interrupted_fit_says_what_is_kept_and_goes_on(story, tmp_path, monkeypatch, stops_in_the_third_shard):
    monkeypatch.setitem(pretraining.SMALL_VIT, "base_epochs", 1)
    monkeypatch.setattr("happycat.model.embedding.CalmConfig", partial(CalmConfig, episodes=1))
    words = ("fit", story / "labelled", "-o", tmp_path / "shop.cat", "--backbone", "scratch_vit", "--no-mirror")
    code, _, err = say(*words)
    assert code == 130
    assert f"interrupted; 128 of 300 images are embedded and kept in {tmp_path / 'shop.cat.cache'}" in err
    assert not (tmp_path / "shop.cat").exists()
    assert say(*words)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["shop.cat"]


def test_a_full_disk_is_told_without_flags_that_the_command_lacks(story, model, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = model.read_bytes()
    monkeypatch.setattr(disk, "sync", full)
    code, _, err = say("discover", model, story / "inbox", "--new", 2)
    assert code == 2
    assert "no space left for" in err.splitlines()[-1]
    assert "--resume" not in err
    assert err.endswith(f"the same command begins again; {model} is as it was\n")
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fit", "{story}/nowhere"], "there is no folder"),
        (["fit", "{story}/labelled", "-o", "{story}/shop.cat"], "is there already"),
        (["discover", "{story}/none.cat", "{story}/inbox"], "there is no model"),
        (["discover", "{story}/shop.cat", "{story}/nowhere"], "nowhere"),
        (["discover", "{story}/shop.cat", "{story}/inbox", "--new", "many"], "a number or auto"),
        (["discover", "{story}/shop.cat", "{story}/inbox", "--new", "9999"], "cannot form 9999"),
        (["predict", "{story}/fit.txt", "{story}/inbox"], "not a happycat model"),
        (["name", "{story}/shop.cat", "99", "x"], "there is no class '99'"),
        (["report", "{story}/shop.cat"], "it has discovered nothing yet"),
        (["fit", "{story}/labelled/1", "-o", "{story}/one.cat"], ""),
    ],
)
def test_a_mistake_is_one_line(story, words, message):
    code, _, err = say(*(word.format(story=story) for word in words))
    line = err.strip().splitlines()[-1]
    assert code == 2
    assert line.startswith("happycat: ")
    assert message in line


def test_a_model_that_was_cut_off_names_its_last_good_version(discovered, tmp_path):
    cut = tmp_path / "cut.cat"
    cut.write_bytes(discovered[0].read_bytes()[:-100])
    code, _, err = say("show", cut)
    assert code == 2
    assert "its last good version is 1" in err
    assert say("undo", cut)[0] == 2
    assert say("doctor", cut, "--repair")[0] == 0
    assert model_file.read(cut).number == 1


def test_a_research_run_has_a_page(finished, tmp_path):
    assert say("report", finished, "-o", tmp_path / "run.html")[0] == 0
    page = (tmp_path / "run.html").read_text()
    assert "happy on glyphs" in page
    assert os.path.getsize(tmp_path / "run.html") < 1e6


@pytest.mark.slow
def test_the_whole_story_of_the_digits(tmp_path):
    """With the backbone trained as it should be: the number of new digits, and where their images go."""
    write_digits(tmp_path, each=90)
    model = tmp_path / "shop.cat"
    assert say("fit", tmp_path / "labelled", "-o", model, "--backbone", "scratch_vit", "--no-mirror")[0] == 0
    assert say("discover", model, tmp_path / "inbox")[0] == 0
    told = model_file.history(model)[1]["found"]
    assert told["count"]["low"] <= 2 <= told["count"]["high"]
    with open(tmp_path / "shop-2" / "assignments.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    kinds, new = [Path(row["image"]).name[0] for row in rows], {str(i) for i in told["new"]}
    found = [kind for kind, row in zip(kinds, rows, strict=True) if row["id"] in new]
    assert np.mean([kind in "67" for kind in found]) > 0.9  # hardly a known digit among the new ones
    assert len(found) > 0.4 * sum(kind in "67" for kind in kinds)  # so small a backbone leaves many of them unknown
    assert np.mean([row["class"] == kind for kind, row in zip(kinds, rows, strict=True) if kind not in "67"]) > 0.9
