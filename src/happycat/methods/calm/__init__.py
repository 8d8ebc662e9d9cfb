"""Calm, happycat's own method: a frozen backbone, and classes as directions in a discriminant space.

`space` is that space, `candidates` are groups of images that may be classes, `mixture` finds the new ones among them,
`calibration` chooses every value on held-out classes, `number` estimates how many new classes there are, `method` puts
them together.
"""

from happycat.methods.calm.method import Calm, CalmConfig

__all__ = ["Calm", "CalmConfig"]
