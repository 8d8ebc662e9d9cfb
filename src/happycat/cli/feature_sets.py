"""Studies of feature vectors: every class order of every data set, written as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from happycat.base.progress import Advance
from happycat.benchmark.paper.check_data import CheckConfig, read_sets, splits
from happycat.benchmark.protocol import Split
from happycat.cli.display import Display, print_line
from happycat.cli.display import results as out
from happycat.cli.interruption import interruptible
from happycat.images.pictures import Images
from happycat.report.tables import ResultTable

FeaturesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        help='NumPy files (.npz) with X (N, D), cls (N,) class names, part (N,) "train" or "test" '
        "[scikit-learn's digits]"
    ),
]
Orders = list[tuple[Images, list[Split]]]


class Results(Protocol):
    """What is finished, by data set, with its tables."""

    @property
    def sets(self) -> dict[str, list[Any]]: ...

    def write(self, folder: Path) -> list[Path]: ...

    def tables(self) -> dict[str, ResultTable]: ...


def planned(features: list[Path] | None, config: CheckConfig) -> Orders:
    """The data sets of the files, each with its splits: all mistakes are found before any work."""
    return [(images, list(splits(images, config))) for images in read_sets(features or [])]


def study(
    orders: Orders,
    folder: Path,
    results: Results,
    steps: Callable[[Split], int],
    run: Callable[[Images, Split, int, Advance], Iterable[Any]],
) -> None:
    """Run each class order of each data set, in so many steps; write the results after each, and print them all."""
    written: list[Path] = []

    def kept() -> str:
        return f"the class orders that were finished are in {folder}" if written else "no class order was finished"

    with interruptible(kept):
        with Display() as display:
            for images, splits_of_it in orders:
                for order, split in enumerate(splits_of_it):
                    advance = display.step(f"{images.name}, order {order}", steps(split))
                    results.sets.setdefault(images.name, []).extend(run(images, split, order, advance))
                    written = results.write(folder)
        for table in results.tables().values():
            out.print(table)
    print_line(f"written: {', '.join(str(path) for path in written)}")
