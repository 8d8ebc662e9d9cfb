"""The simulated person: what she answers, what she remembers, and how many questions she is asked."""

from __future__ import annotations

import numpy as np
import pytest

from happycat import Happycat
from happycat.model.questions import MEMBER, PAIR, SAME, Kind, Question
from happycat.model.reviewed import ReviewedImages
from happycat.model.simulation import AskingModel, Person, interview, review_of

BATCH = 5


class Discovered:
    """A discovery of the classes 2 and 3 of orthogonal vectors; 0 and 1 are labelled, in another order."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        labelled, self.truth = np.repeat([0, 1], 10), np.repeat([0, 1, 2, 3], [2, 2, 8, 8])
        first, second = (np.eye(8)[kind] + 0.05 * random.normal(size=(len(kind), 8)) for kind in (labelled, self.truth))
        self.cat = Happycat(random_state=0).fit(first, np.array(["b", "a"])[labelled])
        self.person = Person.of(self.cat.registry_, ("b", "a", "c", "d"))
        self.images = ReviewedImages.of(self.cat, review_of(self.cat.discover(second, 2), self.cat.stage_))

    def answered(self, kind: Kind, classes: tuple[int, ...], images: tuple[int, ...] = ()) -> bool:
        return self.person.answer(self.images, self.truth, Question(kind, classes, images, "", 0.0))

    def id_of(self, kind: int) -> int:
        return self.images.chosen([int(np.flatnonzero(self.truth == kind)[0])]).given[0]


@pytest.fixture
def found() -> Discovered:
    return Discovered()


def test_the_person_answers_by_the_true_classes(found):
    one, two = found.id_of(2), found.id_of(3)
    assert found.person.labelled == {0: 1, 1: 0}  # the registry has a before b
    assert found.answered(PAIR, (one,), (5, 6))
    assert not found.answered(PAIR, (one,), (5, 12))
    assert found.answered(MEMBER, (two,), (12,))
    assert not found.answered(MEMBER, (two,), (5,))
    assert found.answered(MEMBER, (1,), (0,))
    assert not found.answered(MEMBER, (0,), (0,))
    assert not found.answered(SAME, (one, two))
    assert found.answered(SAME, (one, one))


def test_an_earlier_class_means_what_it_was_found_as(found):
    """Its images in this stage may be strange ones; a labelled class means its label, whatever it is given."""
    one = found.id_of(2)
    found.person.remember(found.images, found.truth)
    strange = np.where(found.truth == 2, 3, found.truth)
    strange[4] = 2
    assert found.person.meaning(found.images, strange, one) == 2  # 9 of 16
    assert found.person.meaning(found.images, strange, 1) == 0
    fresh = Person(found.cat.registry_, {0: 1, 1: 0})
    assert fresh.meaning(found.images, strange, one) == 3
    two = found.id_of(3)
    found.cat.registry_.merge(one, two)
    assert found.person.past[two] == {3: 8}
    assert found.person.meaning(found.images, np.zeros(20, int), one) == 0  # 16 of 32
    assert found.person.meaning(found.images, np.repeat([2, 3], 10), one) == 3


def test_an_interview_asks_as_many_questions_as_wanted(found):
    answers = interview(found.cat, found.images, found.truth, found.person, 7, BATCH)
    assert answers.total() == 7
    more = interview(found.cat, found.images, found.truth, found.person, 10_000, BATCH)
    assert 0 < more.total() < 100  # there are no more
    assert interview(found.cat, found.images, found.truth, found.person, 10, BATCH) == {}
    assert [len(found.images.members(found.id_of(kind))) for kind in (2, 3)] == [8, 8]


def test_random_questions_are_those_of_the_generator(found):
    draws = [
        interview(found.cat, found.images, found.truth, found.person, 6, BATCH, np.random.default_rng(seed))
        for seed in (1, 2)
    ]
    assert all(draw.total() == 6 for draw in draws)


def test_a_model_with_a_person_discovers_and_is_corrected():
    """One class too many is found; her answers make it one class less."""
    random = np.random.default_rng(2)
    labelled, truth = np.repeat(np.arange(4), 12), np.repeat(np.arange(7), [3] * 4 + [16] * 3)
    first, second = (np.eye(16)[kind] + 0.08 * random.normal(size=(len(kind), 16)) for kind in (labelled, truth))
    cat = Happycat(random_state=0).fit(first, np.array(list("abcd"))[labelled])
    asking = AskingModel(cat, tuple("abcdefg"))
    found, answers = asking.discover(second, truth, 4, 4, BATCH)
    assert found == 3
    assert answers["same yes"] == 1
    assert sum(answers.values()) == 4
    assert sorted(counts.most_common(1)[0] for counts in asking.person.past.values()) == [(4, 16), (5, 16), (6, 16)]
