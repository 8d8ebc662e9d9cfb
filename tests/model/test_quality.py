import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm.number import Penalty
from happycat.model import quality
from happycat.model.quality import largest_part, nearer_share, separation, two_parts

DIM, TAU, PENALTY = 64, 0.07, Penalty(12.0, 0.18, 1.5)


def cloud(n, axis, seed=0, spread=0.18):
    """Unit vectors around an axis; the mean cosine of two is about 1 / (1 + DIM spread²)."""
    noise = spread * torch.randn(n, DIM, generator=torch.Generator().manual_seed(seed))
    return normalize(noise + torch.eye(DIM)[axis], dim=-1)


def mixed(n, share, seed=0):
    second = round(share * n)
    return torch.cat([cloud(n - second, 0, seed), cloud(second, 1, seed + 1)])


OTHERS = torch.stack([cloud(50, axis, axis).mean(0) for axis in (5, 6, 7)])


@pytest.mark.parametrize("n", [12, 40, 150])
def test_separation_falls_as_others_are_mixed_in(n):
    pure, some, half = (separation(mixed(n, share), OTHERS, TAU, PENALTY) for share in (0.0, 0.25, 0.5))
    assert pure > 0.9
    assert pure >= some >= half
    assert half < 0.6


def test_a_cosine_to_the_fitted_direction_is_flattered_by_few_images_and_separation_is_not():
    """Of unrelated images, the fewer there are the nearer they are to their own mean."""
    unrelated = normalize(torch.randn(4, DIM, generator=torch.Generator().manual_seed(0)), dim=-1)
    assert (unrelated @ normalize(unrelated.mean(0), dim=0)).mean() > 0.4
    assert separation(unrelated, OTHERS, TAU, PENALTY) < 0.6


def test_images_that_are_nearer_to_another_class_count_against_it():
    stray = torch.cat([cloud(30, 0), cloud(3, 5, seed=9)])
    by_hand = []
    for i, image in enumerate(stray):
        own = torch.cat([stray[:i], stray[i + 1 :]]) @ image
        by_hand.append(bool(own.mean() > (OTHERS @ image).max()))
    assert by_hand == [True] * 30 + [False] * 3
    assert nearer_share(stray, OTHERS) == pytest.approx(30 / 33)


def test_classes_that_nothing_can_be_said_of():
    assert separation(cloud(1, 0), OTHERS, TAU, PENALTY) is None
    assert separation(cloud(0, 0), OTHERS, TAU, PENALTY) is None
    assert separation(cloud(2, 0, spread=0.05), OTHERS, TAU, PENALTY) == 1
    assert separation(cloud(20, 0), OTHERS[:0], TAU, PENALTY) == 1  # the only class


def test_images_that_are_all_the_same_are_one_part():
    same = cloud(1, 0).expand(20, -1)
    assert len(largest_part(same, TAU, PENALTY)) == 20


def test_gain_of_two_parts_is_the_difference_of_log_likelihoods():
    images = mixed(40, 0.4)
    gain, second = two_parts(images, TAU)
    halves = (images[:24].mean(0), images[24:].mean(0))
    assert second.tolist() in ([False] * 24 + [True] * 16, [True] * 24 + [False] * 16)
    one = normalize(images.mean(0), dim=0)
    by_hand = 0.0
    for image in images:
        parts = [w * torch.exp(image @ normalize(c, dim=0) / TAU) for w, c in zip((0.6, 0.4), halves, strict=True)]
        by_hand += float(torch.log(sum(parts)) - image @ one / TAU)
    assert gain == pytest.approx(by_hand, rel=0.02)


def test_a_mixture_of_three_is_divided_further():
    three = torch.cat([cloud(60, 0), cloud(40, 1), cloud(40, 2)])
    assert len(largest_part(three, TAU, PENALTY)) == 60


def test_a_large_class_is_judged_by_some_of_its_images(monkeypatch):
    monkeypatch.setattr(quality, "MOST", 60)
    assert separation(mixed(3000, 0.5), OTHERS, TAU, PENALTY) == pytest.approx(0.5, abs=0.05)
