"""happycat learns the classes you have labelled, then keeps discovering new ones in unlabelled images."""

__version__ = "0.1.0"
__all__ = ["Happycat"]


def __getattr__(name: str):
    """`happycat.Happycat`, imported when it is asked for: a version number should not need torch."""
    if name == "Happycat":
        from happycat.model.estimator import Happycat

        return Happycat
    raise AttributeError(f"module 'happycat' has no attribute {name!r}")
