"""Housekeeping of caches: stores and partial files below a folder, and which of them a killed command has left behind.

A store is *in use* while a living process holds one of its locks. One that a run made for itself says which run that is
(`owner.json`); when that run is over or gone, and nobody uses the store, it belongs to nobody and is deleted by
the next run that stores something in the same place. What was to be kept has no owner, and stays.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from happycat.backbone.store import Store, read_recipe
from happycat.base.disk import PARTIAL, is_held

MOMENT = 60  # seconds


def stores_below(root: Path) -> Iterator[Store]:
    """Every store in a folder or anywhere below it."""
    for path in sorted(Path(root).rglob("recipe.json")):
        recipe = read_recipe(path)
        if recipe is not None and recipe.name == path.parent.name:  # else it is a file of somebody else's
            yield Store(path.parent.parent, recipe)


def delete_stores(root: Path) -> None:
    """Delete every store in a folder that nobody uses, and nothing else that may lie there."""
    for recipe in Path(root).glob("*/recipe.json"):
        if not in_use(recipe.parent):
            shutil.rmtree(recipe.parent, ignore_errors=True)


def delete_stale(root: Path, wanted: Callable[[Path], bool]) -> list[Store]:
    """Delete the stores in a folder whose owner, a run folder, does not want them any more, unless they are in use."""
    deleted = []
    for path in sorted(Path(root).glob("*/recipe.json")):
        recipe = read_recipe(path)
        store = Store(root, recipe) if recipe else None
        owner = store.owner() if store else None
        if store and owner and not wanted(owner) and not in_use(store.folder):
            store.delete()
            deleted.append(store)
    return deleted


def in_use(folder: Path) -> bool:
    """Whether a living process holds a lock in a folder."""
    return any(is_held(lock) for lock in Path(folder).glob("*.lock"))


def partial_files(root: Path) -> list[Path]:
    """Files and folders that were never finished, and that nobody may be about to finish.

    Somebody may who holds a lock beside or above it, or, as not every file needs a lock, who wrote to it a moment ago.
    """
    found = sorted(path for path in Path(root).rglob(f".*{PARTIAL}") if time.time() - path.stat().st_mtime > MOMENT)
    return [path for path in found if not any(map(in_use, _up_to(path.parent, root)))]


def _up_to(folder: Path, root: Path) -> Iterator[Path]:
    """A folder and those above it, as far as the root."""
    yield folder
    if folder != root and root in folder.parents:
        yield from _up_to(folder.parent, root)
