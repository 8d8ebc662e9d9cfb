"""Weights of a backbone: timm's from the hub or from a file, checked before they are used."""

from __future__ import annotations

import logging
from pathlib import Path

import timm
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from timm.layers import Attention
from timm.models.vision_transformer import Block, VisionTransformer, checkpoint_filter_fn
from torch import Tensor, nn

from happycat.base.errors import InputError, WeightsError

TESTED = {
    "vit_base_patch16_224.dino": "DINO ViT-B/16, the paper's backbone",
    "vit_small_patch16_224.dino": "DINO ViT-S/16",
    "vit_small_patch14_dinov2.lvd142m": "DINOv2 ViT-S/14 (LayerScale)",
    "vit_base_patch14_reg4_dinov2.lvd142m": "DINOv2 ViT-B/14 with registers",
    "vit_base_patch16_clip_quickgelu_224.openai": "CLIP ViT-B/16 (pre-norm, quick-GELU)",
    "deit_small_patch16_224.fb_in1k": "DeiT ViT-S/16",
    "scratch_vit": "a small ViT for small pictures, trained from nothing at Stage-0",
}


def load_model(name: str, weights: Path | None = None, image_size: int | None = None) -> VisionTransformer:
    """The timm ViT of that name with its weights, position embeddings interpolated to the image size.

    Weights come from `weights` (safetensors or a plain state dict), else from the hub. Nothing is executed.
    """
    model = create_model(name, pretrained=weights is None, image_size=image_size)
    check_model(model, name)
    if weights is not None:
        state = read_weights(weights)
        try:
            state = checkpoint_filter_fn(state, model)
            missing, _ = model.load_state_dict(state, strict=False)
        except (RuntimeError, KeyError, ValueError, AttributeError, IndexError) as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise WeightsError(f"the weights in {weights} do not fit {name}: {reason}") from error
        if missing:
            raise WeightsError(
                f"the weights in {weights} do not fit {name}: {len(missing)} tensors are missing, first {missing[0]}"
            )
    return model


def create_model(name: str, pretrained: bool, image_size: int | None) -> nn.Module:
    """timm's model of that name, or one clear line on why it cannot be had."""
    size = {} if image_size is None else {"img_size": image_size}
    if not timm.is_model(name):
        raise InputError(f"timm has no backbone {name!r}; `happycat list` shows tested ones")
    if pretrained and not timm.is_model_pretrained(name):
        raise WeightsError(f"the hub has no weights for {name}; give them with --weights FILE")
    try:
        model = timm.create_model(name, pretrained=False, num_classes=0, **size)
    except (TypeError, AssertionError, ValueError, RuntimeError) as error:
        raise InputError(f"backbone {name} cannot be built for image size {image_size}: {error}") from error
    patch = getattr(getattr(model, "patch_embed", None), "patch_size", (1, 1))
    if image_size is not None and (image_size < 1 or any(image_size % p for p in patch)):
        raise InputError(f"image size {image_size} is not a multiple of {name}'s patch of {patch[0]}")
    if not pretrained:
        return model
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    hub.setLevel(logging.CRITICAL)  # it would tell of every retry; what came of them is said below
    try:
        return timm.create_model(name, pretrained=True, num_classes=0, **size)
    except Exception as error:  # whatever the hub's client raises when it cannot be reached
        raise WeightsError(
            f"the weights of {name} could not be fetched from the hub ({type(error).__name__}); "
            f"connect to the internet, or give a file with --weights FILE"
        ) from error
    finally:
        hub.setLevel(level)


def check_model(model: nn.Module, name: str) -> None:
    """Refuse a network whose last block cannot be computed for the class token alone."""
    if not isinstance(model, VisionTransformer) or getattr(model, "cls_token", None) is None:
        raise InputError(f"backbone {name} has no class token; use a timm ViT with one (`happycat list`)")
    block = model.blocks[-1]
    plain = type(block) is Block and type(block.attn) is Attention and isinstance(block.norm1, nn.LayerNorm)
    extras = [getattr(block.attn, part, None) for part in ("q_norm", "k_norm", "norm", "gate")] if plain else []
    if not plain or not all(extra is None or isinstance(extra, nn.Identity) for extra in extras):
        raise InputError(f"the last block of {name} is not a plain ViT block; use another backbone (`happycat list`)")
    if not isinstance(model.norm, nn.LayerNorm):
        raise InputError(f"backbone {name} pools its patches instead of its class token; use another (`happycat list`)")


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors in a safetensors file or a plain state dict; nothing in it is executed."""
    path = Path(path)
    if not path.is_file():
        raise WeightsError(f"there is no weights file {path}")
    try:
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, EOFError, ValueError, KeyError) as error:
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
