"""Calm, happycat's own method: a frozen backbone, and classes as directions in a whitened space.

`space` is the whitened space, `mixture` finds new classes in it, `calibration` chooses every value on held-out classes,
`number` estimates how many new classes there are, `method` puts them together.
"""

from happycat.methods.calm.method import Calm, CalmConfig

__all__ = ["Calm", "CalmConfig"]
