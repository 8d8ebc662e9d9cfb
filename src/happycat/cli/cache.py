"""The command `cache`: stored tokens and features, listed, checked and removed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

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
    """List the tokens and features that commands have stored; check or remove them."""
    from happycat.backbone.store import stores_below

    for folder in folders or []:
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
    stores = [store for folder in folders or [Path()] for store in stores_below(folder)]
    stores = [store for store in stores if older is None or _age(store) > older * 86400]
    if not stores:
        out.print("no tokens or features are stored here")
        return
    table = Table(box=None, padding=(0, 2))
    for title in ("what", "pictures", "views", "size", "written", *(["state"] if check else []), "folder"):
        table.add_column(title, justify="right" if title in ("pictures", "views", "size") else "left")
    with Display() as display:
        advance = display.step("checking", len(stores)) if check else None
        for store in stores:
            table.add_row(*_row(store, check))
            if advance:
                advance(1)
    out.print(table)
    total = sum(store.bytes_on_disk() for store in stores)
    if remove:
        for store in stores:
            store.delete()
    number = f"{len(stores)} {'store' if len(stores) == 1 else 'stores'}"
    print_line(f"{number}, {total / 1e9:.2f} GB{' removed' if remove else ''}")


def _age(store: Store) -> float:
    """Seconds since the store was written to."""
    return time.time() - max(path.stat().st_mtime for path in [store.folder, *store.folder.iterdir()])


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
        shown(str(store.folder)),
    ]
