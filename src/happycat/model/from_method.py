"""A model file made of a Calm that learned elsewhere, such as in a run of the benchmark; no image is needed for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from happycat.backbone.config import BackboneConfig
from happycat.backbone.extraction import FeatureExtractor
from happycat.base.errors import InputError
from happycat.methods.calm.method import Calm
from happycat.model import file as model_file
from happycat.model.naming import Name, checked_name
from happycat.model.registry import ClassRegistry, SplitTree
from happycat.model.storage import State, base_part, version_part


def check_new_model(path: str | Path, names: Sequence[Name] = ()) -> None:
    """Refuse a file that is there already, and class names that a model cannot have; nothing is written."""
    if Path(path).exists():
        raise InputError(f"{path} is there already; give another name, or delete it")
    for name in names:
        checked_name(name)


def write_model(
    path: str | Path,
    calm: Calm,
    names: Sequence[Name | None],
    stages: Sequence[int],
    extractor: FeatureExtractor,
    backbone: BackboneConfig,
    *,
    stage: int,
    seed: int,
    what: str,
) -> int:
    """Write a fitted Calm to a new model file; the number of its version is returned.

    `names` and `stages` are those of its classes: a name is None for a discovered class, the stage of a labelled one
    is 0. `extractor` gives the features that Calm has learned from, `backbone` says where its weights lie. `stage` is
    the number of discoveries so far, `seed` that of those to come, `what` says what made the model.
    """
    state = State(calm, prototype_registry(calm, names, stages), stage, mean_cosine(calm), seed)
    base = base_part(extractor, backbone.weights, backbone.precision, 1 + calm.config.random_views)
    with model_file.locked(path, new=True):
        return model_file.create(path, base, version_part(state), what).number


def prototype_registry(calm: Calm, names: Sequence[Name | None], stages: Sequence[int]) -> ClassRegistry:
    """A new registry with the classes of Calm, one prototype each: without their images, none can be split."""
    registry = ClassRegistry()
    columns = calm.memory.prototypes.cpu().numpy(), calm.memory.counts.tolist(), calm.thresholds.tolist()
    for name, stage, prototype, count, threshold in zip(names, stages, *columns, strict=True):
        registry.add(name, stage, SplitTree.leaf(prototype, count, threshold))
    return registry


def mean_cosine(calm: Calm) -> float:
    """The mean cosine of labelled images with the prototypes of their classes, from the radius that Calm has measured.

    Images are unit points of d dimensions in the discriminant space: with a class mean m, whose direction is the
    prototype, the mean cosine is |m|. Tr(Σ) = 1 − |m|², and the radius is Tr(Σ)/d, averaged over the classes, under a
    root.
    """
    memory = calm.memory
    if memory.radius == 0 and memory.counts.max() > 1:
        raise InputError("an earlier happycat learned these classes and did not measure how they scatter; learn again")
    return float((1 - calm.space.dimensions * memory.radius.square()).clamp_min(0).sqrt())
