"""A run as something to look at."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from happycat.benchmark.protocol import Split
from happycat.benchmark.record import Record
from happycat.images.pictures import Images
from happycat.report.figures import Panel, Series, lines
from happycat.report.pictures import DiscoveredClass, curves, discovered, summary

__all__ = ["draw_run"]

EXAMPLES = 10  # pictures that are shown of a discovered class


def draw_run(record: Record, images: Images, title: str) -> Path:
    """Draw a finished run into its folder: `curves.png`, `discovered.png`, and both as `summary.png`.

    Where the number of new classes was estimated, `count.png` shows the curve whose highest point it is.
    """
    scores, classes = record.stage_scores(), discovered_classes(record, images)
    curves(scores, record.folder / "curves.png", title)
    discovered(classes, record.folder / "discovered.png")
    summary(scores, classes, record.folder / "summary.png")
    draw_counts(record, len(scores))
    return record.folder / "summary.png"


def draw_counts(record: Record, num_stages: int) -> list[Path]:
    """The curves of a run's estimates, a panel each stage; nothing if the numbers were told."""
    counts = {t: record.model(t).get("count") for t in range(1, num_stages)}
    panels = [
        Panel(f"stage {t}: {c['number']}", c["numbers"], [Series("worth", c["curve"])], "new classes", "worth")
        for t, c in counts.items()
        if c is not None
    ]
    return lines(panels, record.folder / "count") if panels else []


def discovered_classes(record: Record, images: Images) -> list[DiscoveredClass]:
    """Each discovered class with its surest images, and the true class that most of its images belong to."""
    split = Split.read(record.folder / "split.json")
    place = {key: i for i, key in enumerate(images.train.keys)}
    classes = []
    for t, stage in enumerate(split.stages[: len(record.stage_scores()) - 1], 1):
        truth = {key: name for name, keys in stage["images"].items() for key in keys}
        assigned = record.assigned(t)
        found = [c["id"] for c in record.model(t)["classes"] if c["stage"] == t]
        for c in found:
            members = sorted((row for row in assigned if row["predicted"] == c), key=lambda row: -row["probability"])
            match = None
            if members:
                name, number = Counter(truth[row["image"]] for row in members).most_common(1)[0]
                match = (name, 100 * number / len(members))
            classes.append(
                DiscoveredClass(
                    name=f"class {c}",
                    stage=t,
                    pictures=[images.train.read(place[row["image"]]) for row in members[:EXAMPLES]],
                    count=len(members),
                    match=match,
                )
            )
    return classes
