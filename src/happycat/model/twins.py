"""New classes that may be one class found twice: suggestions to merge, from the questions of active learning."""

from __future__ import annotations

from happycat.model.estimator import Happycat
from happycat.model.questions import Interview
from happycat.model.review import Review

LIKELY = 0.5  # the probability of being the same from which it is suggested


def twins(cat: Happycat, review: Review) -> dict[int, int]:
    """Each new class that is more likely than not another new one, and the id of that; none that are held apart."""
    found = dict[int, int]()
    new = {entry.id for entry in cat.registry_ if entry.stage == review.stage}
    for question in Interview(review).same(cat):
        one, two = question.classes
        if {one, two} <= new and question.probability >= LIKELY:
            found.setdefault(one, two)
            found.setdefault(two, one)
    return found
