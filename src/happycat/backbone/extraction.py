"""Feature extraction: from pictures to the embeddings of a frozen backbone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from happycat.backbone.config import BackboneConfig, build_for_features
from happycat.backbone.fingerprint import fingerprint
from happycat.backbone.pooled import PooledBackbone
from happycat.backbone.scratch import SCRATCH
from happycat.backbone.store import FeatureStore, Recipe, TokenStore, Waiting, batch_of
from happycat.backbone.tail import Tail, Vectors
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import DEFAULT_WORKERS, ViewDataset, ViewPlan, view_loader
from happycat.base.progress import Advance, nobody
from happycat.images.pictures import CROP_SHARE, Pictures

CENTRE = ("centre",)
VIEWS = ("centre", "1", "2")
BLOCK = 128  # pictures that go through the tail at once


class FeatureExtractor:
    """Extracts features: a frozen backbone, and how views are cut for it.

    The backbone is a ViT's trunk and its tail; or a whole `PooledBackbone`, whose output are features already and
    whose tail is `Vectors`.
    """

    def __init__(
        self,
        trunk: Trunk | PooledBackbone,
        tail: Tail | Vectors,
        plan: ViewPlan,
        workers: int,
        tuned_tail: bool = False,
    ):
        """`tuned_tail`: the tail has been tuned, so that nobody else has its weights."""
        self.trunk, self.tail, self.plan, self.workers = trunk, tail.requires_grad_(False), plan, workers
        self.tuned_tail = tuned_tail
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
    ) -> FeatureExtractor:
        """The extractor with that backbone, any timm model; `seed` draws the weights of one from scratch."""
        trunk, tail = build_for_features(config, seed)
        workers = 0 if config.from_scratch else DEFAULT_WORKERS if workers is None else workers
        plan = ViewPlan(image_size=trunk.image_size, crop_share=crop_share, mirror=mirror)
        return cls(trunk, tail, plan, workers)

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
        return FeatureStore(cache_dir, self.recipe(pictures, views))

    def extract(
        self,
        pictures: Pictures,
        views: tuple[str, ...] = VIEWS,
        advance: Advance = nobody,
        cache_dir: Path | None = None,
    ) -> Tensor:
        """Features (N, V, D) of so many views of each picture; `advance(n)` is called for every n pictures done.

        They are to the bit those that the tail makes of stored tokens (`StoredViews.every`). What is done is kept
        in the folder `cache_dir`, if there is one, and taken from there the next time. Where that folder has the
        pictures' tokens, only the tail is run.
        """
        if cache_dir is not None:
            store = self.store(pictures, views, cache_dir)

            def missing(waiting: Waiting) -> Iterator[Tensor]:
                tokens = self.stored_tokens(pictures, views, cache_dir)
                if tokens is not None and tokens.open():
                    return self._features_of_tokens(tokens, views, waiting, advance)
                return self._features(pictures, views, waiting, advance)

            return store.fill(missing, advance)
        blocks = list(self._features(pictures, views, Waiting(0), advance))
        return torch.cat([torch.empty(0, len(views), self.dim), *blocks])

    def _features(
        self, pictures: Pictures, views: tuple[str, ...], waiting: Waiting, advance: Advance
    ) -> Iterator[Tensor]:
        """The features (n, V, D) of the pictures that follow what waits, block by block; n is 0 while one fills.

        The last bits of a matrix product depend on how many rows go in together: the trunk is given the batches
        of a token store, the tail those of `StoredViews`, and the tokens are rounded as they would be on disk.
        """
        number, step, block = len(views), batch_of(len(views)), BLOCK * len(views)
        begun = waiting.first + len(waiting) // number
        starts = range(begun // step * step, len(pictures), step)
        batches = [list(range(start, min(start + step, len(pictures)))) for start in starts]
        waiting.rows = tuple(rows.to(self.device) for rows in waiting.rows)
        for batch, cut in zip(
            batches,
            view_loader(ViewDataset(pictures, self.plan, views), batches, self.workers, self.device),
            strict=True,
        ):
            known = max(0, begun - batch[0])  # pictures of the first batch that were done before
            said = tuple(rows[known * number :] for rows in self._through_trunk(cut.flatten(0, 1)))
            rows = tuple(map(torch.cat, zip(waiting.rows, said, strict=True))) if waiting else said
            full = len(rows[0]) if batch is batches[-1] else len(rows[0]) // block * block
            starts = range(0, full, block)
            features = [self._through_tail(tuple(r[i : min(i + block, full)] for r in rows)) for i in starts]
            waiting.first, waiting.rows = waiting.first + full // number, tuple(r[full:] for r in rows)
            yield torch.cat([torch.empty(0, self.dim), *features]).unflatten(0, (full // number, number))
            advance(len(batch) - known)

    def stored_tokens(self, pictures: Pictures, views: tuple[str, ...], cache_dir: Path) -> TokenStore | None:
        """The store in that folder that has the tokens of these views of all the pictures, if there is one."""
        if not isinstance(self.trunk, Trunk) or not any(cache_dir.glob("*/tokens.bin")):
            return None
        recipe = Recipe.of(self.trunk, self.trunk.fingerprint(), pictures, self.plan, len(views) - 1)
        return TokenStore.finished(cache_dir, replace(recipe, view_names=views))

    def _features_of_tokens(
        self, tokens: TokenStore, views: tuple[str, ...], waiting: Waiting, advance: Advance
    ) -> Iterator[Tensor]:
        """The features (n, V, D) of the pictures that are not done yet, from their tokens, block by block."""
        slots = torch.tensor([tokens.recipe.view_names.index(view) for view in views])
        begun, waiting.rows = waiting.first + len(waiting) // len(views), ()
        for index in torch.arange(waiting.first, tokens.recipe.num_pictures).split(BLOCK):
            rows = tokens.views(index.repeat_interleave(len(views)), slots.repeat(len(index))).to(self.device)
            waiting.first += len(index)
            yield self._through_tail(tuple(rows)).unflatten(0, (len(index), len(views)))
            advance(max(0, waiting.first - max(begun, int(index[0]))))

    @torch.inference_mode()
    def _through_trunk(self, views: Tensor) -> tuple[Tensor, ...]:
        said = self.trunk(views.to(self.device, non_blocking=True))
        return tuple(said.rounded()) if isinstance(said, Tokens) else (said,)

    @torch.inference_mode()
    def _through_tail(self, rows: tuple[Tensor, ...]) -> Tensor:
        return self.tail(Tokens(*rows) if len(rows) == 2 else rows[0]).cpu()
