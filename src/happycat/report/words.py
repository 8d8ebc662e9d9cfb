"""What the numbers on the page mean, in words; each is shown beside its number and listed at the page's end."""

from __future__ import annotations

from typing import NamedTuple

from happycat.report.classes import CONFIDENCE, SEPARATION


class Word(NamedTuple):
    """A kind of number: the key that the page refers to it with, its name, and what it says."""

    key: str
    name: str
    meaning: str


def _after_the_name(text: str) -> str:
    meaning = text.partition(": ")[2]
    return meaning[0].upper() + meaning[1:]


IMAGES = (
    Word("images", "Images", "The images of this discovery that could be read; equal files count once."),
    Word("in-new", "In new classes", "Images put into classes that the model did not know before this discovery."),
    Word(
        "in-known",
        "In known classes",
        "Images put into classes that the model knew: labelled, or found earlier.",
    ),
    Word("in-none", "Fit no class", "Images that are less like every class than its own images usually are."),
    Word(
        "unsure",
        "Unsure",
        "Images to look at: no class has half of the probability, or no class fits. They are counted in the numbers "
        "before, too.",
    ),
    Word("skipped", "Skipped", "Files that could not be used; each is listed with the reason."),
    Word("duplicates", "Duplicates", "Files with the same content as another one; only one of them is used."),
    Word("new-classes", "New classes", "How many classes this discovery found, without those merged or dropped."),
    Word("known-classes", "Known classes", "How many classes the model knew before, with or without images here."),
    Word("id", "#", "The number of a class. It stays its own for ever, whatever the class is called."),
    Word("class-images", "Images of a class", "How many images of this discovery are in the class."),
    Word("stage", "Stage", "Stage 0 is the labelled images; every discovery is one more stage."),
    Word("probability", "Probability", "The percentage at an image: how probable its class is, as the model sees it."),
    Word("separation", "Separation", _after_the_name(SEPARATION)),
    Word("confidence", "Confidence", _after_the_name(CONFIDENCE)),
    Word(
        "similarity",
        "Similarity",
        "The number at a nearest class: the cosine between the two classes. 1 is the same, 0 has nothing in common.",
    ),
    Word("learned-from", "Learned from", "How many images the class was learned from, in all stages."),
    Word("version", "Version", "Every fit, discovery and correction is one version of the model, counted from 1."),
)
NUMBER = (
    Word("number", "How many new classes", "The number of new classes that was given, or that fits the images best."),
    Word("plausible", "Plausible", "The numbers of new classes that would fit nearly as well; shaded in the chart."),
)
RUNS = (
    Word(
        "all",
        "All",
        "The share of the test images that are right, in per cent, after clusters are matched.",
    ),
    Word("old", "Old", "The same share among test images of classes known before the stage."),
    Word("new", "New", "The same share among test images of classes that are new in the stage."),
    Word("strict", "All, strict", "As All, but a class found earlier keeps what it was matched with then."),
    Word("forgetting", "Forgetting", "How much accuracy on the labelled classes is lost over the stages, in points."),
    Word("shares", "Confidence", "The share of test images whose class has a probability within each range."),
)


def words_of(*, images: bool, number: bool, runs: bool) -> tuple[Word, ...]:
    """The words for a page that shows images, a number of new classes, or runs."""
    parts = ((images, IMAGES), (number, NUMBER), (runs, RUNS))
    return tuple(word for used, words in parts if used for word in words)
