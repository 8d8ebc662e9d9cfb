"""New classes that may be one class found twice: suggestions to merge, from the questions of active learning."""

from __future__ import annotations

from happycat.model.estimator import Happycat
from happycat.model.questions import Interview
from happycat.model.review import Review

LIKELY = 0.5  # the probability of being the same from which it is suggested


def twins(cat: Happycat, review: Review) -> dict[int, int]:
    """Each new class that is more likely than not another new one, and the id of that; none that are held apart.

    The probability is that of the question whether the two are the same (model/questions.py): its gain is the
    probability times the images of the smaller one.
    """
    registry, found = cat.registry_, dict[int, int]()
    new = {entry.id for entry in registry if entry.stage == review.stage}
    sizes = registry.counts.by_id if registry.counts else {}
    for question in Interview(review).same(cat):
        one, two = question.classes
        images = min(sizes.get(one, 0), sizes.get(two, 0))
        if {one, two} <= new and images and question.gain >= LIKELY * images:
            found.setdefault(one, two)
            found.setdefault(two, one)
    return found
