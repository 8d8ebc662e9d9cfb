"""The page of a discovery after corrections; the review that it is drawn from."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from happycat import Happycat
from happycat.base.errors import InputError
from happycat.images.pictures import FilePictures
from happycat.model.corrections import correct, undo
from happycat.model.knowledge import Knowledge
from happycat.model.map import map_places
from happycat.model.page import page_of, review_page, with_pictures
from happycat.model.review import FILE, Review
from happycat.model.summary import class_summaries
from happycat.report.classes import ClassSummary
from happycat.report.html import Dot, Page, render

DIM, KNOWN = 32, 6


def clouds(classes, each=30, noise=0.06, seed=0):
    """Vectors (N, D) around a direction for each class, and their classes."""
    directions = np.linalg.qr(np.random.default_rng(7).normal(size=(DIM, DIM)))[0]
    labels = np.repeat(list(classes), each)
    return directions[labels] + noise * np.random.default_rng(seed).normal(size=(len(labels), DIM)), labels


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A folder with a model that discovered two classes (6 and 7) among three known ones, and the review of that."""
    folder = tmp_path_factory.mktemp("story")
    X, y = clouds(range(KNOWN))
    cat = Happycat().fit(X, [f"c{label}" for label in y])
    cat.save(folder / "shop.cat")
    inbox, _ = clouds([0, 1, 2, 20, 21], seed=1)
    found = cat.discover(inbox, 2)
    review = Review.of(found, cat.stage_)
    more = {"results": str(folder / "shop-2"), "review": review.write(folder / "shop-2")}
    cat.save(folder / "shop.cat", "discover inbox", more)
    return folder, found, page_of(cat, review, folder / "shop.cat")


@pytest.fixture
def model(story, tmp_path) -> Path:
    """A copy of the model to be corrected; the review lies beside it."""
    shutil.copytree(story[0], tmp_path / "copy")
    return tmp_path / "copy" / "shop.cat"


def cards(page):
    return {card.id: card for card in page.cards}


def test_a_page_without_corrections_is_that_of_the_discovery(story, model):
    _, found, first = story
    page = review_page(model)
    assert [dot.cls for dot in page.dots] == [row.id for row in found.assigned] == [dot.cls for dot in first.dots]
    assert [dot.probability for dot in page.dots] == pytest.approx([d.probability for d in first.dots], abs=0.01)
    assert [card.id for card in page.cards] == [card.id for card in first.cards]
    assert {card.id for card in page.cards if card.kind == "new"} == set(found.new) == {6, 7}
    assert page.since == ()
    assert "version 2" in page.shown
    assert [what for _, _, what in page.history] == ["fit", "discover inbox"]


def test_an_estimate_from_few_classes_is_called_rough(story):
    folder, found, given = story
    assert given.doubt == ""  # the number was given
    cat = Happycat.load(folder / "shop.cat")
    count = {"number": 2, "low": 1, "high": 3, "numbers": [1, 2, 3], "curve": [0.2, 0.6, 0.2], "measure": "probability"}
    page = page_of(cat, replace(Review.of(found, 1), count=count), folder / "shop.cat")
    assert page.doubt == Knowledge.of(cat.registry_).doubt
    assert "(6 labelled classes)" in page.doubt


def test_names_and_drops_are_shown(model):
    correct(model, "name #6 'red panda'", lambda registry: str(registry.name("#6", "red panda")))
    correct(model, "drop #7", lambda registry: str(registry.drop("#7")))
    page = review_page(model)
    assert cards(page)[6].label == cards(page)[6].name == "red panda"
    assert (cards(page)[7].kind, cards(page)[7].images) == ("dropped", 0)
    assert sum(dot.cls is None for dot in page.dots) >= 30  # what looks like it is given to nobody
    assert page.sentence == "30 images in one new class, 90 in known ones, 30 in none"
    assert [(number, what) for number, _, what in page.since] == [(3, "name #6 'red panda'"), (4, "drop #7")]
    assert "version 4" in page.shown
    assert "version 2 and 2 corrections since" in page.shown


def test_merged_and_split_classes_are_shown_and_undone(story, model):
    before = cards(story[2])
    correct(model, "merge", lambda registry: str(registry.merge("#6", "#7")))
    merged = cards(review_page(model))
    assert 7 not in merged
    assert merged[6].images == before[6].images + before[7].images
    assert merged[6].separation > 0.9  # that it has two kinds of images was on purpose
    correct(model, "merge", lambda registry: str(registry.merge("c0", "#6")))
    assert not [card for card in review_page(model).cards if card.kind == "new"]
    undo(model)
    undo(model)
    assert {id: card.images for id, card in cards(review_page(model)).items()} == {
        id: card.images for id, card in before.items()
    }
    correct(model, "split", lambda registry: str(registry.split("#6")))
    halves = [card for card in review_page(model).cards if card.kind == "new" and card.id != 7]
    assert [card.id for card in sorted(halves, key=lambda card: card.id)] == [6, 8]
    assert all(card.images for card in halves)
    # a half may take an image that the whole class rejected, or reject one
    assert sum(card.images for card in halves) == pytest.approx(before[6].images, abs=1)


def test_a_mixed_class_is_less_pure():
    X, y = clouds(range(KNOWN))
    cat = Happycat().fit(X, y)
    inbox, labels = clouds([20, 21, 22], seed=1)
    found = cat.discover(inbox, 2)
    pure, mixed = [], []
    for card in class_summaries(cat, found.assigned, found.points, cat.stage_):
        if card.kind == "new":
            members = [i for i, row in enumerate(found.assigned) if row.id == card.id]
            (pure if len(set(labels[members])) == 1 else mixed).append(card.separation)
    assert len(pure) == len(mixed) == 1
    assert pure[0] > 0.9
    assert mixed[0] < 0.6


def test_a_class_of_one_image_has_no_separation(story):
    folder, found, _ = story
    cat = Happycat.load(folder / "shop.cat")
    rows = [row._replace(id=6 if i == 100 else 0) for i, row in enumerate(found.assigned)]
    summaries = {one.id: one for one in class_summaries(cat, rows, found.points, 1)}
    assert (summaries[6].images, summaries[6].separation) == (1, None)
    assert (summaries[5].images, summaries[5].separation, summaries[5].confidence) == (0, None, None)


def test_a_review_that_is_gone_or_changed_is_one_line(model):
    folder = model.parent / "shop-2"
    content = (folder / FILE).read_bytes()
    (folder / FILE).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    Path(folder).rename(model.parent / "elsewhere")
    moved = model.parent / "elsewhere"
    with pytest.raises(InputError, match="changed, or is of another discovery"):
        Review.read(moved, "0" * 64)
    shutil.rmtree(moved)
    with pytest.raises(InputError, match=r"is gone.*discover its images again") as error:
        Review.read(moved, "0" * 64)
    assert "\n" not in str(error.value)


def test_a_model_without_a_discovery_has_nothing_to_show(model):
    undo(model)
    with pytest.raises(InputError, match="it has discovered nothing yet"):
        review_page(model)


def test_a_review_is_read_as_it_was_written(tmp_path):
    points = torch.nn.functional.normalize(torch.randn(7, 5, generator=torch.Generator().manual_seed(0)), dim=-1)
    review = Review(
        keys=("a.png", "ü\udcff.png", *"bcdef"),
        points=points.numpy(),
        learned=points.numpy() / 2,
        counted=np.arange(-1, 6),
        digests=np.arange(7 * 16, dtype=np.uint8).reshape(7, 16),
        places=map_places(points),
        root=tmp_path,
        stage=2,
        found=3,
        count={"number": 3, "low": 2, "high": 4, "numbers": [2, 3], "curve": [1.0, 2.0]},
        skipped=(("x.jpg", "broken"),),
        duplicates=1,
    )
    read = Review.read(tmp_path, review.write(tmp_path))
    assert (read.keys, read.root, read.stage, read.found) == (review.keys, tmp_path, 2, 3)
    assert (read.count, read.skipped, read.duplicates) == (review.count, review.skipped, 1)
    assert np.array_equal(read.points, points.numpy())  # to the bit: rounding could move an image across a threshold
    assert np.allclose(read.places, review.places)
    for name in ("learned", "counted", "digests"):
        assert np.array_equal(getattr(read, name), getattr(review, name))
    assert read.pictures.keys == review.keys
    assert (tmp_path / FILE).stat().st_size < 8 * points.numel() + 32 * 7 + 1200


@pytest.fixture
def album(tmp_path) -> tuple[Page, FilePictures]:
    """A page of two classes of 100 and 20 images without small pictures, and their files; one file is gone."""
    pixels = np.random.default_rng(0).integers(256, size=(120, 30, 40, 3), dtype=np.uint8)
    keys = [f"{i}.png" for i in range(120)]
    for key, picture in zip(keys, pixels, strict=True):
        Image.fromarray(picture).save(tmp_path / key)
    (tmp_path / "100.png").unlink()
    dots = tuple(
        Dot(path=key, cls=int(i >= 100), probability=1 - i % 100 / 150, unsure=i in (98, 99), x=i, y=0)
        for i, key in enumerate(keys)
    )
    cards = tuple(
        ClassSummary(id=id, label=str(id), kind="new", stage=1, images=n, doubtful=(100 * id + n - 1,))
        for id, n in ((0, 100), (1, 20))
    )
    page = Page(title="", sentence="", made="", version="", cards=cards, dots=dots)
    return page, FilePictures(tmp_path, keys)


def test_all_images_have_a_small_picture_where_there_is_room(album):
    page = with_pictures(*album)
    assert (page.left_out, page.gone) == (0, 1)
    assert [i for i, dot in enumerate(page.dots) if dot.thumbnail is None] == [100]


def test_small_pictures_stop_at_the_room_and_each_class_has_its_surest_first(album):
    room = 180_000
    page = with_pictures(*album, room=room)
    shown = [i for i, dot in enumerate(page.dots) if dot.thumbnail]
    assert room / 2 < len(render(page)) - len(render(album[0])) < room
    assert page.left_out == 120 - len(shown) - 1 > 60
    assert {98, 99, 119} <= set(shown)  # unsure, and of a gallery
    first, second = [i for i in shown if i < 98], [i for i in shown if 100 <= i < 119]
    assert first == list(range(len(first)))
    assert second == list(range(101, 101 + len(second)))
    assert abs(len(first) - len(second) - 1) <= 1  # the one that is gone had its turn


def test_a_page_without_images_has_no_links_either(story):
    folder, found, _ = story
    cat = Happycat.load(folder / "shop.cat")
    review = replace(Review.of(found, 1), root=folder)
    assert page_of(cat, review, folder / "shop.cat").root == folder
    assert page_of(cat, review, folder / "shop.cat", images=False).root is None
