"""A disk that gets full at any file operation of a change: one line, nothing lost, and then it goes on."""

from __future__ import annotations

import builtins
import errno
import io
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from happycat.base.errors import NoSpaceError
from happycat.model import corrections
from happycat.model import file as model_file
from happycat.model.discovering import accept
from happycat.model.editor import Editor
from happycat.model.labels import labelled_images, write_labels
from happycat.model.page import review_page
from happycat.model.reading import open_model
from happycat.report.html import write_page
from tests.app.shop import discover, make_shop

ALWAYS = ("fsync", "mkdir")  # what may need room on the disk, besides opening a file to write to it


@contextmanager
def full_after(number: int) -> Iterator[None]:
    """A disk on which so many more writing operations find room."""
    left = [number]

    def take() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    def counted(call: Callable) -> Callable:
        def called(*args, **kwargs):
            take()
            return call(*args, **kwargs)

        return called

    def opened(file, mode="r", *args, **kwargs):
        if any(c in mode for c in "wax+"):
            take()
        return real(file, mode, *args, **kwargs)

    real = io.open
    with pytest.MonkeyPatch.context() as patch:
        for name in ALWAYS:
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(builtins, "open", opened)
        patch.setattr(io, "open", opened)
        yield


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Path:
    model = make_shop(tmp_path_factory.mktemp("shop"))
    discover(model, model.parent / "more", [0, 22, 23], propose=True)
    return model


def draw(model: Path) -> None:
    write_page(review_page(model), model.with_name("page.html"))


CHANGES: dict[str, Callable[[Path], object]] = {
    "name": lambda model: corrections.correct(model, "name", lambda registry: registry.name("#6", "six")),
    "undo": corrections.undo,
    "move": lambda model: Editor(model).move([0, 1], 6),
    "accept": lambda model: accept(model, model.with_name("shop-3")),
    "labels": lambda model: write_labels(model.with_name("labels.csv"), labelled_images(model)),
    "page": draw,
}


@pytest.mark.parametrize("what", [*list(CHANGES)[:-1], pytest.param("page", marks=pytest.mark.slow)])
def test_a_full_disk_at_every_operation(shop, tmp_path, what):
    folder = tmp_path / "now"
    model, before = folder / shop.name, len(model_file.history(shop))
    for number in itertools.count():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(shop.parent, folder)
        try:
            with full_after(number):
                CHANGES[what](model)
        except NoSpaceError as error:
            said = str(error)
        else:
            break
        assert "no space left for" in said
        assert "\n" not in said
        assert model_file.damaged_versions(model) == []
        assert not list(folder.rglob("*.partial"))
        if len(model_file.history(model)) == before and open_model(model).file.number == open_model(shop).file.number:
            CHANGES[what](model)  # there is room again
    assert number > 1
