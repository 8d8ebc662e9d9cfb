"""Printed output of the commands for one's own images: tables, a sentence, rows."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from happycat.base.text import defused, shown
from happycat.model.estimator import Happycat
from happycat.model.results import Assignment, Discovery, FitReport
from happycat.model.summary import class_summaries
from happycat.report.charts import detection_limit, plausible
from happycat.report.classes import CONFIDENCE, SEPARATION

# Characters that JSON allows in a text as they are, but a terminal may obey or UTF-8 cannot hold
UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def fitted_table(fitted: FitReport) -> Table:
    """The held-out accuracy of each class."""
    table = Table(title=f"{fitted.images} images, {len(fitted.by_class)} classes", title_justify="left")
    table.add_column("class")
    table.add_column("held-out accuracy", justify="right")
    for name, accuracy in fitted.by_class.items():
        table.add_row(shown(str(name)), "–" if accuracy is None else f"{accuracy:.0f}%")
    return table


def found_table(cat: Happycat, found: Discovery) -> Table:
    """A row for each class with images; what the columns mean is said below them."""
    table = Table(caption=f"{SEPARATION}\n{CONFIDENCE}", caption_justify="left")
    for column in ("id", "class", "images", "separation", "confidence"):
        table.add_column(column, justify="left" if column == "class" else "right")
    for one in class_summaries(cat, found.assigned, found.points, cat.stage_):
        if one.images or one.kind == "new":
            shares = ("–" if share is None else f"{share:.0%}" for share in (one.separation, one.confidence))
            name = shown(str(one.label))
            label = Text(f"{name} (new)", "bold") if one.kind == "new" else Text(name)
            table.add_row(str(one.id), label, str(one.images), *shares)
    return table


def found_sentence(found: Discovery) -> str:
    """How many new classes, and how many doubtful images; then which are not counted, and why the number is rough."""
    others = plausible(found.count.low, found.count.high) if found.count else ""
    number, others = len(found.new), f" ({others})" if others else ""
    news = "no new class" if number == 0 else "1 new class" if number == 1 else f"{number} new classes"
    doubt = f"\n{found.doubt} If you know it, give --new K." if found.doubt else ""
    limit = detection_limit(found.count.smallest) if found.count else ""
    limit = f"\n{limit}" if limit else ""
    return f"{len(found.assigned)} images: {news}{others}; {found.unsure} images it is unsure about{limit}{doubt}"


def print_rows(rows: Sequence[Assignment], as_json: bool, as_csv: bool) -> None:
    """Print where each image went: JSON, CSV, or image, class and probability between tabs.

    Control characters in paths and names are written out; but CSV that goes to a file or a pipe has them as they are,
    and no cell that a spreadsheet would run as a formula.
    """
    if as_json:
        for row in rows:
            print(_json(row))
        return
    if as_csv and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # the name of a file that is not UTF-8 keeps its bytes
    writer = csv.writer(sys.stdout, delimiter="," if as_csv else "\t", lineterminator="\n")
    escaped = shown if not as_csv or sys.stdout.isatty() else defused
    if as_csv:
        writer.writerow(["image", "id", "class", "probability", "unsure"])
    for row in rows:
        image, label, probability = escaped(row.image), escaped(str(row.label)), f"{row.probability:.4f}"
        if as_csv:
            writer.writerow([image, "" if row.id is None else row.id, label, probability, "yes" if row.unsure else ""])
        else:
            writer.writerow([image, label, probability])


def _json(row: Assignment) -> str:
    values = {
        "image": row.image,
        "id": row.id,
        "class": row.label,
        "probability": round(row.probability, 6),
        "unsure": bool(row.unsure),
    }
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(values, ensure_ascii=False))
