import numpy as np
import pytest
from PIL import Image

from happycat.base.errors import StorageError
from happycat.report import pictures
from happycat.report.classes import ClassSummary

SCORES = [
    {"all": 95.0, "old": 95.0, "new": None, "strict_all": 95.0},
    {"all": 85.0, "old": 88.0, "new": 60.0, "strict_all": 84.0},
    {"all": 80.0, "old": 82.0, "new": 70.0},
]


def found(n, side=8):
    rng = np.random.default_rng(0)
    matches = [None, ("8", 93.2), ("a name that is longer than its place", None)]
    return [
        pictures.Row(
            ClassSummary(
                id=k, label=f"class {k} costs $5 and $6", kind="new", stage=1, images=112, match=matches[k % 3]
            ),
            [rng.integers(256, size=(side, side, 3), dtype=np.uint8) for _ in range(k % 3)],
        )
        for k in range(n)
    ]


def opened(path):
    """The picture's pixels, after checking that it is a sound PNG alone in its folder."""
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("stages", [1, 3, 12])
def test_curves(tmp_path, stages):
    path = tmp_path / "curves.png"
    pictures.curves((SCORES * 4)[:stages], path, "happy, $1 a stage")
    pixels = opened(path)
    assert 600 <= pixels.shape[0] <= pixels.shape[1] <= 1200
    assert (pixels.min(), pixels.max()) == (0, 255)


def test_curves_show_the_new_classes_only_where_there_are_some(tmp_path):
    def vermilion(scores):
        pictures.curves(scores, tmp_path / "curves.png", "")
        return (np.abs(opened(tmp_path / "curves.png").astype(int) - (0xD5, 0x5E, 0)).sum(axis=2) < 10).sum()

    assert vermilion(SCORES[:1]) == 0
    assert vermilion(SCORES) > 500


def test_gallery_grows_by_rows_and_stops_at_most(tmp_path):
    heights = {}
    for n in (1, 2, 3, 5):
        path = tmp_path / str(n) / "found.png"
        pictures.discovered(found(n), path, most=3)
        heights[n] = opened(path).shape[0]
    row = heights[2] - heights[1]
    assert row == heights[3] - heights[2] > 80
    assert heights[3] < heights[5] < heights[3] + row  # the note, not two more rows


def test_gallery_without_a_class_says_so(tmp_path):
    pictures.discovered([], tmp_path / "found.png")
    assert (opened(tmp_path / "found.png") < 200).any()


def test_gallery_takes_grey_arrays_and_pil_images(tmp_path):
    given = [np.zeros((28, 20), np.uint8), Image.new("L", (300, 200)), Image.new("P", (1, 1))]
    pictures.discovered([found(1)[0]._replace(pictures=given)], tmp_path / "found.png")
    opened(tmp_path / "found.png")


def test_thumbnail_is_the_centre_and_keeps_pixels_square():
    tiny = np.zeros((2, 4, 3), np.uint8)
    tiny[:, 1], tiny[:, 2], tiny[:, 3] = 50, 100, 255  # the centre square is columns 1 and 2
    thumbnail = pictures._thumbnail(tiny)
    assert thumbnail.shape == (96, 96, 3)
    assert np.unique(thumbnail[:, :48]).tolist() == [50]
    assert np.unique(thumbnail[:, 48:]).tolist() == [100]


@pytest.mark.parametrize("n", [0, 4, 9])
def test_summary(tmp_path, n):
    path = tmp_path / "summary.png"
    pictures.summary(SCORES, found(n), path)
    pixels = opened(path)
    assert pixels.shape[1] > pixels.shape[0] > 500


def test_a_picture_replaces_the_one_before(tmp_path):
    path = tmp_path / "curves.png"
    path.write_bytes(b"old")
    pictures.curves(SCORES, path, "")
    opened(path)


def test_a_failed_write_leaves_what_was_there(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(StorageError, match="cannot be written"):
        pictures.curves(SCORES, tmp_path / "file" / "curves.png", "")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        pictures.curves(SCORES, tmp_path / "folder", "")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]
