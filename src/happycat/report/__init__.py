"""A run as something to look at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from happycat.disk import read_json
from happycat.images.pictures import Images
from happycat.record import Record
from happycat.report.pictures import DiscoveredClass, curves, discovered, summary
from happycat.stages import Split

__all__ = ["draw_run"]


def draw_run(record: Record, images: Images, title: str) -> Path:
    """Draw a finished run into its folder: `curves.png`, `discovered.png`, and both as `summary.png`."""
    scores, classes = record.stage_scores(), discovered_classes(record, images)
    curves(scores, record.folder / "curves.png", title)
    discovered(classes, record.folder / "discovered.png")
    summary(scores, classes, record.folder / "summary.png")
    return record.folder / "summary.png"


def discovered_classes(record: Record, images: Images) -> list[DiscoveredClass]:
    """Each discovered class with its surest images, and the true class that most of these belong to."""
    split = Split.read(record.folder / "split.json")
    place = {key: i for i, key in enumerate(images.train.keys)}
    classes = []
    for t, stage in enumerate(split.stages, 1):
        truth = {key: name for name, keys in stage["images"].items() for key in keys}
        for found in read_json(record.stage_folder(t) / "found.json"):
            surest = found["surest"]
            match = None
            if surest:
                name, number = Counter(truth[key] for key in surest).most_common(1)[0]
                match = (name, 100 * number / len(surest))
            classes.append(
                DiscoveredClass(
                    name=f"class {found['id']}",
                    stage=t,
                    pictures=[images.train.read(place[key]) for key in surest],
                    count=found["images"],
                    match=match,
                )
            )
    return classes
