"""The whitened space: what it does to labelled features, and that it can be stored."""

from __future__ import annotations

import torch

from happycat.methods.calm.space import Scatter, Space


def features(seed: int = 0):
    """Three classes with a scatter that is far from round."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(3).repeat_interleave(200)
    stretch = torch.tensor([5.0, 1.0, 0.2, 0.1])
    centres = torch.randn(3, 4, generator=generator)
    return centres[labels] + stretch * torch.randn(600, 4, generator=generator), labels


def test_within_class_covariance_is_the_unit_matrix():
    x, labels = features()
    mean, projection = Scatter(x, labels).space(4, 0.0)
    z = (x - mean) @ projection
    rest = torch.cat([z[labels == c] - z[labels == c].mean(0) for c in range(3)])
    torch.testing.assert_close(rest.T @ rest / (600 - 3), torch.eye(4), rtol=1e-3, atol=1e-3)


def test_full_shrinkage_only_turns_and_scales():
    x, labels = features()
    _, projection = Scatter(x, labels).space(4, 1.0)
    square = projection.T @ projection
    torch.testing.assert_close(square, square[0, 0] * torch.eye(4), rtol=1e-4, atol=1e-5)


def test_the_first_directions_vary_most():
    x, labels = features()
    scatter = Scatter(x, labels)
    spread = ((x - scatter.mean) @ scatter.basis).var(0)
    assert (spread.diff() <= 1e-4).all()
    assert scatter.space(2, 0.3)[1].shape == (4, 2)


def test_labels_may_have_any_numbers():
    x, labels = features()
    torch.testing.assert_close(Scatter(x, labels * 7 + 2).within, Scatter(x, labels).within)


def test_points_have_unit_length_and_the_state_holds_the_space():
    x, labels = features()
    space = Space(4)
    space.set(*Scatter(x, labels).space(3, 0.3))
    other = Space(4)
    other.load_state_dict(space.state_dict())
    torch.testing.assert_close(space(x).norm(dim=1), torch.ones(600))
    assert torch.equal(space(x), other(x))
    assert space(x.view(200, 3, 4)).shape == (200, 3, 3)
