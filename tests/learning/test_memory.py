import math

import pytest
import torch
from torch.nn.functional import normalize

from happycat.learning.memory import ClassMemory, class_means

DIM = 6


def random_features(number=40, dim=DIM, seed=0):
    return torch.randn(number, dim, generator=torch.Generator().manual_seed(seed)) + 0.5


def random_labels(number=40, classes=4, seed=1):
    return torch.randint(classes, (number,), generator=torch.Generator().manual_seed(seed))


def memory_of(prototypes, radius=0.0):
    """A memory of exactly these unit prototypes."""
    memory = ClassMemory(prototypes.shape[1])
    memory.learn(prototypes, torch.arange(len(prototypes)), torch.zeros_like(prototypes))
    memory.radius = torch.tensor(radius)
    return memory


def unit(row):
    length = math.sqrt(sum(x * x for x in row))
    return [x / length for x in row]


def test_prototypes_by_a_loop():
    features, labels = 10 * random_features(), random_labels()
    memory = ClassMemory(DIM)
    memory.learn(features, labels, torch.ones(4, DIM))
    for c in range(4):
        rows = [unit(row) for row, label in zip(features.tolist(), labels.tolist(), strict=True) if label == c]
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        assert memory.prototypes[c].tolist() == pytest.approx(unit(mean), abs=1e-6)
        assert memory.counts[c].item() == len(rows)
    assert memory.num_classes == 4


def test_every_image_counts_the_same_whatever_the_length_of_its_features():
    features, labels = random_features(), random_labels()
    memory, other = ClassMemory(DIM), ClassMemory(DIM)
    memory.learn(features, labels, torch.ones(4, DIM))
    other.learn(features * torch.arange(1, 41)[:, None], labels, torch.ones(4, DIM))
    torch.testing.assert_close(memory.prototypes, other.prototypes)


def test_a_class_without_an_image_takes_its_fallback_row():
    features, labels = random_features(), random_labels(classes=2) * 2  # classes 0 and 2 of three
    fallback = 3 * torch.eye(3, DIM)
    memory = ClassMemory(DIM)
    memory.learn(features, labels, fallback)
    torch.testing.assert_close(memory.prototypes[1], fallback[1] / 3)
    assert memory.counts.tolist() == [int((labels == 0).sum()), 0, int((labels == 2).sum())]
    assert not torch.allclose(memory.prototypes[0], fallback[0] / 3)


def test_learning_appends_new_classes_and_leaves_the_old_ones():
    memory = memory_of(torch.eye(2, DIM))
    features, labels = random_features(), random_labels(classes=4)  # images of old classes are there too
    memory.learn(features, labels, torch.ones(2, DIM))
    assert torch.equal(memory.prototypes[:2], torch.eye(2, DIM))
    expected = normalize(normalize(features, dim=1)[labels == 3].mean(0), dim=0)
    torch.testing.assert_close(memory.prototypes[3], expected)
    assert memory.counts.tolist() == [1, 1, int((labels == 2).sum()), int((labels == 3).sum())]


def test_radius_by_the_trace_of_each_covariance():
    features, labels = random_features(), random_labels()
    memory = ClassMemory(DIM)
    memory.measure_radius(3 * features, labels)
    traces = []
    for c in range(4):
        rows = [unit(row) for row, label in zip(features.tolist(), labels.tolist(), strict=True) if label == c]
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        covariance = [
            [sum((row[i] - mean[i]) * (row[j] - mean[j]) for row in rows) / len(rows) for j in range(DIM)]
            for i in range(DIM)
        ]
        traces.append(sum(covariance[i][i] for i in range(DIM)) / DIM)
    assert memory.radius.item() == pytest.approx(math.sqrt(sum(traces) / 4), rel=1e-5)


def test_radius_of_one_image_a_class_is_0_and_not_nan():
    memory = ClassMemory(DIM)
    memory.measure_radius(random_features(3), torch.arange(3))
    assert memory.radius.item() == 0


@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_hardness_by_a_loop(temperature):
    memory = memory_of(random_features(5))
    rows = memory.prototypes.double().tolist()
    h = []
    for i in range(5):
        cosines = [sum(a * b for a, b in zip(rows[i], rows[j], strict=True)) for j in range(5) if j != i]
        h.append(sum(cosines) / 4)
    powers = [math.exp(x / temperature) for x in h]
    assert memory.hardness(temperature).tolist() == pytest.approx([p / sum(powers) for p in powers], rel=1e-4)


def test_a_class_close_to_others_is_harder():
    memory = memory_of(torch.tensor([[1.0, 0, 0], [1.0, 0.3, 0], [1.0, -0.3, 0], [0, 0, 1.0]]))
    p = memory.hardness(0.1)
    assert p.argmax() == 0
    assert p.argmin() == 3
    assert p.sum().item() == pytest.approx(1)
    # The colder, the more uneven.
    assert memory.hardness(0.05).max() > p.max() > memory.hardness(1.0).max()


def test_hardness_of_alike_classes_is_even_and_of_one_class_is_1():
    assert memory_of(torch.eye(4)).hardness(0.1).tolist() == pytest.approx([0.25] * 4)
    assert memory_of(torch.eye(1, 4)).hardness(0.1).tolist() == [1.0]


def test_sampling_depends_on_the_generator_only():
    memory = memory_of(random_features(4), 0.2)
    p, before = memory.hardness(0.1), torch.get_rng_state()
    first = memory.sample(50, p, torch.Generator().manual_seed(3))
    torch.manual_seed(123)
    again = memory.sample(50, p, torch.Generator().manual_seed(3))
    other = memory.sample(50, p, torch.Generator().manual_seed(4))
    torch.set_rng_state(before)
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], other[0])
    memory.sample(50, p, torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), before)


def test_samples_have_the_mean_the_spread_and_the_classes_asked_for():
    memory = memory_of(random_features(3), 0.2)
    p = torch.tensor([0.6, 0.3, 0.1])
    samples, classes = memory.sample(60000, p, torch.Generator().manual_seed(0))
    assert samples.shape == (60000, DIM)
    for c in range(3):
        own = samples[classes == c]
        assert len(own) / 60000 == pytest.approx(p[c].item(), abs=0.01)
        torch.testing.assert_close(own.mean(0), memory.prototypes[c], atol=0.02, rtol=0)
        torch.testing.assert_close(own.std(0), torch.full((DIM,), 0.2), atol=0.01, rtol=0)


def test_a_class_of_probability_0_is_never_sampled():
    memory = memory_of(random_features(3), 0.2)
    _, classes = memory.sample(500, torch.tensor([0.5, 0.0, 0.5]), torch.Generator().manual_seed(0))
    assert set(classes.tolist()) == {0, 2}


@pytest.mark.parametrize("size", [0, 2, 5])
def test_state_goes_into_a_memory_of_another_size(size):
    memory = memory_of(random_features(4), 0.25)
    other = memory_of(torch.eye(size, DIM)) if size else ClassMemory(DIM)
    other.load_state_dict(memory.state_dict())
    assert other.num_classes == 4
    for name, value in memory.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)
        assert other.state_dict()[name].dtype == value.dtype
    drawn = [m.sample(9, m.hardness(0.1), torch.Generator().manual_seed(0))[0] for m in (memory, other)]
    assert torch.equal(*drawn)
    memory.prototypes.zero_()
    assert other.prototypes.any()  # a copy, not the same storage


def test_state_goes_in_as_part_of_a_module():
    whole, other = (torch.nn.ModuleDict({"memory": ClassMemory(DIM)}) for _ in range(2))
    whole["memory"].learn(random_features(), random_labels(), torch.ones(4, DIM))
    other.load_state_dict(whole.state_dict())
    assert torch.equal(other["memory"].prototypes, whole["memory"].prototypes)


def test_size_does_not_grow_with_the_images():
    sizes = []
    for number in (40, 4000):
        features, labels = random_features(number), random_labels(number)
        memory = ClassMemory(DIM)
        memory.learn(features, labels, torch.ones(4, DIM))
        memory.measure_radius(features, labels)
        sizes.append(sum(value.untyped_storage().nbytes() for value in memory.state_dict().values()))
    assert sizes[0] == sizes[1]
    assert not list(memory.parameters())  # nothing in it is trained


# class_means


def test_class_means_by_a_loop():
    features, labels = 10 * random_features(), random_labels()
    means, counts = class_means(features, labels, torch.ones(4, DIM))
    for c in range(4):
        rows = [row for row, label in zip(features.tolist(), labels.tolist(), strict=True) if label == c]
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]  # of the features as they are
        assert means[c].tolist() == pytest.approx(unit(mean), abs=1e-6)
        assert counts[c].item() == len(rows)
    assert counts.dtype == torch.int64


def test_class_means_of_missing_and_of_unknown_classes():
    features, labels = random_features(4), torch.tensor([-1, 1, 7, 1])
    means, counts = class_means(features, labels, torch.tensor([[3.0, 4, 0, 0, 0, 0], [1.0, 0, 0, 0, 0, 0]]))
    torch.testing.assert_close(means[0], torch.tensor([0.6, 0.8, 0, 0, 0, 0]))
    torch.testing.assert_close(means[1], normalize(features[1] + features[3], dim=0))
    assert counts.tolist() == [0, 2]
    means, counts = class_means(features[:0], labels[:0], 2 * torch.eye(3, DIM))
    assert torch.equal(means, torch.eye(3, DIM))
    assert counts.tolist() == [0, 0, 0]


def test_class_means_ignore_order():
    features, labels, order = random_features(), random_labels(), torch.arange(40).flip(0)
    means, counts = class_means(features, labels, torch.ones(4, DIM))
    again, counts_again = class_means(features[order], labels[order], torch.ones(4, DIM))
    torch.testing.assert_close(again, means)
    assert torch.equal(counts_again, counts)


# replace, similarity, uniform


@pytest.mark.parametrize("size", [2, 6])
def test_replacing_takes_the_given_classes_and_leaves_the_radius(size):
    memory = memory_of(random_features(4), 0.25)
    memory.replace(torch.eye(size, DIM), torch.arange(size))
    assert memory.num_classes == size
    assert torch.equal(memory.prototypes, torch.eye(size, DIM))
    assert memory.counts.tolist() == list(range(size))
    assert memory.radius.item() == 0.25
    assert torch.equal(memory.state_dict()["prototypes"], torch.eye(size, DIM))  # and it is what is saved
    memory.learn(torch.ones(1, DIM), torch.tensor([size]), torch.ones(1, DIM))
    assert memory.num_classes == size + 1


def test_similarity_by_hand():
    memory = memory_of(torch.tensor([[1.0, 0.0], [0.6, 0.8]]))
    features = torch.tensor([[5.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [0.03, 0.04]])
    assert memory.similarity(features).tolist() == pytest.approx([1.0, 0.8, -0.6, 1.0])


def test_similarity_by_a_loop_and_whatever_the_length():
    memory, features = memory_of(random_features(5)), random_features(9, seed=3)
    rows = memory.prototypes.tolist()
    expected = [max(sum(a * b for a, b in zip(unit(z), row, strict=True)) for row in rows) for z in features.tolist()]
    assert memory.similarity(features).tolist() == pytest.approx(expected, abs=1e-6)
    torch.testing.assert_close(memory.similarity(7 * features), memory.similarity(features))


@pytest.mark.parametrize("classes", [1, 3])
def test_uniform_draws_every_class_as_often(classes):
    memory = memory_of(random_features(classes), 0.1)
    p = memory.uniform()
    assert p.tolist() == pytest.approx([1 / classes] * classes)
    _, drawn = memory.sample(30000, p, torch.Generator().manual_seed(0))
    assert (drawn.bincount() / 30000).tolist() == pytest.approx([1 / classes] * classes, abs=0.01)
