"""The command `paper questions`: what the answers of a simulated person are worth, on sets of feature vectors."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from happycat.base.progress import Advance
from happycat.benchmark.paper.check_data import CheckConfig, class_token_of
from happycat.benchmark.protocol import Split
from happycat.cli.feature_sets import FeaturesArgument, planned, study
from happycat.cli.flags import PROTOCOL, given, values_of
from happycat.images.pictures import Images

if TYPE_CHECKING:
    from happycat.benchmark.paper.questions import AnsweredRun


@values_of({PROTOCOL: CheckConfig})
def questions(
    features: FeaturesArgument = None,
    folder: Annotated[Path, typer.Option("--out", "-o", help="where tables and figure go")] = Path("questions"),
    **values: Any,
) -> None:
    """Measure what answers are worth: accuracy and number of classes with 0, 10, 30 and 100 answers a stage.

    A simulated person answers truthfully, to questions that happycat chooses and to random ones. The stages are those
    of `paper calm-check`, the number of new classes is estimated. What is finished is written after each class order.
    """
    config = CheckConfig(**given(values, CheckConfig))
    orders = planned(features, config)
    from happycat.benchmark.paper.questions import Study, answered_runs, plan
    from happycat.benchmark.paper.questions_report import QuestionResults
    from happycat.model.estimator import Happycat
    from happycat.model.simulation import AskingModel

    def run(images: Images, split: Split, order: int, advance: Advance) -> list[AnsweredRun]:
        make = partial(Happycat, random_state=config.seed, class_token=class_token_of(images))
        return answered_runs(Study(make, AskingModel), images, split, order, advance=advance)

    study(orders, folder, QuestionResults(config, {}), lambda split: len(plan()), run)
