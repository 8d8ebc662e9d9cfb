"""Feature extraction for the estimator: embeddings of pictures by a backbone, or vectors as they are given."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.backbone.config import BackboneConfig
from happycat.backbone.extraction import CENTRE, FeatureExtractor
from happycat.backbone.tail import Tail, Vectors
from happycat.backbone.trunk import Trunk
from happycat.base.errors import InputError, StorageError
from happycat.base.progress import Progress, duration
from happycat.base.ranks import ALONE, Helped, Ranks
from happycat.base.tables import ROWS
from happycat.base.threads import network_flops, threads_for
from happycat.images.collecting import Skipped
from happycat.images.pictures import CROP_SHARE, Pictures, Subset
from happycat.images.sources import Accepted, VectorRows, in_order, read
from happycat.learning.batches import FreshViews, Labelled, VectorViews
from happycat.learning.training import Training
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from happycat.methods.pretraining import small_vit_config, train_from_scratch
from happycat.model.file import Part


def extractor_of(
    config: BackboneConfig,
    base: Part | None,
    *,
    workers: int | None,
    mirror: bool,
    seed: int,
    ranks: Ranks = ALONE,
) -> FeatureExtractor:
    """The backbone, ready for use; `base` is that of a model file, whose weights it has to have."""
    # a file without a crop share or patches is older than these
    crop_share = CROP_SHARE if base is None else base.metadata.get("crop_share", CROP_SHARE)
    patches = base is None or base.metadata.get("patches", False)
    extractor = FeatureExtractor.of(
        config, workers=workers, mirror=mirror, crop_share=crop_share, seed=seed, ranks=ranks, patches=patches
    )
    if base is not None:
        if base.arrays:
            try:
                extractor.load({name: torch.from_numpy(array) for name, array in base.arrays.items()})
            except (RuntimeError, TypeError) as error:
                raise StorageError(f"the model's weights are none of {config.name}; fit the model again") from error
        _check_precision(config.precision, base.metadata.get("precision"))
        if extractor.fingerprint() != base.metadata.get("fingerprint"):
            raise InputError(f"the model was made with other weights of {config.name}; give a file of the same")
    return extractor


def _check_precision(asked: str | None, made: str | None) -> None:
    """Refuse int8 for a model that was made without it, and the other way round: its features differ too much."""
    if asked != made and "int8" in (asked, made):
        usual = "in fp32 or bf16"
        ours, theirs = (f"in {name}" if name == "int8" else usual for name in (asked, made))
        raise InputError(f"the model was made with its backbone {theirs}, not {ours}: keep to that, or fit again")


def view_names(number: int) -> tuple[str, ...]:
    """The names of so many views of a picture: the centre view and random ones."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"views must be a number of views, at least 1, got {number!r}")
    return ("centre", *(str(view) for view in range(1, number)))


def embed(
    extractor: FeatureExtractor | None,
    pictures: Pictures,
    views: tuple[str, ...],
    progress: Progress,
    cache_dir: str | Path | None,
    helpers_stay: bool = False,
) -> Tensor:
    """Features (N, V, D) of each picture's views; a vector is its only view. They are kept in `cache_dir`.

    Several processes share this work; the first one goes on alone, the others are done with it (`Helped`), unless they
    stay for more.
    """
    if isinstance(pictures, VectorRows):
        return torch.from_numpy(pictures.vectors)[:, None]
    assert extractor is not None
    with threads_for(network_flops(extractor.trunk)):
        seconds = extractor.seconds(len(pictures) * len(views))
        cut = f"{len(views)} views" if len(views) > 1 else "1 view"
        progress.message(f"{cut} of each through {extractor.trunk.name}: about {duration(seconds)}")
        advance = progress.step("extracting features", len(pictures))
        features = extractor.extract(pictures, views, advance, Path(cache_dir) if cache_dir is not None else None)
    if not (extractor.ranks.first or helpers_stay):
        raise Helped
    if bad := sum(int((~some.isfinite()).flatten(1).any(1).sum()) for some in features.split(ROWS)):
        raise InputError(
            f"the features of {bad} of {len(features)} images are not finite numbers, as {extractor.trunk.name} "
            "computes them; check its weights, or compute in precision fp32"
        )
    return features


class Embedded(NamedTuple):
    """Keys and unit embeddings (N, D) of images, in the order in which they are given, and what cannot be read.

    `digests` (N, 16) are of the images' content, where they were asked for.
    """

    keys: list[str]
    embeddings: Tensor
    skipped: list[Skipped]
    digests: np.ndarray | None = None

    def every(self) -> Tensor:
        """The embeddings of all images, or an error: what is predicted must not be taken for another's."""
        if self.skipped:
            first = f"{self.skipped[0].path}: {self.skipped[0].reason}"
            raise InputError(
                f"{len(self.skipped)} images cannot be read (first: {first}); leave them out, or use assign"
            )
        return self.embeddings


def embedded(
    extractor: FeatureExtractor | None,
    source: Accepted,
    progress: Progress,
    cache_dir: str | Path | None,
    with_digests: bool = False,
) -> Embedded:
    """Read images, and embed the centre view of each."""
    gathered = read(source, progress.step("reading"))
    features = embed(extractor, gathered.pictures, CENTRE, progress, cache_dir)
    embeddings, order = unit_embeddings(features), in_order(source, gathered)
    places = [place for _, place in order]
    if places != list(range(len(embeddings))):
        embeddings = embeddings[places]
    digests = gathered.pictures.contents()[places] if with_digests else None
    return Embedded([key for key, _ in order], embeddings, gathered.skipped, digests)


def unit_embeddings(features: Tensor) -> Tensor:
    """The centre view's features (N, D) of all views' (N, V, D), of unit length."""
    return normalize(features[:, 0], dim=-1)


def trained(
    extractor: FeatureExtractor | None,
    pictures: Pictures,
    labels: Tensor,
    used: Tensor,
    training: Training,
    progress: Progress,
    views_used: tuple[str, ...],
) -> dict[str, Tensor]:
    """Train a backbone that starts from scratch on the pictures that are `used`; Calm's state after that.

    A backbone that has its weights, or none where vectors are given, is left alone, and there is no state.
    """
    if extractor is None or not extractor.from_scratch:
        return {}
    some = Subset(pictures, [key for key, use in zip(pictures.keys, used.tolist(), strict=True) if use])
    trunk, tail = extractor.trunk, extractor.tail
    assert isinstance(trunk, Trunk)  # a ViT from scratch is cut in two
    assert isinstance(tail, Tail)
    views, truth = FreshViews(trunk, some, extractor.plan, extractor.workers), labels[used].to(extractor.device)
    calm = Calm(Vectors(extractor.dim), CalmConfig()).to(extractor.device)
    advance = progress.step("training the backbone")
    with threads_for(network_flops(trunk)):
        for _ in train_from_scratch(tail, views, truth, calm, small_vit_config(), training):
            advance(1)
        seen = Labelled(VectorViews(views.every(tail, len(views_used) - 1)), truth)
        list(calm.fit(seen, training))
    return {name: value.cpu() for name, value in calm.state_dict().items()}
