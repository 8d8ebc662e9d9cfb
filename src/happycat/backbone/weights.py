"""Pretrained weights of a backbone: from the hub, a file or a package, checked before they are used."""

from __future__ import annotations

import difflib
import logging
import sys
from pathlib import Path
from typing import Any, cast

import timm
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn

from happycat.backbone.packaged import PACKAGED, load_packaged
from happycat.base.errors import HubError, InputError, WeightsError

TESTED = {
    "vit_base_patch16_224.dino": "DINO ViT-B/16, the paper's backbone",
    "vit_small_patch16_224.dino": "DINO ViT-S/16",
    "vit_small_patch14_dinov2.lvd142m": "DINOv2 ViT-S/14 (LayerScale)",
    "vit_base_patch14_reg4_dinov2.lvd142m": "DINOv2 ViT-B/14 with registers",
    "vit_base_patch16_clip_quickgelu_224.openai": "CLIP ViT-B/16 (pre-norm, quick-GELU)",
    "deit_small_patch16_224.fb_in1k": "DeiT ViT-S/16",
    "tf_efficientnet_lite0": "EfficientNet-Lite0, features only; comes with happycat[offline] and needs no hub",
    "scratch_vit": "a small ViT for small pictures, trained from scratch at Stage-0",
}


def load_model(name: str, weights: Path | None = None, image_size: int | None = None) -> VisionTransformer:
    """The timm ViT of that name with its weights; refused, before weights are read, if its tail cannot be tuned."""
    model = check_model(create_model(name, image_size), name)
    return cast(VisionTransformer, with_weights(model, name, weights, image_size))


def with_weights(model: nn.Module, name: str, weights: Path | None, image_size: int | None) -> nn.Module:
    """The model with its weights, position embeddings interpolated to the image size.

    Weights come from `weights` (safetensors or a plain state dict); without it, from the package that `PACKAGED` has
    for the name, else from the hub. Nothing is executed.
    """
    if weights is None:
        return load_packaged(model, name) if name in PACKAGED else _fetched(name, image_size)
    state = read_weights(weights)
    try:
        missing, _ = model.load_state_dict(_timms_names(state, model), strict=False)
    except (RuntimeError, KeyError, ValueError, AttributeError, IndexError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise WeightsError(f"the weights in {weights} do not fit {name}: {reason}") from error
    if missing:
        raise WeightsError(
            f"the weights in {weights} do not fit {name}: {len(missing)} tensors are missing, first {missing[0]}"
        )
    return model


def _timms_names(state: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The weights as the model names and shapes them, by the filter that timm has for its family, if it has one."""
    family = sys.modules[type(model).__module__]
    convert = getattr(family, "checkpoint_filter_fn", None)
    return state if convert is None else convert(state, model)


def create_model(name: str, image_size: int | None) -> nn.Module:
    """timm's model of that name without its classifier, not trained; or one clear line on why it cannot be had."""
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), 3, cutoff=0.8) or list(TESTED)[:3]
        raise InputError(f"timm has no backbone {name!r}; take, for example, {' or '.join(near)}")
    try:
        size = _size(name, image_size)
    except RuntimeError as error:  # a tag that timm does not know
        raise WeightsError(f"timm has no weights for {name}; drop the tag and give a file with its weights") from error
    try:
        model = timm.create_model(name, pretrained=False, num_classes=0, **size)
    except (TypeError, AssertionError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"backbone {name} cannot be built for image size {image_size}: {reason}") from error
    channels = pretrained_config(model)["input_size"][0]
    if channels != 3:
        raise InputError(f"backbone {name} takes pictures of {channels} channels, not of red, green and blue")
    if image_size is not None and isinstance(model, VisionTransformer):
        patch = model.patch_embed.patch_size
        if image_size < 1 or any(image_size % p for p in patch):
            raise InputError(f"image size {image_size} is not a multiple of {name}'s patch of {patch[0]}")
    return model


def _fetched(name: str, image_size: int | None) -> nn.Module:
    """The model with the hub's weights."""
    if not timm.is_model_pretrained(name):
        raise WeightsError(f"the hub has no weights for {name}; give a file with its weights")
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    hub.setLevel(logging.CRITICAL)  # it would log every retry; their outcome is raised below
    try:
        return timm.create_model(name, pretrained=True, num_classes=0, **_size(name, image_size))
    except Exception as error:  # whatever the hub's client raises when it cannot be reached
        raise HubError(
            f"the weights of {name} could not be fetched from the hub ({type(error).__name__}); "
            f"connect to the internet, or give a file with its weights"
        ) from error
    finally:
        hub.setLevel(level)


def _size(name: str, image_size: int | None) -> dict[str, Any]:
    """The argument that sets the image size; a model that takes any, such as a CNN, has none."""
    published = timm.get_pretrained_cfg(name)
    free = published is not None and not published.fixed_input_size
    return {} if image_size is None or free else {"img_size": image_size}


def pretrained_config(model: nn.Module) -> dict[str, Any]:
    """What timm knows of how the weights were trained: `mean` and `std` of the pixels, `input_size`, ..."""
    return cast("dict[str, Any]", model.pretrained_cfg)


def has_tail(model: nn.Module) -> bool:
    """Whether the last block can be computed, and tuned, for the class token alone."""
    return _why_no_tail(model) is None


def check_model(model: nn.Module, name: str) -> VisionTransformer:
    """The model, if it has a tail that can be tuned; another is refused."""
    if reason := _why_no_tail(model):
        raise InputError(
            f"backbone {name} has {reason}; methods calm and kmeans take it, others need a timm ViT with a class token"
        )
    return cast(VisionTransformer, model)


def _why_no_tail(model: nn.Module) -> str | None:
    """What the model has in place of a tail that can be tuned."""
    if not isinstance(model, VisionTransformer) or getattr(model, "cls_token", None) is None:
        return "no class token that could be tuned"
    block = model.blocks[-1]
    if type(block) is not Block or type(block.attn) is not Attention or not isinstance(block.norm1, nn.LayerNorm):
        return "a last block that is not a plain ViT block"
    extras = [getattr(block.attn, part, None) for part in ("q_norm", "k_norm", "norm", "gate")]
    if not all(extra is None or isinstance(extra, nn.Identity) for extra in extras):
        return "a last block that is not a plain ViT block"
    if not isinstance(model.norm, nn.LayerNorm):
        return "pooled patches in place of a class token"
    return None


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors in a safetensors file or a plain state dict; nothing in it is executed."""
    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"there is no weights file {path}")
    state: Any
    try:
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except KeyError as error:  # what torch makes of a file that it did not write
        raise WeightsError(f"{path} cannot be read as weights: neither safetensors nor a state dict") from error
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise WeightsError(f"{path} cannot be read as weights: {reason}") from error
    except Exception as error:  # torch's UnpicklingError lives in pickle, which is not imported here
        raise WeightsError(f"{path} is not a plain state dict, and nothing else is loaded") from error
    for key in ("state_dict", "model", "teacher"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(k, str) and isinstance(v, Tensor) for k, v in state.items()):
        raise WeightsError(f"{path} is not a plain state dict of tensors")
    return {name.removeprefix("module.").removeprefix("backbone."): value for name, value in state.items()}
