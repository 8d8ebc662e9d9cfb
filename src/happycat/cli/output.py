"""What the commands for one's own images print: tables, a sentence, rows."""

from __future__ import annotations

import csv
import json
import sys

from rich.table import Table
from rich.text import Text

from happycat.model.estimator import Happycat
from happycat.model.results import Assignment, Discovery, FitReport
from happycat.model.summary import class_summaries
from happycat.report.classes import CONFIDENCE, PURITY


def fitted_table(fitted: FitReport) -> Table:
    table = Table(title=f"{fitted.images} images, {len(fitted.by_class)} classes", title_justify="left")
    table.add_column("class")
    table.add_column("held-out accuracy", justify="right")
    for name, accuracy in fitted.by_class.items():
        table.add_row(str(name), "–" if accuracy is None else f"{accuracy:.0f}%")
    return table


def found_table(cat: Happycat, found: Discovery) -> Table:
    """A row for each class with images; what the columns mean is said below them."""
    table = Table(caption=f"{PURITY}\n{CONFIDENCE}", caption_justify="left")
    for column in ("id", "class", "images", "purity", "confidence"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for one in class_summaries(cat, found.assigned, found.points, cat.stage_):
        if one.images or one.kind == "new":
            shares = ("–" if share is None else f"{share:.0%}" for share in (one.purity, one.confidence))
            label = Text(f"{one.label} (new)", "bold") if one.kind == "new" else Text(one.label)
            table.add_row(str(one.id), label, str(one.images), *shares)
    return table


def found_sentence(found: Discovery) -> str:
    count = found.count
    between = "" if count is None or count.low == count.high else f" (between {count.low} and {count.high})"
    number = len(found.new)
    news = "no new class" if number == 0 else "1 new class" if number == 1 else f"{number} new classes"
    return f"{len(found.assigned)} images: {news}{between}; {found.unsure} images it is unsure about"


def print_rows(rows: list[Assignment], as_json: bool, as_csv: bool) -> None:
    if as_json:
        for row in rows:
            told = {"image": row.image, "id": row.id, "class": row.label, "probability": round(row.probability, 6)}
            print(json.dumps(told, ensure_ascii=False))
        return
    writer = csv.writer(sys.stdout, delimiter="," if as_csv else "\t", lineterminator="\n")
    if as_csv:
        writer.writerow(["image", "id", "class", "probability"])
    for row in rows:
        told = [row.image, "" if row.id is None else row.id, row.label, f"{row.probability:.4f}"]
        writer.writerow(told if as_csv else [told[0], told[2], told[3]])
