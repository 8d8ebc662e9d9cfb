"""The lock of the app: one app at a time for a model. Its corrections take the model's own lock, each for a moment."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from happycat.base.disk import locked


def app_lock(model: Path) -> AbstractContextManager[None]:
    """Hold the lock of a model's app; if another process does, say who it is."""
    real = model.resolve()
    return locked(real.with_name(f".{real.name}.app.lock"), f"the app of {model}", wait=False)
