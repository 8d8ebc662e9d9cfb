"""happycat learns the classes you have labelled, then keeps discovering new ones in unlabelled images."""

from happycat.base.version import __version__

__all__ = ["Happycat", "__version__"]


def __getattr__(name: str):
    """`happycat.Happycat`, imported when it is asked for: a version number should not need torch."""
    if name == "Happycat":
        from happycat.model.estimator import Happycat

        return Happycat
    raise AttributeError(f"module 'happycat' has no attribute {name!r}")
