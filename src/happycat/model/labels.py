"""Export of labels: the class of each image of a discovery, as a person has corrected it, as CSV or COCO JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from happycat.base.disk import write_json
from happycat.base.errors import HappycatError, InputError
from happycat.base.version import __version__
from happycat.images.collecting import write_table
from happycat.model import file as model_file
from happycat.model.classes import assignments, decide
from happycat.model.estimator import Happycat
from happycat.model.naming import Name
from happycat.model.review import Review, last_review

SUPERCATEGORY = "happycat"


class LabelledImage(NamedTuple):
    """An image and its class; `said` is what a person said of it, or empty where the model decides."""

    path: str
    id: int | None
    label: Name
    probability: float
    said: str


def labelled_images(model: Path, every: bool = False, checked: bool = False) -> list[LabelledImage]:
    """The images of the last discovery, or of every one whose folder is there, with their classes as they are now.

    An image that was in several discoveries is there once. With `checked`, only images that a person has spoken of.
    """
    cat = Happycat.load(model)
    rows: dict[bytes, LabelledImage] = {}
    for review in _reviews(model) if every else [last_review(model)]:
        points = torch.from_numpy(review.points)
        decision = decide(cat.registry_, cat.calm_.softmax_temperature, points, review.digests)
        given = assignments(cat.registry_, review.keys, decision, review.digests)
        for row, digest in zip(given, review.digests, strict=True):
            path = row.image if review.root is None else str(review.root / row.image)
            rows[digest.tobytes()] = LabelledImage(path, row.id, row.label, row.probability, row.said)
    return [row for row in rows.values() if row.said or not checked]


def _reviews(model: Path) -> list[Review]:
    found = []
    for version in model_file.history(model):
        if version.get("review"):
            try:
                found.append(Review.read(Path(version["results"]), version["review"]))
            except HappycatError:  # the folder is the person's, and may be gone
                continue
    if not found:
        raise InputError(f"the folders of the discoveries of {model} are gone; discover the images again")
    return found


def write_labels(target: Path, rows: Sequence[LabelledImage]) -> None:
    """Write labels as CSV, or as COCO JSON if the file's name ends so; images of no class have none there."""
    if target.suffix.lower() == ".csv":
        _write_csv(target, rows)
    elif target.suffix.lower() == ".json":
        write_json(target, coco(rows))
    else:
        raise InputError(f"{target} is neither a .csv nor a .json file; give one of these names")


def _write_csv(target: Path, rows: Sequence[LabelledImage]) -> None:
    cells = (
        (row.path, row.label, "" if row.id is None else row.id, f"{row.probability:.6f}", row.said) for row in rows
    )
    write_table(target, ("path", "label", "id", "probability", "said"), cells)


def coco(rows: Sequence[LabelledImage]) -> dict[str, Any]:
    """Labels in the format of COCO, which FiftyOne imports: an annotation for each image that has a class."""
    classes = {row.id: str(row.label) for row in rows if row.id is not None}
    annotations = [
        {
            "id": i,
            "image_id": i,
            "category_id": row.id,
            "score": round(row.probability, 6),
            "attributes": {"said": row.said},
        }
        for i, row in enumerate(rows)
        if row.id is not None
    ]
    return {
        "info": {"description": "classes of images", "version": __version__},
        "images": [{"id": i, "file_name": row.path.encode("utf-8", "replace").decode()} for i, row in enumerate(rows)],
        "categories": [
            {"id": number, "name": name, "supercategory": SUPERCATEGORY} for number, name in sorted(classes.items())
        ],
        "annotations": annotations,
    }
