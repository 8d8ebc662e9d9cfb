"""The data sets' splits, as the paper's table has them, and their class orders as files; needs no images."""

from __future__ import annotations

from pathlib import Path

from happycat.base.disk import file_sha256, write_json
from happycat.benchmark.paper.numbers import published
from happycat.images.datasets import PUBLISHED, Published
from happycat.report.tables import Cell, ResultTable

COLUMNS = {
    "base_classes": "S0 classes",
    "labelled_per_class": "S0 images/class",
    "new_classes": "new classes/stage",
    "new_per_class": "images/new class",
    "old_per_class": "images/old class",
}


def numbers_of(data: Published) -> dict[str, float]:
    """The row of a data set in the table of splits; its classes have the mean number of images."""
    protocol, num_classes = data.protocol, len(data.order)
    return {
        "base_classes": protocol["base_classes"],
        "labelled_per_class": int(protocol["labelled_share"] * round(data.train / num_classes)),
        "new_classes": (num_classes - protocol["base_classes"]) // protocol["stages"],
        "new_per_class": protocol["new_per_class"],
        "old_per_class": protocol["old_per_class"],
    }


def split_table() -> ResultTable:
    """Classes, and images a class, of Stage-0 and of each later stage, with the paper's beside."""
    rows = []
    for name, data in PUBLISHED.items():
        cells = [
            Cell(float(value), paper=published("tab:dataset-splits", column, dataset=name))
            for column, value in numbers_of(data).items()
        ]
        rows.append(((name, f"{data.protocol['stages']}"), tuple(cells)))
    return ResultTable(
        title="The splits of the data sets",
        labels=("data set", "stages"),
        columns=tuple(COLUMNS.values()),
        rows=tuple(rows),
        digits=0,
        notes=(
            "Labelled: 80% of a class's training images, rounded down; of a class of mean size where they differ.",
            "Classes that do not divide by the stages: the last stage has what is left over (cars: 22).",
        ),
    )


def write_orders(folder: Path) -> dict[str, tuple[Path, str]]:
    """Write each data set's class order and protocol; returns the file and its SHA-256 by data set.

    A class is its label, a number from 0 on in the data set's own order (docs/splits.md). The bytes are the same
    everywhere: nothing in them is drawn at random or read from the data set.
    """
    written = {}
    for name, data in PUBLISHED.items():
        path = folder / f"order-{name}.json"
        write_json(path, {"dataset": name, "protocol": data.protocol, "classes": list(data.order)})
        written[name] = path, file_sha256(path).hex()
    return written
