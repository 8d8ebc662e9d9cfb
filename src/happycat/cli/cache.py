"""The command `cache`: stored tokens and features, and files that were never finished, listed, checked and removed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from happycat.base.disk import delete
from happycat.base.errors import InputError
from happycat.base.progress import duration
from happycat.base.text import shown
from happycat.cli.display import Display, print_line
from happycat.cli.display import results as out

if TYPE_CHECKING:
    from happycat.backbone.store import Store


def cache(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="run folders, MODEL.cache folders, or any folder above them [.]")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="read everything and compare its checksums")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="remove what is listed; it can be computed again")] = False,
    older: Annotated[
        float | None, typer.Option("--older-than", min=0, help="only what was not written to for so many days")
    ] = None,
) -> None:
    """List tokens and features that are stored, and files never finished; check or remove them."""
    from happycat.backbone.housekeeping import in_use, partial_files, stores_below

    for folder in folders or []:
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
    places = folders or [Path()]
    stores = [store for folder in places for store in stores_below(folder) if _is_older(_age(store), older)]
    torn = [path for folder in places for path in partial_files(folder) if _is_older(_since(path), older)]
    if not stores and not torn:
        out.print("no tokens or features are stored here")
        return
    if stores:
        out.print(_table(stores, check))
    for path in torn:
        print_line(f"never finished: {path} ({_size(path) / 1e6:,.1f} MB)")
    total = sum(store.bytes_on_disk() for store in stores) + sum(map(_size, torn))
    used = [store for store in stores if remove and in_use(store.folder)]
    if remove:
        for store in stores:
            if store not in used:
                store.delete()
        for path in torn:
            delete(path)
    number = f"{len(stores)} {'store' if len(stores) == 1 else 'stores'}"
    left = f"; {len(used)} in use are left" if used else ""
    print_line(f"{number}, {total / 1e9:.2f} GB{' removed' if remove else ''}{left}")


def _is_older(seconds: float, days: float | None) -> bool:
    return days is None or seconds > days * 86400


def _size(path: Path) -> int:
    """How much of the disk a file or folder takes."""
    return sum(p.stat().st_size for p in (path.rglob("*") if path.is_dir() else [path]) if p.is_file())


def _since(path: Path) -> float:
    """Seconds since a file was written to."""
    return time.time() - path.stat().st_mtime


def _table(stores: list[Store], check: bool) -> Table:
    table = Table(box=None, padding=(0, 2))
    for title in ("what", "pictures", "views", "size", "written", *(["state"] if check else []), "folder"):
        table.add_column(title, justify="right" if title in ("pictures", "views", "size") else "left")
    with Display() as display:
        advance = display.step("checking", len(stores)) if check else None
        for store in stores:
            table.add_row(*_row(store, check))
            if advance:
                advance(1)
    return table


def _age(store: Store) -> float:
    """Seconds since the store was written to."""
    return min(map(_since, [store.folder, *store.folder.iterdir()]))


def _row(store: Store, check: bool) -> list[str]:
    recipe, there = store.recipe, store.recorded()
    pictures = f"{there:,}" if there == recipe.num_pictures else f"{there:,} of {recipe.num_pictures:,}"
    damaged = len(store.damaged()) if check else 0
    state = f"{damaged} damaged" if damaged else "whole" if there == recipe.num_pictures else "unfinished"
    return [
        f"{recipe.kind}, {recipe.precision.removeprefix('torch.')}",
        pictures,
        str(len(recipe.view_names)),
        f"{store.bytes_on_disk() / 1e6:,.1f} MB",
        f"{duration(_age(store))} ago",
        *([state] if check else []),
        f"{shown(str(store.folder))}{_owner(store)}",
    ]


def _owner(store: Store) -> str:
    """For whom it is kept: a run, or nobody any more; nothing where it is for whoever comes."""
    owner = store.owner()
    if owner is None:
        return ""
    from happycat.benchmark.record import is_unfinished

    return f" for {shown(owner.name)}" if is_unfinished(owner) else " for nobody"
