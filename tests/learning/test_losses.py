"""Each loss: a value by hand, a loop from its equation, an invariance, its gradient."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from happycat.learning import losses

LABELS = torch.tensor([0, 2, 0, 1, 2])
ENTROPIES = ("between", "within_old", "within_new")


def random_views(seed=0, batch=5, dim=4):
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(2, batch, dim, dtype=torch.float64, generator=generator)
    return normalize(h, dim=-1).unbind()


def random_cosines(seed=0, batch=6, classes=4):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.rand(2, batch, classes, dtype=torch.float64, generator=generator) - 1).unbind()


def random_marginal(classes=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(classes, dtype=torch.float64, generator=generator).softmax(0)


def rotation(dim, seed=9):
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(dim, dim, dtype=torch.float64, generator=generator)).Q


def dot(a, b):
    return sum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def entropy_by_loop(p):
    return sum(float(x) * math.log(float(x)) for x in p)


def softmax_by_loop(row, temperature):
    powers = [math.exp(float(x) / temperature) for x in row]
    return [power / sum(powers) for power in powers]


# info_nce


def test_info_nce_by_hand():
    # Rows e1 e2 | e1 e2: each has its partner at cosine 1 and two others at 0.
    h = torch.eye(2, dtype=torch.float64)
    assert losses.info_nce(h, h, 1.0).item() == pytest.approx(math.log(1 + 2 / math.e))
    assert losses.info_nce(h, h, 0.5).item() == pytest.approx(math.log(1 + 2 * math.exp(-2)))
    # Partners at cosine 0, and each row's copy, which is not its partner, at 1.
    assert losses.info_nce(h, h.flip(0), 1.0).item() == pytest.approx(math.log(2 + math.e))


@pytest.mark.parametrize("temperature", [0.07, 0.5, 1.0])
def test_info_nce_by_a_loop(temperature):
    first, second = random_views()
    h, batch = [*first, *second], len(first)
    total = 0.0
    for i in range(2 * batch):
        below = sum(math.exp(dot(h[i], h[n]) / temperature) for n in range(2 * batch) if n != i)
        partner = i + batch if i < batch else i - batch
        total -= math.log(math.exp(dot(h[i], h[partner]) / temperature) / below)
    assert losses.info_nce(first, second, temperature).item() == pytest.approx(total / (2 * batch))


def test_info_nce_ignores_rotation_order_of_images_and_of_views():
    first, second = random_views()
    value, q, order = losses.info_nce(first, second, 0.5), rotation(4), torch.tensor([3, 0, 4, 2, 1])
    torch.testing.assert_close(losses.info_nce(first @ q, second @ q, 0.5), value)
    torch.testing.assert_close(losses.info_nce(first[order], second[order], 0.5), value)
    torch.testing.assert_close(losses.info_nce(second, first, 0.5), value)
    assert losses.info_nce(first, second[order], 0.5) != value  # but partners must stay together


# supervised_contrast


def test_supervised_contrast_by_hand():
    h, one = torch.eye(2, dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    # One label: P(i) is the partner at cosine 1 and two rows at cosine 0.
    expected = math.log(math.e + 2) - 1 / 3
    assert losses.supervised_contrast(h, h, one, 1.0).item() == pytest.approx(expected)


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_supervised_contrast_by_a_loop(temperature):
    first, second = random_views()
    h, labels = [*first, *second], LABELS.tolist() * 2
    total = 0.0
    for i in range(len(h)):
        others = [n for n in range(len(h)) if n != i]
        below = sum(math.exp(dot(h[i], h[n]) / temperature) for n in others)
        positive = [q for q in others if labels[q] == labels[i]]
        total -= sum(math.log(math.exp(dot(h[i], h[q]) / temperature) / below) for q in positive) / len(positive)
    found = losses.supervised_contrast(first, second, LABELS, temperature)
    assert found.item() == pytest.approx(total / len(h))


def test_supervised_contrast_of_all_different_labels_is_info_nce():
    first, second = random_views()
    found = losses.supervised_contrast(first, second, torch.arange(5), 0.3)
    torch.testing.assert_close(found, losses.info_nce(first, second, 0.3))


def test_supervised_contrast_ignores_rotation_order_and_names_of_labels():
    first, second = random_views()
    value, q, order = losses.supervised_contrast(first, second, LABELS, 0.2), rotation(4), torch.tensor([3, 0, 4, 2, 1])
    torch.testing.assert_close(losses.supervised_contrast(first @ q, second @ q, LABELS, 0.2), value)
    torch.testing.assert_close(losses.supervised_contrast(first[order], second[order], LABELS[order], 0.2), value)
    torch.testing.assert_close(losses.supervised_contrast(first, second, 7 - LABELS, 0.2), value)
    assert losses.supervised_contrast(first, second, LABELS[order], 0.2) != value


@pytest.mark.parametrize(
    "contrast",
    [
        lambda a, b: losses.info_nce(a, b, 0.3),
        lambda a, b: losses.supervised_contrast(a, b, LABELS, 0.3),
    ],
)
def test_gradients_of_contrast_reach_both_views_and_are_right(contrast):
    views = [view.clone().requires_grad_() for view in random_views()]
    contrast(*views).backward()
    for view in views:
        assert view.grad.isfinite().all()
        assert (view.grad.abs().sum(1) > 0).all()
    assert torch.autograd.gradcheck(contrast, views)


# self_distillation


def test_self_distillation_by_hand():
    # Two classes, cosines log 3 apart. τ_p = 1: p = (¾, ¼). τ_t = ½: q = (9/10, 1/10). The other view is even.
    first = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
    second = torch.zeros(1, 2, dtype=torch.float64)
    first_learns = -(0.5 * math.log(0.75) + 0.5 * math.log(0.25))
    second_learns = math.log(2)
    found = losses.self_distillation(first, second, 1.0, 0.5)
    assert found.item() == pytest.approx((first_learns + second_learns) / 2)
    found = losses.self_distillation(first, first, 1.0, 0.5)
    assert found.item() == pytest.approx(-(0.9 * math.log(0.75) + 0.1 * math.log(0.25)))


def test_self_distillation_by_a_loop():
    first, second = random_cosines()
    total = 0.0
    for x, x2 in zip(first, second, strict=True):
        p, p2 = softmax_by_loop(x, 0.1), softmax_by_loop(x2, 0.1)
        q, q2 = softmax_by_loop(x, 0.05), softmax_by_loop(x2, 0.05)
        total -= sum(a * math.log(b) for a, b in zip(q2, p, strict=True))
        total -= sum(a * math.log(b) for a, b in zip(q, p2, strict=True))
    assert losses.self_distillation(first, second, 0.1, 0.05).item() == pytest.approx(total / (2 * len(first)))


def test_self_distillation_ignores_order_of_views_images_and_classes():
    first, second = random_cosines()
    value = losses.self_distillation(first, second, 0.1, 0.05)
    images, classes = torch.tensor([5, 1, 0, 2, 4, 3]), torch.tensor([2, 3, 1, 0])
    torch.testing.assert_close(losses.self_distillation(second, first, 0.1, 0.05), value)
    torch.testing.assert_close(losses.self_distillation(first[images], second[images], 0.1, 0.05), value)
    torch.testing.assert_close(losses.self_distillation(first[:, classes], second[:, classes], 0.1, 0.05), value)


def test_self_distillation_has_the_gradient_of_the_student_only():
    first, second = (view.requires_grad_() for view in random_cosines())
    losses.self_distillation(first, second, 0.1, 0.05).backward()
    # The derivative of ½ mean ℓ(q, softmax(x/τ_p)) with q constant is ½ (p − q)/(τ_p B).
    for student, teacher in ((first, second), (second, first)):
        p, q = (student.detach() / 0.1).softmax(1), (teacher.detach() / 0.05).softmax(1)
        torch.testing.assert_close(student.grad, (p - q) / (2 * 0.1 * len(first)))
        assert (student.grad != 0).any()


def test_self_distillation_is_finite_where_a_probability_vanishes():
    first = torch.tensor([[1.0, -1.0]], requires_grad=True)
    second = torch.tensor([[-1.0, 1.0]], requires_grad=True)
    value = losses.self_distillation(first, second, 1e-3, 1e-3)  # exp(−2000) is 0
    value.backward()
    assert value.item() == pytest.approx(2000)
    assert first.grad.isfinite().all()
    assert second.grad.isfinite().all()


# negative_entropy


def test_negative_entropy_by_hand_and_by_a_loop():
    p = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64)
    assert losses.negative_entropy(p, False).item() == pytest.approx(-1.5 * math.log(2))
    assert losses.negative_entropy(p, True).item() == pytest.approx(math.log(3) - 1.5 * math.log(2))
    p = random_marginal()
    assert losses.negative_entropy(p, False).item() == pytest.approx(entropy_by_loop(p))


def test_negative_entropy_ignores_order_and_is_least_at_the_even_distribution():
    p, even = random_marginal(), torch.full((7,), 1 / 7, dtype=torch.float64)
    torch.testing.assert_close(losses.negative_entropy(p.flip(0), True), losses.negative_entropy(p, True))
    assert losses.negative_entropy(even, True).item() == pytest.approx(0, abs=1e-6)
    assert losses.negative_entropy(even, False).item() == pytest.approx(-math.log(7))
    assert losses.negative_entropy(p, True) > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("constant", [False, True])
def test_negative_entropy_at_zero_probability(dtype, constant):
    p = torch.tensor([0.0, 1.0, 0.0], dtype=dtype, requires_grad=True)
    value = losses.negative_entropy(p, constant)
    value.backward()
    assert value.dtype == dtype
    assert value.item() == pytest.approx(math.log(3) if constant else 0)
    assert p.grad.isfinite().all()
    assert p.grad[0] < 0 < p.grad[1]  # downhill gives the empty classes something


def test_gradient_of_negative_entropy_is_log_p_plus_1():
    p = random_marginal().requires_grad_()
    losses.negative_entropy(p, True).backward()
    torch.testing.assert_close(p.grad, p.detach().log() + 1)


# group_entropy


def test_group_entropy_by_hand():
    marginal = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)  # 3/4 old, 1/4 new
    found = losses.group_entropy(marginal, 2, constant=False)
    assert tuple(found) == ENTROPIES
    assert found["between"].item() == pytest.approx(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found["within_old"].item() == pytest.approx(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert found["within_new"].item() == pytest.approx(-math.log(2))


@pytest.mark.parametrize("num_old", [2, 4, 5])
def test_group_entropy_by_a_loop(num_old):
    marginal = random_marginal()
    old, new = [float(p) for p in marginal[:num_old]], [float(p) for p in marginal[num_old:]]
    expected = {
        "between": entropy_by_loop([sum(old), sum(new)]),
        "within_old": entropy_by_loop([p / sum(old) for p in old]),
        "within_new": entropy_by_loop([p / sum(new) for p in new]),
    }
    constants = {"between": math.log(2), "within_old": math.log(num_old), "within_new": math.log(7 - num_old)}
    plain = losses.group_entropy(marginal, num_old, constant=False)
    shifted = losses.group_entropy(marginal, num_old, constant=True)
    for name in ENTROPIES:
        assert plain[name].item() == pytest.approx(expected[name])
        assert shifted[name].item() == pytest.approx(expected[name] + constants[name], abs=1e-6)


def test_group_entropy_with_constants_is_0_at_its_minimum_and_positive_elsewhere():
    even = torch.tensor([0.125] * 4 + [0.25] * 2, dtype=torch.float64)
    for value in losses.group_entropy(even, 4, constant=True).values():
        assert value.item() == pytest.approx(0, abs=1e-6)
    for value in losses.group_entropy(random_marginal(6), 4, constant=True).values():
        assert value > 0


@pytest.mark.parametrize("constant", [False, True])
def test_group_entropy_of_one_new_class_has_none_within(constant):
    marginal = random_marginal(4).requires_grad_()
    found = losses.group_entropy(marginal, 3, constant)
    assert found["within_new"].item() == 0
    sum(found.values()).backward()
    assert marginal.grad.isfinite().all()


def test_group_entropy_ignores_order_within_a_group_but_not_across():
    marginal = random_marginal(5)
    value = losses.group_entropy(marginal, 3, True)
    swapped = losses.group_entropy(marginal[[2, 0, 1, 4, 3]], 3, True)
    across = losses.group_entropy(marginal[[3, 1, 2, 0, 4]], 3, True)
    for name in ENTROPIES:
        torch.testing.assert_close(swapped[name], value[name])
        assert across[name] != value[name]


def test_group_entropy_within_a_group_ignores_the_size_of_its_share():
    marginal = torch.tensor([0.1, 0.3, 0.2, 0.4], dtype=torch.float64)
    other = torch.tensor([0.2, 0.6, 0.2 / 3, 0.4 / 3], dtype=torch.float64)
    found, expected = (losses.group_entropy(m, 2, False) for m in (other, marginal))
    torch.testing.assert_close(found["within_old"], expected["within_old"])
    torch.testing.assert_close(found["within_new"], expected["within_new"])
    assert found["between"] != expected["between"]


def test_group_entropy_within_a_group_of_tiny_mass():
    new = torch.tensor([0.7e-8, 0.3e-8])  # log 2 + 0.7 log 0.7 + 0.3 log 0.3, whatever their sum
    marginal = torch.cat([torch.tensor([0.5, 0.5]), new]).requires_grad_()
    found = losses.group_entropy(marginal, 2, constant=True)["within_new"]
    assert found.item() == pytest.approx(0.0823, abs=1e-4)
    found.backward()
    assert marginal.grad.isfinite().all()


def test_gradients_of_group_entropy():
    marginal = random_marginal(6).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: tuple(losses.group_entropy(p, 4, True).values()), (marginal,))
    (gradient,) = torch.autograd.grad(losses.group_entropy(marginal, 4, True)["within_new"], marginal)
    assert (gradient[:4] == 0).all()
    assert (gradient[4:] != 0).all()


@pytest.mark.parametrize(
    "marginal", [[0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_group_entropy_at_zero_probability(marginal, dtype):
    marginal = torch.tensor(marginal, dtype=dtype, requires_grad=True)
    found = losses.group_entropy(marginal, 2, True)
    assert all(value.isfinite() for value in found.values())
    sum(found.values()).backward()
    assert marginal.grad.isfinite().all()


# feature_distillation


def test_feature_distillation_by_hand():
    features = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 4.0]], dtype=torch.float64)
    before = torch.tensor([[5.0, 0.0], [0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    assert losses.feature_distillation(features, before).item() == pytest.approx((0 + 2 + 0.4) / 3)


def test_feature_distillation_by_a_loop():
    features, before = random_cosines()
    total = 0.0
    for a, b in zip(features, before, strict=True):
        total += 1 - dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))
    assert losses.feature_distillation(features, before).item() == pytest.approx(total / len(features))


def test_feature_distillation_ignores_rotation_length_and_order():
    features, before = random_cosines()
    value, q, order = losses.feature_distillation(features, before), rotation(4), torch.tensor([5, 1, 0, 2, 4, 3])
    torch.testing.assert_close(losses.feature_distillation(features @ q, before @ q), value)
    torch.testing.assert_close(losses.feature_distillation(7 * features, 0.1 * before), value)
    torch.testing.assert_close(losses.feature_distillation(features[order], before[order]), value)
    assert losses.feature_distillation(features, before[order]) != value


def test_feature_distillation_is_half_the_squared_distance_of_unit_features():
    features, before = random_cosines()
    distance = (normalize(features, dim=1) - normalize(before, dim=1)).square().sum(1).mean()
    torch.testing.assert_close(losses.feature_distillation(features, before), distance / 2)


def test_gradients_of_feature_distillation():
    features, before = random_cosines()
    features.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: losses.feature_distillation(x, before), (features,))
    losses.feature_distillation(features, before).backward()
    assert (features.grad.abs().sum(1) > 0).all()
    assert before.grad is None
    zero = torch.zeros(1, 4, requires_grad=True)  # no direction at all
    losses.feature_distillation(zero, torch.ones(1, 4)).backward()
    assert zero.grad.isfinite().all()


# prior_between


def test_prior_between_by_hand():
    marginal = torch.tensor([0.5, 0.25, 0.125, 0.125], dtype=torch.float64)  # 3/4 old, 1/4 new
    found = losses.prior_between(marginal, 2, 0.6)
    assert found.item() == pytest.approx(-0.4 * math.log(0.75) - 0.6 * math.log(0.25))
    assert losses.prior_between(marginal, 2, 0.0).item() == pytest.approx(-math.log(0.75))
    assert losses.prior_between(marginal, 2, 1.0).item() == pytest.approx(-math.log(0.25))


@pytest.mark.parametrize("num_old", [1, 4, 6])
def test_prior_between_by_a_loop(num_old):
    marginal, old, new = random_marginal(), 0.0, 0.0
    for c, p in enumerate(marginal.tolist()):
        old, new = (old + p, new) if c < num_old else (old, new + p)
    expected = -(0.7 * math.log(old) + 0.3 * math.log(new))
    assert losses.prior_between(marginal, num_old, 0.3).item() == pytest.approx(expected)


def test_prior_between_ignores_the_shares_within_a_group_and_is_least_at_the_prior():
    marginal = torch.tensor([0.1, 0.3, 0.2, 0.4], dtype=torch.float64)
    value = losses.prior_between(marginal, 2, 0.6)
    torch.testing.assert_close(losses.prior_between(marginal[[1, 0, 3, 2]], 2, 0.6), value)
    torch.testing.assert_close(losses.prior_between(marginal.new_tensor([0.4, 0, 0, 0.6]), 2, 0.6), value)
    for other in ([0.2, 0.3, 0.2, 0.3], [0.1, 0.2, 0.3, 0.4]):
        assert losses.prior_between(marginal.new_tensor(other), 2, 0.6) > value


def test_gradient_of_prior_between_is_minus_the_share_over_the_mass():
    marginal = torch.tensor([0.1, 0.3, 0.2, 0.4], dtype=torch.float64, requires_grad=True)
    losses.prior_between(marginal, 2, 0.3).backward()
    torch.testing.assert_close(marginal.grad, marginal.new_tensor([-0.7 / 0.4] * 2 + [-0.3 / 0.6] * 2))


@pytest.mark.parametrize("marginal", [[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_prior_between_at_zero_probability(marginal, dtype):
    marginal = torch.tensor(marginal, dtype=dtype, requires_grad=True)
    value = losses.prior_between(marginal, 2, 0.3)
    value.backward()
    assert value.isfinite()
    assert value > 0
    assert marginal.grad.isfinite().all()
    assert (marginal.grad[marginal.detach() > 0] < 0).all()


# logit_distillation


def test_logit_distillation_by_hand():
    then = torch.tensor([[math.log(3), 0.0], [0.0, 0.0]], dtype=torch.float64)  # (¾, ¼) and even
    now = torch.tensor([[0.0, 0.0], [math.log(9), 0.0]], dtype=torch.float64)  # even and (9/10, 1/10)
    second = -(0.5 * math.log(0.9) + 0.5 * math.log(0.1))
    assert losses.logit_distillation(now, then).item() == pytest.approx((math.log(2) + second) / 2)


def test_logit_distillation_by_a_loop():
    now, then = random_cosines()
    total = 0.0
    for a, b in zip(then, now, strict=True):
        total -= sum(q * math.log(p) for q, p in zip(softmax_by_loop(a, 1), softmax_by_loop(b, 1), strict=True))
    assert losses.logit_distillation(now, then).item() == pytest.approx(total / len(now))


def test_logit_distillation_ignores_order_and_a_shift_of_the_logits_and_is_least_where_they_agree():
    now, then = random_cosines()
    value, images, classes = losses.logit_distillation(now, then), torch.tensor([5, 1, 0, 2, 4, 3]), [2, 3, 1, 0]
    torch.testing.assert_close(losses.logit_distillation(now[images], then[images]), value)
    torch.testing.assert_close(losses.logit_distillation(now[:, classes], then[:, classes]), value)
    torch.testing.assert_close(losses.logit_distillation(now + 3, then - torch.arange(6.0)[:, None]), value)
    assert losses.logit_distillation(then, then) < value
    assert losses.logit_distillation(now, then[images]) != value


def test_logit_distillation_has_a_gradient_for_the_student_only():
    now, then = (view.requires_grad_() for view in random_cosines())
    losses.logit_distillation(now, then).backward()
    torch.testing.assert_close(now.grad, (now.detach().softmax(1) - then.detach().softmax(1)) / len(now))
    assert then.grad is None


def test_logit_distillation_is_finite_where_a_probability_vanishes():
    now = torch.tensor([[1000.0, -1000.0]], requires_grad=True)
    value = losses.logit_distillation(now, -now.detach())
    value.backward()
    assert value.item() == pytest.approx(2000)
    torch.testing.assert_close(now.grad, torch.tensor([[1.0, -1.0]]))


# pair_agreement


def random_pairs(seed=0, batch=6, classes=4):
    """Two views' probabilities, and which images are alike."""
    first, second = random_cosines(seed, batch, classes)
    labels = torch.arange(batch) % 3
    return (3 * first).softmax(1), (3 * second).softmax(1), labels[:, None] == labels


def test_pair_agreement_by_hand():
    first = torch.tensor([[1.0, 0.0], [0.5, 0.5]], dtype=torch.float64)
    second = torch.tensor([[0.75, 0.25], [0.25, 0.75]], dtype=torch.float64)
    alike = torch.tensor([[True, False], [False, True]])
    # The same class: ¾ and ¼ for the first image, ½ and ½ for the second.
    expected = -(math.log(0.75) + math.log(0.75) + math.log(0.5) + math.log(0.5)) / 4
    assert losses.pair_agreement(first, second, alike).item() == pytest.approx(expected)
    expected = -(math.log(0.25) + math.log(0.25) + math.log(0.5) + math.log(0.5)) / 4
    assert losses.pair_agreement(first, second, ~alike).item() == pytest.approx(expected)


def test_pair_agreement_by_a_loop():
    first, second, alike = random_pairs()
    total = 0.0
    for i in range(len(first)):
        for j in range(len(second)):
            same = dot(first[i], second[j])
            total -= math.log(same) if alike[i, j] else math.log(1 - same)
    assert losses.pair_agreement(first, second, alike).item() == pytest.approx(total / len(first) ** 2)


def test_pair_agreement_ignores_order_of_images_classes_and_of_views():
    first, second, alike = random_pairs()
    value, images, classes = losses.pair_agreement(first, second, alike), torch.tensor([5, 1, 0, 2, 4, 3]), [2, 3, 1, 0]
    found = losses.pair_agreement(first[images], second[images], alike[images][:, images])
    torch.testing.assert_close(found, value)
    torch.testing.assert_close(losses.pair_agreement(first[:, classes], second[:, classes], alike), value)
    torch.testing.assert_close(losses.pair_agreement(second, first, alike.T), value)
    assert losses.pair_agreement(first, second, alike[images]) != value


def test_gradients_of_pair_agreement():
    first, second, alike = random_pairs()
    views = [first.requires_grad_(), second.requires_grad_()]
    assert torch.autograd.gradcheck(lambda a, b: losses.pair_agreement(a, b, alike), views)
    losses.pair_agreement(*views, alike).backward()
    assert all((view.grad.abs().sum(1) > 0).all() for view in views)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_pair_agreement_of_certain_answers(dtype):
    certain = torch.eye(2, dtype=dtype)
    right = losses.pair_agreement(certain, certain, torch.eye(2, dtype=torch.bool))
    assert right.item() == pytest.approx(0, abs=1e-6)
    wrong = certain.clone().requires_grad_()
    value = losses.pair_agreement(wrong, certain, ~torch.eye(2, dtype=torch.bool))
    value.backward()
    assert value.isfinite()
    assert value > 10
    assert wrong.grad.isfinite().all()


def test_pair_agreement_where_rounding_gives_more_than_all():
    rounded = torch.tensor([[1 + 3e-7]], requires_grad=True)
    value = losses.pair_agreement(rounded, rounded.detach(), torch.tensor([[False]]))
    value.backward()
    assert value.isfinite()
    assert rounded.grad.isfinite().all()


# neighbour_contrast


def neighbours_by_loop(first, second, similarity, temperature):
    """The loss from its equation, pair by pair, with a gradient but for that of the weights."""
    views, images = (first, second), range(len(first))
    largest = [[max((a[i] @ b[j]).item() for a in views for b in views) for j in images] for i in images]
    near = [[j for j in images if j == i or largest[i][j] >= similarity] for i in images]
    kept = [i for i in images if len(near[i]) > 1]
    rows = [(i, view[i]) for view in views for i in kept]
    total = 0.0
    for n, (i, h) in enumerate(rows):
        others = [row for m, row in enumerate(rows) if m != n]
        below = sum((h @ other / temperature).exp() for _, other in others)
        powers = {j: math.exp(largest[i][j]) for j in near[i]}
        weights = {j: power / max(powers.values()) for j, power in powers.items()}  # the softmax's sum cancels
        positive = [(j, q) for j, q in others if j in near[i]]
        total -= sum(weights[j] * ((h @ q / temperature).exp() / below).log() for j, q in positive) / len(positive)
    return total / len(rows), kept


def test_neighbour_contrast_by_hand():
    # Images 0 and 1 are neighbours at cosine ½, image 2 has none: its views are nowhere in the sum.
    h = torch.tensor([[1.0, 0.0], [0.5, math.sqrt(0.75)], [-1.0, 0.0]], dtype=torch.float64)
    below = math.log(math.e + 2 * math.exp(0.5))  # one's other view at 1, two views of the neighbour at ½
    expected = -(1 - below + 2 * math.exp(0.5 - 1) * (0.5 - below)) / 3
    assert losses.neighbour_contrast(h, h, 0.4, 1.0).item() == pytest.approx(expected)


def test_neighbour_contrast_takes_the_most_similar_views_of_two_images():
    first, second = torch.eye(4, dtype=torch.float64)[:2], torch.eye(4, dtype=torch.float64)[[2, 0]]
    # Only the second view of image 1 and the first of image 0 are alike; that makes them neighbours of weight 1.
    alike, alone = 1 - 3 * math.log(2 + math.e), -3 * math.log(3)  # a row's sum over the three others
    expected = -(2 * alike + 2 * alone) / 3 / 4
    assert losses.neighbour_contrast(first, second, 0.9, 1.0).item() == pytest.approx(expected)


@pytest.mark.parametrize("temperature", [0.07, 1.0])
@pytest.mark.parametrize(("similarity", "number"), [(-1.0, 8), (0.6, 7), (0.85, 4)])
def test_neighbour_contrast_and_its_gradient_by_a_loop(similarity, number, temperature):
    views = [view.requires_grad_() for view in random_views(batch=8)]
    expected, kept = neighbours_by_loop(*views, similarity, temperature)
    assert len(kept) == number
    found = losses.neighbour_contrast(*views, similarity, temperature)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value, views) for value in (found, expected)]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs)
        assert (mine.abs().sum(1) > 0).tolist() == [i in kept for i in range(8)]


def test_neighbour_contrast_ignores_rotation_order_of_images_and_of_views():
    first, second = random_views(batch=8)
    value, q, order = losses.neighbour_contrast(first, second, 0.85, 0.2), rotation(4), [3, 0, 4, 7, 2, 1, 6, 5]
    torch.testing.assert_close(losses.neighbour_contrast(first @ q, second @ q, 0.85, 0.2), value)
    torch.testing.assert_close(losses.neighbour_contrast(first[order], second[order], 0.85, 0.2), value)
    torch.testing.assert_close(losses.neighbour_contrast(second, first, 0.85, 0.2), value)


def test_neighbour_contrast_without_neighbours_is_none():
    h = torch.eye(3)
    assert losses.neighbour_contrast(h, h, 0.5, 0.07) is None
    assert losses.neighbour_contrast(h[:1], h[:1], 0.5, 0.07) is None
    assert losses.neighbour_contrast(h, h, 0.0, 0.07) is not None  # a cosine of exactly the threshold is enough


def test_neighbour_contrast_is_finite_where_a_share_vanishes():
    h = torch.tensor([[1.0, 0.0], [-1.0, 0.0]], requires_grad=True)
    value = losses.neighbour_contrast(h, h.detach(), -1.0, 1e-3)  # exp(−2000) is 0
    value.backward()
    assert value.isfinite()
    assert h.grad.isfinite().all()


def test_no_loss_changes_its_inputs():
    first, second = random_views()
    copies, marginal = (first.clone(), second.clone()), random_marginal()
    losses.info_nce(first, second, 0.1)
    losses.supervised_contrast(first, second, LABELS, 0.1)
    losses.self_distillation(first, second, 0.1, 0.05)
    losses.feature_distillation(first, second)
    losses.logit_distillation(first, second)
    losses.pair_agreement(first, second, LABELS[:, None] == LABELS)
    losses.neighbour_contrast(first, second, 0.0, 0.1)
    losses.group_entropy(marginal, 3, True)
    losses.prior_between(marginal, 3, 0.5)
    assert torch.equal(first, copies[0])
    assert torch.equal(second, copies[1])
    assert torch.equal(marginal, random_marginal())
