"""Setup of a run: from a `Request` (method, data set, backbone, values) to a stage loop that is ready to run."""

from __future__ import annotations

import copy
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from happycat.backbone.config import BackboneConfig, build, build_for_features
from happycat.backbone.pooled import PooledBackbone
from happycat.backbone.trunk import Trunk
from happycat.base.errors import InputError
from happycat.base.progress import Progress
from happycat.base.ranks import ALONE, Ranks
from happycat.base.threads import network_flops, suitable
from happycat.base.version import __version__
from happycat.benchmark.config import LoopConfig
from happycat.benchmark.data import StageData
from happycat.benchmark.held_out import held_out_split, with_held_out
from happycat.benchmark.loggers import check_logs
from happycat.benchmark.loop import Loop
from happycat.benchmark.protocol import Protocol, Split, check_split, default_protocol, make_split, read_order
from happycat.benchmark.record import Record
from happycat.images import datasets as images
from happycat.images.collecting import skipped_in_words, write_skipped
from happycat.images.pictures import ArrayPictures, Images
from happycat.methods import FLAVOURS, METHODS
from happycat.methods.counting import make_counter
from happycat.methods.method import Method, MethodConfig, TrainedConfig
from happycat.methods.parametric import ParametricConfig
from happycat.methods.pretraining import small_vit_config


@dataclass(frozen=True, kw_only=True)
class Request:
    """A run that is asked for: method, data set, protocol, backbone, folder; what has a default may be left out."""

    method: str = "happy"
    flavour: str = "authors"
    method_values: dict = field(default_factory=dict)
    dataset: str
    root: Path | None = None
    dataset_options: dict = field(default_factory=dict)
    protocol_values: dict = field(default_factory=dict)
    class_order: Path | None = None  # a file of class names, one a line
    split: Path | None = None
    backbone: BackboneConfig = field(default_factory=BackboneConfig)  # without a name: the data set's usual one
    out: Path
    resume: bool = False
    start: Path | None = None  # a run whose Stage-0 is taken
    held_out: bool = False  # run on the labelled images alone
    loop: LoopConfig = field(default_factory=LoopConfig)


def prepare(request: Request, progress: Progress, ranks: Ranks = ALONE) -> Loop:
    """A loop over a new run folder, or, to resume, over the one that is there; `ranks` run it together."""
    data = load_images(request)
    backbone = chosen_backbone(request.backbone, data)
    method_class, config, pretraining = configs(request, data, backbone.from_scratch)
    split = the_split(request, data)
    check_split(split, config.batch_size if isinstance(config, TrainedConfig) else 1)
    loop = request.loop
    check_logs(loop.log)
    any_model = method_class.features_only and pretraining is None  # one without a class token has features, too
    parts = build_for_features(backbone, loop.seed) if any_model else build(backbone, loop.seed)
    if backbone.from_scratch:
        loop = replace(loop, workers=0)  # pictures of a few pixels: a worker would cost more than it does
    start = None
    if request.start is not None:
        start = Record(request.start)
        config = check_start(start, method_class, config, request.method_values, split, parts.trunk, backbone)
        pretraining = check_pretraining(start, pretraining)
    metadata = run_metadata(request, config, pretraining, data, parts.trunk, loop, start) | {"processes": ranks.size}
    record = Record.open(request.out, metadata, split, request.resume, ranks)
    if data.skipped and ranks.first:
        write_skipped(record.folder / "skipped.csv", data.skipped)
        progress.message(f"{skipped_in_words(data)}; see {record.folder / 'skipped.csv'}")
    if start and not method_class.rehearses and not record.stage_scores():
        record.adopt(start, request.method, asdict(config))
    served = StageData(
        images=data,
        split=split,
        backbone=parts,
        scratch=backbone.from_scratch,
        method=method_class,
        method_config=config,
        config=loop,
        folder=record.folder,
        progress=progress,
        ranks=ranks,
    )
    tail = served.vectors() if method_class.features_only else copy.deepcopy(parts.tail)
    method = method_class(tail, config).to(parts.trunk.device)
    numbers = [split.num_new(t) for t in range(1, served.num_stages)]
    return Loop(
        data=served,
        method=method,
        counter=make_counter(loop.num_new, method, numbers, served, loop.most_new),
        record=record,
        config=loop,
        progress=progress,
        pretraining=pretraining,
        start=start,
    )


def check_start(
    start: Record,
    method_class: type[Method],
    config: MethodConfig,
    given: dict,
    split: Split,
    trunk: Trunk | PooledBackbone,
    backbone: BackboneConfig,
) -> MethodConfig:
    """The config with Stage-0's values of the run that it starts from, if that run can be its start."""
    numbers, folder = start.metadata()["numbers"], start.folder
    if numbers["method"] not in METHODS:
        raise InputError(f"{folder} is a run of {numbers['method']!r}, which this version does not have")
    other, _ = METHODS[numbers["method"]]
    if other.family != method_class.family or other.rehearses:
        raise InputError(f"{folder} is a run of {numbers['method']}, whose Stage-0 is of another kind")
    if not start.stage_scores():
        raise InputError(f"{folder} has not finished Stage-0 yet")
    theirs = start.split()
    if (theirs.labelled, theirs.classes[: theirs.protocol.base_classes]) != (
        split.labelled,
        split.classes[: split.protocol.base_classes],
    ):
        raise InputError(f"{folder} has other labelled images; start from a run with the same data and protocol")
    if not backbone.from_scratch and numbers["trunk"] != trunk.fingerprint():
        raise InputError(f"{folder} has another backbone, image size or precision; start from a run with the same")
    if base := [name for name in given if name.startswith("base_")]:
        raise InputError(f"{base[0]} has no meaning here: Stage-0 is that of {folder}")
    for name in ("projector_hidden", "projector_out", "projector_prototypes"):
        if other.family == "contrastive" and numbers["config"].get(name) != getattr(config, name):
            raise InputError(f"{folder} was made with {name} = {numbers['config'].get(name)}; give the same")
    with own_values(folder):
        return replace(config, **{k: v for k, v in numbers["config"].items() if k.startswith("base_")})


@contextmanager
def own_values(folder: Path) -> Iterator[None]:
    """Refuse a run folder with values that a method does not have."""
    try:
        yield
    except TypeError as error:
        raise InputError(f"{folder} has values that this version does not know ({error})") from error


def check_pretraining(start: Record, pretraining: ParametricConfig | None) -> ParametricConfig | None:
    """The values that the backbone of the run to start from was trained with, if this run trains one as well."""
    theirs = start.metadata()["numbers"].get("pretraining")
    if (theirs is None) != (pretraining is None):
        raise InputError(
            f"{start.folder} has a backbone that was trained in another way; start from a run with the same"
        )
    with own_values(start.folder):
        return None if theirs is None else ParametricConfig(**theirs)


def configs(
    request: Request, data: Images, scratch: bool
) -> tuple[type[Method], MethodConfig, ParametricConfig | None]:
    """The method's class and values, and those of the training of its backbone before it, if there is any.

    A value that both have goes to both.
    """
    given = request.method_values
    usual = pretraining_config(request, scratch)
    if usual is None:
        return *method_config(request.method, request.flavour, data, given), None
    own = {f.name for f in fields(METHODS[request.method][1])}
    theirs = {f.name for f in fields(usual)}
    mine = {name: value for name, value in given.items() if name in own or name not in theirs}
    method_class, config = method_config(request.method, request.flavour, data, mine)
    return method_class, config, replace(usual, **{name: value for name, value in given.items() if name in theirs})


def pretraining_config(request: Request, scratch: bool) -> ParametricConfig | None:
    """The usual values of the training of a backbone before the method; None if there is none.

    A method that tunes nothing needs it on a backbone from scratch; on another it may be asked for.
    """
    features_only = request.method in METHODS and METHODS[request.method][0].features_only
    if request.loop.tune_tail and not features_only:
        raise InputError(f"{request.method} tunes the tail itself; tune_tail is for methods that tune nothing")
    if not features_only or not (scratch or request.loop.tune_tail):
        return None
    return small_vit_config() if scratch else ParametricConfig()


def method_config(name: str, flavour: str, data: Images, changes: dict[str, Any]) -> tuple[type[Method], MethodConfig]:
    """The method's class, and its flavour's values for the data set with some changed."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    method_class, config_class = METHODS[name]
    if flavour not in FLAVOURS:
        raise InputError(f"there is no flavour {flavour!r}; there are: {', '.join(FLAVOURS)}")
    known = {f.name for f in fields(config_class)}
    if unknown := [key for key in changes if key not in known]:
        raise InputError(f"{name} has no value {unknown[0]!r}")
    theirs = data.method_values.get(method_class.family, {}) if flavour == "authors" else {}
    return method_class, replace(getattr(config_class, flavour)(), **{**theirs, **changes})


def load_images(request: Request) -> Images:
    """The data set, as it is or for runs on held-out classes."""
    data = images.load(request.dataset, root=request.root, **request.dataset_options)
    return with_held_out(data) if request.held_out else data


def the_split(request: Request, data: Images) -> Split:
    """The split of the given file, or one made by the protocol; on held-out classes, one of its labelled images."""
    if request.split is not None:
        split = Split.read(request.split)
    else:
        protocol: Protocol = default_protocol(data, **request.protocol_values)
        split = make_split(data, protocol, None if request.class_order is None else read_order(request.class_order))
    return held_out_split(data, split) if request.held_out else split


def chosen_backbone(asked: BackboneConfig, data: Images) -> BackboneConfig:
    """The backbone asked for; without a name, the paper's, or a small ViT from scratch for pictures of a few pixels."""
    if asked.name:
        return asked
    tiny = isinstance(data.train, ArrayPictures) and not data.mirror
    return replace(asked, name="scratch_vit" if tiny else "vit_base_patch16_224.dino")


def run_metadata(
    request: Request,
    config: MethodConfig,
    pretraining: ParametricConfig | None,
    data: Images,
    trunk: Trunk | PooledBackbone,
    loop: LoopConfig,
    start: Record | None,
) -> dict[str, Any]:
    """The metadata of a run, for run.json; `numbers` is what must not change when a run is resumed."""
    packages = ("torch", "torchvision", "timm", "numpy", "scikit-learn", "scipy")
    return {
        "happycat": __version__,
        "numbers": {
            "method": request.method,
            "config": asdict(config),
            "pretraining": asdict(pretraining) if pretraining else None,
            "dataset": data.name,
            "dataset_options": request.dataset_options,
            **loop.numbers(),
            "backbone": trunk.name,
            "image_size": trunk.image_size,
            "trunk": trunk.fingerprint(),
            "start": start.stage(0).files() if start else None,
        },
        "flavour": request.flavour,
        "weights": str(request.backbone.weights) if request.backbone.weights else None,
        "device": str(trunk.device),
        "threads": suitable(network_flops(trunk)),
        "cpu_count": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
        "command": sys.argv,
    }
