"""Pages to test with."""

from __future__ import annotations

from happycat.report.charts import Number, Run
from happycat.report.classes import ClassSummary
from happycat.report.html import Dot, Page

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><b>'&\u2028\u2029", "--x; $(y)")
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAP///wAAACH5BAAAAAAALAAAAAABAAEAAAICRAEAOw=="


def dot(i, cls, probability=0.9, thumbnail=PIXEL, **changes):
    values = {"path": f"inbox/{i}.jpg", "x": i % 7, "y": i // 7, "unsure": probability < 0.5}
    return Dot(cls=cls, probability=probability, thumbnail=thumbnail, **{**values, **changes})


def card(id, kind, **changes):
    values = {"label": f"class {id}", "name": None, "stage": 1, "images": 10, "total": 20}
    return ClassSummary(id=id, kind=kind, **{**values, **changes})


def full_page(**changes):
    """Two known classes, two new ones and all sections."""
    dots = tuple(dot(i, (0, 1, 7, 8, None)[i % 5], 0.3 if i % 5 == 4 or i % 9 == 0 else 0.9) for i in range(50))
    near = ((0, "cat", 0.62), (1, "dog", 0.41))
    cards = (
        card(0, "labelled", label="cat", name="cat", stage=0, confidence=0.8, typical=(0, 5)),
        card(1, "found", images=11, typical=(1,)),
        card(2, "labelled", label="ant", images=0),
        card(3, "dropped", images=0),
        card(7, "new", images=10, confidence=0.9, separation=0.7, nearest=near, typical=(2, 7), doubtful=(12,)),
        card(8, "new", images=9, confidence=0.95, separation=0.8, nearest=near, typical=(3, 8)),
    )
    scores = (
        {"all": 90.0, "old": 90.0, "new": None, "base": 90.0},
        {"all": 80.0, "old": 85.0, "new": 60.0, "base": 88.0},
    )
    shares = {"confidence_old": (0.1,) * 10, "confidence_new": (0.0,) * 9 + (1.0,)}
    values = {
        "title": "inbox",
        "sentence": "Two new classes.",
        "made": "2024-05-17",
        "version": "0.1",
        "model": "my model.happycat",
        "cards": cards,
        "dots": dots,
        "number": Number(number=2, low=1, high=3, numbers=(0, 1, 2, 3), curve=(0.0, 5.0, 8.0, 7.5)),
        "skipped": (("inbox/broken.jpg", "cannot be read"),),
        "duplicates": 3,
        "history": ((1, "2024-05-01", "learned 2 classes"),),
        "runs": (Run(name="calm", scores=scores, **shares),),
    }
    return Page(**{**values, **changes})
