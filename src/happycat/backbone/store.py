"""The store of tokens and features: a cache on disk in shards, which any number of processes fill together.

STORE/recipe.json         what the store depends on
      names.tensors       which pictures it is of, if it is to be kept: another store copies what both have (`reuse`)
      owner.json          the run that deletes it when it ends; what is to be kept has no owner
      00007.safetensors   tokens or features of some neighbouring pictures, there as a whole or not at all
      ….lock              held by a process that works on a shard, or that uses the store

A token can be turned back into a picture: the folder is its user's alone (permissions 0700). Every file has a checksum.

A shard is computed by whoever claims it first, alone and in the same way each time, so its content does not
depend on how many processes there are or how often they were interrupted; only on which pictures were copied.
"""

from __future__ import annotations

import secrets
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from happycat.backbone.recipe import Recipe
from happycat.backbone.reuse import Copies, joined
from happycat.backbone.tensor_file import Tensors, load_tensors, map_tensors, save_tensors
from happycat.base import tables
from happycat.base.disk import delete, locked, make_folder, replacing
from happycat.base.errors import DamagedError, HappycatError, InUseError, StorageError
from happycat.base.progress import Advance, nobody
from happycat.base.ranks import ALONE, Ranks
from happycat.base.sealed import read_sealed, write_sealed
from happycat.base.strict_json import as_json, check_shape

SHAPE = {  # of a recipe, in JSON
    **dict.fromkeys(("kind", "backbone", "precision", "pictures"), str),
    **dict.fromkeys(("num_pictures", "image_size", "view_seed", "num_tokens", "dim", "shard"), int),
    **{"view_names": [str], "crop_share": (int, float), "mirror": bool},
}
NAMES = "names.tensors"
PRIVATE = 0o700  # permissions of what holds something of an image
Places = Sequence[int]  # of pictures in a store
Extract = Callable[[Iterable[Places]], Iterator[Tensors]]  # from pictures' places to what is stored of them


def shards_of(number: int, size: int) -> list[range]:
    """The places of so many pictures, shard by shard."""
    return [range(start, min(start + size, number)) for start in range(0, number, size)]


def read_recipe(path: Path) -> Recipe | None:
    """The recipe in a file; None if it holds no recipe."""
    try:
        found = check_shape(read_sealed(path), SHAPE, "the recipe")
        return Recipe(**{**found, "view_names": tuple(found["view_names"])})
    except (HappycatError, TypeError):  # a member that a recipe has not
        return None


def recipes_in(root: Path) -> Iterator[Recipe]:
    """The recipes of the stores in a folder, in the order of their names."""
    for path in sorted(Path(root).glob("*/recipe.json")):
        if (recipe := read_recipe(path)) is not None:
            yield recipe


class Store:
    """A folder named by its recipe, with a file for each shard."""

    def __init__(self, root: Path, recipe: Recipe, owner: Path | None = None):
        """`owner` is the run folder that the store is filled for; None if it is to be kept."""
        self.recipe, self._owner = recipe, owner
        self.folder = Path(root) / recipe.name
        self._held = ExitStack()  # until this object is gone: the sign for others that the store is in use
        self._shards = shards_of(recipe.num_pictures, recipe.shard)
        self._whole: set[int] = set()  # the shards that this process has written or verified
        self._damaged: set[int] = set()  # those that it has said are damaged
        self._mapped: dict[int, Tensors | None] = {}

    def recorded(self) -> int:
        """How many pictures are on disk, without a look at their checksums."""
        return sum(len(shard) for number, shard in enumerate(self._shards) if self.has(number))

    def missing(self, names: np.ndarray) -> list[int]:
        """Those of its pictures' names of which there is nothing in the folder, without a look at checksums."""
        copies = self.copies(names)
        left = [place for number, shard in enumerate(self._shards) if not self.has(number) for place in shard]
        return [int(names[place]) for place in left if not copies.there(place)]

    def has(self, number: int) -> bool:
        """Whether a shard is on disk, without a look at its checksum."""
        return self._path(number).exists()

    def bytes_on_disk(self) -> int:
        """How much of the disk it takes."""
        return sum(path.stat().st_size for path in self.folder.glob("*.safetensors"))

    def damaged(self) -> list[Path]:
        """The shards whose checksums do not hold."""
        there = [number for number in range(len(self._shards)) if self.has(number)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it is said by whoever asks
            return [self._path(number) for number in there if not self._verified(number)]

    def names(self) -> np.ndarray:
        """The names of the pictures that it is of (`Pictures.names`); none if it does not say."""
        try:
            return load_tensors(self.folder / NAMES)[0]["names"].numpy()
        except (DamagedError, KeyError):
            return np.empty(0, np.int64)

    def shard(self, number: int) -> Tensors | None:
        """The tensors of a shard, mapped into memory; None if it is not there as a whole."""
        if number not in self._mapped:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is said by whoever uses the store
                whole = self._verified(number)
            self._mapped[number] = map_tensors(self._path(number))[0] if whole else None
        return self._mapped[number]

    def copies(self, names: np.ndarray) -> Copies:
        """What other stores in the folder that are to be kept have of pictures of these names."""
        found = [Store(self.folder.parent, recipe) for recipe in recipes_in(self.folder.parent)]
        kin = [store for store in found if store.recipe.covers(self.recipe) and store.recipe != self.recipe]
        return Copies(self.recipe, names, [store for store in kin if store.owner() is None])

    def owner(self) -> Path | None:
        """The run folder that the store was filled for; None if it is to be kept."""
        try:
            return Path(read_sealed(self.folder / "owner.json")["run"])
        except (HappycatError, KeyError, TypeError):
            return None

    def delete(self) -> None:
        """Delete the store: a token can be turned back into a picture."""
        self._whole.clear()
        self._held.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fill(
        self, extract: Extract, advance: Advance = nobody, ranks: Ranks = ALONE, names: np.ndarray | None = None
    ) -> None:
        """Extract the shards that are not there yet; `advance(n)` is called for every n pictures that are.

        `extract` is given the places of a shard's pictures, as often as it asks, and yields the tensors of each shard
        in that order. Other processes that want the same are left the shards that they work on, and waited for. With
        the pictures' `names`, those that another store in the folder has are copied, and it is given the others only,
        if both are to be kept: what is deleted when its stage ends would be there or not by when a run was killed.
        """
        names = names if self._owner is None else None
        self._prepare(names)
        copies = self.copies(names) if names is not None else None
        own = ranks.share(len(self._shards))
        order = list(range(len(self._shards)))
        others = [*order[: own.start], *order[own.stop :]]
        left = self._fill(extract, [*order[own], *reversed(others)], advance, copies, wait=False)
        for number in left:  # one by one: who waits for a shard holds none that another may wait for
            self._fill(extract, [number], advance, copies, wait=True)
        ranks.wait()
        if missing := self.recipe.num_pictures - self.recorded():
            raise StorageError(
                f"{missing} of {self.recipe.num_pictures} pictures are not in {self.folder}; all processes need to "
                "share the folder"
            )

    def _fill(
        self, extract: Extract, numbers: list[int], advance: Advance, copies: Copies | None, wait: bool
    ) -> list[int]:
        """Extract those of the shards that no other process works on, or `wait` for it; returns the others."""
        claimed: deque[tuple[int, ExitStack, dict[int, Tensors]]] = deque()
        left = []

        def claims() -> Iterator[Places]:
            for number in numbers:
                held = ExitStack()
                try:
                    if not self._verified(number):
                        held.enter_context(self._claim(number, wait))
                except InUseError:
                    left.append(number)
                    continue
                if self._verified(number):  # now, or by somebody else while we waited
                    held.close()
                    advance(len(self._shards[number]))
                    continue
                shard = self._shards[number]
                copied = copies.of(shard) if copies else {}
                advance(len(copied))
                claimed.append((number, held, copied))
                if len(copied) < len(shard):
                    yield [place for place in shard if place not in copied] if copied else shard
                    continue
                self._write(number, joined(self.recipe, shard, copied, {}))
                claimed.pop()
                held.close()

        try:
            for made in extract(claims()):
                number, held, copied = claimed[0]
                self._write(number, joined(self.recipe, self._shards[number], copied, made) if copied else made)
                claimed.popleft()
                held.close()
        finally:
            for _, held, _ in claimed:
                held.close()
        return left

    @contextmanager
    def _claim(self, number: int, wait: bool) -> Iterator[None]:
        with locked(self._path(number).with_suffix(".lock"), str(self._path(number)), wait=wait):
            yield

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:05}.safetensors"

    def _write(self, number: int, tensors: Tensors) -> None:
        with replacing(self._path(number)) as temporary:
            save_tensors(temporary, tensors)
        self._whole.add(number)

    def _verified(self, number: int) -> bool:
        """Whether a shard is there and its checksum holds; one whose checksum does not is as good as not there."""
        if number in self._whole:
            return True
        if not self.has(number):
            return False
        try:
            whole = self._fits(number, load_tensors(self._path(number))[0])
        except DamagedError:
            whole = False
        if whole:
            self._whole.add(number)
        elif number not in self._damaged:
            self._damaged.add(number)
            warnings.warn(f"{self._path(number)} is damaged; what it lost is computed again", stacklevel=2)
        return whole

    def _fits(self, number: int, tensors: Tensors) -> bool:
        """Whether the tensors are of the size that the recipe says."""
        sizes = {name: tensor.numel() * tensor.element_size() for name, tensor in tensors.items()}
        return sizes == {name: len(self._shards[number]) * size for name, size in self.recipe.sizes.items()}

    def _prepare(self, names: np.ndarray | None = None) -> None:
        """Make the folder; refuse one of another recipe, and a disk that is too small."""
        make_folder(self.folder.parent, PRIVATE)
        make_folder(self.folder, PRIVATE)
        path, recipe = self.folder / "recipe.json", as_json(asdict(self.recipe))
        with locked(self.folder / ".lock", str(self.folder), wait=True):
            self._held.enter_context(locked(self.folder / f".{secrets.token_hex(8)}.lock", str(self.folder), wait=True))
            found = read_recipe(path)
            if found is None:  # new, or damaged: the folder's name is the recipe's
                write_sealed(path, recipe)
            elif found != self.recipe:
                raise StorageError(f"{self.folder} holds {self.recipe.kind} of something else; delete it")
            if names is not None and not len(self.names()):
                with replacing(self.folder / NAMES) as temporary:
                    save_tensors(temporary, {"names": torch.from_numpy(names.copy())})
            if self._owner is not None:
                write_sealed(self.folder / "owner.json", {"run": str(self._owner)})
            else:
                delete(self.folder / "owner.json")
        left = (self.recipe.num_pictures - self.recorded()) * sum(self.recipe.sizes.values())
        free = shutil.disk_usage(self.folder).free
        if left > free:
            advice = "free some"
            if self.recipe.kind == "tokens":
                advice += ", allow fewer gigabytes for tokens (cache_gb), or use fresh views (fresh_views)"
            raise StorageError(
                f"the {self.recipe.kind} need {left / 1e9:.2f} GB more, {self.folder} has {free / 1e9:.2f} GB free; "
                + advice
            )


class FeatureStore(Store):
    """Features of every picture's views: a shard of n pictures has `features`, (n, V, D) fp32."""

    def features(self) -> Tensor:
        """The features (num_pictures, V, D), when all of them are there."""
        shape = (self.recipe.num_pictures, len(self.recipe.view_names), self.recipe.dim)
        features = tables.empty(shape, torch.empty(0), self.folder)
        for number, shard in enumerate(self._shards):
            if not self._verified(number):
                raise StorageError(f"{self._path(number)} is damaged; the same command computes it again")
            features[shard.start : shard.stop] = map_tensors(self._path(number))[0]["features"]
        return features
