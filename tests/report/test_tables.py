import csv
import io

import pytest
from rich.console import Console

from happycat.base.errors import InputError, StorageError
from happycat.report import latex
from happycat.report.tables import Cell, ResultTable

TABLE = ResultTable(
    title="Accuracy (%)",
    labels=("data set", "method"),
    columns=("S1 All", "S1 New", "forgetting"),
    rows=(
        (("C100", "SimGCD"), (Cell(73.04, 0.52), Cell(8.0, paper=8.2), Cell(9.0))),
        (("C100", "Happy"), (Cell(80.36, 0.06, 80.4), Cell(56.1, 1.0, 56.08), Cell(9.04))),
        (("CUB", "Happy"), (Cell(81.4, None, 81.4), None, Cell(None, None, 7.25))),
    ),
    better=("high", "high", "low"),
    notes=("3 seeds",),
)


def table(*rows, columns=("All",), labels=("method",), **more):
    """A table of rows that are each a label and its means."""
    cells = tuple(((name,), tuple(map(Cell, means))) for name, *means in rows)
    return ResultTable(title="", labels=labels, columns=columns, rows=cells, **more)


def printed(what, width=200):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(what)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def bold_markdown(given):
    """For each of our rows the columns whose mean is bold."""
    lines = [line for line in given.markdown().splitlines()[4:] if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")][len(given.labels) :] for line in lines]
    return [[i for i, cell in enumerate(row) if cell.startswith("**")] for row in cells]


def test_markdown():
    assert TABLE.markdown().splitlines() == [
        "**Accuracy (%)**",
        "",
        "| data set | method  |        S1 All |        S1 New | forgetting |",
        "| :------- | :------ | ------------: | ------------: | ---------: |",
        "| C100     | SimGCD  |     73.0 ±0.5 |           8.0 |    **9.0** |",
        "|          | *paper* |             – |         *8.2* |          – |",
        "|          | Happy   | **80.4** ±0.1 | **56.1** ±1.0 |    **9.0** |",
        "|          | *paper* |        *80.4* |        *56.1* |          – |",
        "| CUB      | Happy   |          81.4 |             – |          – |",
        "|          | *paper* |        *81.4* |             – |      *7.2* |",
        "",
        "3 seeds",
    ]


def test_terminal():
    assert printed(TABLE.terminal()) == [
        "Accuracy (%)",
        "",
        " data set  method     S1 All     S1 New  forgetting",
        " ───────────────────────────────────────────────────",
        " C100      SimGCD  73.0 ±0.5        8.0         9.0",
        "           paper           –        8.2           –",
        "           Happy   80.4 ±0.1  56.1 ±1.0         9.0",
        "           paper        80.4       56.1           –",
        "",
        " CUB       Happy        81.4          –           –",
        "           paper        81.4          –         7.2",
        "",
        "3 seeds",
    ]


def test_terminal_marks_the_best_and_the_paper():
    console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(TABLE.terminal())
    text = console.file.getvalue()
    assert "\x1b[1m80.4\x1b[0m ±0.1" in text
    assert "\x1b[1m73.0" not in text
    assert "\x1b[2;3mpaper" in text


def test_terminal_takes_brackets_literally():
    assert any("[bold]x" in line for line in printed(table(("[bold]x", 1.0)).terminal()))


WIDE = ResultTable(
    title="Wide",
    labels=("method",),
    columns=tuple(f"S{i} All" for i in range(16)),
    rows=((("Happy",), tuple(Cell(60.0 + i, 0.5) for i in range(16))),),
    notes=("a note",),
)


def test_a_wide_table_puts_the_spreads_below_and_fits_a_hundred_characters():
    lines = printed(WIDE.terminal(), width=100)
    assert lines[2].split() == [f"S{i}" for i in range(16)]
    assert lines[3].split() == ["method"] + ["All"] * 16
    assert lines[5].split() == ["Happy"] + [f"{60 + i}.0" for i in range(16)]
    assert lines[6].split() == ["±0.5"] * 16


def test_a_printed_table_fits_its_console():
    assert any("60.0 ±0.5  61.0 ±0.5" in line for line in printed(WIDE, width=200))
    assert printed(WIDE, width=100) == printed(WIDE.terminal(), width=100)
    narrow = printed(WIDE, width=40)
    assert max(map(len, narrow)) <= 40
    words = " ".join(narrow).split()
    assert [word for word in words if word.endswith(".0")] == [f"{60 + i}.0" for i in range(16)]
    assert (words.count("Wide"), words.count("note"), words.count("±0.5")) == (1, 1, 16)
    assert [word for word in " ".join(printed(WIDE, width=5)).split() if word == "Wide"] == ["Wide"]  # no endless loop


def test_latex():
    assert TABLE.latex().splitlines() == [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}[t]",
        r"\centering",
        r"\caption{Accuracy (\%)}",
        r"\begin{tabular}{@{}llrrr@{}}",
        r"\toprule",
        r" &  & \multicolumn{2}{c}{S1} & \multicolumn{1}{c}{} \\",
        r"\cmidrule(lr){3-4}",
        r"data set & method & All & New & forgetting \\",
        r"\midrule",
        r"C100 & SimGCD & 73.0 {\scriptsize $\pm$0.5} & 8.0 & \textbf{9.0} \\",
        r" & \quad\textit{paper} & \textit{--} & \textit{8.2} & \textit{--} \\",
        r" & Happy & \textbf{80.4} {\scriptsize $\pm$0.1} & \textbf{56.1} {\scriptsize $\pm$1.0} & \textbf{9.0} \\",
        r" & \quad\textit{paper} & \textit{80.4} & \textit{56.1} & \textit{--} \\",
        r"\midrule",
        r"CUB & Happy & 81.4 & -- & -- \\",
        r" & \quad\textit{paper} & \textit{81.4} & \textit{--} & \textit{7.2} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\par\smallskip{\footnotesize 3 seeds\par}",
        r"\end{table}",
    ]


HOSTILE = ResultTable(
    title="50% of {λ_1} & $5 \\ ~^ #1 [*]",
    labels=("a_b", "x&y"),
    columns=("Δ All", "Δ Old", *(f"τ = {i}" for i in range(9))),
    rows=(
        (("100%", "[first] #1 & {"), tuple(Cell(-1.0, 0.5, 2.0) for _ in range(11))),
        (("✓ ✗", "→ ≥ <b>|"), (None,) * 11),
    ),
    better=("high",) * 11,
)


@pytest.mark.parametrize("given", [TABLE, WIDE, HOSTILE])
def test_latex_is_sound(given):
    text = given.latex()
    bare = text.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
    assert bare.count("{") == bare.count("}")
    assert text.replace("\\$", "").count("$") % 2 == 0
    assert text.isascii()
    assert text.count("\\begin{") == text.count("\\end{") == 2
    rows = [line for line in text.splitlines() if line.endswith("\\\\")]
    for line in rows:
        cells = line.replace("\\&", "").removesuffix("\\\\").split("&")
        spans = (int(cell.split("{")[1].split("}")[0]) if "multicolumn" in cell else 1 for cell in cells)
        assert sum(spans) == len(given.labels) + len(given.columns)


def test_latex_of_a_wide_table_has_the_spreads_in_a_row_below():
    lines = WIDE.latex().splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("Happy"))
    assert lines[at] == "Happy & " + " & ".join(f"{60 + i}.0" for i in range(16)) + r" \\"
    assert lines[at + 1] == " & " + " & ".join([r"{\tiny $\pm$0.5}"] * 16) + r" \\"


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("50% & a_b #1", r"50\% \& a\_b \#1"),
        ("λ ± Δ τ", r"$\lambda$ $\pm$ $\Delta$ $\tau$"),
        ("ςσφΩ", r"$\varsigma$$\sigma$$\varphi$$\Omega$"),
        ("$5 {x} \\", r"\$5 \{x\} \textbackslash{}"),
        ("[a]*", "{[}a{]}{*}"),
        ("τ₀² –\n−1", r"$\tau$$_0$$^2$ -- $-$1"),
        ("Möbius", "Möbius"),
    ],
)
def test_escaped(plain, expected):
    assert latex.escaped(plain) == expected


def test_heading_without_shared_first_words_is_one_line():
    assert latex.heading(("method",), ("S1 All", "S2 All")) == [r"method & S1 All & S2 All \\"]
    assert latex.heading(("m",), ("All", "Old")) == [r"m & All & Old \\"]


def test_csv_parses_back():
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert len(rows) == 9
    assert rows[0] == {
        **{"data set": "C100", "method": "SimGCD", "column": "S1 All"},
        **{"mean": "73.04", "spread": "0.52", "paper": ""},
    }
    assert [row["mean"] for row in rows[-3:]] == ["81.4", "", ""]
    assert [row["paper"] for row in rows[-3:]] == ["81.4", "", "7.25"]
    hostile = list(csv.DictReader(io.StringIO(HOSTILE.csv())))
    assert {row["x&y"] for row in hostile} == {"[first] #1 & {", "→ ≥ <b>|"}


def test_the_best_is_bold_with_its_ties_as_printed():
    rows = ("a", 1.04, 5.0), ("b", 0.96, 5.0), ("c", 0.9, 7.0)  # 1.0, 1.0 and 0.9 in print
    assert bold_markdown(table(*rows, columns=("x", "y"), better=("high", "low"))) == [[0, 1], [0, 1], []]
    assert bold_markdown(table(*rows, columns=("x", "y"), better=("high", "low"), digits=2)) == [[0, 1], [1], []]
    assert bold_markdown(table(*rows, columns=("x", "y"), better=("", "high"))) == [[], [], [1]]
    assert bold_markdown(table(*rows, columns=("x", "y"))) == [[], [], []]


def test_nothing_is_best_alone():
    assert bold_markdown(table(("a", 1.0), better=("high",))) == [[]]
    assert bold_markdown(table(("a", 1.0), ("b", None), ("c", float("nan")), better=("high",))) == [[], [], []]
    two_sets = ResultTable(
        title="",
        labels=("data set", "method"),
        columns=("All",),
        rows=((("C100", "Happy"), (Cell(60.0),)), (("CUB", "Happy"), (Cell(59.0),))),
        better=("high",),
    )
    assert bold_markdown(two_sets) == [[], []]


@pytest.mark.parametrize(
    ("mean", "digits", "expected"),
    [(-0.04, 1, "0.0"), (-0.06, 1, "-0.1"), (None, 1, "–"), (float("inf"), 1, "–"), (0.125, 0, "0"), (2, 2, "2.00")],
)
def test_numbers(mean, digits, expected):
    assert f" {expected} |" in table(("a", mean), digits=digits).markdown()


def test_a_negative_number_has_a_minus_in_latex():
    assert r"a & $-$1.5 \\" in table(("a", -1.5)).latex()


def test_markdown_takes_names_literally():
    text = table(("a|b *c* weight_decay _d_", 1.0)).markdown()
    assert r"| a\|b \*c\* weight_decay \_d\_ | 1.0 |" in text


def test_tables_without_rows_or_numbers():
    for given in (table(), table(("a", None))):
        printed(given.terminal())
        assert given.markdown()
        assert given.latex()
    assert table().csv() == "method,column,mean,spread,paper\n"


def test_write(tmp_path):
    paths = TABLE.write(tmp_path / "new", "main_v1.0")
    assert [path.name for path in paths] == ["main_v1.0.md", "main_v1.0.csv", "main_v1.0.tex"]
    assert sorted((tmp_path / "new").iterdir()) == sorted(paths)
    assert [path.read_text("utf-8") for path in paths] == [TABLE.markdown(), TABLE.csv(), TABLE.latex()]
    with pytest.raises(StorageError):
        TABLE.write(paths[0], "table")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": ()}, "at least one label"),
        ({"columns": ()}, "one column"),
        ({"rows": ((("a", "b"), (Cell(1.0),)),)}, "has 2 labels and 1 cells; give it 1 and 2"),
        ({"better": ("high",)}, "each of its 2 columns"),
        ({"better": ("high", "best")}, "best"),
        ({"digits": -1}, "negative"),
    ],
)
def test_shapes_are_checked(change, message):
    given = {"title": "t", "labels": ("method",), "columns": ("All", "Old"), "rows": ()}
    with pytest.raises(InputError, match=message):
        ResultTable(**(given | change))
