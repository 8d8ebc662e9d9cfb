import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm.number import Penalty
from happycat.model import quality
from happycat.model.quality import largest_part, nearer_share, separation, two_parts

DIM, PENALTY = 64, Penalty(1.0, 0.06)


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
    pure, some, half = (separation(mixed(n, share), OTHERS, PENALTY) for share in (0.0, 0.25, 0.5))
    assert pure > 0.9
    assert pure >= some >= half
    assert half < 0.6


def test_a_cosine_to_the_fitted_direction_is_flattered_by_few_images_and_separation_is_not():
    """Of unrelated images, the fewer there are the nearer they are to their own mean."""
    unrelated = normalize(torch.randn(4, DIM, generator=torch.Generator().manual_seed(0)), dim=-1)
    assert (unrelated @ normalize(unrelated.mean(0), dim=0)).mean() > 0.4
    assert separation(unrelated, OTHERS, PENALTY) < 0.6


def test_images_that_are_nearer_to_another_class_count_against_it():
    stray = torch.cat([cloud(30, 0), cloud(3, 5, seed=9)])
    by_hand = []
    for i, image in enumerate(stray):
        own = torch.cat([stray[:i], stray[i + 1 :]]) @ image
        by_hand.append(bool(own.mean() > (OTHERS @ image).max()))
    assert by_hand == [True] * 30 + [False] * 3
    assert nearer_share(stray, OTHERS) == pytest.approx(30 / 33)


def test_classes_that_nothing_can_be_said_of():
    assert separation(cloud(1, 0), OTHERS, PENALTY) is None
    assert separation(cloud(0, 0), OTHERS, PENALTY) is None
    assert separation(cloud(2, 0, spread=0.05), OTHERS, PENALTY) == 1
    assert separation(cloud(20, 0), OTHERS[:0], PENALTY) == 1  # the only class


def test_images_that_are_all_the_same_are_one_part():
    same = cloud(1, 0).expand(20, -1)
    assert len(largest_part(same, PENALTY)) == 20


def test_losses_of_two_parts_are_what_each_image_has_of_its_own_part_and_not_of_the_other():
    images = mixed(40, 0.4)
    losses, second = two_parts(images)
    assert second.tolist() in ([False] * 24 + [True] * 16, [True] * 24 + [False] * 16)
    for loss, own in zip(losses, (~second, second), strict=True):
        by_hand = 0.0
        for i in own.nonzero()[:, 0].tolist():
            others = [j for j in own.nonzero()[:, 0].tolist() if j != i]
            alike = images[i] @ normalize(images[others].mean(0), dim=0)
            by_hand += float(alike - images[i] @ normalize(images[~own].mean(0), dim=0))
        assert loss == pytest.approx(by_hand, abs=1e-3)


def test_a_part_that_is_not_worth_its_penalty_leaves_the_class_whole():
    images = mixed(40, 0.4)
    weaker = min(two_parts(images)[0])
    assert len(largest_part(images, PENALTY._replace(component=weaker + 0.01, image=0.0))) == 40
    assert len(largest_part(images, PENALTY._replace(component=weaker - 0.01, image=0.0))) == 24


def test_a_mixture_of_three_is_divided_further():
    three = torch.cat([cloud(60, 0), cloud(40, 1), cloud(40, 2)])
    assert len(largest_part(three, PENALTY)) == 60


def test_a_large_class_is_judged_by_some_of_its_images(monkeypatch):
    monkeypatch.setattr(quality, "MOST", 60)
    assert separation(mixed(3000, 0.5), OTHERS, PENALTY) == pytest.approx(0.5, abs=0.05)
