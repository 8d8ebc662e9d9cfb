"""Calm, happycat's own method: a frozen backbone, and classes as directions in a discriminant space.

`space` is that space, `candidates` are groups of images that may be classes, `selection` chooses among them, `mixture`
fits the chosen ones, `duplicates` lets copies of an image count once, `number` estimates how many new ones there are,
`prediction` gives an image its class or none, `calibration` chooses every value on held-out classes, `method` puts them
together.
"""

from happycat.methods.calm.method import Calm, CalmConfig

__all__ = ["Calm", "CalmConfig"]
