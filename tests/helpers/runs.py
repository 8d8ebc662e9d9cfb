"""Runs that take seconds, and a ViT of a few hundred weights."""

from __future__ import annotations

from pathlib import Path

import torch
from timm.models.vision_transformer import VisionTransformer

from happycat.backbone.scratch import initialise
from happycat.base.progress import SILENT
from happycat.benchmark.loop import Loop, LoopConfig
from happycat.benchmark.setup import Request, prepare

QUICK = {
    "base_epochs": 2,
    "epochs": 2,
    "batch_size": 16,
    "projector_hidden": 16,
    "projector_out": 8,
    "projector_deviation": 0.2,
    "base_optimizer": "adamw",
    "base_rate": 1e-3,
}


def quick_request(out: Path, resume: bool = False, loop: dict | None = None, **changes) -> Request:
    """Eight glyphs, four of them labelled, two stages."""
    values = {
        "dataset": "glyphs",
        "dataset_options": {"num_classes": 8, "per_class": 10},
        "protocol_values": {"base_classes": 4, "stages": 2},
        "method_values": QUICK,
        "loop": LoopConfig(**{"checkpoint_seconds": 0, "views": 2, **(loop or {})}),
    }
    return Request(out=out, resume=resume, **{**values, **changes})


def quick_loop(out: Path, **changes) -> Loop:
    return prepare(quick_request(out, **changes), SILENT)


def quick_run(out: Path, **changes) -> list[dict]:
    """Run it and give the stages' scores."""
    loop = quick_loop(out, **changes)
    try:
        return loop.run()
    finally:
        loop.record.close()


def assert_same_run(one: Path, other: Path) -> None:
    """Scores, predictions, states and epoch lines are equal to the byte, and nothing of an image is left."""
    for stage in ("0", "1", "2"):
        names = sorted(p.name for p in (one / "stages" / stage).iterdir())
        assert names == sorted(p.name for p in (other / "stages" / stage).iterdir())
        for name in names:
            assert (one / "stages" / stage / name).read_bytes() == (other / "stages" / stage / name).read_bytes(), name
    assert not list((other / "tokens").iterdir())
    assert not list(other.rglob(".*"))
    for name in ("epochs.jsonl", "stages.jsonl", "split.json", "epochs.csv", "stages.csv"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def small_vit(seed: int = 0, **shape) -> VisionTransformer:
    """A ViT of a few hundred weights, the same whatever the global random state."""
    values = {"img_size": 16, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2, **shape}
    generator = torch.Generator().manual_seed(seed)
    model = VisionTransformer(num_classes=0, **values)
    initialise(model, generator)
    for tensor in (model.cls_token, model.pos_embed):
        torch.nn.init.trunc_normal_(tensor, std=0.02, generator=generator)
    return model
