"""The decisions on a discovery's images, kept for the last few states of the classes: naming and undo compute none."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import torch
from torch import Tensor

from happycat.methods.calm.prediction import Decision
from happycat.model.classes import decide
from happycat.model.registry import ClassRegistry
from happycat.model.review import Review

KEPT = 16  # of 20,000 images, 5 MB


class Decisions:
    """The class of each image of a review, as the classes are when it is asked for."""

    def __init__(self, review: Review):
        self.review = review
        self._kept: OrderedDict[bytes, Decision] = OrderedDict()

    def of(self, registry: ClassRegistry, temperature: Tensor) -> Decision:
        """The decision with these classes."""
        key = _fingerprint(registry, temperature)
        if key not in self._kept:
            points = torch.from_numpy(self.review.points)
            self._keep(key, decide(registry, temperature, points, self.review.digests))
        self._kept.move_to_end(key)
        return self._kept[key]

    def take(self, registry: ClassRegistry, temperature: Tensor, decision: Decision) -> None:
        """Keep a decision with these classes that was computed elsewhere."""
        self._keep(_fingerprint(registry, temperature), decision)

    def _keep(self, key: bytes, decision: Decision) -> None:
        self._kept[key] = decision
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _fingerprint(registry: ClassRegistry, temperature: Tensor) -> bytes:
    """A checksum of all that a decision depends on besides the images."""
    active, pool, content = registry.active(), registry.pool, hashlib.blake2b(digest_size=16)
    columns = (*active, pool.vectors[active.rows], pool.thresholds[active.rows], temperature.numpy())
    for array in (*columns, *registry.statements.arrays().values()):
        content.update(array.tobytes())
        content.update(repr(array.shape).encode())
    return content.digest()
