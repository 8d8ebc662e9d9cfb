"""What a person sees while a run goes on: progress on stderr, results on stdout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

# Results. What a person named is shown as it is: brackets are no markup, colons no emoji.
results = Console(highlight=False, markup=False, emoji=False)


class Display:
    """Progress bars and notes on stderr; `quiet` shows none."""

    def __init__(self, quiet: bool = False):
        self.console = Console(stderr=True, quiet=quiet, highlight=False)

    def note(self, text: str) -> None:
        self.console.print(text, style="dim", markup=False, soft_wrap=True)

    def stage(self, title: str, scores: dict) -> None:
        """One line when a stage is over."""
        old = "" if scores["new"] is None else f"   Old {_per_cent(scores['old'])}   New {_per_cent(scores['new'])}"
        self.console.print(f"{title}: All {_per_cent(scores['all'])}{old}", markup=False)

    @contextmanager
    def bar(self, title: str, total: int | None) -> Iterator[Callable]:
        """A progress bar; call what it gives with the number of steps done."""
        columns = (
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[more]}"),
        )
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task(title, total=total, more="")

            def advance(steps: int, total: int | None = None, loss: float | None = None) -> None:
                if total is not None:
                    progress.update(task, total=total)
                progress.update(task, advance=steps, more="" if loss is None else f"loss {loss:.3f}")

            yield advance


def scores_table(stage_scores: list[dict], title: str) -> Table:
    """All / Old / New per stage."""
    table = Table(title=title, title_justify="left")
    table.add_column("stage")
    for name in ("All", "Old", "New", "strict All", "NMI"):
        table.add_column(name, justify="right")
    for t, scores in enumerate(stage_scores):
        table.add_row(
            str(t),
            _per_cent(scores["all"]),
            _per_cent(scores["old"] if t else None),
            _per_cent(scores["new"]),
            _per_cent(scores["strict_all"]),
            f"{scores['nmi']:.3f}",
        )
    return table


def _per_cent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def duration(seconds: float) -> str:
    """In words, as exact as an estimate is."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
