"""Tables of results for the terminal, for Markdown, for LaTeX, and as tidy data (CSV).

The three that are read have one layout: a row of ours, and the paper's numbers in a row of their own below it.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeGuard

from rich import box
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from happycat.base.disk import write_text
from happycat.base.errors import InputError
from happycat.report import latex

MISSING = "–"
PAPER = "paper"  # the label of the paper's rows
WIDE = 9  # number of columns from which a table is set tightly
WIDEST = 10_000  # characters, to measure a table that nothing narrows


class Cell(NamedTuple):
    """Our mean, its standard deviation over seeds (None with one seed), and the paper's number."""

    mean: float | None
    spread: float | None = None
    paper: float | None = None


Row = tuple[tuple[str, ...], tuple[Cell | None, ...]]  # label values, and a cell for each column of numbers


class Line(NamedTuple):
    """One printed row. `starts` says that the first label changes here."""

    kind: str  # "ours" or "paper"
    labels: tuple[str, ...]  # empty where a label repeats the one above
    cells: tuple[Cell, ...]
    best: tuple[bool, ...]
    starts: bool


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """Numbers with their spreads and the paper's beside them.

    `labels` names the leading columns, `columns` the columns of numbers; a row is its label values and its cells.
    `better` says for each column whether "high" or "low" is better, or "" for neither. The best of the rows that
    share their first label is bold, ties too; with a single label column all rows are compared.
    """

    title: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    better: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    digits: int = 1

    def __post_init__(self) -> None:
        if not self.labels or not self.columns:
            raise InputError(f"the table {self.title!r} needs at least one label and one column")
        for labels, cells in self.rows:
            if len(labels) != len(self.labels) or len(cells) != len(self.columns):
                raise InputError(
                    f"the row {' '.join(labels)!r} of the table {self.title!r} has {len(labels)} labels and "
                    f"{len(cells)} cells; give it {len(self.labels)} and {len(self.columns)}"
                )
        if self.better and (len(self.better) != len(self.columns) or not {*self.better} <= {"high", "low", ""}):
            raise InputError(
                f"better of the table {self.title!r} is {self.better!r}; "
                f'give "high", "low" or "" for each of its {len(self.columns)} columns'
            )
        if self.digits < 0:
            raise InputError(f"digits of the table {self.title!r} is {self.digits}; it must not be negative")

    def terminal(self, stacked: bool | None = None) -> Table:
        """The table for a console, the spreads below their means if `stacked`, which a table of many columns is.

        Print the `ResultTable` itself to have the layout chosen by the width of the console.
        """
        stacked = len(self.columns) >= WIDE if stacked is None else stacked
        table = Table(
            title=Text(self.title, style="bold not italic") if self.title else None,
            title_justify="left",
            caption=Text("\n".join(self.notes), style="not italic") if self.notes else None,
            caption_justify="left",
            box=box.SIMPLE,
            padding=(0, 0) if stacked else (0, 1, 0, 0),
        )
        for name in self.labels:
            table.add_column(Text(name), no_wrap=True)
        for name in self.columns:
            table.add_column(Text(name.replace(" ", "\n", int(stacked))), justify="right", no_wrap=True)
        for line in self._lines():
            if line.starts and table.row_count and len(self.labels) > 1:
                table.add_section()
            cells = []
            for i, best in enumerate(line.best):
                mean, *spread = self._words(line, i)
                after = [("\n" if stacked else " ") + word for word in spread]
                cells.append(Text.assemble((mean, "bold" if best else ""), *after))
            table.add_row(*map(Text, line.labels), *cells, style="dim italic" if line.kind == PAPER else None)
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """The table as it fits the console: in one line, stacked, or stacked and in parts one below the other."""

        def fits(table: Table) -> bool:
            return console.measure(table, options=options.update(width=WIDEST)).maximum <= options.max_width

        if fits(self.terminal(stacked=False)):
            yield self.terminal(stacked=False)
            return
        first = 0
        while first < len(self.columns):
            last = len(self.columns)
            while last > first + 1 and not fits(self._part(first, last).terminal(stacked=True)):
                last -= 1
            yield self._part(first, last).terminal(stacked=True)
            first = last

    def _part(self, first: int, last: int) -> ResultTable:
        """The table of some of the columns; the title stays with the first of them, the notes with the last."""
        return replace(
            self,
            title=self.title if first == 0 else "",
            columns=self.columns[first:last],
            rows=tuple((labels, cells[first:last]) for labels, cells in self.rows),
            better=self.better[first:last],
            notes=self.notes if last == len(self.columns) else (),
        )

    def markdown(self) -> str:
        """The table in GitHub's Markdown, with its columns lined up for whoever reads the source."""
        body = []
        for line in self._lines():
            cells = [_marked(" ".join(self._words(line, i)), line, i) for i in range(len(self.columns))]
            labels = [_markdown(label) for label in line.labels]
            if line.kind == PAPER:
                labels[-1] = f"*{PAPER}*"
            body.append(labels + cells)
        head = [_markdown(name) for name in self.labels + self.columns]
        widths = [max(3, *(len(row[i]) for row in [head, *body])) for i in range(len(head))]
        rules = [
            ":" + "-" * (width - 1) if i < len(self.labels) else "-" * (width - 1) + ":"
            for i, width in enumerate(widths)
        ]
        lines = []
        for row in [head, rules, *body]:
            padded = (
                text.ljust(width) if i < len(self.labels) else text.rjust(width)
                for i, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append(f"| {' | '.join(padded)} |")
        return "\n\n".join([f"**{_markdown(self.title)}**", "\n".join(lines), *map(_markdown, self.notes)]) + "\n"

    def csv(self) -> str:
        """The table as tidy data: a line for each cell, in full precision, empty where a number is missing."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*self.labels, "column", "mean", "spread", "paper"])
        for labels, cells in self.rows:
            for name, cell in zip(self.columns, cells, strict=True):
                numbers = cell or Cell(None)
                writer.writerow([*labels, name, *(float(n) if _known(n) else "" for n in numbers)])
        return text.getvalue()

    def latex(self) -> str:
        """The table as a LaTeX `table` that needs booktabs alone; in a wide one the spreads are below the means."""
        wide = len(self.columns) >= WIDE
        lines = [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}[t]",
            "\\centering",
            *(["\\scriptsize", "\\setlength{\\tabcolsep}{2pt}"] if wide else []),
            f"\\caption{{{latex.escaped(self.title)}}}",
            f"\\begin{{tabular}}{{@{{}}{'l' * len(self.labels)}{'r' * len(self.columns)}@{{}}}}",
            "\\toprule",
            *latex.heading(self.labels, self.columns),
            "\\midrule",
        ]
        for n, line in enumerate(self._lines()):
            if line.starts and n and len(self.labels) > 1:
                lines.append("\\midrule")
            lines += self._latex_rows(line, stacked=wide)
        lines += ["\\bottomrule", "\\end{tabular}"]
        for note in self.notes:
            lines.append(f"\\par\\smallskip{{\\footnotesize {latex.escaped(note)}\\par}}")
        return "\n".join([*lines, "\\end{table}"]) + "\n"

    def write(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.md, NAME.csv and NAME.tex into the folder, and return their paths."""
        paths = []
        for suffix, text in (("md", self.markdown()), ("csv", self.csv()), ("tex", self.latex())):
            paths.append(Path(folder) / f"{name}.{suffix}")
            write_text(paths[-1], text)
        return paths

    def _lines(self) -> Iterator[Line]:
        """The printed rows, from the top: each of ours, then the paper's if it has a number there."""
        best = self._best()
        above = None
        for n, (labels, cells) in enumerate(self.rows):
            filled = tuple(cell or Cell(None) for cell in cells)
            shown = [
                "" if i < len(labels) - 1 and above and above[: i + 1] == labels[: i + 1] else label
                for i, label in enumerate(labels)
            ]
            yield Line("ours", tuple(shown), filled, best[n], above is None or above[0] != labels[0])
            if any(_known(cell.paper) for cell in filled):
                nothing = (False,) * len(filled)
                yield Line(PAPER, ("",) * (len(labels) - 1) + (PAPER,), filled, nothing, False)
            above = labels

    def _best(self) -> list[tuple[bool, ...]]:
        """For each row and column whether the mean, as printed, is the best of two or more."""
        printed = [[_rounded(cell and cell.mean, self.digits) for cell in cells] for _, cells in self.rows]
        best = [[False] * len(self.columns) for _ in self.rows]
        for i, better in enumerate(self.better):
            groups: dict[str, dict[int, float]] = {}
            for n, (labels, _) in enumerate(self.rows):
                if better and (number := printed[n][i]) is not None:
                    groups.setdefault(labels[0] if len(labels) > 1 else "", {})[n] = number
            for rows in groups.values():
                target = (max if better == "high" else min)(rows.values())
                for n, number in rows.items():
                    best[n][i] = len(rows) > 1 and number == target
        return [tuple(row) for row in best]

    def _words(self, line: Line, i: int) -> list[str]:
        """What a cell prints: the number, and then its spread if there is one."""
        cell = line.cells[i]
        number = _rounded(cell.paper if line.kind == PAPER else cell.mean, self.digits)
        if number is None:
            return [MISSING]
        words = [f"{number:.{self.digits}f}"]
        if line.kind != PAPER and _known(cell.spread):
            words.append(f"±{cell.spread:.{self.digits}f}")
        return words

    def _latex_rows(self, line: Line, stacked: bool) -> list[str]:
        """A printed row, and below it one of spreads if they are `stacked`."""
        labels = [latex.escaped(label) for label in line.labels]
        if line.kind == PAPER:
            labels[-1] = f"\\quad\\textit{{{PAPER}}}"
        means, spreads, size = [], [], "tiny" if stacked else "scriptsize"
        for i in range(len(self.columns)):
            mean, *spread = self._words(line, i)
            means.append(_latex_font(latex.escaped(mean.replace("-", "−")), line, i))
            spreads.append("".join(f"{{\\{size} {latex.escaped(word)}}}" for word in spread))
        if stacked:
            below = [latex.row([""] * len(labels) + spreads)] if any(spreads) else []
            return [latex.row(labels + means), *below]
        cells = [f"{mean} {spread}".strip() for mean, spread in zip(means, spreads, strict=True)]
        return [latex.row(labels + cells)]


def _known(number: float | None) -> TypeGuard[float]:
    return number is not None and math.isfinite(number)


def _rounded(number: float | None, digits: int) -> float | None:
    """The number as it is printed, without a negative zero; None if it is missing or not finite."""
    return round(float(number), digits) + 0.0 if _known(number) else None


def _marked(text: str, line: Line, i: int) -> str:
    """The text of a cell with its best mean in bold, or in italics if it is the paper's."""
    if line.kind == PAPER and text != MISSING:
        return f"*{text}*"
    return re.sub(r"^\S+", r"**\g<0>**", text) if line.best[i] else text


def _markdown(text: str) -> str:
    """Plain text for a Markdown cell: on one line, with nothing in it that is taken for markup."""
    return re.sub(r"[\\`*|<\[]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", " ".join(text.split()))


def _latex_font(text: str, line: Line, i: int) -> str:
    if line.kind == PAPER:
        return f"\\textit{{{text}}}"
    return f"\\textbf{{{text}}}" if line.best[i] else text
