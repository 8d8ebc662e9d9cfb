"""What a person sees while a run goes on: progress on stderr, results on stdout."""

from __future__ import annotations

import rich.progress
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from happycat.base.progress import Advance, Progress

# Results. What a person named is shown as it is: brackets are no markup, colons no emoji.
results = Console(highlight=False, markup=False, emoji=False)


class Display(Progress):
    """Progress bars and messages on stderr."""

    def __init__(self):
        self.console = Console(stderr=True, highlight=False)
        self._bars: rich.progress.Progress | None = None

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def message(self, text: str) -> None:
        self.close()
        self.console.print(text, style="dim", markup=False, soft_wrap=True)

    def step(self, title: str, total: int | None = None) -> Advance:
        self.close()
        columns = (
            TextColumn("{task.description:<24}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
            TextColumn("{task.fields[more]}"),
        )
        bars = self._bars = rich.progress.Progress(*columns, console=self.console)
        bars.start()
        task = bars.add_task(title, total=total, more="")

        def advance(steps: int, total: int | None = None, loss: float | None = None) -> None:
            if total is not None:
                bars.update(task, total=total)
            bars.update(task, advance=steps, more="" if loss is None else f"loss {loss:.3f}")

        return advance

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


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
