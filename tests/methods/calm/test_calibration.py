"""Held-out classes: what an episode holds, and what is learned from it."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.base import tables
from happycat.base.metrics import clustering_accuracy
from happycat.learning.batches import draw_held_out
from happycat.methods.calm import calibration as module
from happycat.methods.calm.calibration import (
    Calibration,
    Confidence,
    deviation,
    fit_temperature,
    hold_out,
    usual_cosines,
)
from happycat.methods.calm.mixture import Search
from happycat.methods.calm.number import count, follow

NUM_CLASSES, EACH, DIM = 10, 20, 24


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def labelled(noise: float = 0.1, classes: int = NUM_CLASSES, each: int = EACH):
    """Unit features (N, 2, D) of two views of images around orthogonal directions, and their labels."""
    centres = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator()))[0][:classes]
    labels = torch.arange(classes).repeat_interleave(each)
    features = centres[labels][:, None] + noise * torch.randn(len(labels), 2, DIM, generator=generator(1))
    return normalize(features, dim=-1), labels


def some_held_out(seed: int) -> torch.Tensor:
    return draw_held_out(NUM_CLASSES, 0.3, generator(seed))


def calibration(features, labels, episodes=3, dimensions=20, shrinkage=0.3, advance=module.nobody) -> Calibration:
    made = [hold_out(features, labels, some_held_out(seed), generator(seed)) for seed in range(episodes)]
    return Calibration(made, dimensions, shrinkage, advance)


def places(rows: torch.Tensor, features: torch.Tensor) -> list[int]:
    """Which of the features each row is."""
    where = {tuple(row): i for i, row in enumerate(features.tolist())}
    return [where[tuple(row)] for row in rows.tolist()]


def test_an_episode_holds_out_whole_classes_and_judges_by_none_of_its_images():
    features, labels = labelled()
    for seed in range(5):
        held_out = some_held_out(seed)
        episode = hold_out(features, labels, held_out, generator(seed))
        assert (episode.num_old, episode.num_new) == (7, 3)
        known = places(episode.labelled, features.mean(1))
        served = places(episode.served, features.mean(1))
        validation = places(episode.validation, features[:, 0])  # the centre view, as in a prediction
        assert sorted(known + served + validation) == list(range(len(labels)))
        names = [*(c for c in range(NUM_CLASSES) if c not in held_out.tolist()), *held_out.tolist()]
        for found, ids in ((known, episode.labels), (served, episode.classes), (validation, episode.truth)):
            assert labels[found].tolist() == [names[i] for i in ids.tolist()]
        assert set(episode.labels.tolist()) == set(range(7))
        assert {7, 8, 9} <= set(episode.classes.tolist())
        assert min(episode.classes.tolist()) < 7
        more = places(episode.more, features.mean(1))
        assert sorted(more) == sorted(i for i in validation if labels[i] in held_out)


def test_no_class_loses_its_last_image():
    features, labels = labelled()
    first = torch.stack([(labels == c).nonzero()[0, 0] for c in range(NUM_CLASSES)])
    for seed in range(20):
        episode = hold_out(features[first], labels[first], some_held_out(seed), generator(seed))
        assert (len(episode.labelled), len(episode.served), len(episode.validation)) == (7, 3, 0)


def test_of_very_large_classes_some_images_are_served(monkeypatch):
    monkeypatch.setattr(module, "ENOUGH", 10)
    monkeypatch.setattr(module, "MOST_AGAIN", 12)
    features, labels = labelled(each=100)
    episode = hold_out(features, labels, torch.tensor([2, 5]), generator())
    assert episode.classes.bincount().tolist()[8:] == [10, 10]
    assert (episode.classes < 8).sum() == 12
    of_two = sorted(places(episode.served[episode.classes == 8], features.mean(1)))
    assert max(of_two) - min(of_two) > 85  # spread over all of them


def test_of_many_classes_a_few_images_each_are_served(monkeypatch):
    monkeypatch.setattr(module, "MOST_NEW", 24)
    features, labels = labelled(each=100)
    for held_out, each in (([2, 5, 7], 8), ([2, 5], 12), ([2, 5, 7, 0, 1], 4)):
        episode = hold_out(features, labels, torch.tensor(held_out), generator())
        assert episode.classes.bincount().tolist()[10 - len(held_out) :] == [each] * len(held_out)
    of_two = sorted(places(episode.served[episode.classes == 5], features.mean(1)))
    assert max(of_two) - min(of_two) > 85  # spread over all of them


def test_the_known_classes_are_directions_in_the_space_of_what_is_still_labelled():
    features, labels = labelled()
    episode = hold_out(features, labels, torch.tensor([0, 4, 9]), generator())
    space, old = episode.known(15, 0.3, 0.5)
    assert space.dimensions == 15
    for c in range(7):
        mean = space(episode.labelled[episode.labels == c]).mean(0)
        torch.testing.assert_close(old[c], mean / mean.norm())
    other, _ = episode.known(15, 0.3, 0.0)
    assert not torch.equal(other.projection, space.projection)


def test_the_space_has_no_more_dimensions_than_features_or_images():
    features, labels = labelled()
    assert calibration(features, labels, dimensions=5).dimensions == 5
    assert calibration(features, labels, dimensions=10**6).dimensions == DIM
    few = torch.arange(0, len(labels), EACH)  # one image of each class
    assert calibration(features[few], labels[few], dimensions=20).dimensions == 6


def test_weights_that_favour_the_directions_of_classes_find_held_out_ones_better():
    """Classes differ in six directions of sixty; the rest is noise."""
    own = torch.zeros(40, 60)
    own[:, :6] = 2 * torch.randn(40, 6, generator=generator())
    labels = torch.arange(40).repeat_interleave(25)
    features = normalize(own[labels] + torch.randn(1000, 60, generator=generator(1)), dim=-1)[:, None]
    episodes = [hold_out(features, labels, draw_held_out(40, 0.2, generator(s)), generator(s)) for s in range(2)]
    made = Calibration(episodes, 60, 0.3)
    (weighted,), (plain,) = made.accuracies(0.5, [0.03]), made.accuracies(0.0, [0.03])
    assert weighted > plain + 5


@pytest.mark.parametrize("wrong", [None, "classes", "truth"])  # of no images, the served or the validation ones
def test_accuracies_are_those_on_the_served_and_the_validation_images(wrong):
    """The classes are found without an error; then images are wrong that are said to be of another class."""
    made, expected = calibration(*labelled(0.02)), 0.0
    for episode in made.episodes:
        found = torch.cat([episode.classes, episode.truth]).numpy()
        if wrong:
            some = getattr(episode, wrong)[::2]
            some.copy_((some + 1) % NUM_CLASSES)
        truth = torch.cat([episode.classes, episode.truth]).numpy()
        expected += clustering_accuracy(truth, found, episode.num_old).all / len(made.episodes)
    assert made.accuracies(0.25, [0.03, 0.05]) == pytest.approx([expected] * 2)
    assert expected < 90 if wrong else expected == pytest.approx(100)


def test_there_may_be_no_validation_images():
    features, labels = labelled()
    first = torch.arange(0, len(labels), EACH)
    nobody_judges = [hold_out(features[first], labels[first], some_held_out(0), generator())]
    assert len(nobody_judges[0].validation) == 0
    assert Calibration(nobody_judges, 20, 0.3).accuracies(0.25, [0.03]) == [100]  # of three images, each of a class


def test_each_temperature_has_its_own_accuracy():
    """So high a temperature that new classes are all the same; and in the order that was asked for."""
    made = calibration(*labelled(0.3))
    cold, hot = made.accuracies(0.25, [0.03, 3.0])
    assert cold > hot + 10
    assert made.accuracies(0.25, [3.0, 0.03]) == [hot, cold]
    assert made.accuracies(0.25, [0.03]) == [cold]


def test_each_episode_is_told():
    told = []
    made = calibration(*labelled(), episodes=2, advance=lambda steps, total=None, loss=None: told.append(steps))
    made.accuracies(0.25, [0.03])
    assert told == [1, 1]
    made.accuracies(0.25, [0.03, 0.02, 0.05])  # with each temperature
    assert told == [1] * 8
    made.number_model(0.25)
    assert told == [1] * 10


@pytest.mark.parametrize("exponent", [0.25, 0.5])
def test_the_number_of_held_out_classes_is_found(exponent):
    made = calibration(*labelled())
    model = made.number_model(exponent)
    for episode in made.episodes:
        space, old = episode.known(made.dimensions, 0.3, exponent)
        steps = follow(Search(space(episode.served), old).growing(), 8, model.least)
        found = count(model.probabilities(steps), 8)
        assert found.number == episode.num_new
        assert found.low <= episode.num_new <= found.high
        again = episode.served[episode.classes < episode.num_old]
        steps = follow(Search(space(again), old).growing(), 8, model.least)
        assert count(model.probabilities(steps), 8).number == 0


def test_a_lower_softmax_temperature_for_classes_that_are_told_apart_better():
    clear, blurred = calibration(*labelled(0.05)), calibration(*labelled(0.4))
    assert clear.confidence(0.25).softmax_temperature < blurred.confidence(0.25).softmax_temperature


def test_the_softmax_temperature_is_that_of_the_likeliest_probabilities():
    cosines = torch.tensor([[0.9, 0.1], [0.8, 0.3], [0.2, 0.7], [0.6, 0.5]])
    truth = torch.tensor([0, 0, 1, 1])

    def likelihood(t: float) -> float:
        return float((cosines / t).log_softmax(1)[torch.arange(4), truth].sum())

    best = fit_temperature(cosines, truth)
    assert likelihood(best) >= max(likelihood(best * 1.2), likelihood(best / 1.2))
    assert fit_temperature(cosines[:0], truth[:0]) == pytest.approx(0.1)


def test_the_deviation_has_a_prior_of_a_few_images_of_a_usual_one():
    cosines = [0.9, 0.7, 0.65, 0.2]
    mean = sum(cosines) / 4
    variance = (sum((c - mean) ** 2 for c in cosines) + 3 * 0.1**2) / (4 + 3)
    assert deviation(torch.tensor(cosines)) == pytest.approx(variance**0.5)
    assert deviation(torch.tensor(cosines)[:, None]) == pytest.approx(variance**0.5)
    assert deviation(torch.full((2,), 0.95)) > 0.05  # a few that happen to be alike
    assert deviation(torch.full((1000,), 0.95)) < 0.01
    assert deviation(torch.empty(0)) == pytest.approx(0.1)


def test_usual_cosines_are_those_with_the_other_images_of_a_class(monkeypatch):
    """One class is tight, one is not, one has a single image and one has none."""
    monkeypatch.setattr(tables, "ROWS", 7)  # images that are looked at together
    features, labels = labelled(0.05, classes=2)
    points = torch.cat([features[:, 0], features[-1:, 1], torch.eye(DIM)[:1]])
    points[20:40] = normalize(points[20:40] + 0.3 * torch.randn(20, DIM, generator=generator(5)), dim=-1)
    classes = torch.cat([labels, torch.tensor([1, 3])])
    own: list[list[float]] = [[], [], [], []]
    for i, (image, c) in enumerate(zip(points, classes.tolist(), strict=True)):
        others = points[[j for j in range(len(points)) if classes[j] == c and j != i]]
        if len(others):
            own[c].append(float(image @ normalize(others.sum(0), dim=0)))
    mean = sum(map(sum, own)) / sum(map(len, own))
    by_hand = [(sum(cosines) + 5 * mean) / (len(cosines) + 5) for cosines in own]  # five more of the mean of all
    got = usual_cosines(points, classes, 4)
    torch.testing.assert_close(got, torch.tensor(by_hand), rtol=1e-4, atol=1e-5)
    assert got[0] > got[2] == got[3] > got[1] + 0.1


def test_where_no_class_has_two_images_the_usual_cosine_is_given():
    torch.testing.assert_close(usual_cosines(torch.eye(3), torch.arange(3), 4), torch.ones(4))
    torch.testing.assert_close(usual_cosines(torch.eye(3), torch.arange(3), 4, 0.7), torch.full((4,), 0.7))
    nothing = torch.empty(0, dtype=torch.int64)
    torch.testing.assert_close(usual_cosines(torch.empty(0, 3), nothing, 2, 0.7), torch.full((2,), 0.7))
    assert usual_cosines(torch.empty(0, 3), nothing, 0).shape == (0,)


def test_confidence_is_how_much_less_images_have_that_were_not_learned_from():
    cosines, truth = torch.rand(50, 4, generator=generator()), torch.arange(50) % 4
    usual = torch.tensor([0.9, 0.5, 0.8, 0.7])
    got = Confidence.of(cosines, truth, usual.expand_as(cosines))
    less = [float(usual[max(range(4), key=row.__getitem__)]) - max(row) for row in cosines.tolist()]
    assert got.shortfall == pytest.approx(sum(less) / 50, abs=1e-6)
    assert got.deviation == pytest.approx(deviation(torch.tensor(less)))
    assert got.softmax_temperature == fit_temperature(cosines, truth)
    nothing = Confidence.of(cosines[:0], truth[:0], usual.expand_as(cosines)[:0])
    assert nothing == pytest.approx((0.1, 0.0, 0.1))


@pytest.mark.parametrize("most", [2000, 4])
def test_confidence_comes_from_the_validation_images_of_the_known_classes(monkeypatch, most):
    """Of many, some that are spread over all of them."""
    monkeypatch.setattr(module, "MOST_JUDGED", most)
    made = calibration(*labelled(0.3))
    cosines, truth, usual = [], [], []
    for episode in made.episodes:
        space, old = episode.known(made.dimensions, 0.3, 0.25)
        known = (episode.truth < episode.num_old).nonzero()[:, 0].tolist()
        last = len(known) - 1
        judged = known if most > last else [known[0], known[last // 3], known[2 * last // 3], known[last]]
        cosines.append(space(episode.validation[judged]) @ old.T)
        truth.append(episode.truth[judged])
        usual.append(usual_cosines(space(episode.labelled), episode.labels, 7).expand(len(judged), 7))
    assert made.confidence(0.25) == pytest.approx(Confidence.of(*(torch.cat(part) for part in (cosines, truth, usual))))


def test_all_but_a_few_images_are_above_the_rejection_threshold():
    """Two standard deviations below what is usual in the class, less the shortfall of images not learned from."""
    made = calibration(*labelled())
    confidence = made.confidence(0.25)
    known = []
    for episode in made.episodes:
        space, old = episode.known(made.dimensions, 0.3, 0.25)
        usual = usual_cosines(space(episode.labelled), episode.labels, 7)
        cosine, row = (space(episode.validation) @ old.T).max(1)
        rejected = cosine < (usual - confidence.shortfall - 2 * confidence.deviation)[row]
        new = episode.truth >= episode.num_old
        assert rejected[new].float().mean() > 0.9
        known += rejected[~new].tolist()
    assert 0 < sum(known) / len(known) < 0.1
