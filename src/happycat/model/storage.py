"""Serialisation of the estimator: its state as parts of a model file, and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from happycat.backbone.extraction import VIEWS, FeatureExtractor
from happycat.backbone.tail import Vectors
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from happycat.model.classes import remember
from happycat.model.file import ModelFile, Part
from happycat.model.reading import content_errors, read_checked
from happycat.model.registry import ClassRegistry
from happycat.model.schema import VECTORS

OF_CLASSES = ("memory.", "usual_cosines")  # what Calm has of each class


class State(NamedTuple):
    """What a version of a model holds."""

    calm: Calm
    registry: ClassRegistry
    stage: int
    mean_cosine: float  # of labelled images with the prototypes of their classes
    random_state: int


def version_part(state: State) -> Part:
    """A version of the model file. Prototypes are in the registry's arrays, once."""
    arrays = {name: tensor.cpu().numpy() for name, tensor in _without_prototypes(state.calm).items()}
    metadata = {"stage": state.stage, "mean_cosine": state.mean_cosine, "random_state": state.random_state}
    return Part({**metadata, **state.registry.metadata()}, {**arrays, **state.registry.arrays()})


def read_model(path: str | Path) -> tuple[ModelFile, State, dict[str, Any]]:
    """The last version of a model file, its state, and the estimator's parameters that it was made with."""
    found = read_checked(path)
    with content_errors(path):
        state = read_state(found)
        return found, state, {**backbone_params(found.base), "random_state": state.random_state}


def read_state(found: ModelFile) -> State:
    """What `version_part` was made of; everything is read now, the file may change afterwards."""
    arrays = {name: np.array(array) for name, array in found.arrays.items()}
    metadata, calm = found.metadata, Calm(Vectors(len(arrays["space.mean"])), CalmConfig())
    registry = ClassRegistry.of(metadata, arrays)
    own = {name: torch.from_numpy(arrays[name]) for name in _without_prototypes(calm)}
    calm.load_state_dict({**calm.state_dict(), **own})
    remember(calm, registry)
    return State(calm, registry, metadata["stage"], metadata["mean_cosine"], metadata["random_state"])


def base_part(
    extractor: FeatureExtractor | None, weights: str | Path | None, precision: str | None, views: int
) -> Part:
    """The base of a model file: which backbone it needs; the weights, too, of one that was trained from scratch."""
    metadata = {"backbone": VECTORS} if extractor is None else extractor.metadata()
    metadata |= {"weights": str(Path(weights).resolve()) if weights else None, "precision": precision}
    metadata["views"] = views
    tensors = {} if extractor is None else extractor.tensors()
    return Part(metadata, {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()})


def backbone_params(base: Part) -> dict[str, Any]:
    """The parameters of the estimator that the base holds; weights that are not there any more are left out."""
    metadata = base.metadata
    weights = metadata["weights"]
    params = {
        "weights": weights if weights and os.path.exists(weights) else None,
        "image_size": metadata.get("image_size"),
        "precision": metadata["precision"],
        "mirror": metadata.get("mirror", True),
        "views": metadata.get("views", len(VIEWS)),  # a file without it is older than the choice
    }
    return params if metadata["backbone"] == VECTORS else {**params, "backbone": metadata["backbone"]}


def _without_prototypes(calm: Calm) -> dict[str, Tensor]:
    """Calm's state without what it has of each class, which is the registry's."""
    return {name: tensor for name, tensor in calm.state_dict().items() if not name.startswith(OF_CLASSES)}
