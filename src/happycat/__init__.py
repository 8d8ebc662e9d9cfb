"""happycat learns the classes you have labelled, then keeps discovering new ones in unlabelled images."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from happycat.base.version import __version__

if TYPE_CHECKING:
    from happycat.base.errors import HappycatError
    from happycat.model.estimator import Happycat
    from happycat.model.registry import ClassEntry
    from happycat.model.results import Assignment, Discovery, FitReport

__all__ = ["Assignment", "ClassEntry", "Discovery", "FitReport", "Happycat", "HappycatError", "__version__"]

_PLACES = {
    "Assignment": "happycat.model.results",
    "ClassEntry": "happycat.model.registry",
    "Discovery": "happycat.model.results",
    "FitReport": "happycat.model.results",
    "Happycat": "happycat.model.estimator",
    "HappycatError": "happycat.base.errors",
}


def __getattr__(name: str) -> Any:
    """What is exported, imported when it is asked for: a version number should not need torch."""
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'happycat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
