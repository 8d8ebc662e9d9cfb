"""The methods, one file each."""

from happycat.methods.happy import FLAVOURS, Happy, HappyConfig
from happycat.methods.method import Method

METHODS = {"happy": (Happy, HappyConfig, FLAVOURS)}

__all__ = ["METHODS", "Method"]
