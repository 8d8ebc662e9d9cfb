"""The commands."""

from happycat.cli.research import main

__all__ = ["main"]
