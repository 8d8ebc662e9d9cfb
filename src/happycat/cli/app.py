"""The command `app`: the local web app of a model, in the browser on this computer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from happycat.app.lock import app_lock
from happycat.base.text import shown
from happycat.cli.arguments import ModelArgument, WeightsOption, WorkersOption, check_there, check_weights
from happycat.cli.display import print_line
from happycat.cli.flags import DeviceOption, PrecisionOption
from happycat.cli.interruption import keeping
from happycat.cli.signals import Terminated, exit_code
from happycat.model import file as model_file

if TYPE_CHECKING:
    from happycat.app.discovering import Join, Lesson
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
    code = 0
    try:
        with app_lock(model):
            _serve(model, inbox, port, browser, backbone)
    except Terminated as stop:
        code = exit_code(stop)
    except KeyboardInterrupt:  # Ctrl-C ends the server, which may pass it on or not: that is how it is closed
        pass
    print(shown(f"happycat: the app of {model} is closed; every correction is in the file"), file=sys.stderr)
    if code:
        raise typer.Exit(code)


def _serve(model: Path, inbox: Path | None, port: int, browser: bool, backbone: dict[str, Any]) -> None:
    from happycat.app.discovering import Work
    from happycat.app.serving import serve

    work = Work(
        discover=lambda inbox, number, progress: discover_next(model, inbox, number, progress, backbone),
        propose=lambda inbox, number, progress: propose_next(model, inbox, number, progress, backbone),
        teach=lambda lesson, ask, progress: teach_next(model, lesson, ask, progress, backbone),
    )
    serve(model, work, inbox=inbox, port=port, browser=browser, ready=_say)


def discover_next(
    model: Path, inbox: Path, number: int | str, progress: Progress, backbone: dict[str, Any]
) -> str | None:
    """Find new classes as the model's next version; a sentence, if some of the images were seen before."""
    from happycat.model.discovering import discover_inbox

    with model_file.locked(model), keeping(model) as cache:
        record = discover_inbox(model, inbox, number, progress=progress, cache_dir=cache, **backbone)
    seen = [f"{images} of these images were in the discovery of version {version}" for version, images in record.seen]
    return f"{'; '.join(seen)}." if seen else None


def propose_next(model: Path, inbox: Path, number: int | str, progress: Progress, backbone: dict[str, Any]) -> Path:
    """Find new classes as a proposal; its folder."""
    from happycat.model.discovering import discover_inbox

    with model_file.locked(model), keeping(model) as cache:
        return discover_inbox(model, inbox, number, progress=progress, propose=True, cache_dir=cache, **backbone).folder


def teach_next(model: Path, lesson: Lesson, ask: Join, progress: Progress, backbone: dict[str, Any]) -> str:
    """Learn labelled images as the model's next version; what was learned, in a sentence."""
    from happycat.model.counts import in_words
    from happycat.model.estimator import Happycat

    def same(name: object, label: object, images: int) -> bool:
        return ask(f"{in_words(images)} of {name} are in {label}, which was discovered. Are they the same?")

    with model_file.locked(model):
        cat = Happycat.load(model, **backbone).set_params(progress=progress)
        files = [] if isinstance(lesson.source, Path) else list(lesson.source)
        if lesson.to is not None:
            entry = cat.move(files, lesson.to)
            images, words = len(files), f"more images of {cat.registry_.called(entry)}"
            what = f"teach {in_words(images)} of {cat.registry_.called(entry)}"
        else:
            name = None if lesson.name is None else cat.registry_.typed(lesson.name)
            labels = None if name is None else [name] * len(files)
            taught = cat.teach(files or lesson.source, labels, join=same)
            images = sum(cat.taught_.values())
            kinds = zip(("new", "more images of", "discovered and named now"), taught, strict=True)
            words = "; ".join(f"{kind}: {', '.join(str(e.name) for e in some)}" for kind, some in kinds if some)
            what = f"teach {lesson.source}" if name is None else f"teach {in_words(images)} of {name}"
        cat.append(model, what, {"images": images})
    return f"{in_words(images)} learned; {words}."


def _say(address: str) -> None:
    print_line(f"the app is at {address} (Ctrl-C ends it)")
