"""The command line; `main` is the entry point of `happycat`."""

from happycat.cli.commands import main

__all__ = ["main"]
