"""A small model with pictures, made in a second: vectors of known directions, and a colourful image file for each."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from happycat import Happycat
from happycat.model.review import Review
from tests.helpers.vectors import KNOWN, clouds

EACH = 14  # images of a class
COLOURS = ((200, 60, 50), (60, 160, 70), (60, 90, 200), (220, 170, 40), (150, 70, 170), (40, 170, 180))


def draw_images(folder: Path, labels: Sequence[int], side: int = 48) -> list[str]:
    """Noisy pictures in the colours of their classes; their names."""
    random, keys = np.random.default_rng(0), []
    folder.mkdir(parents=True, exist_ok=True)
    for k, label in enumerate(labels):
        pixels = np.array(COLOURS[label % len(COLOURS)]) + random.integers(-40, 40, (side, side, 3))
        keys.append(f"{label}-{k:03}.png")
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / keys[-1])
    return keys


def make_shop(folder: Path) -> Path:
    """A model of six classes c0…c5 that discovered two (6, 7) among images of c0 and c1; it knows its image files."""
    model = folder / "shop.cat"
    X, y = clouds(range(KNOWN))
    Happycat().fit(X, [f"c{label}" for label in y]).save(model)
    discover(model, folder / "inbox", [0, 1, 20, 21])
    return model


def discover(model: Path, inbox: Path, classes: Sequence[int], number: int | str = 2, propose: bool = False) -> Path:
    """Discover the images of some classes, which are drawn into the inbox; the next version, or a proposal."""
    cat = Happycat.load(model)
    vectors, labels = clouds(classes, EACH, noise=0.07, seed=len(classes))
    found = cat.discover(vectors, number)
    review = replace(Review.of(found, cat.stage_), keys=tuple(draw_images(inbox, labels)), root=inbox.resolve())
    count = {"number": 2, "low": 1, "high": 3, "numbers": [1, 2, 3], "curve": [0.2, 0.6, 0.2]}
    review = replace(review, count={**count, "measure": "probability"}, skipped=(("broken.jpg", "not an image"),))
    results = model.with_name(f"{model.stem}-{cat.stage_ + 1}")
    results.mkdir()
    summary = {"new": found.new, "images": len(labels)}
    more = {"found": summary, "results": str(results), "review": review.write(results), "images": len(labels)}
    target = shutil.copyfile(model, results / "proposal.cat") if propose else model
    cat.save(target, f"discover {inbox}", more)
    return results
