"""From what a person asks for to a loop that is ready to run."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path

import torch

import happycat
from happycat.backbone.tail import Tail
from happycat.backbone.trunk import SCRATCH, Trunk, fast_precision, load_model, scratch_model
from happycat.base.allocator import keep_freed_memory
from happycat.base.display import Display
from happycat.base.errors import InputError
from happycat.benchmark.loggers import check_logs
from happycat.benchmark.loop import Loop, LoopConfig, seeded
from happycat.benchmark.protocol import Protocol, Split, check_split, default_protocol, make_split, read_order
from happycat.benchmark.record import Record
from happycat.images import datasets as images
from happycat.images.pictures import ArrayPictures, Images
from happycat.methods import FLAVOURS, METHODS, Method, MethodConfig

PRECISIONS = {"bf16": torch.bfloat16, "fp32": torch.float32}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to run, on what, with what; everything that has a usual value may be left out."""

    method: str = "happy"
    flavour: str = "authors"
    method_values: dict = field(default_factory=dict)
    dataset: str
    root: Path | None = None
    dataset_options: dict = field(default_factory=dict)
    protocol_values: dict = field(default_factory=dict)
    class_order: str | None = None
    split: Path | None = None
    backbone: str | None = None
    weights: Path | None = None
    image_size: int | None = None
    precision: str | None = None
    device: str = "auto"
    out: Path
    resume: bool = False
    start: Path | None = None  # a run whose Stage-0 is taken
    loop: LoopConfig = field(default_factory=LoopConfig)


def prepare(request: Request, display: Display) -> Loop:
    """A loop over a new run folder, or, to resume, over the one that is there."""
    data = images.load(request.dataset, root=request.root, **request.dataset_options)
    method_class, config = method_config(request.method, request.flavour, data.name, request.method_values)
    split = the_split(request, data)
    check_split(split, config.batch_size)
    backbone = request.backbone or default_backbone(data)
    loop = request.loop
    check_logs(loop.log)
    trunk, tail = build(request, backbone)
    if backbone in SCRATCH:
        loop = replace(loop, workers=0)  # pictures of a few pixels: a worker would cost more than it does
    start = None
    if request.start is not None:
        start = Record(request.start)
        config = check_start(start, method_class, config, request.method_values, split, trunk, backbone in SCRATCH)
    about = describe(request, config, data, trunk, loop, start)
    record = Record.open(request.out, about, split, request.resume)
    if start and not method_class.rehearses and not record.stage_scores():
        record.adopt(start, request.method, asdict(config))
    return Loop(
        images=data,
        split=split,
        trunk=trunk,
        scratch=backbone in SCRATCH,
        method=method_class(tail, config).to(trunk.mean.device),
        record=record,
        config=loop,
        display=display,
        start=start,
    )


def check_start(
    start: Record,
    method_class: type[Method],
    config: MethodConfig,
    given: dict,
    split: Split,
    trunk: Trunk,
    scratch: bool,
) -> MethodConfig:
    """The config with Stage-0's values of the run that it starts from, if that run can be its start."""
    numbers, folder = start.about()["numbers"], start.folder
    other, _ = METHODS[numbers["method"]]
    if other.family != method_class.family or other.rehearses:
        raise InputError(f"{folder} is a run of {numbers['method']}, whose Stage-0 is of another kind")
    if not start.stage_scores():
        raise InputError(f"{folder} has not finished Stage-0 yet")
    theirs = Split.read(folder / "split.json")
    if (theirs.labelled, theirs.classes[: theirs.protocol.base_classes]) != (
        split.labelled,
        split.classes[: split.protocol.base_classes],
    ):
        raise InputError(f"{folder} has other labelled images; start from a run with the same data and protocol")
    if not scratch and numbers["trunk"] != trunk.fingerprint():
        raise InputError(f"{folder} has another backbone, image size or precision; start from a run with the same")
    if base := [name for name in given if name.startswith("base_")]:
        raise InputError(f"{base[0]} has no meaning here: Stage-0 is that of {folder}")
    for name in ("projector_hidden", "projector_out", "projector_prototypes"):
        if other.family == "contrastive" and numbers["config"][name] != getattr(config, name):
            raise InputError(f"{folder} was made with {name} = {numbers['config'][name]}; give the same")
    return replace(config, **{k: v for k, v in numbers["config"].items() if k.startswith("base_")})


def method_config(name: str, flavour: str, dataset: str, changes: dict):
    """The method's class, and its flavour's values for the data set with some changed."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    method_class, config_class = METHODS[name]
    if flavour not in FLAVOURS:
        raise InputError(f"there is no flavour {flavour!r}; there are: {', '.join(FLAVOURS)}")
    known = {f.name for f in fields(config_class)}
    if unknown := [key for key in changes if key not in known]:
        raise InputError(f"{name} has no value {unknown[0]!r}")
    return method_class, replace(getattr(config_class, flavour)(dataset), **changes)


def the_split(request: Request, data: Images) -> Split:
    """The split of the given file, or one made by the protocol."""
    if request.split is not None:
        return Split.read(request.split)
    protocol: Protocol = default_protocol(data, **request.protocol_values)
    order = request.class_order
    if order not in (None, "seed"):
        order = read_order(Path(order))
    return make_split(data, protocol, order)


def default_backbone(data: Images) -> str:
    """A small ViT from scratch for pictures of a few pixels, the paper's backbone for the rest."""
    tiny = isinstance(data.train, ArrayPictures) and not data.mirror
    return "scratch_vit" if tiny else "vit_base_patch16_224.dino"


def build(request: Request, backbone: str) -> tuple[Trunk, Tail]:
    """The backbone, cut into its trunk and its tail, on the device."""
    keep_freed_memory()
    device = choose_device(request.device)
    if backbone in SCRATCH:
        if request.weights is not None:
            raise InputError(f"{backbone} is trained from nothing: --weights has no meaning for it")
        model = scratch_model(backbone, request.image_size, seeded(request.loop.seed, "scratch"))
        mean, std, precision = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), torch.float32
    else:
        model = load_model(backbone, request.weights, request.image_size)
        mean, std = model.pretrained_cfg["mean"], model.pretrained_cfg["std"]
        precision = choose_precision(request.precision, device)
    tail = Tail(model)
    return Trunk(model, backbone, mean, std, precision).to(device), tail.to(device)


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes the fastest there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} is not there; use --device auto") from error
    return device


def choose_precision(name: str | None, device: torch.device) -> torch.dtype:
    if name is None:
        return fast_precision(device)
    if name not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, got {name!r}")
    return PRECISIONS[name]


def describe(
    request: Request, config: MethodConfig, data: Images, trunk: Trunk, loop: LoopConfig, start: Record | None
) -> dict:
    """What goes into run.json; `numbers` is what must not change when a run is resumed."""
    packages = ("torch", "torchvision", "timm", "numpy", "scikit-learn", "scipy")
    return {
        "happycat": happycat.__version__,
        "numbers": {
            "method": request.method,
            "config": asdict(config),
            "dataset": data.name,
            "dataset_options": request.dataset_options,
            **loop.numbers(),
            "backbone": trunk.name,
            "image_size": trunk.image_size,
            "trunk": trunk.fingerprint(),
            "start": start.model(0)["sha256"] if start else None,
        },
        "flavour": request.flavour,
        "weights": str(request.weights) if request.weights else None,
        "device": str(trunk.mean.device),
        "threads": torch.get_num_threads(),
        "cpu_count": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "command": sys.argv,
    }
