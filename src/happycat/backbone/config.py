"""Backbone configuration: timm model, weights, image size, precision and device; `build` makes trunk and tail of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from timm.models.vision_transformer import VisionTransformer

from happycat.backbone.packaged import way_without_hub
from happycat.backbone.pooled import PooledBackbone
from happycat.backbone.scratch import SCRATCH, scratch_model
from happycat.backbone.tail import Tail, Vectors
from happycat.backbone.trunk import Trunk
from happycat.backbone.weights import check_model, create_model, has_tail, pretrained_config, with_weights
from happycat.base.allocator import keep_freed_memory
from happycat.base.config import Checked, choice, setting
from happycat.base.errors import HubError, InputError
from happycat.base.seeding import seeded

PRECISIONS = {"bf16": torch.bfloat16, "fp32": torch.float32, "int8": torch.int8}


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(Checked):
    """A backbone by name, its weights, and how it is run."""

    name: str = setting("", "a timm model; one that is tuned is a ViT with a class token")
    weights: Path | None = setting(None, "its weights: safetensors or a plain state dict [hub]")
    image_size: int | None = setting(None, "image size: pixels a side of a view [the backbone's]", 1)
    precision: str | None = choice(None, tuple(PRECISIONS), "precision of the trunk [bf16 if native, else fp32]")
    device: str = setting("auto", "cpu, cuda, mps or auto")

    @property
    def from_scratch(self) -> bool:
        """Whether it has no weights yet and is trained on the labelled images."""
        return self.name in SCRATCH


class Backbone(NamedTuple):
    """A backbone in its two parts: the frozen trunk, and the tail that a method may tune."""

    trunk: Trunk
    tail: Tail


class FeatureBackbone(NamedTuple):
    """A backbone that is used for its features alone: trunk and tail of a ViT, or a whole model without a tail."""

    trunk: Trunk | PooledBackbone
    tail: Tail | Vectors


def build(config: BackboneConfig, seed: int = 0) -> Backbone:
    """The backbone on its device; `seed` draws the first weights of one that is trained from scratch.

    A model without a class token that could be tuned is refused: see `build_for_features`.
    """
    keep_freed_memory()
    device = choose_device(config.device)
    if config.from_scratch:
        return _from_scratch(config, device, seed)
    return _pretrained(config, check_model(create_model(config.name, config.image_size), config.name), device)


def build_for_features(config: BackboneConfig, seed: int = 0) -> FeatureBackbone:
    """Any timm model on its device, to extract features with; a ViT that `build` takes comes as from there."""
    try:
        return _build_for_features(config, seed)
    except HubError as error:
        raise HubError(f"{error}; {way_without_hub()}") from error


def _build_for_features(config: BackboneConfig, seed: int) -> FeatureBackbone:
    keep_freed_memory()
    device = choose_device(config.device)
    if config.from_scratch:
        return FeatureBackbone(*_from_scratch(config, device, seed))
    model = create_model(config.name, config.image_size)
    if has_tail(model):
        return FeatureBackbone(*_pretrained(config, check_model(model, config.name), device))
    pretrained, precision = pretrained_config(model), choose_precision(config.precision, device)
    size = config.image_size or pretrained["input_size"][-1]
    pooled = PooledBackbone(model, config.name, pretrained["mean"], pretrained["std"], size, precision)
    # Only now: a size that the model cannot take is said before weights are fetched.
    pooled.model = with_weights(model, config.name, config.weights, config.image_size)
    pooled.freeze()
    if precision is torch.int8:
        pooled.quantise()
    return FeatureBackbone(pooled.to(device), Vectors(pooled.dim))


def _from_scratch(config: BackboneConfig, device: torch.device, seed: int) -> Backbone:
    if config.weights is not None:
        raise InputError(f"{config.name} is trained from scratch: weights have no meaning for it")
    if config.precision == "int8":
        raise InputError(f"{config.name} is trained from scratch, and bytes cannot be trained: leave int8 out")
    model = scratch_model(config.name, config.image_size, seeded(seed, "scratch"))
    tail, half = Tail(model), (0.5, 0.5, 0.5)
    return Backbone(Trunk(model, config.name, half, half).to(device), tail.to(device))


def build_untrained(config: BackboneConfig) -> Backbone:
    """The backbone with random weights, where only its speed matters."""
    model = check_model(create_model(config.name, config.image_size), config.name)
    return _parts(config, model, choose_device(config.device))


def _pretrained(config: BackboneConfig, model: VisionTransformer, device: torch.device) -> Backbone:
    model = check_model(with_weights(model, config.name, config.weights, config.image_size), config.name)
    return _parts(config, model, device)


def _parts(config: BackboneConfig, model: VisionTransformer, device: torch.device) -> Backbone:
    tail, pretrained = Tail(model), pretrained_config(model)
    precision = choose_precision(config.precision, device)
    return Backbone(
        Trunk(model, config.name, pretrained["mean"], pretrained["std"], precision).to(device), tail.to(device)
    )


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` takes the fastest there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {name!r} is not there; choose auto") from error
    return device


def choose_precision(name: str | None, device: torch.device) -> torch.dtype:
    """The precision of that name; without one, the fastest that the device computes natively."""
    if name == "int8" and device.type != "cpu":
        raise InputError(f"int8 is computed on a CPU, not on {device.type}; choose device cpu, or another precision")
    return fast_precision(device) if name is None else PRECISIONS[name]


def fast_precision(device: torch.device) -> torch.dtype:
    """bf16 where the hardware multiplies it natively, fp32 elsewhere (emulated bf16 is a hundred times slower)."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    native = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")  # not every torch has both
    if device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in native):
        return torch.bfloat16
    return torch.float32
