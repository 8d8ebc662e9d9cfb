"""Questions to the person: which are asked, what answers change, and that none is asked again."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
import torch

from happycat import Happycat
from happycat.model.answers import answer, in_words
from happycat.model.editor import Editor
from happycat.model.file import locked
from happycat.model.from_images import new_class
from happycat.model.membership import confirm, ignore, move
from happycat.model.questions import MEMBER, PAIR, SAME, Interview, Question, ask, random_questions
from happycat.model.review import Review
from happycat.model.reviewed import ReviewedImages
from happycat.model.simulation import review_of

LABELLED, NEW = 4, 3  # classes; the images of a new class are IMAGES, those of an old one OLD
IMAGES, OLD = 16, 3


def made(kinds: np.ndarray, noise: float, seed: int) -> np.ndarray:
    return np.eye(16)[kinds] + noise * np.random.default_rng(seed).normal(size=(len(kinds), 16))


@functools.cache
def fitted(noise: float) -> Happycat:
    labelled = np.repeat(np.arange(LABELLED), 12)
    return Happycat(random_state=0).fit(made(labelled, noise, 1), np.array(list("abcd"))[labelled])


class Case:
    """A model with a discovery: images of three new classes and of the labelled ones, and the truth."""

    def __init__(self, num_new: int, noise: float = 0.08, cat: Happycat | None = None):
        self.truth = np.repeat(np.arange(LABELLED + NEW), [OLD] * LABELLED + [IMAGES] * NEW)
        self.cat = cat or copy.deepcopy(fitted(noise))
        found = self.cat.discover(made(self.truth, noise, 2), num_new)
        self.review: Review = review_of(found, self.cat.stage_)
        self.images = ReviewedImages.of(self.cat, self.review)

    @property
    def new(self) -> list[int]:
        """The ids of the classes that were discovered."""
        return [entry.id for entry in self.cat.registry_ if entry.stage]

    def kinds(self, number: int) -> set[int]:
        """The true classes of the images that a class is given."""
        return set(self.truth[self.images.members(number)].tolist())


@pytest.fixture
def right() -> Case:
    """All classes were found."""
    return Case(NEW)


@pytest.fixture
def divided() -> Case:
    """One class was found as two."""
    return Case(NEW + 1)


@pytest.fixture
def joined() -> Case:
    """Two classes were found as one."""
    return Case(NEW - 1, noise=0.04)


def test_a_class_that_was_found_as_two_is_asked_about_first(divided):
    first = ask(divided.cat, divided.review)[0]
    assert first.kind == SAME
    one, two = (divided.kinds(number) for number in first.classes)
    assert one == two
    answer(divided.images, first, True)
    assert len(divided.new) == NEW
    assert sorted(map(len, map(divided.images.members, divided.new))) == [IMAGES] * NEW


def test_two_classes_that_were_found_as_one_are_divided_by_a_pair(joined):
    first = next(one for one in ask(joined.cat, joined.review, 100) if one.kind == PAIR)
    one, two = first.images
    assert joined.truth[one] != joined.truth[two]
    assert {joined.truth[i] for i in first.group} == {joined.truth[two]}
    answer(joined.images, first, False)
    assert sorted(len(joined.kinds(number)) for number in joined.new) == [1] * NEW
    said = joined.cat.registry_.statements.of(joined.review.digests)
    assert {i for i, statement in said.items() if statement.checked} == {one, two}  # of the others nobody spoke


def test_the_sums_of_prototypes_are_exact_after_a_division(joined):
    first = next(one for one in ask(joined.cat, joined.review, 100) if one.kind == PAIR)
    answer(joined.images, first, False)
    registry = joined.cat.registry_
    made_class = registry.entries[-1]
    total = joined.review.learned[list(first.group)].sum(0)
    assert np.allclose(registry.pool.sum(made_class.rows[0]), total, atol=1e-4)
    assert registry.pool.sizes[made_class.rows[0]] == len(first.group)


def test_what_is_likely_wrong_counts_for_more_than_what_is_likely_right(right, divided, joined):
    """Where all classes are right and of one size, two classes or a pair of images would hardly change anything."""

    def most(case: Case, kind: str) -> float:
        return max(one.gain for one in ask(case.cat, case.review, 1000) if one.kind == kind)

    assert most(right, SAME) < 4
    assert most(divided, SAME) > 8
    assert most(right, PAIR) < 0.5
    assert most(joined, PAIR) > 8


def test_after_a_division_the_part_is_asked_about_if_it_may_be_the_double_of_another():
    """A class is divided by a pair; its part is small, and another class has the rest of the kind."""
    case = Case(NEW)
    one, two = case.new[:2]
    stray = case.images.members(two)[:6]  # of the second class, but given to the first
    move(case.cat.registry_, case.images.chosen(stray), one)
    for image in stray:
        case.cat.registry_.statements.forget(case.images.chosen([image]).digests[0])
    case.review.counted[stray] = case.cat.registry_.entries[one].rows[0]
    assert len(case.new) == NEW
    first = case.images.members(one)[0]
    answer(case.images, Question(PAIR, (one,), (first, stray[0]), "", 0.0, tuple(stray)), False)
    part = case.new[-1]
    assert set(stray) <= set(case.images.members(part)) | set(case.images.members(two))
    asked = ask(case.cat, case.review, 1000)[0]
    assert (asked.kind, asked.classes) == (SAME, (two, part))


def test_an_image_of_the_one_that_is_not_of_the_other_speaks_against_their_being_the_same(divided):
    first = ask(divided.cat, divided.review)[0]
    one, two = first.classes
    image = divided.images.members(one)[0]
    registry = divided.cat.registry_
    answer(divided.images, Question(MEMBER, (two,), (image,), "", 0.0), False)
    answer(divided.images, Question(MEMBER, (one,), (image,), "", 0.0), True)
    assert registry.statements.of(divided.review.digests)[image].rejected == {two}
    again = next(question for question in ask(divided.cat, divided.review, 1000) if question.classes == first.classes)
    assert again.gain < 0.9 * first.gain


def test_questions_are_in_the_order_of_their_gain_and_each_is_asked_once(divided):
    questions = ask(divided.cat, divided.review, 1000)
    gains = [question.gain for question in questions]
    assert gains == sorted(gains, reverse=True)
    assert len({question[:3] for question in questions}) == len(questions)
    assert {question.kind for question in questions} == {SAME, PAIR, MEMBER}


def test_an_image_between_two_classes_is_the_first_that_is_asked_about(right):
    questions = [one for one in ask(right.cat, right.review, 1000) if one.kind == MEMBER]
    second = right.cat.rule().probabilities(torch.from_numpy(right.review.points)).topk(2, 1).values[:, 1]
    assert questions[0].image == int(second.argmax())
    assert len(questions) == len(right.truth)
    assert all(question.image == question.images[0] for question in questions)


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("kind", [SAME, PAIR, MEMBER])
def test_what_was_answered_is_not_asked_again(divided, kind, yes):
    question = next(one for one in ask(divided.cat, divided.review, 1000) if one.kind == kind)
    answer(divided.images, question, yes)
    again = ask(divided.cat, divided.review, 1000)
    assert question[:3] not in [one[:3] for one in again]
    if kind == PAIR and yes:  # both are confirmed
        assert not {one.image for one in again} & set(question.images)


def test_answers_until_there_are_no_questions(divided):
    """A truthful person who answers all questions ends with the true classes, and is never asked twice."""
    asked = set()
    interview = Interview(divided.review)
    while questions := interview.ask(divided.cat, 1):
        (question,) = questions
        assert question[:3] not in asked
        asked.add(question[:3])
        sides = [divided.truth[divided.images.members(number)] for number in question.classes]
        if question.kind == PAIR:
            yes = len({divided.truth[i] for i in question.images}) == 1
        elif question.kind == MEMBER:
            yes = divided.truth[question.images[0]] == np.bincount(sides[0]).argmax()
        else:
            yes = np.bincount(sides[0]).argmax() == np.bincount(sides[1]).argmax()
        answer(divided.images, question, bool(yes))
    assert sorted(map(divided.kinds, divided.new), key=min) == [{4}, {5}, {6}]


def test_a_rejected_image_goes_to_its_next_class(right):
    question = next(one for one in ask(right.cat, right.review, 1000) if one.kind == MEMBER)
    answer(right.images, question, False)
    number, image = question.classes[0], question.images[0]
    assert image not in right.images.members(number)


def test_yes_to_a_member_puts_it_there_even_if_it_was_given_another_class_meanwhile(right):
    image, other = right.images.members(right.new[0])[0], right.new[1]
    answer(right.images, Question(MEMBER, (other,), (image,), "", 0.0), True)
    assert image in right.images.members(other)


def test_no_to_a_member_is_remembered_even_if_no_class_fits_it_meanwhile(right):
    image, other = right.images.members(right.new[0])[0], right.new[1]
    registry = right.cat.registry_
    ignore(registry, right.images.chosen([image]), right.cat.stage_)
    assert right.images.chosen([image]).given == [None]
    answer(right.images, Question(MEMBER, (other,), (image,), "", 0.0), False)
    assert registry.statements.of(right.review.digests)[image].rejected == {other}


def test_of_a_pair_without_a_group_the_odd_one_is_rejected(right):
    number = right.new[0]
    members = right.images.members(number)
    vector = right.cat.registry_.pool.vectors[right.cat.registry_.entries[number].rows[0]]
    odd, *_, typical = sorted(members, key=lambda i: float(right.review.learned[i] @ vector))
    answer(right.images, Question(PAIR, (number,), (typical, odd), "", 0.0), False)
    assert set(members) - set(right.images.members(number)) == {odd}
    assert len(right.new) == NEW


def test_random_questions_are_of_all_kinds_and_never_answered_ones(divided):
    random = np.random.default_rng(0)
    questions = random_questions(divided.cat, divided.review, random, 60)
    assert {question.kind for question in questions} == {SAME, PAIR, MEMBER}
    assert len({question[:3] for question in questions}) == 60
    for question in questions:
        if question.kind == PAIR:
            members = divided.images.members(question.classes[0])
            assert set(question.images) <= set(members)
            assert question.images[0] != question.images[1]
        elif question.kind == SAME:
            assert set(question.classes) & set(divided.new)
    settled = divided.images.members(divided.new[0])
    confirm(divided.cat.registry_, divided.images.chosen(settled))
    divided.cat.registry_.hold_apart(*divided.new[:2])
    for question in random_questions(divided.cat, divided.review, random, 300):
        assert question.kind == SAME or not set(question.images) <= set(settled)
        assert question.classes != tuple(divided.new[:2])


def test_a_taught_class_is_asked_about_like_a_new_one(right):
    """It came with this stage: a discovered class may be the same."""
    some = right.images.members(right.new[0])[:5]
    entry = new_class(right.cat.registry_, right.images.chosen(some), right.cat.stage_)
    assert (SAME, (right.new[0], entry.id)) in [question[:2] for question in ask(right.cat, right.review)]


def test_the_history_says_what_an_answer_did(right):
    one, two = right.new[:2]
    registry = right.cat.registry_
    same, pair, member = (
        Question(kind, classes, images, "", 0.0)
        for kind, classes, images in ((SAME, (one, two), ()), (PAIR, (one,), (0, 1)), (MEMBER, (one,), (0,)))
    )
    words = [in_words(registry, question, yes) for question in (same, pair, member) for yes in (True, False)]
    assert words == [
        *(f"merge class {one} class {two}", f"class {one} and class {two} are not the same"),
        *("confirm 2 images", "reject one of 2 images"),
        *("confirm 1 image", "reject 1 image"),
    ]
    assert in_words(registry, pair._replace(group=(1,)), False) == f"split class {one} by 2 images"


@pytest.mark.parametrize("kind", [SAME, PAIR, MEMBER])
@pytest.mark.parametrize("yes", [True, False])
def test_a_model_file_is_changed_as_a_model_in_memory_is(kind, yes, tmp_path):
    """The same question, answered in a file by the editor, makes the same classes; and it is not asked again."""
    cat, path = copy.deepcopy(fitted(0.08)), tmp_path / "shop.cat"
    cat.save(path)
    case = Case(NEW + 1, cat=cat)
    folder = tmp_path / "found"
    folder.mkdir()
    more = {"results": str(folder), "review": case.review.write(folder)}
    with locked(path):
        cat.append(path, "discover", more)
    editor = Editor(path)
    asked = editor.questions(1000)
    assert [one[:3] for one in asked] == [one[:3] for one in ask(cat, case.review, 1000)]
    question = next(one for one in asked if one.kind == kind)
    words = in_words(editor.registry, question, yes)
    editor.answer(question, yes)
    answer(case.images, question, yes)
    given = case.images.decision().assigned
    ids = [entry.id for entry in case.cat.registry_]
    assert [row.id for row in editor.assigned()] == [ids[i] if i >= 0 else None for i in given.tolist()]
    assert editor.history[-1]["what"] == words
    assert question[:3] not in [one[:3] for one in editor.questions(1000)]
