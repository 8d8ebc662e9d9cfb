"""The command `paper questions`: what the answers of a simulated person are worth, on sets of feature vectors."""

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
def questions(
    features: Annotated[
        list[Path] | None,
        typer.Argument(
            help='NumPy files (.npz) with X (N, D), cls (N,) class names, part (N,) "train" or "test" '
            "[scikit-learn's digits]"
        ),
    ] = None,
    folder: Annotated[Path, typer.Option("--out", "-o", help="where tables and figure go")] = Path("questions"),
    **values: Any,
) -> None:
    """Measure what answers are worth: accuracy and number of classes with 0, 10, 30 and 100 answers a stage.

    A simulated person answers truthfully, to questions that happycat chooses and to random ones. The stages are those
    of `paper calm-check`, the number of new classes is estimated. What is finished is written after each class order.
    """
    config = CheckConfig(**given(values, CheckConfig))
    sets = read_sets(features or [])
    planned = [(images, list(splits(images, config))) for images in sets]  # all mistakes before any work
    from happycat.benchmark.paper.questions import Study, answered_runs, plan
    from happycat.benchmark.paper.questions_report import QuestionResults
    from happycat.model.estimator import Happycat
    from happycat.model.simulation import AskingModel

    results = QuestionResults(config, {})
    written: list[Path] = []

    def kept() -> str:
        return f"the class orders that were finished are in {folder}" if written else "no class order was finished"

    with interruptible(kept):
        with Display() as display:
            for images, orders in planned:
                make = partial(Happycat, random_state=config.seed, class_token=class_token_of(images))
                study = Study(make, AskingModel)
                for order, split in enumerate(orders):
                    advance = display.step(f"{images.name}, order {order}", len(plan()))
                    runs = answered_runs(study, images, split, order, advance=advance)
                    results.sets.setdefault(images.name, []).extend(runs)
                    written = results.write(folder)
        for table in results.tables().values():
            out.print(table)
    print_line(f"written: {', '.join(str(path) for path in written)}")
