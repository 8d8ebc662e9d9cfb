"""What the commands for one's own images print: tables, a sentence, rows."""

from __future__ import annotations

import csv
import json
import sys

from rich.table import Table
from rich.text import Text

from happycat.model.estimator import Happycat
from happycat.model.page import about_classes
from happycat.model.results import Assignment, Discovery, FitReport


def fitted_table(fitted: FitReport) -> Table:
    table = Table(title=f"{fitted.images} images, {len(fitted.by_class)} classes", title_justify="left")
    table.add_column("class")
    table.add_column("held-out accuracy", justify="right")
    for name, accuracy in fitted.by_class.items():
        table.add_row(str(name), "–" if accuracy is None else f"{accuracy:.0f}%")
    return table


def found_table(cat: Happycat, found: Discovery) -> Table:
    table = Table(title_justify="left")
    for column, justify in (
        ("id", "right"),
        ("class", "left"),
        ("images", "right"),
        ("confidence", "right"),
        ("coherence", "right"),
    ):
        table.add_column(column, justify=justify)
    for one in about_classes(cat, found):
        if one.images or one.new:
            confidence = "–" if one.confidence is None else f"{one.confidence:.0%}"
            coherence = "–" if one.coherence is None else f"{one.coherence:.0%}"
            name = str(cat.registry_.label(one.identity))
            label = Text(f"{name} (new)", "bold") if one.new else name
            table.add_row(str(one.identity.id), label, str(one.images), confidence, coherence)
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
