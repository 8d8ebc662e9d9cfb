"""The state of an open model as JSON: its classes, the class of each image, the versions."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from happycat.app.summaries import Summaries
from happycat.model.summary import sentence
from happycat.report.charts import detection_limit
from happycat.report.classes import CONFIDENCE, SEPARATION, ClassSummary

if TYPE_CHECKING:
    from happycat.model.editor import Editor
    from happycat.model.review import Review

SAID = {"": 0, "confirmed": 1, "ignored": 2}  # what a person said of an image

ALIKE = 0.7  # cosine of two classes' prototypes from which a person is asked whether they are the same


def review_id(review: Review) -> str:
    """A short name of a discovery's images: the addresses of pictures have it, so that a browser may keep them."""
    content = "\0".join([str(review.root), *review.keys]).encode("utf-8", "surrogateescape")
    return f"{review.stage}-{zlib.crc32(content):08x}"


def version_tag(editor: Editor) -> str:
    """Which version of the model it is; another text after every change, undo and redo included."""
    content = json.dumps([editor.version, editor.history], default=str)
    return f"{editor.version}-{zlib.crc32(content.encode()):08x}"


def state_of(editor: Editor, summaries: Summaries) -> dict[str, Any]:
    """What changes with each version; images column by column."""
    rows = editor.assigned() if editor.review else []
    classes = summaries.of(editor, rows) if editor.review else []
    numbers = [one["number"] for one in editor.history]
    return {
        "tag": version_tag(editor),
        "version": editor.version,
        "model": editor.path.name,
        "review": _review(editor.review),
        "sentence": sentence(rows, classes) if rows else "Nothing was discovered yet.",
        "words": {"separation": SEPARATION, "confidence": CONFIDENCE},
        "classes": [_class(editor, one) for one in classes],
        "cls": [row.id for row in rows],
        "probability": [round(row.probability, 4) for row in rows],
        "unsure": [int(row.unsure) for row in rows],
        "said": [SAID[row.said] for row in rows],
        "history": [_version(one) for one in editor.history],
        "undo": min(numbers, default=editor.version) < editor.version,
        "redo": max(numbers, default=editor.version) > editor.version,
    }


def images_of(review: Review) -> dict[str, Any]:
    """What never changes of a discovery's images: path and place on the map, column by column."""
    x, y = review.places.T.tolist() if len(review.keys) else ([], [])
    return {
        "id": review_id(review),
        "path": list(review.keys),
        "x": [round(value, 4) for value in x],
        "y": [round(value, 4) for value in y],
        "files": review.root is not None,
    }


def _review(review: Review | None) -> dict[str, Any] | None:
    if review is None:
        return None
    return {
        "id": review_id(review),
        "root": None if review.root is None else str(review.root),
        "stage": review.stage,
        "found": review.found,
        "estimated": review.count is not None,
        "estimate": None if review.count is None else review.count["number"],
        "limit": "" if review.count is None else detection_limit(review.count.get("smallest")),
        "skipped": [list(one) for one in review.skipped],
        "duplicates": review.duplicates,
    }


def _class(editor: Editor, one: ClassSummary) -> dict[str, Any]:
    """A class, with the one that it may be the same as, unless a person said that they differ."""
    nearest = [(number, str(label), round(similarity, 3)) for number, label, similarity in one.nearest]
    entries = editor.registry.entries
    alike = [
        (number, label)
        for number, label, similarity in nearest
        if similarity >= ALIKE and not editor.registry.held_apart(entries[number], entries[one.id])
    ]
    return {**vars(one), "nearest": nearest, "alike": alike[0] if one.kind == "new" and alike else None}


def _version(one: dict[str, Any]) -> dict[str, Any]:
    return {"number": one["number"], "what": one["what"], "when": one["when"], "images": one.get("images")}
