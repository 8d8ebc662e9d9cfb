"""The cache key of stored tokens and features: all that they depend on, and how many bytes they take."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace

from happycat.backbone.frozen import Frozen
from happycat.backbone.trunk import Trunk
from happycat.backbone.views import ViewPlan
from happycat.base.config import Checked
from happycat.base.errors import InputError
from happycat.images.pictures import Pictures

SHARD = 64  # pictures; a kill costs what was computed of a shard or two
MOST_SHARDS = 2**20  # of a store: 67 million pictures


@dataclass(frozen=True, kw_only=True)
class Recipe(Checked):
    """The key of a store: all that its content depends on; two equal recipes give equal stores."""

    kind: str  # tokens or features
    backbone: str  # the fingerprint of what computes it
    precision: str
    pictures: str  # a digest of where they come from, their keys in order, and their stamps
    num_pictures: int
    view_names: tuple[str, ...]
    image_size: int
    crop_share: float
    mirror: bool
    view_seed: int
    num_tokens: int  # a view; 1 for features
    dim: int
    shard: int = field(default_factory=lambda: SHARD)  # pictures a file

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shard < 1 or min(self.num_pictures, self.num_tokens, self.dim, self.image_size) < 0:
            raise InputError(f"no {self.kind} can be stored of {self.num_pictures} pictures, {self.shard} in a file")
        if self.num_pictures > MOST_SHARDS * self.shard:
            raise InputError(
                f"{self.num_pictures} pictures are more than the {MOST_SHARDS * self.shard} that one store holds; "
                "give fewer at a time"
            )

    @classmethod
    def of(cls, trunk: Trunk, fingerprint: str, pictures: Pictures, plan: ViewPlan, views: int) -> Recipe:
        """The key of the tokens of the centre view and of so many random views."""
        names = ("centre", *(str(view) for view in range(1, views + 1)))
        return cls._of("tokens", trunk, fingerprint, pictures, plan, names, trunk.num_tokens, trunk.dim)

    @classmethod
    def of_features(
        cls, frozen: Frozen, fingerprint: str, pictures: Pictures, plan: ViewPlan, names: tuple[str, ...], dim: int
    ) -> Recipe:
        """The key of the features of the views of these names; the fingerprint covers trunk and tail."""
        return cls._of("features", frozen, fingerprint, pictures, plan, names, 1, dim)

    @classmethod
    def _of(
        cls,
        kind: str,
        frozen: Frozen,
        fingerprint: str,
        pictures: Pictures,
        plan: ViewPlan,
        names: tuple[str, ...],
        num_tokens: int,
        dim: int,
    ) -> Recipe:
        return cls(
            kind=kind,
            backbone=fingerprint,
            precision=str(frozen.precision),
            pictures=pictures.digest(),
            num_pictures=len(pictures),
            view_names=names,
            image_size=plan.image_size,
            crop_share=plan.crop_share,
            mirror=plan.mirror,
            view_seed=plan.seed,
            num_tokens=num_tokens,
            dim=dim,
        )

    @property
    def name(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    def covers(self, other: Recipe) -> bool:
        """Whether they differ only in their pictures, and in further views: what both have of a picture is the same."""
        return self.kin == other.kin and {*other.view_names} <= {*self.view_names}

    @property
    def kin(self) -> str:
        """The name without pictures and views: where it is the same, so is what is stored of a picture's view."""
        return replace(self, pictures="", num_pictures=0, view_names=()).name

    @property
    def views(self) -> int:
        """Random views a picture, besides the centre view."""
        return len(self.view_names) - 1

    def shapes(self, pictures: int) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor of so many pictures."""
        if self.kind == "features":
            return {"features": (pictures, len(self.view_names), self.dim)}
        rows = pictures * len(self.view_names)
        return {"tokens": (rows, self.num_tokens, self.dim), "cls": (rows, self.dim)}

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes that a picture takes in each tensor."""
        rows = len(self.view_names) * self.dim
        if self.kind == "features":
            return {"features": rows * 4}
        return {"tokens": rows * self.num_tokens * 2, "cls": rows * 4}

    @property
    def total_bytes(self) -> int:
        return self.num_pictures * sum(self.sizes.values())


def affordable_views(recipe_of: Callable[[int], Recipe], wanted: int, budget: float) -> int:
    """The most views, from `wanted` down to two, whose store fits into `budget` bytes."""
    for views in range(wanted, 1, -1):
        if recipe_of(views).total_bytes <= budget:
            return views
    need = recipe_of(2).total_bytes / 1e9
    raise InputError(
        f"two views of each of {recipe_of(2).num_pictures} images take {need:.1f} GB, more than the "
        f"{budget / 1e9:.1f} GB allowed; allow more gigabytes for tokens (cache_gb) or use fresh views (fresh_views)"
    )
