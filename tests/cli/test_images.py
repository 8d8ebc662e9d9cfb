"""Commands on images: move, confirm, reject, ignore, teach, split by examples, propose and accept, export labels."""

from __future__ import annotations

import csv
import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from happycat import Happycat
from happycat.methods import pretraining
from happycat.methods.calm import CalmConfig
from happycat.model import file as model_file
from tests.cli.test_practitioner import say, write_digits


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Path:
    """A folder with a model of six digits that discovered two classes in an inbox; shop-2 is the discovery's."""
    folder = tmp_path_factory.mktemp("found")
    write_digits(folder, each=20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pretraining.SMALL_VIT, "base_epochs", 2)
        patch.setattr("happycat.model.embedding.CalmConfig", partial(CalmConfig, episodes=2))
        told = say("fit", folder / "labelled", "-o", folder / "shop.cat", "--backbone", "scratch_vit", "--no-mirror")
    assert told[0] == 0, told[2]
    shutil.copy(folder / "shop.cat", folder / "fitted.cat")
    assert say("discover", folder / "shop.cat", folder / "inbox", "--new", 2)[0] == 0
    return folder


@pytest.fixture
def shop(found, tmp_path) -> Path:
    """A copy of the model with its discovery beside it, to be changed."""
    for name in ("shop.cat", "fitted.cat"):
        shutil.copy(found / name, tmp_path / name)
    shutil.copytree(found / "shop-2", tmp_path / "shop-2")
    return tmp_path / "shop.cat"


def labels(shop: Path, *flags) -> dict[str, dict[str, str]]:
    code, _, err = say("export-labels", shop, "-o", shop.with_name("labels.csv"), *flags)
    assert code == 0, err
    with open(shop.with_name("labels.csv"), newline="") as file:
        return {Path(row["path"]).name: row for row in csv.DictReader(file)}


def done(*words) -> str:
    code, out, err = say(*words)
    assert code == 0, err
    return out


def refused(*words) -> str:
    code, _, err = say(*words)
    assert code == 2
    assert "Traceback" not in err
    return err.splitlines()[-1]


def test_moved_images_stay(found, shop):
    some = [found / "inbox/6 0.png", "6 2.png", found / "inbox/a"]
    told = done("move", shop, *some[:2], "--to", "3")
    assert told == "2 images of 3 now (version 3)\n"
    rows = labels(shop)
    assert [rows[name]["label"] for name in ("6 0.png", "6 2.png")] == ["3", "3"]
    assert [rows[name]["said"] for name in ("6 0.png", "6 2.png", "6 4.png")] == ["confirmed", "confirmed", ""]
    assert labels(shop, "--checked").keys() == {"6 0.png", "6 2.png"}
    done("discover", shop, found / "inbox", "--new", 1)
    assert {Path(row["path"]).name for row in labels(shop).values() if row["said"]} == {"6 0.png", "6 2.png"}
    said = done("predict", shop, found / "inbox/6 0.png")
    assert said.split("\t")[1:] == ["3", "1.0000\n"]


def test_a_whole_folder_of_images_becomes_a_class(found, shop):
    told = done("move", shop, found / "inbox/a", "--to", "odd ones", "--new")
    rows = labels(shop)
    odd = [name for name, row in rows.items() if row["said"]]
    assert told.startswith(f"{len(odd)} images of odd ones now")
    assert {rows[name]["label"] for name in odd} == {"odd ones"}
    assert len(odd) > 30


def test_ignored_images_are_shown_as_such(found, shop):
    done("ignore", shop, found / "inbox/a")
    states = [one["state"] for one in json.loads(done("show", shop, "--json"))["classes"]]
    assert "ignored" in states
    assert "dropped" not in states
    table = done("show", shop)
    assert "ignored" in table
    assert "dropped" not in table


def test_confirm_reject_ignore_and_back(found, shop):
    rows = labels(shop)
    sure = [name for name, row in rows.items() if row["id"]][:3]
    paths = [found / "inbox" / ("a/b" if int(name.split()[1][:-4]) % 2 else "") / name for name in sure]
    assert done("confirm", shop, paths[0]) == "1 image confirmed (version 3)\n"
    assert done("reject", shop, paths[1]) == "1 image rejected (version 4)\n"
    assert done("ignore", shop, paths[2]) == "1 image left alone (version 5)\n"
    after = labels(shop)
    assert after[sure[0]]["id"] == rows[sure[0]]["id"]
    assert after[sure[1]]["id"] != rows[sure[1]]["id"]
    assert (after[sure[2]]["label"], after[sure[2]]["said"]) == ("unknown", "ignored")
    assert "3 images are known by a checksum" in done("show", shop)
    done("unignore", shop, paths[2])
    assert labels(shop)[sure[2]]["said"] == ""
    assert "not ignored" in refused("unignore", shop, paths[2])
    for _ in range(4):
        done("undo", shop)
    assert labels(shop) == rows
    assert "undone: confirm 1 image; reject 1 image; ignore 1 image; unignore 1 image" in done("show", shop).replace(
        "\n", " "
    )
    done("redo", shop)
    assert labels(shop)[sure[0]]["said"] == "confirmed"


def test_an_image_is_found_by_its_content_wherever_it_lies(found, shop, tmp_path):
    copy = tmp_path / "elsewhere.png"
    shutil.copy(found / "inbox/6 0.png", copy)
    done("move", shop, copy, "--to", "2")
    assert labels(shop)["6 0.png"]["label"] == "2"
    error = refused("move", shop, found / "labelled/0/0 0.png", "--to", "2")
    assert "not among the" in error
    assert "teach" in error
    assert "there is no class 'lynx'" in refused("move", shop, copy, "--to", "lynx")


def test_classes_that_were_said_to_differ(shop):
    done("apart", shop, "0", "1")
    assert "held apart" in refused("merge", shop, "0", "1")
    assert "has discovered nothing yet" in refused("move", shop.with_name("fitted.cat"), "x.png", "--to", "0")


def test_split_by_examples(found, shop):
    done("merge", shop, "#6", "#7")
    rows = labels(shop)
    sevens = [n for n, row in rows.items() if row["id"] == "6" and n.startswith("7")]
    folders = {n: found / "inbox" / ("a/b" if int(n.split()[1][:-4]) % 2 else "") / n for n in sevens}
    told = done("split", shop, "#6", folders[sevens[0]], folders[sevens[1]])
    assert "is split: class 6" in told
    assert labels(shop)[sevens[0]]["id"] == "8"
    assert "not of" in refused("split", shop, "#0", folders[sevens[0]])


def test_teach_known_and_new_classes(found, shop, tmp_path):
    more = tmp_path / "more"
    shutil.copytree(found / "labelled/0", more / "0")
    shutil.copytree(found / "labelled/1", more / "won")
    told = done("teach", shop, more, "--join", "never")
    assert "new: won (20)" in told
    assert "more images of: 0 (20)" in told
    assert "40 images learned (version 3)" in told
    assert Happycat.load(shop).find("won").labelled
    assert model_file.history(shop)[-1]["images"] == 40
    assert "--join is one of ask, auto, never" in refused("teach", shop, more, "--join", "x")
    assert "there is no folder" in refused("teach", shop, tmp_path / "none")


def test_a_discovered_class_gets_its_name_by_teaching(found, shop, tmp_path):
    rows = labels(shop)
    mine = [name for name, row in rows.items() if row["id"] == "6"]
    (tmp_path / "more/six").mkdir(parents=True)
    for name in mine:
        folder = found / "inbox" / ("a/b" if int(name.split()[1][:-4]) % 2 else "")
        shutil.copy(folder / name, tmp_path / "more/six" / name)
    error = refused("teach", shop, tmp_path / "more")
    assert "class 6 looks like six" in error
    assert "--join auto" in error
    told = done("teach", shop, tmp_path / "more", "--join", "auto")
    assert f"discovered and named now: six ({len(mine)})" in told
    assert Happycat.load(shop).find(6).name == "six"


def test_a_proposal_changes_nothing_until_it_is_accepted(found, shop):
    fitted, folder = shop.with_name("fitted.cat"), shop.with_name("proposal")
    before = fitted.read_bytes()
    told = done("discover", fitted, found / "inbox", "--new", 2, "--propose", "-o", folder)
    assert "happycat accept" in told
    assert fitted.read_bytes() == before
    assert (folder / "page.html").exists()
    assert "not a new one" in refused("accept", fitted, folder, "--only", "#0")
    assert done("accept", fitted, folder, "--only", "#7") == "1 new class taken up (version 2)\n"
    cat = Happycat.load(fitted)
    assert [entry.id for entry in cat.registry_ if entry.stage] == [7]
    assert cat.registry_.counts.exact
    done("name", fitted, "#7", "seven")
    assert "there is no proposal" in refused("accept", fitted, folder)
    done("discover", fitted, found / "inbox", "--new", 1, "--propose", "-o", folder)
    done("name", fitted, "#7", "other")
    assert "was changed since the proposal" in refused("accept", fitted, folder)


def test_an_inbox_that_was_seen_before_is_said_to_be(found, shop):
    told = done("discover", shop, found / "inbox", "--new", 0)
    assert "of these images were in the discovery of version 2 already" in told


def test_labels_as_coco(shop):
    target = shop.with_name("labels.json")
    done("export-labels", shop, "-o", target)
    content = json.loads(target.read_text())
    names = {one["id"]: one["name"] for one in content["categories"]}
    rows = labels(shop)
    assert len(content["images"]) == len(rows)
    for annotation in content["annotations"]:
        image = content["images"][annotation["image_id"]]
        assert rows[Path(image["file_name"]).name]["label"] == names[annotation["category_id"]]
    assert len(content["annotations"]) == sum(row["id"] != "" for row in rows.values())
    assert "neither a .csv nor a .json" in refused("export-labels", shop, "-o", shop.with_name("labels.xml"))
