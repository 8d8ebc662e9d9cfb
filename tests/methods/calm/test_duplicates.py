"""Near-duplicates: the cosine above which images are copies, and which images are no copy of an earlier one."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import normalize

from happycat.methods.calm import duplicates, prediction
from happycat.methods.calm.duplicates import NEVER, duplicate_cosine, first_of_copies


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clouds(number: int, each: int, dim: int = 16, noise: float = 0.2) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit points (N, d) around `number` orthogonal directions, and their classes."""
    centres = torch.linalg.qr(torch.randn(dim, dim, generator=generator()))[0][:number]
    classes = torch.arange(number).repeat_interleave(each)
    return normalize(centres[classes] + noise * torch.randn(len(classes), dim, generator=generator(1)), dim=-1), classes


@pytest.mark.parametrize("seed", range(3))
def test_copies_are_five_times_as_near_as_the_nearest_images_of_a_class(seed):
    points, labels = clouds(4, 50)
    order = torch.randperm(200, generator=generator(seed))
    points, labels = points[order], labels[order]
    nearest = []
    for i in range(200):
        others = [float(points[i] @ points[j]) for j in range(200) if j != i and labels[j] == labels[i]]
        nearest.append(max(others))
    usual = sorted(nearest)[197:199]  # 99% have less
    got = duplicate_cosine(points, labels)
    assert 1 - (1 - usual[0]) / 5 - 1e-6 <= got <= 1 - (1 - usual[1]) / 5 + 1e-6
    assert usual[1] < got < 1


def test_of_very_many_labelled_images_some_are_looked_at(monkeypatch):
    points, labels = clouds(4, 50)
    every = duplicate_cosine(points, labels)
    monkeypatch.setattr(duplicates, "MOST", 100)
    assert duplicate_cosine(points, labels) == duplicate_cosine(points[::2], labels[::2]) != every


def test_labelled_images_that_are_copies_of_each_other_say_nothing():
    points, labels = clouds(4, 20)
    assert duplicate_cosine(points.repeat(2, 1), labels.repeat(2)) == NEVER
    assert first_of_copies(points[:1].expand(5, -1), torch.zeros(5, dtype=torch.int64), NEVER).all()


def test_one_image_of_each_class_says_nothing():
    assert duplicate_cosine(torch.eye(3), torch.tensor([4, 0, 2])) == NEVER
    alone, labels = clouds(2, 10)
    with_one = torch.cat([alone, torch.eye(16)[:1]]), torch.cat([labels, torch.tensor([5])])
    assert duplicate_cosine(*with_one) == duplicate_cosine(alone, labels)


@pytest.mark.parametrize("cells", [2**21, 50])  # of cosines that are held at a time
def test_an_image_is_kept_unless_it_is_a_copy_of_an_earlier_one(monkeypatch, cells):
    monkeypatch.setattr(prediction, "CELLS", cells)
    points, nearest = clouds(4, 20, noise=0.1)
    order = torch.randperm(80, generator=generator(2))
    points, nearest = points[order], nearest[order]
    kept = first_of_copies(points, nearest, 0.9)
    by_loop = []
    for i in range(80):
        earlier = [j for j in range(i) if nearest[j] == nearest[i]]
        by_loop.append(not any(float(points[i] @ points[j]) > 0.9 for j in earlier))
    assert kept.tolist() == by_loop
    assert 10 < kept.sum() < 70


def test_of_each_image_saved_several_times_the_first_is_kept():
    points, nearest = clouds(4, 20)
    least = duplicate_cosine(points, nearest)
    saved = normalize(points.repeat(3, 1) + 1e-3 * torch.randn(240, 16, generator=generator(3)), dim=-1)
    assert first_of_copies(saved, nearest.repeat(3), least).tolist() == [True] * 80 + [False] * 160


def test_no_images():
    assert first_of_copies(torch.empty(0, 4), torch.empty(0, dtype=torch.int64), 0.9).shape == (0,)
