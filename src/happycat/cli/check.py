"""The command `paper calm-check`: Calm on several sets of feature vectors and class orders, with supervised bounds."""

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
    from happycat.benchmark.paper.check import OrderCheck


@values_of({PROTOCOL: CheckConfig})
def calm_check(
    features: FeaturesArgument = None,
    folder: Annotated[Path, typer.Option("--out", "-o", help="where tables and check.json go")] = Path("calm-check"),
    **values: Any,
) -> None:
    """Check Calm on feature vectors: accuracy beside supervised bounds, the estimated number of classes, times.

    It runs the estimator `happycat.Happycat` over the stages of several class orders, with the number of new classes
    given and estimated. What is finished is written after each order.
    """
    config = CheckConfig(**given(values, CheckConfig))
    orders = planned(features, config)
    from happycat.benchmark.paper.check import check_order
    from happycat.benchmark.paper.check_report import CheckResults
    from happycat.model.estimator import Happycat

    def run(images: Images, split: Split, order: int, advance: Advance) -> list[OrderCheck]:
        make = partial(Happycat, random_state=config.seed, class_token=class_token_of(images))
        return [check_order(make, images, split, order, advance)]

    study(orders, folder, CheckResults(config, {}), lambda split: len(split.stages) + 1, run)
