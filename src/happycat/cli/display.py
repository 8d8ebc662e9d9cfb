"""Progress bars on stderr and printed results on stdout."""

from __future__ import annotations

from typing import Any, NamedTuple

import rich.progress
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from happycat.base.progress import Advance, Progress
from happycat.base.text import shown


class Results(Console):
    """The console of results: control characters in texts are written out, never sent to the terminal."""

    def print(self, *objects: Any, **values: Any) -> None:
        safe = ("\n".join(map(shown, one.split("\n"))) if isinstance(one, str) else one for one in objects)
        super().print(*safe, **values)


# Results. What a person named is shown as it is: brackets are no markup, colons no emoji.
results = Results(highlight=False, markup=False, emoji=False)


def print_line(text: str) -> None:
    """Print a line to stdout."""
    results.print(shown(text), soft_wrap=True)


class Done(NamedTuple):
    """How far a step is: so many parts of so many; None where the total is not known."""

    parts: int
    total: int | None


class CountColumn(ProgressColumn):
    """How many parts are done, of how many; nothing where parts are not counted."""

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text(f"{int(task.completed):,}" if task.completed else "")
        width = len(f"{int(task.total):,}")
        return Text(f"{int(task.completed):>{width},}/{int(task.total):,}")


class RateColumn(ProgressColumn):
    """Parts a second, or a minute where they are slow."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed or not task.completed:
            return Text("")
        if speed < 0.1:
            return Text(f"{60 * speed:.1f}/min")
        return Text(f"{speed:,.0f}/s" if speed >= 100 else f"{speed:.1f}/s")


class TimeColumn(ProgressColumn):
    """The time left; where that is not known or nothing is left, the time taken."""

    def render(self, task: Task) -> Text:
        if not task.finished and task.time_remaining is not None:
            return Text(f"{clock(task.time_remaining)} left")
        return Text(clock(task.finished_time if task.finished_time is not None else task.elapsed or 0.0))


def clock(seconds: float) -> str:
    """A time as on a clock.

    >>> clock(7.2), clock(3725)
    ('0:07', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Display(Progress):
    """Progress bars and messages on stderr; `done` says how far each step came."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self.done: dict[str, Done] = {}
        self._bars: rich.progress.Progress | None = None

    def __enter__(self) -> Display:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(whole=kind is None)

    def message(self, text: str) -> None:
        self.close()
        self.console.print(shown(text), style="dim", markup=False, emoji=False, soft_wrap=True)

    def step(self, title: str, total: int | None = None) -> Advance:
        self.close()
        bars = self._bars = rich.progress.Progress(
            TextColumn("{task.description:<24}", markup=False),
            BarColumn(bar_width=30),
            CountColumn(),
            RateColumn(),
            TimeColumn(),
            TextColumn("{task.fields[more]}", markup=False),
            console=self.console,
        )
        bars.start()
        task = bars.add_task(shown(title), total=total, more="")
        self.done[title] = Done(0, total)

        def advance(steps: int, total: int | None = None, loss: float | None = None) -> None:
            before = self.done[title]
            self.done[title] = now = Done(before.parts + steps, before.total if total is None else total)
            more = "" if loss is None else f"loss {loss:.3f}"
            bars.update(task, completed=now.parts, total=now.total, more=more)

        return advance

    def close(self) -> None:
        self._end(whole=True)

    def _end(self, whole: bool) -> None:
        """Take the bar of the step under way off the screen's live part; one that is done is shown full."""
        if self._bars is None:
            return
        for task in self._bars.tasks:
            if whole and not task.finished:  # an estimate that stopped early, or parts that nobody counted
                parts = task.completed or task.total or 1
                self._bars.update(task.id, completed=parts, total=parts)
        self._bars.stop()
        self._bars = None


def display_of(first: bool) -> Display:
    """A display; of several processes, only the first shows anything."""
    return Display(Console(stderr=True, highlight=False, quiet=not first))


def scores_table(stage_scores: list[dict], title: str) -> Table:
    """All / Old / New per stage, and what the probabilities are worth: calibration error and ROC area of the unseen."""
    table = Table(title=shown(title), title_justify="left")
    table.add_column("stage")
    for name in ("All", "Old", "New", "strict All", "NMI", "ECE", "ROC"):
        table.add_column(name, justify="right")
    for t, scores in enumerate(stage_scores):
        table.add_row(
            str(t),
            _per_cent(scores["all"]),
            _per_cent(scores["old"] if t else None),
            _per_cent(scores["new"]),
            _per_cent(scores["strict_all"]),
            f"{scores['nmi']:.3f}",
            _per_cent(scores.get("ece")),
            _per_cent(scores.get("roc")),  # an earlier record has none
        )
    return table


def _per_cent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
