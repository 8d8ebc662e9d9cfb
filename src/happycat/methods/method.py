"""The contract of a method: fit, discover, predict; and what methods with a classifier share."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from happycat.serving import Labelled, Unlabelled
from happycat.training import Epoch, Training
from happycat.trunk import Tokens


class Method(nn.Module):
    """Three verbs. What a method remembers is its parameters and buffers and nothing else.

    `fit` and `discover` are generators that yield once per epoch. A method never sees a label after
    Stage-0, an image of an earlier stage, or test data.
    """

    @property
    def num_classes(self) -> int:
        """How many classes are known so far."""
        raise NotImplementedError

    def class_counts(self) -> list[int]:
        """How many images each known class was learned from."""
        raise NotImplementedError

    def fit(self, labelled: Labelled, training: Training) -> Iterator[Epoch]:
        """Stage-0: learn the labelled classes."""
        raise NotImplementedError

    def discover(self, unlabelled: Unlabelled, num_new: int, training: Training) -> Iterator[Epoch]:
        """One continual stage: find `num_new` classes among the images, keep the old ones."""
        raise NotImplementedError

    def predict(self, tokens: Tokens) -> Tensor:
        """Class probabilities (B, K) of centre views; changes nothing, not even a random state."""
        raise NotImplementedError

    @torch.no_grad()
    def predict_all(self, unlabelled: Unlabelled) -> Tensor:
        """Class probabilities (N, K) of every image."""
        return torch.cat([self.predict(tokens) for tokens in unlabelled.views.centre()])
