"""Choice of Calm's values: those with which held-out classes are discovered best."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np

from happycat.methods.calm.calibration import Calibration
from happycat.methods.calm.config import CalmConfig

# The first is the usual one: taken if no other is better.
EXPONENTS = (0.25, 0.5, 0.0)
TEMPERATURES = (0.03, 0.02, 0.05)
PATCHES_GAIN = 1.0  # points of accuracy on held-out classes; for less, patch tokens are left out


class Chosen(NamedTuple):
    """The values, and the calibration on what of the features is used with them."""

    exponent: float
    temperature: float
    used: int  # of the features, the first so many
    number_values: np.ndarray  # (M, 5), see `number.NumberModel`
    calibration: Calibration


def choose(calibration: Calibration, config: CalmConfig, class_token: int, features: int) -> Chosen:
    """The values with which held-out classes are discovered best.

    The first `class_token` of the `features` are a ViT's class token; what follows is of its patch tokens.
    """
    exponents = EXPONENTS if config.exponent is None else (config.exponent,)
    temperatures = TEMPERATURES if config.mixture_temperature is None else (config.mixture_temperature,)
    patches_too = class_token < features and config.patches is None  # whether they are used is still to be chosen
    candidates = len(exponents) * len(temperatures) + 2 * patches_too
    number = 1  # its model takes the episodes once more
    calibration.advance(0, total=(candidates + number) * len(calibration.episodes))
    used = features
    if patches_too:
        alone = calibration.leading(class_token, config.dimensions_of(class_token))
        if _gain(calibration, alone, exponents[0], temperatures[:1]) < PATCHES_GAIN:
            calibration, used = alone, class_token
    accuracies = {exponent: calibration.accuracies(exponent, temperatures) for exponent in exponents}
    exponent = max(exponents, key=lambda e: fmean(accuracies[e]))  # their mean says it more surely than one of them
    temperature = temperatures[int(np.argmax(accuracies[exponent]))]
    return Chosen(exponent, temperature, used, calibration.number_model(exponent).values, calibration)


def _gain(patches_too: Calibration, alone: Calibration, exponent: float, temperatures: Sequence[float]) -> float:
    """How many points of accuracy on held-out classes patch tokens are worth beside the class token alone.

    Parts of an image tell fine-grained classes apart. Where they do not, they make varieties within a class clearer,
    too, and more new classes are counted than there are.
    """
    return patches_too.accuracies(exponent, temperatures)[0] - alone.accuracies(exponent, temperatures)[0]
