"""Images sorted into folders by class: twice is as good as once, and nothing is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from happycat.model.estimator import Assignment
from happycat.model.sorting import COPIES, LINKS, Sorted, sort_into


def row(path: Path, label: str = "cat") -> Assignment:
    return Assignment(str(path), 0, label, 0.9, False)


@pytest.fixture
def images(tmp_path) -> list[Path]:
    """Two images of one name and different content."""
    made = [tmp_path / folder / "1.png" for folder in "ab"]
    for i, path in enumerate(made):
        path.parent.mkdir()
        path.write_bytes(bytes([i]))
    return made


@pytest.mark.parametrize("way", [COPIES, LINKS])
def test_the_second_time_nothing_is_put(images, tmp_path, way):
    rows = [row(path) for path in images]
    assert sort_into(tmp_path / "sorted", rows, way) == Sorted(2, 0)
    assert sort_into(tmp_path / "sorted", rows, way) == Sorted(0, 2)
    found = sorted((tmp_path / "sorted" / "cat").iterdir())
    assert [path.name for path in found] == ["1-2.png", "1.png"]
    assert [path.read_bytes() for path in found] == [b"\1", b"\0"]
    assert all(path.is_symlink() == (way is LINKS) for path in found)


def test_a_link_is_no_copy(images, tmp_path):
    rows = [row(images[0])]
    sort_into(tmp_path / "sorted", rows, LINKS)
    assert sort_into(tmp_path / "sorted", rows, COPIES) == Sorted(1, 0)
    assert not (tmp_path / "sorted" / "cat" / "1-2.png").is_symlink()


def test_a_copy_that_was_changed_stays_beside_the_new_one(images, tmp_path):
    sort_into(tmp_path / "sorted", [row(images[0])], COPIES)
    (tmp_path / "sorted" / "cat" / "1.png").write_bytes(b"painted over")
    assert sort_into(tmp_path / "sorted", [row(images[0])], COPIES) == Sorted(1, 0)
    assert (tmp_path / "sorted" / "cat" / "1.png").read_bytes() == b"painted over"


def test_a_name_is_no_path(images, tmp_path):
    sort_into(tmp_path / "sorted", [row(images[0], "../a\n"), row(images[0], "..")], COPIES)
    assert sorted(path.name for path in (tmp_path / "sorted").iterdir()) == ["_", "_a_"]
