"""Figures of a finished run: accuracy curves, discovered classes, the estimates of their number."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from happycat.benchmark.record import Record
from happycat.images.pictures import Images
from happycat.report.charts import Number, Panel, number_panel
from happycat.report.classes import ClassSummary
from happycat.report.figures import lines
from happycat.report.pictures import Row, curves, discovered, summary

__all__ = ["draw_run"]

EXAMPLES = 10  # pictures that are shown of a discovered class


def draw_run(record: Record, images: Images, title: str) -> Path:
    """Draw a finished run into its folder: `curves.png`, `discovered.png`, and both as `summary.png`.

    Where the number of new classes was estimated, `count.png` shows the probability or the silhouette of each.
    """
    scores, classes = record.stage_scores(), discovered_classes(record, images)
    curves(scores, record.folder / "curves.png", title)
    discovered(classes, record.folder / "discovered.png")
    summary(scores, classes, record.folder / "summary.png")
    draw_counts(record, len(scores))
    return record.folder / "summary.png"


def draw_counts(record: Record, num_stages: int) -> list[Path]:
    """The curves of a run's estimates, a panel each stage; nothing if the numbers were known."""
    panels = count_panels(record, num_stages)
    return lines(panels, record.folder / "count") if panels else []


def count_panels(record: Record, num_stages: int) -> list[Panel]:
    """What is drawn of a run's estimates."""
    counts = {t: Number.of(record.model(t).get("count")) for t in range(1, num_stages)}
    return [number_panel(count, f"stage {t}: {count.number}") for t, count in counts.items() if count is not None]


def discovered_classes(record: Record, images: Images) -> list[Row]:
    """Each discovered class with its surest images, and the true class that most of its images belong to."""
    split = record.split()
    place = {key: i for i, key in enumerate(images.train.keys)}
    classes = []
    for t, stage in enumerate(split.stages[: len(record.stage_scores()) - 1], 1):
        truth = {key: name for name, keys in stage["images"].items() for key in keys}
        assigned = record.assigned(t)
        ids = [c["id"] for c in record.model(t)["classes"] if c["stage"] == t]
        for c in ids:
            members = sorted((row for row in assigned if row["predicted"] == c), key=lambda row: -row["probability"])
            match = None
            if members:
                name, number = Counter(truth[row["image"]] for row in members).most_common(1)[0]
                match = (name, 100 * number / len(members))
            pictures = [images.train.read(place[row["image"]]) for row in members[:EXAMPLES]]
            found = ClassSummary(id=c, label=f"class {c}", kind="new", stage=t, images=len(members), match=match)
            classes.append(Row(found, pictures))
    return classes
