import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from happycat.base.errors import InputError, StorageError
from happycat.report import figures
from happycat.report.charts import Number, number_panel
from happycat.report.figures import Panel, Series, bars, densities, density, lines

METHODS = [f"method {i}" for i in range(8)]


def panel(title="C100", x=(0, 1, 2), methods=METHODS, paper=True, **more):
    series = [
        Series(
            name,
            [90.0 - 3 * i - 10 * k for k in range(len(x))],
            [0.5] * len(x),
            [91.0 - 3 * i - 10 * k for k in range(len(x))] if paper else None,
        )
        for i, name in enumerate(methods)
    ]
    return Panel(title, x, series, "stage", "accuracy (%)")._replace(**more)


def opened(paths):
    """The PNG's pixels and the SVG's texts, after checking that both are sound and alone in their folder."""
    png, svg = paths
    assert sorted(png.parent.iterdir()) == [png, svg]
    with Image.open(png) as image:
        assert image.format == "PNG"
        pixels = np.asarray(image.convert("RGB"))
    root = ElementTree.fromstring(svg.read_text("utf-8"))
    return pixels, [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def has_colour(pixels, colour):
    wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return bool((np.abs(pixels.astype(int) - wanted).sum(axis=2) < 12).any())


@pytest.mark.parametrize("draw", [lines, bars])
def test_panels(tmp_path, draw):
    titles = ["C100", "IN100", "Tiny", "CUB costs $5 and $6"]
    pixels, texts = opened(draw([panel(title) for title in titles], tmp_path / "figure"))
    assert pixels.shape[1] == 1360  # 6.8 inches
    assert {*titles, *METHODS, "accuracy (%)"} <= {*texts}
    assert texts.count("paper") == texts.count("method 0") == 1  # one legend
    assert texts.count("stage") == 2  # below the lower row alone
    assert all(has_colour(pixels, colour) for colour in figures.COLOURS)


@pytest.mark.parametrize("draw", [lines, bars])
def test_one_panel_is_a_column_wide(tmp_path, draw):
    pixels, texts = opened(draw([panel(methods=METHODS[:3], paper=False)], tmp_path / "figure"))
    assert pixels.shape[1] == 660  # 3.3 inches
    assert 300 < pixels.shape[0] < 660
    assert "paper" not in texts


def test_many_panels_wrap(tmp_path):
    heights = []
    for n in (3, 5, 6):
        paths = lines([panel(methods=METHODS[:2]) for _ in range(n)], tmp_path / str(n) / "figure")
        heights.append(opened(paths)[0].shape[0])
    assert heights[1] == heights[2] > 1.7 * heights[0]


def test_a_series_keeps_its_colour_in_every_panel(tmp_path):
    panels = [panel(methods=["a", "b"], paper=False), panel(methods=["b"], paper=False)]
    pixels, _ = opened(lines(panels, tmp_path / "figure"))
    right = pixels[100:, 800:]
    assert has_colour(right, figures.COLOURS[1])
    assert not has_colour(right, figures.COLOURS[0])


def test_many_bars_take_the_full_width_and_turn_their_names(tmp_path):
    names = tuple(f"corruption {i}" for i in range(15))
    paths = bars([panel(x=names, methods=METHODS[:3])], tmp_path / "figure")
    pixels, texts = opened(paths)
    assert pixels.shape[1] == 1360
    assert {*names} <= {*texts}
    assert "rotate(-40" in paths[1].read_text("utf-8")


def test_a_sweep_over_zero(tmp_path):
    sweep = panel(x=(0, 0.01, 1, 100), methods=["All"], x_label="weight λ₁")
    _, texts = opened(lines([sweep], tmp_path / "figure", log_x=True))
    assert {"0", "0.01", "1", "100", "weight λ₁"} <= {*texts}


def test_names_for_x(tmp_path):
    _, texts = opened(lines([panel(x=("none", "soft", "hard"))], tmp_path / "figure"))
    assert {"none", "soft", "hard"} <= {*texts}


def test_crowded_numbers_are_thinned(tmp_path):
    _, texts = opened(lines([panel(x=tuple(range(1000, 1100)))], tmp_path / "figure"))
    ticks = [text for text in texts if re.fullmatch(r"1\d{3}", text or "")]
    assert "1000" in ticks
    assert 3 <= len(ticks) < 20


def test_densities(tmp_path):
    rng = np.random.default_rng(0)
    panels = [(f"set {i}", {"old": rng.normal(size=500), "new": rng.normal(2, size=50)}) for i in range(4)]
    pixels, texts = opened(densities(panels, tmp_path / "figure", ["entropy"] * 4))
    assert pixels.shape[1] == 1360
    assert {"old", "new", "set 0", "set 3", "entropy"} <= {*texts}
    assert has_colour(pixels, figures.COLOURS[0])
    assert has_colour(pixels, figures.COLOURS[1])


def test_density_is_the_mean_of_gaussians():
    values = np.array([0.0, 1.0, 4.0])
    x, height = density(values)
    assert (x[0], x[-1]) == (0, 4)
    width = values.std(ddof=1) * len(values) ** (-1 / 5)  # Scott's rule
    gaussians = np.exp(-(((x[:, None] - values) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(height, gaussians.mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize("values", [[0.3], [0.3, 0.3, 0.3], [0.0, 0.0], [2.0, np.nan]])
def test_density_of_the_same_values_is_one_place(values):
    x, _ = density(values)
    assert x.tolist() == values[:1]


def test_density_of_nothing():
    assert [len(part) for part in density([])] == [0, 0]
    assert len(density([np.nan])[0]) == 0


@pytest.mark.parametrize("draw", [lines, bars])
@pytest.mark.parametrize(
    "series",
    [
        [],
        [Series("one seed", [50.0, 60.0])],
        [Series("gaps", [None, 60.0], [0.5, None], [None, 61.0])],
        [Series("all None", [None, None], [0.0, 0.0], [None, None])],
        [Series("the paper's alone", [None, None], None, [50.0, 60.0])],
        [Series("constant", [50.0, 50.0], [0.0, 0.0])],
        [Series("negative", np.array([-5.0, 3.0]), np.array([1.0, 1.0]), np.array([-4.0, 2.0]))],
        [Series("not finite", [float("nan"), float("inf")], [float("nan"), 1.0])],
    ],
)
@pytest.mark.filterwarnings("error")
def test_poor_data(tmp_path, draw, series):
    _, texts = opened(draw([Panel("poor", ["a", "b"], series, "", "")], tmp_path / "figure"))
    assert {one.name for one in series} <= {*texts}
    nothing = not series or series[0].name in ("all None", "not finite")
    assert ("no data" in texts) == nothing


@pytest.mark.parametrize("draw", [lines, bars])
@pytest.mark.parametrize("x", [(), (0,), ("only",)])
def test_no_stage_and_one_stage(tmp_path, draw, x):
    opened(draw([panel(x=x, methods=["a"])], tmp_path / "figure"))


@pytest.mark.filterwarnings("error")
def test_poor_densities(tmp_path):
    panels = [
        ("constant", {"old": np.ones(5), "new": np.zeros(0)}),
        ("few", {"old": np.array([1.0]), "new": np.array([1.0, 2.0])}),
        ("none", {}),
    ]
    _, texts = opened(densities(panels, tmp_path / "figure", ["", "", ""]))
    assert texts.count("no data") == 1


def test_more_series_than_colours_look_different():
    looks = [tuple(map(str, figures._line(i).values())) for i in range(24)]
    fills = [tuple(map(str, figures._fill(i).values())) for i in range(24)]
    assert len({*looks}) == len({*fills}) == 24


@pytest.mark.parametrize(
    "draw",
    [
        lambda stem: lines([panel()], stem),
        lambda stem: bars([panel(), panel()], stem),
        lambda stem: densities([("a", {"old": np.arange(9.0)})], stem, ["x"]),
    ],
)
def test_drawn_twice_gives_the_same_bytes(tmp_path, draw):
    first, second = draw(tmp_path / "1" / "figure"), draw(tmp_path / "2" / "figure")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_stem_may_have_a_dot(tmp_path):
    assert [path.name for path in lines([panel()], tmp_path / "weight_0.5")] == ["weight_0.5.png", "weight_0.5.svg"]


def test_what_does_not_fit_is_refused(tmp_path):
    short = Panel("C100", (0, 1), [Series("Happy", [1.0])], "", "")
    for draw in (lines, bars):
        with pytest.raises(InputError, match=r"'Happy' in the panel 'C100' has 1 numbers for 2 values of x"):
            draw([short], tmp_path / "figure")
        with pytest.raises(InputError, match="at least one panel"):
            draw([], tmp_path / "figure")
    with pytest.raises(InputError, match="have 0 x labels"):
        densities([("a", {})], tmp_path / "figure", [])
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        lines([panel()], tmp_path / "file" / "figure")


@pytest.mark.parametrize(
    ("measure", "label", "values"),
    [("probability", "probability (%)", [25.0, 75.0]), ("silhouette", "silhouette", [0.25, 0.75])],
)
def test_number_is_drawn_with_its_measure(measure, label, values):
    shown = number_panel(Number(number=1, low=0, high=1, numbers=(0, 1), curve=(0.25, 0.75), measure=measure))
    assert (shown.y_label, list(shown.series[0].values)) == (label, values)
    assert (shown.best, shown.band) == (1, (0, 1))


def test_axis_goes_to_the_end_of_the_shaded_interval(tmp_path):
    number = Number(number=5, low=4, high=14, numbers=tuple(range(10)), curve=(*range(6), 4.0, 3.0, 2.0, 1.0))
    svg = next(path for path in lines([number_panel(number)], tmp_path / "count") if path.suffix == ".svg").read_text()
    ticks = [int(text) for text in re.findall(r">(\d+)</text>", svg)]
    assert max(ticks) >= 12
