"""The data of each stage: which pictures, served as tokens, features or fresh views, and for how long they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from happycat.backbone.config import Backbone, FeatureBackbone
from happycat.backbone.extraction import FeatureExtractor, fill_tokens
from happycat.backbone.housekeeping import delete_stale
from happycat.backbone.patches import feature_tail, vectors_of
from happycat.backbone.pooled import PooledBackbone
from happycat.backbone.recipe import Recipe, affordable_views
from happycat.backbone.store import FeatureStore
from happycat.backbone.tail import Tail, Vectors
from happycat.backbone.token_store import TokenStore
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import DEFAULT_WORKERS, ViewPlan
from happycat.base.errors import InputError
from happycat.base.progress import Progress
from happycat.base.ranks import ALONE, Ranks
from happycat.benchmark.config import LoopConfig
from happycat.benchmark.protocol import Split, labelled_pictures, test_pictures, unlabelled_pictures
from happycat.images.pictures import Images, Subset
from happycat.learning.batches import FreshViews, Labelled, StoredViews, Unlabelled, VectorViews, view_names
from happycat.methods.method import Method, MethodConfig


def stage_name(stage: int) -> str:
    return f"Stage {stage}" if stage else "Stage-0"


class TestSet(NamedTuple):
    """Test images as they are served, where they come from, and their class ids (N,)."""

    served: Unlabelled
    pictures: Subset
    ids: np.ndarray


class Extraction(NamedTuple):
    """What is still to be sent through the trunk, and how many bytes on disk all of it takes.

    `views` has how many views of a picture, by what is made of them (`Recipe.kin`) and the picture's name.
    """

    views: dict[tuple[str, int], int]
    total_bytes: int


class StageData:
    """The images of each stage, and how a method is served them.

    A method that tunes the tail is served tokens: of `config.views` random views a picture and the centre view, as
    far as the budget allows, stored for the stage; or of new crops each epoch. One that needs features only is given
    those of `random_views` random views and the centre view, with `patches` of a ViT's patch tokens, too. What a stage
    stores is deleted when it ends: a token can be turned back into a picture, and the promise is that no old image is
    kept.
    """

    def __init__(
        self,
        *,
        images: Images,
        split: Split,
        backbone: Backbone | FeatureBackbone,
        scratch: bool,
        method: type[Method],
        method_config: MethodConfig,
        config: LoopConfig,
        folder: Path,
        progress: Progress,
        ranks: Ranks = ALONE,
    ):
        """`scratch`: the backbone has no weights yet."""
        self.images, self.split, self.config, self.progress = images, split, config, progress
        self.ranks = ranks
        self.trunk: Trunk | PooledBackbone = backbone.trunk
        self.tail: Tail | Vectors = backbone.tail
        self.scratch = scratch
        self.random_views = method_config.random_views if method.features_only else None
        # Of a tail that is trained or tuned, features are the class token's alone: patches do not go through it.
        self.patches = method_config.with_patches and not (scratch or config.tune_tail)
        self.device = self.trunk.device
        self.workers = DEFAULT_WORKERS if config.workers is None else config.workers
        self.root = config.tokens or folder / "tokens"
        self.owner = None if config.keep_tokens else folder.resolve()
        self.plan = ViewPlan(
            image_size=self.trunk.image_size,
            crop_share=images.crop_share,
            mirror=images.mirror,
            seed=config.view_seed,
        )
        self.fingerprint = ""  # of the trunk; none while it has no weights
        self._served: tuple[int, StoredViews | FreshViews] | None = None  # the stage under way, and its tokens
        self._embedded: dict[tuple[int, int], VectorViews] = {}  # by stage under way and number of views
        self._tests: list[TestSet] = []
        if not scratch:
            self.settle()

    def settle(self) -> None:
        """Fix the backbone as it is now for all stages to come."""
        self.fingerprint = self.trunk.fingerprint()
        tuned = self.config.tune_tail
        self.extractor = FeatureExtractor(
            self.trunk, self.tail, self.plan, self.workers, tuned, self.ranks, self.patches
        )
        self.extractor.owner = self.owner
        self._tests.clear()  # what was served while the backbone still changed
        self._embedded.clear()

    @property
    def vit(self) -> Trunk:
        """The trunk of a ViT with a class token, whose tokens a tail can be tuned on."""
        if not isinstance(self.trunk, Trunk):
            raise InputError(f"{self.trunk.name} has no class token that could be tuned; it only gives features")
        return self.trunk

    def vectors(self) -> Vectors:
        """What stands for the tail in a method, or a counter, that is given features."""
        return vectors_of(feature_tail(self.trunk, self.tail, self.patches))

    @property
    def num_stages(self) -> int:
        """How many stages there are, Stage-0 included."""
        return len(self.split.stages) + 1

    # The images of a stage

    def pictures(self, stage: int) -> Subset:
        if stage == 0:
            return labelled_pictures(self.images, self.split)[0]
        return unlabelled_pictures(self.images, self.split, stage)

    def labelled(self) -> Labelled:
        """The images of Stage-0 as the method is served them."""
        return self.labelled_features(self.random_views) if self.random_views is not None else self.labelled_tokens()

    def unlabelled(self, stage: int) -> Unlabelled:
        """The images of a later stage as the method is served them."""
        if self.random_views is not None:
            return self.features(stage, self.random_views)
        return Unlabelled(self._tokens(stage))

    def labelled_tokens(self) -> Labelled:
        """The images of Stage-0 as tokens; those of a backbone without weights as fresh views that train it."""
        return Labelled(self._tokens(0), self._labels())

    def labelled_features(self, random_views: int) -> Labelled:
        """The images of Stage-0 as features of the backbone as it is before any method tunes its tail."""
        return Labelled(self._features(0, random_views), self._labels())

    def features(self, stage: int, random_views: int) -> Unlabelled:
        """The images of a later stage as features of the backbone as it is before any method tunes its tail."""
        return Unlabelled(self._features(stage, random_views))

    def _labels(self) -> Tensor:
        return torch.from_numpy(labelled_pictures(self.images, self.split)[1]).to(self.device)

    def _tokens(self, stage: int) -> StoredViews | FreshViews:
        pictures, fresh = self.pictures(stage), not self.fingerprint
        self._served = stage, self._token_views(pictures, stage_name(stage), self.config.views, fresh)
        return self._served[1]

    def _token_views(self, pictures: Subset, title: str, views: int, fresh: bool = False) -> StoredViews | FreshViews:
        if fresh or self.config.fresh_views:
            return FreshViews(self.vit, pictures, self.plan, self.workers, self.ranks)
        store = self.store(pictures, views)
        advance = self.progress.step(f"{title}: tokens", len(pictures))
        fill_tokens(store, self.vit, pictures, self.plan, self.workers, advance, self.ranks)
        return StoredViews(store, self.device, self.ranks)

    def _features(self, stage: int, random_views: int) -> VectorViews:
        """Features of a stage: of the tokens that it is served, without a file of their own; else from the store."""
        if (stage, random_views) not in self._embedded:
            served = self._served[1] if self._served is not None and self._served[0] == stage else None
            if isinstance(served, FreshViews) or (served is not None and served.num_views >= random_views):
                made = VectorViews(served.every(self.extractor.tail, random_views), self.ranks)
            else:
                made = self._extracted(self.pictures(stage), stage_name(stage), random_views)
            self._embedded[stage, random_views] = made
        return self._embedded[stage, random_views]

    def _extracted(self, pictures: Subset, title: str, random_views: int) -> VectorViews:
        advance = self.progress.step(f"{title}: features", len(pictures))
        features = self.extractor.extract(pictures, view_names(random_views), advance, self.root)
        return VectorViews(features.to(self.device), self.ranks)

    # The test images

    def test_sets(self, stage: int) -> list[TestSet]:
        """The test images of all classes that have been met up to a stage, a set for each stage."""
        for t in range(len(self._tests), stage + 1):
            self._tests.append(self.test_set(t, self.images))
        return self._tests[: stage + 1]

    def test_set(self, stage: int, images: Images) -> TestSet:
        """The test images of the classes that a stage brings, of these images."""
        pictures, ids = test_pictures(images, self.split, stage)
        title = f"{stage_name(stage)}: test"
        if self.random_views is not None:
            return TestSet(Unlabelled(self._extracted(pictures, title, 0)), pictures, ids)
        views = self._token_views(pictures, title, 0, fresh=not self.fingerprint)
        return TestSet(Unlabelled(views), pictures, ids)

    # What is stored

    def store(self, pictures: Subset, views: int) -> TokenStore:
        """The token store of these pictures, with as many views as the budget allows (0: the centre view only)."""

        def recipe(views: int) -> Recipe:
            return Recipe.of(self.vit, self.fingerprint, pictures, self.plan, views)

        views = views and affordable_views(recipe, views, self.config.cache_gb * 1e9)
        return TokenStore(self.root, recipe(views), self.owner)

    def feature_store(self, pictures: Subset, random_views: int) -> FeatureStore:
        """The store of these pictures' features, of so many random views and the centre view."""
        return self.extractor.store(pictures, view_names(random_views), self.root)

    def plan_lines(self) -> Iterator[str]:
        """What each stage is served, and the size of what it stores."""
        for stage in range(self.num_stages):
            number = self.split.num_new(stage) if stage else self.split.num_seen(0)
            size = len(self.pictures(stage))
            line = f"{stage_name(stage)}: {number} {'new' if stage else 'labelled'} classes, {size} images"
            yield f"{line}{self._storage(stage)}"

    def _needs_tokens(self, stage: int) -> bool:
        return self.random_views is None or (stage == 0 and self.config.tune_tail)

    def _storage(self, stage: int) -> str:
        pictures = self.pictures(stage)
        if not self.fingerprint and stage == 0:
            return ", fresh views"
        if self.random_views is not None and not self._needs_tokens(stage):
            size = len(pictures) * (self.random_views + 1) * self.vectors().dim * 4
            return f" × {self.random_views + 1} views, {size / 1e6:.1f} MB of features"
        if self.config.fresh_views:
            return ", fresh views"
        recipe = self.store(pictures, self.config.views).recipe
        return f" × {recipe.views + 1} views, {recipe.total_bytes / 1e9:.2f} GB of tokens"

    def extraction(self, stages: int) -> Extraction:
        """What the first stages, and all test images, still need to have extracted."""
        missing: dict[tuple[str, int], int] = {}
        size = 0
        for t in range(self.num_stages):
            tests = test_pictures(self.images, self.split, t)[0]
            served = ((self.pictures(t), self.config.views),) if t < stages else ()
            for pictures, views in (*served, (tests, 0)):
                store: TokenStore | FeatureStore
                if self.random_views is None:
                    store = self.store(pictures, views)
                else:
                    store = self.feature_store(pictures, self.random_views if views else 0)
                    if self.extractor.stored_tokens(pictures, store.recipe.view_names, self.root):
                        continue  # only the tail is left to be run
                views, kin = len(store.recipe.view_names), store.recipe.kin
                for name in store.missing(pictures.names()):
                    missing[kin, name] = max(views, missing.get((kin, name), 0))
                size += store.recipe.total_bytes
        return Extraction(missing, size)

    def forget(self, stage: int) -> None:
        """Delete what a stage has stored of its images."""
        pictures, embedded = self.pictures(stage), {views for t, views in self._embedded if t == stage}
        self._served = None
        self._embedded.clear()
        self.ranks.wait()  # until nobody reads them
        if self.config.keep_tokens or not self.ranks.first:
            return
        for views in embedded | ({self.random_views} if self.random_views is not None else set()):
            self.feature_store(pictures, views).delete()
        if self._needs_tokens(stage) and not self.config.fresh_views:
            self.store(pictures, self.config.views).delete()

    def tidy(self, wanted: Callable[[Path], bool]) -> None:
        """Delete what runs that do not want it any more have left where this one stores its tokens."""
        if not self.ranks.first:
            return
        deleted = delete_stale(self.root, wanted)
        for kind in sorted({store.recipe.kind for store in deleted}):
            self.progress.message(f"{kind} that belonged to nobody any more were deleted from {self.root}")

    def forget_tests(self) -> None:
        """Delete what is stored of the test images."""
        self.ranks.wait()
        if not self.ranks.first or self.config.keep_tokens or (self.random_views is None and self.config.fresh_views):
            return
        for stage in range(self.num_stages):
            pictures = test_pictures(self.images, self.split, stage)[0]
            store = self.store(pictures, 0) if self.random_views is None else self.feature_store(pictures, 0)
            store.delete()
