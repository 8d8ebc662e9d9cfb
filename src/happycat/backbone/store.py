"""The store of tokens and features: a cache on disk with one key and one way to write, resume and verify."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from happycat.backbone import points
from happycat.backbone.fingerprint import fingerprint
from happycat.backbone.points import Appender
from happycat.backbone.recipe import Recipe as Recipe
from happycat.backbone.recipe import affordable_views as affordable_views
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import ViewDataset, ViewPlan, view_loader
from happycat.base.disk import locked, read_json, replacing, storage_errors, write_json
from happycat.base.errors import StorageError
from happycat.base.progress import Advance
from happycat.images.pictures import Pictures

TRUNK_BATCH = 64  # views that go through the trunk at once


def batch_of(views: int) -> int:
    """How many pictures, with so many views each, go through the trunk at once."""
    return max(1, TRUNK_BATCH // views)


def delete_stores(root: Path) -> None:
    """Delete every store below a folder, and nothing else that may lie there."""
    for recipe in Path(root).glob("*/recipe.json"):
        shutil.rmtree(recipe.parent, ignore_errors=True)


class Store:
    """A folder named by its recipe: the recipe's files, `recipe.json`, and `points.jsonl` with their checksums."""

    def __init__(self, root: Path, recipe: Recipe):
        self.recipe = recipe
        self.folder = Path(root) / recipe.name

    def recorded(self) -> int:
        """How many pictures are on disk, without a look at their checksums."""
        return points.recorded(self.folder)

    def delete(self) -> None:
        """Delete the store: a token can be turned back into a picture."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Hold the folder's lock: no other process writes to it meanwhile."""
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / ".lock", str(self.folder), wait=True):
            yield

    def _prepare(self) -> int:
        """How many pictures are safely there; anything behind them is cut off."""
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        path, recipe = self.folder / "recipe.json", json.loads(json.dumps(asdict(self.recipe)))
        if not path.exists():
            write_json(path, recipe)
        elif read_json(path) != recipe:
            raise StorageError(f"{self.folder} holds {self.recipe.kind} of something else; delete it")
        done = points.verified(self.folder, self.recipe.sizes)
        left = (self.recipe.num_pictures - done) * sum(self.recipe.sizes.values())
        free = shutil.disk_usage(self.folder).free
        if left > free:
            advice = "free some"
            if self.recipe.kind == "tokens":
                advice += ", allow fewer gigabytes for tokens (cache_gb), or use fresh views (fresh_views)"
            raise StorageError(
                f"the {self.recipe.kind} need {left / 1e9:.2f} GB more, {self.folder} has {free / 1e9:.2f} GB free; "
                + advice
            )
        return done


class TokenStore(Store):
    """Tokens of every picture's centre view (slot 0) and random views (slots 1…V), in bf16, memory-mapped.

    `tokens.bin` is (num_pictures, V+1, N, D) bf16, `cls.bin` (num_pictures, V+1, D) fp32.
    """

    _tokens: Tensor
    _cls: Tensor

    def fill(self, trunk: Trunk, pictures: Pictures, plan: ViewPlan, workers: int, advance: Advance) -> None:
        """Extract what is not there yet; `advance(n)` is called for every n pictures that are.

        What an earlier, interrupted call wrote is verified and kept. Of several processes that want the same
        tokens one extracts them, the others wait.
        """
        with self._held():
            done = self._prepare()
            advance(done)
            if done < self.recipe.num_pictures:
                self._extract(trunk, pictures, plan, workers, done, advance)
            self._open()

    @classmethod
    def finished(cls, root: Path, recipe: Recipe) -> TokenStore | None:
        """A store in the folder with the tokens of all the recipe's pictures and views, and maybe of further views."""
        wanted = json.loads(json.dumps(asdict(recipe)))
        for path in sorted(Path(root).glob("*/recipe.json")):
            found = read_json(path)
            names = found.get("view_names", [])
            if {**found, "view_names": wanted["view_names"]} == wanted and {*recipe.view_names} <= {*names}:
                store = cls(root, replace(recipe, view_names=tuple(names)))
                if store.recorded() == recipe.num_pictures:
                    return store
        return None

    def open(self) -> bool:
        """Verify and open it; False if not all of the tokens are safely there."""
        with self._held():
            whole = self._prepare() == self.recipe.num_pictures
            if whole:
                self._open()
            return whole

    def adopt(self, tokens: Tensor, cls: Tensor) -> None:
        """Take tokens that are there already, (num_pictures·(V+1), N, D) and (…, D), for the whole store."""
        self._prepare()
        with Appender(self.folder, self.recipe.sizes) as appender:
            appender.append(self.recipe.num_pictures, _files(Tokens(tokens, cls)))
        self._open()

    def views(self, index: Tensor, slot: Tensor) -> Tokens:
        """Tokens of the given slots of the given pictures."""
        rows = index * (self.recipe.views + 1) + slot
        tokens = self._tokens.index_select(0, rows).view(len(rows), self.recipe.num_tokens, -1)
        return Tokens(tokens, self._cls.index_select(0, rows))

    def delete(self) -> None:
        for opened in ("_tokens", "_cls"):
            self.__dict__.pop(opened, None)
        super().delete()

    def _open(self) -> None:
        self._tokens = self._map("tokens.bin", np.int16).view(torch.bfloat16)
        self._cls = self._map("cls.bin", np.float32)

    def _map(self, name: str, kind: type[np.generic]) -> Tensor:
        """One row a view: (num_pictures·(V+1), …), read from the disk as it is needed."""
        rows = self.recipe.num_pictures * (self.recipe.views + 1)
        # Copy-on-write, and never written: torch warns of read-only memory.
        return torch.from_numpy(np.memmap(self.folder / name, kind, "c")).view(rows, -1)

    def _extract(
        self, trunk: Trunk, pictures: Pictures, plan: ViewPlan, workers: int, done: int, advance: Advance
    ) -> None:
        names, order = self.recipe.view_names, list(range(done, self.recipe.num_pictures))
        step = batch_of(len(names))
        batches = [order[i : i + step] for i in range(0, len(order), step)]
        loader = view_loader(ViewDataset(pictures, plan, names), batches, workers)
        with Appender(self.folder, self.recipe.sizes) as appender, torch.inference_mode():
            for views in loader:
                said = trunk(views.flatten(0, 1).to(trunk.device, non_blocking=True))
                appender.append(len(views), _files(said))
                if appender.due:
                    appender.point()
                advance(len(views))


def _files(said: Tokens) -> dict[str, Tensor]:
    rounded = said.rounded()
    return {"tokens.bin": rounded.normalised, "cls.bin": rounded.cls}


@dataclass
class Waiting:
    """Trunk outputs of the pictures from the `first` on that wait for the tail; tensors with a row a view."""

    first: int
    rows: tuple[Tensor, ...] = ()

    def __len__(self) -> int:
        """How many rows wait."""
        return len(self.rows[0]) if self.rows else 0


class FeatureStore(Store):
    """Features of every picture's views: `features.bin` is (num_pictures, V, D) fp32.

    The tail takes whole blocks of pictures, so that features are the same to the bit however often the work is
    interrupted. What the trunk said of an unfinished block is kept in `waiting.safetensors` until it is full.
    """

    def fill(self, extract: Callable[[Waiting], Iterator[Tensor]], advance: Advance) -> Tensor:
        """The features (num_pictures, V, D); what is not there yet is extracted.

        `extract` goes on from what waits, keeps it up to date, and yields the features (n, V, D) of the next
        pictures, n ≥ 0, as often as it can. Whatever ends it early, all that is done is kept.
        """
        with self._held():
            done = self._prepare()
            waiting = self._waiting(done)
            advance(done + len(waiting) // len(self.recipe.view_names))
            if done < self.recipe.num_pictures:
                self._extract(extract, waiting)
            self._rest.unlink(missing_ok=True)
            shape = (self.recipe.num_pictures, len(self.recipe.view_names), self.recipe.dim)
            return torch.from_numpy(np.fromfile(self.folder / "features.bin", np.float32)).view(shape)

    def _extract(self, extract: Callable[[Waiting], Iterator[Tensor]], waiting: Waiting) -> None:
        with Appender(self.folder, self.recipe.sizes) as appender:
            try:
                for features in extract(waiting):
                    appender.append(len(features), {"features.bin": features})
                    if appender.due:
                        self._keep(waiting, appender)
            except StorageError:
                raise  # there is no place to keep anything
            except BaseException:
                self._keep(waiting, appender)
                raise

    @property
    def _rest(self) -> Path:
        return self.folder / "waiting.safetensors"

    def _keep(self, waiting: Waiting, appender: Appender) -> None:
        appender.point()
        if not waiting:
            return
        tensors = {str(i): rows.cpu().clone() for i, rows in enumerate(waiting.rows)}
        metadata = {"first": str(waiting.first), "checksum": fingerprint([], tensors)}
        with replacing(self._rest) as temporary:
            save_file(tensors, temporary, metadata)

    def _waiting(self, done: int) -> Waiting:
        """What an interrupted call left waiting, if it follows what is done."""
        if not self._rest.exists():
            return Waiting(done)
        try:
            with safe_open(self._rest, "pt") as file:
                metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in sorted(file.keys())}
            whole = metadata["checksum"] == fingerprint([], tensors)
        except (SafetensorError, OSError, KeyError, TypeError):
            whole = False
        if not whole:
            warnings.warn(f"{self._rest} is damaged; what it held is computed again", stacklevel=2)
            return Waiting(done)
        return Waiting(done, tuple(tensors.values())) if metadata["first"] == str(done) else Waiting(done)
