"""Interrupted commands (Ctrl-C, SIGTERM, a full disk): what is kept of their work, and how to resume."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from happycat.base.disk import storage_errors
from happycat.base.errors import InputError, NoSpaceError
from happycat.cli.display import Display
from happycat.cli.signals import exit_after

EXTRACTION = "extracting features"  # the step of the estimator whose results are kept
TAG = "CACHEDIR.TAG"  # https://bford.info/cachedir: backups leave such folders out, and we know it for ours
TAG_TEXT = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Embeddings of a happycat command that has not ended yet. The same command goes on from here; may be deleted.\n"
)


@contextmanager
def interruptible(advice: str | Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C and its like into one line with the advice; a full disk's message gets the advice as well."""

    def advised() -> str:
        return advice if isinstance(advice, str) else advice()

    try:
        yield
    except KeyboardInterrupt as stop:
        raise exit_after(stop, advised()) from None
    except NoSpaceError as error:
        raise NoSpaceError(f"{error}; {advised()}") from error


@contextmanager
def keeping(model: Path) -> Iterator[Path]:
    """The folder MODEL.cache for embeddings, should the command be interrupted; it goes when the work is done."""
    cache = model.with_name(f"{model.name}.cache")
    tag = cache / TAG
    if cache.exists() and not tag.is_file() and not _is_empty(cache):  # a kill may come before the tag is there
        raise InputError(f"{cache} is in the way: embeddings are kept there meanwhile; rename it, or the model")
    with storage_errors(cache):
        cache.mkdir(0o700, parents=True, exist_ok=True)
        tag.write_text(TAG_TEXT, encoding="ascii")
    try:
        yield cache
    except BaseException:
        if [path.name for path in cache.iterdir()] == [TAG]:
            shutil.rmtree(cache, ignore_errors=True)
        raise
    shutil.rmtree(cache, ignore_errors=True)


def _is_empty(folder: Path) -> bool:
    with storage_errors(folder):
        return folder.is_dir() and not any(folder.iterdir())


def kept_so_far(display: Display, cache: Path) -> str:
    """How many images are embedded and kept, where, and what to do."""
    from happycat.backbone.housekeeping import stores_below

    step = display.done.get(EXTRACTION)
    kept = sum(store.recorded() for store in stores_below(cache)) if step else 0
    if not step or not kept:
        return "nothing is embedded yet; the same command begins again"
    of = f" of {step.total:,}" if step.total else ""
    return f"{kept:,}{of} images are embedded and kept in {cache}; the same command goes on from there"
