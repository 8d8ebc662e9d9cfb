"""Calm, happycat's own method: a frozen backbone, and classes as directions in a discriminant space.

`space` is that space, `candidates` are groups of images that may be classes, `selection` chooses among them, `mixture`
fits the chosen ones, `duplicates` lets copies of an image count once, `number` estimates how many new ones there are,
`prediction` gives an image its class or none, `calibration` tries values on held-out classes, `choosing` takes those
that are best, `method` puts them together.
"""

from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm

__all__ = ["Calm", "CalmConfig"]
