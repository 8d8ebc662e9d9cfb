"""ONNX export: a model as one file, images in, class and probability out, without torch."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from happycat.base.disk import replacing
from happycat.base.errors import HappycatError, InputError
from happycat.model.estimator import Happycat

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession

TOLERANCE = 1e-3  # of a probability
OLDEST = (2, 7)  # torch; the exporter of 2.6 fails, with old and with newer versions of onnxscript


class Exported(nn.Module):
    """Views (N, S, S, 3) of bytes to the place of each one's class in `names`, −1 for unknown, and its probability."""

    def __init__(self, cat: Happycat):
        super().__init__()
        extractor = cat.extractor()
        if extractor is None:
            raise InputError("a model of vectors has no images to take in; only a model of images can be exported")
        if extractor.trunk.precision is torch.int8:
            raise InputError("a model that was made in int8 cannot be exported; fit it in fp32 or bf16 for that")
        self.trunk = copy.deepcopy(extractor.trunk).cpu()
        self.trunk.precision = torch.float32
        self.trunk.freeze()
        self.tail = copy.deepcopy(extractor.tail).cpu().requires_grad_(False)  # plain operations, of any batch size
        self.space = copy.deepcopy(cat.calm_.space)
        self.rule = cat.rule()
        self.names = [cat.registry_.label(entry) for entry in cat.registry_]
        self.ids = [entry.id for entry in cat.registry_]
        self.unknown = cat.registry_.unknown
        self.image_size, self.crop_share = extractor.plan.image_size, extractor.plan.crop_share

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        features = self.tail(self.trunk.at_once(images.permute(0, 3, 1, 2)))
        probabilities, rejected = self.rule(self.space(nn.functional.normalize(features, dim=-1)))
        probability, place = probabilities.max(1)
        return torch.where(rejected, -1, place), probability


def export_onnx(cat: Happycat, path: Path) -> float:
    """Write the file and check it against our own predictions; returns the largest difference of a probability."""
    onnx, runtime = _packages()
    model = Exported(cat).eval()
    sample = _sample(model.image_size, 2)
    with replacing(Path(path)) as temporary:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in ("torch.onnx", "onnxscript", "onnx_ir"):
                logging.getLogger(name).setLevel(logging.ERROR)
            torch.onnx.export(
                model,
                (sample,),
                str(temporary),
                input_names=["images"],
                output_names=["class", "probability"],
                dynamic_shapes={"images": {0: torch.export.Dim("batch", min=1, max=4096)}},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        written = onnx.load(temporary)
        for key in ("names", "ids", "unknown", "image_size", "crop_share"):
            value = getattr(model, key)
            onnx.helper.set_model_props(written, {**_props(written), key: json.dumps(value)})
        onnx.save(written, temporary)
        return _checked(model, runtime.InferenceSession(str(temporary), providers=["CPUExecutionProvider"]))


def can_export() -> bool:
    """Whether the exporter of the torch that is installed works."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= OLDEST


def _packages() -> tuple[ModuleType, ModuleType]:
    if not can_export():
        newer = ".".join(map(str, OLDEST))
        raise InputError(f"torch {torch.__version__} cannot write the model as ONNX; install torch {newer} or newer")
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  torch needs it
    except ImportError as error:
        raise InputError(f"{error.name} is missing; install it with: pip install 'happycat[onnx]'") from error
    return onnx, onnxruntime


def _props(model: ModelProto) -> dict[str, str]:
    return {prop.key: prop.value for prop in model.metadata_props}


def _sample(size: int, number: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (number, size, size, 3), dtype=np.uint8))


@torch.inference_mode()
def _checked(model: Exported, session: InferenceSession) -> float:
    """The largest difference of the exported model's probabilities from the model's; too large a one is an error."""
    images = _sample(model.image_size, 5)
    place, probability = model(images)
    theirs, their_probability = session.run(None, {"images": images.numpy()})
    difference = float(np.abs(probability.numpy() - their_probability).max())
    if difference > TOLERANCE or not np.array_equal(place.numpy(), theirs):
        raise HappycatError(
            f"the exported model's predictions are not those of the model (probabilities differ by {difference:.4f})"
        )
    return difference
