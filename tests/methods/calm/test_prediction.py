"""The rule of prediction against a loop written from its equations; Calm predicts by it to the bit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch.nn.functional import normalize

from happycat.backbone.tail import Vectors
from happycat.methods.calm import prediction
from happycat.methods.calm.config import CalmConfig
from happycat.methods.calm.method import Calm
from happycat.methods.calm.prediction import DROPPED, PredictionRule, nearest

OWNER = torch.tensor([0, 1, 1, DROPPED, 2])  # class 1 has two prototypes, the fourth prototype was given up


def unit(number: int, seed: int, dim: int = 6) -> torch.Tensor:
    return normalize(torch.randn(number, dim, generator=torch.Generator().manual_seed(seed)), dim=-1)


@pytest.fixture
def rule() -> PredictionRule:
    return PredictionRule(unit(5, 0), OWNER, 3, torch.tensor(0.2), torch.tensor([0.3, -1, 0.9, -1, 0.0]))


def test_it_is_what_the_equations_say(rule):
    points = unit(200, 1)
    probabilities, rejected = rule(points)
    for point, given, odd in zip(points.tolist(), probabilities.tolist(), rejected.tolist(), strict=True):
        cosines = [sum(a * b for a, b in zip(point, row, strict=True)) for row in rule.prototypes.tolist()]
        shares = [math.exp(c / 0.2) if owner >= 0 else 0.0 for c, owner in zip(cosines, OWNER.tolist(), strict=True)]
        expected = [
            sum(s for s, o in zip(shares, OWNER.tolist(), strict=True) if o == c) / sum(shares) for c in range(3)
        ]
        assert given == pytest.approx(expected, abs=1e-5)
        row = max(range(5), key=lambda r: cosines[r])
        assert odd == (cosines[row] < float(rule.thresholds[row]) or int(OWNER[row]) == DROPPED)
    assert 0 < rejected.sum() < len(points)


def test_probabilities_sum_to_one_also_beside_a_dropped_class(rule):
    dropped = rule.prototypes[3:4]
    probabilities, rejected = rule(torch.cat([dropped, unit(50, 2)]))
    assert rejected[0]
    torch.testing.assert_close(probabilities.sum(1), torch.ones(51))


def test_a_rejected_image_is_assigned_to_no_class(rule):
    points = unit(50, 3)
    probabilities, rejected = rule(points)
    assigned = rule.decide(points).assigned
    assert (assigned[rejected] == -1).all()
    assert torch.equal(assigned[~rejected], probabilities.argmax(1)[~rejected])


RULES = {
    "one prototype a class": ([0, 1, 2, 3, 4], 5),
    "classes in another order": ([2, 0, 1, 4, 3], 5),
    "merged classes": ([1, 0, 1, 2, 1], 3),
    "a dropped class": ([0, DROPPED, 1, 2, 3], 4),
    "both": ([1, DROPPED, 0, 0, DROPPED], 2),
}


@pytest.mark.parametrize(("owner", "num_classes"), RULES.values(), ids=RULES)
@pytest.mark.parametrize("temperature", [0.2, 0.01])
def test_decisions_in_chunks_are_those_of_all_probabilities(monkeypatch, owner, num_classes, temperature):
    """At the lower temperature, what is far from the nearest prototype is too small for a float32."""
    prototypes = torch.cat([unit(4, 0), -unit(1, 0)])
    thresholds = torch.tensor([0.3, -1, 0.9, -1, 0.0])
    rule = PredictionRule(prototypes, torch.tensor(owner), num_classes, torch.tensor(temperature), thresholds)
    points = torch.cat([prototypes, unit(60, 1)])
    probabilities, rejected = rule(points)
    monkeypatch.setattr(prediction, "CELLS", 17)  # three points at a time
    decision = rule.decide(points)
    assert torch.equal(decision.likeliest, probabilities.argmax(1))
    torch.testing.assert_close(decision.probability, probabilities.amax(1))
    assert torch.equal(decision.rejected, rejected)
    assert torch.equal(decision.assigned, probabilities.argmax(1).masked_fill(rejected, -1))
    torch.testing.assert_close(rule.probabilities(points), probabilities)
    torch.testing.assert_close(rule.decide(2 * points, lambda some: some / 2).probability, decision.probability)
    cosine, row = nearest(points, prototypes)
    assert torch.equal(row, (points @ prototypes.T).argmax(1))
    torch.testing.assert_close(cosine, (points @ prototypes.T).amax(1))


def test_never_more_than_a_chunk_of_cosines_is_held(rule, monkeypatch):
    monkeypatch.setattr(prediction, "CELLS", 17)
    sizes = []

    def placed(some):
        sizes.append(len(some))
        return some

    for verb in (rule.decide, rule.probabilities):
        verb(unit(10, 1), placed)
    assert sizes == [3, 3, 3, 1] * 2
    monkeypatch.setattr(prediction, "CELLS", 4)  # fewer than there are prototypes
    assert len(rule.decide(unit(10, 1)).likeliest) == 10


def test_deciding_writes_into_nothing_that_it_was_given(rule):
    points = unit(20, 1)
    before = points.clone(), rule.prototypes.clone()
    rule.decide(points)
    assert torch.equal(points, before[0])
    assert torch.equal(rule.prototypes, before[1])


def test_the_order_of_the_prototypes_does_not_matter(rule):
    order = torch.tensor([3, 0, 4, 2, 1])
    other = PredictionRule(rule.prototypes[order], OWNER[order], 3, rule.temperature, rule.thresholds[order])
    points = unit(50, 4)
    torch.testing.assert_close(other(points).probabilities, rule(points).probabilities)
    assert torch.equal(other(points).rejected, rule(points).rejected)


def test_calm_predicts_by_the_rule_to_the_bit():
    calm = Calm(Vectors(6), CalmConfig())
    calm.space.set(torch.zeros(6), torch.eye(6))
    calm.memory.replace(unit(40, 5), torch.ones(40, dtype=torch.int64))
    calm.thresholds = torch.zeros(40)
    points = unit(300, 6)
    assert torch.equal(calm.predict(points), calm.logits(points).softmax(1))


def test_the_familiarity_of_calm_is_how_much_the_cosine_that_rejects_is_above_the_threshold():
    calm = Calm(Vectors(6), CalmConfig())
    calm.space.set(torch.zeros(6), torch.eye(6))
    calm.memory.replace(unit(40, 5), torch.ones(40, dtype=torch.int64))
    thresholds = torch.linspace(0.7, 0.9, 40)  # each class has its own
    calm.thresholds = thresholds
    torch.testing.assert_close(calm.thresholds, thresholds)
    torch.testing.assert_close(calm.rule().thresholds, thresholds)
    points = unit(300, 6)
    familiarity = calm.familiarity(points, calm.predict(points))
    rejected = calm.rule().decide(points).rejected
    assert 0 < rejected.sum() < 300
    assert familiarity[rejected].max() < 0 <= familiarity[~rejected].min()
    cosines = points @ calm.memory.prototypes.T
    torch.testing.assert_close(familiarity, cosines.amax(1) - thresholds[cosines.argmax(1)])


def test_its_shapes_do_not_depend_on_values(rule):
    exported = torch.export.export(rule, (unit(4, 7),), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},))
    points = unit(9, 8)
    for ours, theirs in zip(rule(points), exported.module()(points), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read as Linux has it")
def test_memory_does_not_grow_with_images_times_classes():
    """All cosines would take 192 MB; blocks that are freed but cannot be reused would add up to as much."""

    def megabytes(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))

    rule = PredictionRule(unit(4000, 0), torch.arange(4000), 4000, torch.tensor(0.1), torch.zeros(4000))
    points = unit(12_000, 1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from now on
    before = megabytes("VmRSS")
    rule.decide(points, lambda some: some)
    nearest(points, rule.prototypes)
    assert megabytes("VmHWM") - before < 64
