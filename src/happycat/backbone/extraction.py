"""Feature extraction: from pictures to the embeddings of a frozen backbone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from happycat.backbone.config import BackboneConfig, build_for_features
from happycat.backbone.fingerprint import fingerprint
from happycat.backbone.patches import ClassAndPatches, feature_tail
from happycat.backbone.pooled import PooledBackbone
from happycat.backbone.recipe import SHARD, Recipe
from happycat.backbone.scratch import SCRATCH
from happycat.backbone.store import FeatureStore, Places, shards_of
from happycat.backbone.tail import Tail, Vectors
from happycat.backbone.tensor_file import Tensors
from happycat.backbone.token_store import TokenStore, token_tensors
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import DEFAULT_WORKERS, ViewDataset, ViewPlan, view_loader
from happycat.base.progress import Advance, nobody
from happycat.base.ranks import ALONE, Ranks
from happycat.images.pictures import CROP_SHARE, Pictures

CENTRE = ("centre",)
VIEWS = ("centre", "1", "2")
TRUNK_BATCH = 64  # views that go through the trunk at once, at most or a few more


class FeatureExtractor:
    """Extracts features, without gradients: a backbone, and how views are cut for it.

    The backbone is a ViT's trunk and its tail; or a whole `PooledBackbone`, whose output are features already and
    whose tail is `Vectors`. With `patches`, the features of a ViT have the mean of its patch tokens, too.
    """

    def __init__(
        self,
        trunk: Trunk | PooledBackbone,
        tail: Tail | Vectors,
        plan: ViewPlan,
        workers: int,
        tuned_tail: bool = False,
        ranks: Ranks = ALONE,
        patches: bool = False,
    ):
        """`tuned_tail`: the tail has been tuned, so that nobody else has its weights. `ranks` share the work."""
        self.trunk, self.plan, self.workers = trunk, plan, workers
        self.tail = feature_tail(trunk, tail, patches)  # not frozen: a method may train the same one, or a copy of it
        self.tuned_tail, self.ranks = tuned_tail, ranks
        self.owner: Path | None = None  # the run folder that features are stored for; None if they are to be kept
        self._fingerprint: str | None = None

    @classmethod
    def of(
        cls,
        config: BackboneConfig,
        *,
        workers: int | None = None,
        mirror: bool = True,
        crop_share: float = CROP_SHARE,
        seed: int = 0,
        ranks: Ranks = ALONE,
        patches: bool = False,
    ) -> FeatureExtractor:
        """The extractor with that backbone, any timm model; `seed` draws the weights of one from scratch."""
        trunk, tail = build_for_features(config, seed)
        workers = 0 if config.from_scratch else DEFAULT_WORKERS if workers is None else workers
        plan = ViewPlan(image_size=trunk.image_size, crop_share=crop_share, mirror=mirror)
        return cls(trunk, tail, plan, workers, ranks=ranks, patches=patches and not config.from_scratch)

    @property
    def dim(self) -> int:
        return self.tail.dim

    @property
    def image_size(self) -> int:
        return self.trunk.image_size

    @property
    def from_scratch(self) -> bool:
        return self.trunk.name in SCRATCH

    @property
    def device(self) -> torch.device:
        return self.trunk.device

    def metadata(self) -> dict:
        """The backbone's metadata in a model file."""
        return {
            "backbone": self.trunk.name,
            "image_size": self.image_size,
            "mirror": self.plan.mirror,
            "crop_share": self.plan.crop_share,
            "patches": isinstance(self.tail, ClassAndPatches),
            "fingerprint": self.fingerprint(),
        }

    def fingerprint(self) -> str:
        """Sixteen hex digits that identify this backbone by all of its weights, in whatever precision."""
        if self._fingerprint is None or self.from_scratch:  # one from scratch may have been trained since
            self._fingerprint = fingerprint([self.trunk.weights_fingerprint()], self.tail.state_dict())
        return self._fingerprint

    def tensors(self) -> dict[str, Tensor]:
        """The weights that a model has to carry along: those of a backbone that nobody else has."""
        trunk = {f"trunk.{name}": value for name, value in self.trunk.model.state_dict().items()}
        tail = {f"tail.{name}": value for name, value in self.tail.state_dict().items()}
        return {**trunk, **tail} if self.from_scratch else tail if self.tuned_tail else {}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take the weights that a model carried along."""
        for part, module in (("trunk.", self.trunk.model), ("tail.", self.tail)):
            own = {name.removeprefix(part): value for name, value in tensors.items() if name.startswith(part)}
            if own or self.from_scratch:
                module.load_state_dict(own)
        self._fingerprint = None

    @torch.inference_mode()
    def seconds(self, views: int) -> float:
        """About how long so many views take, from a few that are timed."""
        some = torch.zeros(4, 3, self.image_size, self.image_size, dtype=torch.uint8, device=self.device)
        self.trunk(some[:1])
        started = time.monotonic()
        self.tail(self.trunk(some)).sum().item()
        return (time.monotonic() - started) / len(some) * views

    def recipe(self, pictures: Pictures, views: tuple[str, ...] = VIEWS) -> Recipe:
        """The key of the pictures' features in a store, which also says how many bytes they take."""
        return Recipe.of_features(self.trunk, self.fingerprint(), pictures, self.plan, views, self.dim)

    def store(self, pictures: Pictures, views: tuple[str, ...], cache_dir: Path) -> FeatureStore:
        """Where `extract` keeps the pictures' features in that folder."""
        return FeatureStore(cache_dir, self.recipe(pictures, views), self.owner)

    def extract(
        self,
        pictures: Pictures,
        views: tuple[str, ...] = VIEWS,
        advance: Advance = nobody,
        cache_dir: Path | None = None,
    ) -> Tensor:
        """Features (N, V, D) of so many views of each picture; `advance(n)` is called for every n pictures done.

        They are to the bit those that the tail makes of stored tokens (`StoredViews.every`). What is done is kept
        in the folder `cache_dir`, if there is one, and taken from there the next time; several processes share the
        work through it. Where that folder has the pictures' tokens, only the tail is run.
        """
        if cache_dir is not None:
            store = self.store(pictures, views, cache_dir)

            def extract(shards: Iterable[Places]) -> Iterator[Tensors]:
                return self._stored_features(pictures, views, shards, cache_dir, advance)

            store.fill(extract, advance, self.ranks, pictures.names())
            return store.features()
        shards = shards_of(len(pictures), SHARD)
        own, sizes = self.ranks.of_parts(shards)
        made = [tensors["features"] for tensors in self._features(pictures, views, own, advance)]
        rows = torch.cat([torch.empty(0, len(views), self.dim), *made])
        return self.ranks.gather(rows.to(self.device), sizes).cpu()

    def _stored_features(
        self,
        pictures: Pictures,
        views: tuple[str, ...],
        shards: Iterable[Places],
        cache_dir: Path,
        advance: Advance,
    ) -> Iterator[Tensors]:
        """The features of each shard: of its tokens, where they are stored, else of its pictures."""
        tokens = self.stored_tokens(pictures, views, cache_dir)
        if tokens is not None and tokens.open():
            return self._features_of_tokens(tokens, views, shards, advance)
        return self._features(pictures, views, shards, advance)

    def _features(
        self, pictures: Pictures, views: tuple[str, ...], shards: Iterable[Places], advance: Advance
    ) -> Iterator[Tensors]:
        for rows in trunk_outputs(self.trunk, pictures, self.plan, views, self.workers, shards, advance):
            yield {"features": self._through_tail(rows).unflatten(0, (-1, len(views)))}

    def stored_tokens(self, pictures: Pictures, views: tuple[str, ...], cache_dir: Path) -> TokenStore | None:
        """The store in that folder that has the tokens of these views of all the pictures, if there is one."""
        if not isinstance(self.trunk, Trunk) or not cache_dir.is_dir():
            return None
        recipe = Recipe.of(self.trunk, self.trunk.fingerprint(), pictures, self.plan, len(views) - 1)
        return TokenStore.finished(cache_dir, replace(recipe, view_names=views))

    def _features_of_tokens(
        self, tokens: TokenStore, views: tuple[str, ...], shards: Iterable[Places], advance: Advance
    ) -> Iterator[Tensors]:
        slots = torch.tensor([tokens.recipe.view_names.index(name) for name in views])
        for shard in shards:
            index = torch.tensor(shard)
            said = tokens.views(index.repeat_interleave(len(slots)), slots.repeat(len(index)))
            yield {"features": self._through_tail(said.to(self.device)).unflatten(0, (-1, len(views)))}
            advance(len(shard))

    @torch.inference_mode()
    def _through_tail(self, rows: Tokens | Tensor) -> Tensor:
        return self.tail(rows).cpu()


def fill_tokens(
    store: TokenStore,
    trunk: Trunk,
    pictures: Pictures,
    plan: ViewPlan,
    workers: int,
    advance: Advance = nobody,
    ranks: Ranks = ALONE,
) -> None:
    """Extract the tokens that the store does not have yet, and open it."""

    def extract(shards: Iterable[Places]) -> Iterator[Tensors]:
        for rows in trunk_outputs(trunk, pictures, plan, store.recipe.view_names, workers, shards, advance):
            assert isinstance(rows, Tokens)
            yield token_tensors(rows)

    store.fill(extract, advance, ranks, pictures.names())


def trunk_outputs(
    trunk: Trunk | PooledBackbone,
    pictures: Pictures,
    plan: ViewPlan,
    views: tuple[str, ...],
    workers: int,
    shards: Iterable[Places],
    advance: Advance,
) -> Iterator[Tokens | Tensor]:
    """What the trunk says of the views of each shard's pictures, a row a view; tokens rounded as they are on disk.

    The last bits of a matrix product depend on how many rows go in together, so a shard is cut into the same batches
    each time. The next shard is asked for while one is computed: its pictures are read meanwhile.
    """
    shards = iter(shards)
    if (first := next(shards, None)) is None:
        return  # nothing to read: a process that reads pictures would take seconds to start
    numbers = deque[int]()  # of batches of the shards under way

    def batches() -> Iterator[list[int]]:
        for shard in chain([first], shards):
            numbers.append(-(-len(shard) * len(views) // TRUNK_BATCH))
            yield from (part.tolist() for part in np.array_split(shard, numbers[-1]))

    done: list[Tokens | Tensor] = []
    for cut in view_loader(ViewDataset(pictures, plan, views), batches(), workers, trunk.device):
        with torch.inference_mode():
            said = trunk(cut.flatten(0, 1).to(trunk.device, non_blocking=True))
        done.append(said.rounded() if isinstance(said, Tokens) else said)
        advance(len(cut))
        if len(done) == numbers[0]:
            numbers.popleft()
            yield _joined(done)
            done = []


def _joined(parts: list[Tokens | Tensor]) -> Tokens | Tensor:
    if isinstance(parts[0], Tokens):
        return Tokens(*(torch.cat(rows) for rows in zip(*parts, strict=True)))
    return torch.cat([part for part in parts if isinstance(part, Tensor)])
