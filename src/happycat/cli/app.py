"""The command `app`: the local web app of a model, in the browser on this computer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from happycat.app.lock import app_lock
from happycat.base.text import shown
from happycat.cli.display import print_line
from happycat.cli.flags import DeviceOption, PrecisionOption
from happycat.cli.interruption import keeping
from happycat.cli.practitioner import ModelArgument, WeightsOption, WorkersOption, check_there, check_weights
from happycat.model import file as model_file

if TYPE_CHECKING:
    from happycat.base.progress import Progress


def app(
    model: ModelArgument,
    inbox: Annotated[
        Path | None, typer.Argument(help="unlabelled images to discover first: a folder, or a CSV file with path")
    ] = None,
    port: Annotated[int, typer.Option(help="the port of this computer's own address [a free one]", min=0)] = 0,
    browser: Annotated[bool, typer.Option(help="open the browser")] = True,
    weights: WeightsOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    workers: WorkersOption = None,
) -> None:
    """Look at what was discovered and correct it, in the browser on this computer."""
    model_file.history(model)  # refuses what is no model
    if inbox is not None:
        check_there(inbox, "a folder of images, or a CSV file that lists them")
    check_weights(weights)
    backbone = {"weights": weights, "precision": precision, "device": device, "workers": workers}
    try:
        with app_lock(model):
            _serve(model, inbox, port, browser, backbone)
    except KeyboardInterrupt:
        print(shown(f"happycat: the app of {model} is closed; every correction is in the file"), file=sys.stderr)
        raise typer.Exit from None


def _serve(model: Path, inbox: Path | None, port: int, browser: bool, backbone: dict[str, Any]) -> None:
    from happycat.app.serving import serve

    def discover(inbox: Path, number: int | str, progress: Progress) -> str | None:
        return discover_next(model, inbox, number, progress, backbone)

    serve(model, discover, inbox=inbox, port=port, browser=browser, ready=_say)


def discover_next(
    model: Path, inbox: Path, number: int | str, progress: Progress, backbone: dict[str, Any]
) -> str | None:
    """Find new classes as the model's next version; a sentence, if some of the images were seen before."""
    from happycat.model.discovering import discover_inbox

    with model_file.locked(model), keeping(model) as cache:
        record = discover_inbox(model, inbox, number, progress=progress, cache_dir=cache, **backbone)
    seen = [f"{images} of these images were in the discovery of version {version}" for version, images in record.seen]
    return f"{'; '.join(seen)}." if seen else None


def _say(address: str) -> None:
    print_line(f"the app is at {address} (Ctrl-C ends it)")
