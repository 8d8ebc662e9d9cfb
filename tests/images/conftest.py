"""Small stand-ins for published archives."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def draw():
    """Writes a picture of one grey level, and the folders above it."""

    def _draw(path: Path, grey: int = 0) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (4, 4), grey).save(path)
        return path

    return _draw


@pytest.fixture
def grey():
    """The grey level of a data set's i-th picture."""

    def _grey(pictures, i: int) -> int:
        image = pictures.read(i)
        assert image.mode == "RGB"
        return round(float(np.asarray(image).mean()))

    return _grey


@pytest.fixture
def drawn_novel():
    """The new classes in the order that the authors' program draws: sorted, then shuffled with seed 0."""

    def _drawn_novel(num_classes: int, base: tuple[int, ...]) -> tuple[int, ...]:
        novel = np.array(sorted(set(range(num_classes)) - set(base)))
        np.random.RandomState(0).shuffle(novel)
        return tuple(novel.tolist())

    return _drawn_novel
