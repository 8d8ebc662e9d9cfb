import math

import pytest
import torch

from happycat.learning.heads import CosineClassifier, Projector, random_rows


def rows(number, dim=5, seed=0):
    return torch.randn(number, dim, generator=torch.Generator().manual_seed(seed))


def classifier(number, dim=5, seed=0):
    head = CosineClassifier(dim)
    head.grow(rows(number, dim, seed))
    return head


def test_cosines_by_a_loop():
    head, features = classifier(3), rows(4, seed=1)
    found = head(features)
    assert found.shape == (4, 3)
    for i, f in enumerate(features.tolist()):
        for c, w in enumerate(head.weight.tolist()):
            dot = sum(a * b for a, b in zip(f, w, strict=True))
            assert found[i, c].item() == pytest.approx(dot / (math.hypot(*f) * math.hypot(*w)), abs=1e-6)


def test_lengths_do_not_count():
    head, features = classifier(3), rows(4, seed=1)
    before = head(features).detach()
    torch.testing.assert_close(head(features * torch.tensor([[0.1], [1.0], [5.0], [100.0]])), before)
    with torch.no_grad():
        head.weight *= torch.tensor([[7.0], [0.2], [1.0]])
    torch.testing.assert_close(head(features), before)


def test_growing_keeps_the_old_rows_and_their_cosines():
    head, features = classifier(3), rows(4, seed=1)
    old, before = head.weight.detach().clone(), head(features).detach()
    head.grow(rows(2, seed=2))
    assert head.num_classes == 5
    assert torch.equal(head.weight[:3], old)
    assert torch.equal(head.weight[3:], rows(2, seed=2))
    torch.testing.assert_close(head(features)[:, :3], before)


def test_grown_rows_are_trained_and_old_tensors_are_not_shared():
    head, new = classifier(3), rows(2, seed=2)
    head.grow(new)
    assert [name for name, _ in head.named_parameters()] == ["weight"]
    head(rows(4, seed=1)).square().sum().backward()
    assert (head.weight.grad.abs().sum(1) > 0).all()
    with torch.no_grad():
        head.weight.zero_()
    assert torch.equal(new, rows(2, seed=2))


@pytest.mark.parametrize("size", [0, 2, 6])
def test_state_goes_into_a_head_of_another_size(size):
    head, features = classifier(4), rows(3, seed=1)
    other = classifier(size, seed=5) if size else CosineClassifier(5)
    other.load_state_dict(head.state_dict())
    assert other.num_classes == 4
    assert isinstance(other.weight, torch.nn.Parameter)
    assert other.weight.requires_grad
    assert torch.equal(other(features), head(features))
    with torch.no_grad():
        head.weight.zero_()
    assert other.weight.any()


def test_random_rows_are_those_of_a_linear_layer():
    made = random_rows(400, 16, torch.Generator().manual_seed(0), unit=False)
    assert made.shape == (400, 16)
    assert made.abs().max() <= 1 / 4  # 1/√16
    assert made.std().item() == pytest.approx(1 / 4 / math.sqrt(3), rel=0.02)
    assert made.mean().item() == pytest.approx(0, abs=0.01)
    unit = random_rows(400, 16, torch.Generator().manual_seed(0), unit=True)
    torch.testing.assert_close(unit, made / made.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("prototypes", [0, 7])
def test_projector_gives_unit_vectors(prototypes):
    projector = Projector(5, 8, 6, prototypes, torch.Generator().manual_seed(0))
    features = rows(9, seed=1).requires_grad_()
    h = projector(features)
    assert h.shape == (9, prototypes or 6)
    torch.testing.assert_close(h.norm(dim=1), torch.ones(9))
    (h @ rows(1, h.shape[1]).T).sum().backward()
    assert (features.grad.abs().sum(1) > 0).all()
    for name, parameter in projector.named_parameters():
        assert parameter.grad.abs().sum() > 0, name


def test_projector_with_prototypes_gives_unit_cosines_to_them():
    projector = Projector(5, 8, 6, 7, torch.Generator().manual_seed(0))
    h = torch.nn.functional.normalize(projector.mlp(rows(3)), dim=1)
    cosines = h @ torch.nn.functional.normalize(projector.prototypes.weight, dim=1).T
    torch.testing.assert_close(projector(rows(3)), cosines / cosines.norm(dim=1, keepdim=True))


def test_projector_starts_from_one_deviation_in_every_layer():
    projector = Projector(64, 512, 128, 0, torch.Generator().manual_seed(0))
    for name, parameter in projector.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.02)
            assert parameter.abs().max() > 0.06  # cut at ±2, not at two deviations


@pytest.mark.parametrize(("shape", "deviation"), [((768, 2048, 256), 0.02), ((64, 256, 64), 0.06)])
def test_projector_starts_with_an_output_of_about_unit_length(shape, deviation):
    """That of a ViT-B and that of the demo; a tiny one would be all bias after the first steps."""
    projector = Projector(*shape, 0, torch.Generator().manual_seed(0), deviation)
    lengths = projector.mlp(rows(8, shape[0], seed=1)).norm(dim=1)
    assert lengths.min() > 0.5
    assert lengths.max() < 3


@pytest.mark.parametrize("prototypes", [0, 7])
def test_projector_depends_on_the_generator_only(prototypes):
    first = Projector(5, 8, 6, prototypes, torch.Generator().manual_seed(1)).state_dict()
    torch.rand(3)  # the global stream has moved on
    again = Projector(5, 8, 6, prototypes, torch.Generator().manual_seed(1)).state_dict()
    other = Projector(5, 8, 6, prototypes, torch.Generator().manual_seed(2)).state_dict()
    assert set(first) == set(again)
    for name in first:
        assert torch.equal(first[name], again[name])
        assert first[name].ndim == 1 or not torch.equal(first[name], other[name])


def test_random_rows_depend_on_the_generator_only():
    first, again, other = (random_rows(3, 4, torch.Generator().manual_seed(s), unit=False) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
