"""The command `paper calm-check`: Calm on several sets of feature vectors and class orders, with supervised bounds."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from happycat.benchmark.paper.check_data import CheckConfig, class_token_of, read_sets, splits
from happycat.cli.display import Display, print_line
from happycat.cli.display import results as out
from happycat.cli.flags import PROTOCOL, given, values_of
from happycat.cli.interruption import interruptible


@values_of({PROTOCOL: CheckConfig})
def calm_check(
    features: Annotated[
        list[Path] | None,
        typer.Argument(
            help='NumPy files (.npz) with X (N, D), cls (N,) class names, part (N,) "train" or "test" '
            "[scikit-learn's digits]"
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--out", "-o", help="where tables and check.json go")] = Path("calm-check"),
    **values: Any,
) -> None:
    """Check Calm on feature vectors: accuracy beside supervised bounds, the estimated number of classes, times.

    It runs the estimator `happycat.Happycat` over the stages of several class orders, with the number of new classes
    given and estimated. What is finished is written after each order.
    """
    config = CheckConfig(**given(values, CheckConfig))
    sets = read_sets(features or [])
    planned = [(images, list(splits(images, config))) for images in sets]  # all mistakes before any work
    from happycat.benchmark.paper.check import check_order
    from happycat.benchmark.paper.check_report import CheckResults
    from happycat.model.estimator import Happycat

    results = CheckResults(config, {})
    written: list[Path] = []

    def kept() -> str:
        return f"the class orders that were finished are in {folder}" if written else "no class order was finished"

    with interruptible(kept):
        with Display() as display:
            for images, orders in planned:
                make = partial(Happycat, random_state=config.seed, class_token=class_token_of(images))
                for order, split in enumerate(orders):
                    advance = display.step(f"{images.name}, order {order}", len(split.stages) + 1)
                    done = check_order(make, images, split, order, advance)
                    results.sets.setdefault(images.name, []).append(done)
                    written = results.write(folder)
        for table in results.tables().values():
            out.print(table)
    print_line(f"written: {', '.join(str(path) for path in written)}")
