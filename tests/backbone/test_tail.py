"""The tail against timm's own last block and final norm, in values and in gradients."""

import copy

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

from happycat.backbone import tail as tail_module
from happycat.backbone.tail import Tail, attentive_mean
from happycat.backbone.trunk import Rows, Tokens, Trunk
from happycat.backbone.weights import check_model

SMALL = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 3, "num_heads": 4, "num_classes": 0}
SHAPES = {
    "dino": {},
    "dinov2 with registers": {"init_values": 1e-5, "reg_tokens": 4, "no_embed_class": True},
    "clip": {"pre_norm": True, "act_layer": "quick_gelu", "final_norm": True},
    "no qkv bias": {"qkv_bias": False},
}
MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)


def random_model(shape):
    """A small ViT in which no parameter is trivially 0 or 1."""
    model = VisionTransformer(**SMALL, **SHAPES[shape]).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "gamma" in name or ("norm" in name and name.endswith("weight")):
                p.copy_(1 + 0.4 * noise)
            elif p.ndim == 1:
                p.copy_(0.4 * noise)
            else:
                p.copy_(1.5 * noise / p[0].numel() ** 0.5)
    return model


def random_views(number=5):
    generator = torch.Generator().manual_seed(1)
    return torch.randint(256, (number, 3, 32, 32), dtype=torch.uint8, generator=generator)


def cut(model, precision=torch.float32):
    tail = Tail(model)
    return Trunk(copy.deepcopy(model), "small", MEAN, STD, precision), tail


def by_timm(model, views):
    """The class token's features from the whole model, with its last block trained."""
    model.requires_grad_(False)
    model.blocks[-1].requires_grad_(True)
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in (MEAN, STD))
    return model.forward_features((views / 255 - mean) / std)[:, 0]


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_every_gradient_are_timms(shape):
    model, views = random_model(shape), random_views()
    check_model(model, shape)
    trunk, tail = cut(model)
    expected = by_timm(model, views)
    found = tail(trunk(views))
    assert found.shape == (5, 48)
    assert found.std() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

    direction = torch.randn(found.shape, generator=torch.Generator().manual_seed(2))
    (found * direction).sum().backward()
    (expected * direction).sum().backward()
    own = dict(tail.block.named_parameters())
    assert len(own) == len(list(model.blocks[-1].parameters()))
    for name, theirs in model.blocks[-1].named_parameters():
        gradient, reference = own[name].grad, theirs.grad
        scale = reference.abs().max()
        assert scale > 1e-2, name
        difference = (gradient - reference).abs().max() / scale
        assert difference < 1e-5, f"{name}: {difference}"


@pytest.mark.parametrize("shape", SHAPES)
def test_without_its_parts_the_reference_would_differ(shape):
    """Guards the test above: each parameter of the block shapes the features."""
    model, views = random_model(shape), random_views(2)
    trunk, tail = cut(model)
    tokens = trunk(views)
    expected = tail(tokens)
    for name, p in tail.named_parameters():
        kept = p.detach().clone()
        with torch.no_grad():
            p.mul_(0.5)
            if name == "block.attn.qkv.bias":  # the key's part, a third, cancels; the others must show
                p[48:96] = kept[48:96]
            assert (tail(tokens) - expected).abs().max() > 1e-3, name
            p.copy_(kept)


def test_the_bias_of_the_keys_cancels():
    model, views = random_model("dino"), random_views(2)
    trunk, tail = cut(model)
    before = tail(trunk(views)).detach()
    with torch.no_grad():
        model.blocks[-1].attn.qkv.bias[48:96] += 3
    torch.testing.assert_close(by_timm(model, views), before, atol=1e-5, rtol=1e-5)


def test_the_final_norm_is_frozen_and_the_block_is_not():
    model = random_model("dino")
    trunk, tail = cut(model)
    tail(trunk(random_views())).square().sum().backward()
    assert all(p.grad is None and not p.requires_grad for p in tail.norm.parameters())
    assert all(p.requires_grad for p in tail.block.parameters())
    assert all(p.grad is None and not p.requires_grad for p in trunk.parameters())


def test_the_tail_is_a_copy():
    model = random_model("dino")
    tail = Tail(model)
    with torch.no_grad():
        model.blocks[-1].mlp.fc1.weight.zero_()
        model.norm.weight.zero_()
    assert tail.block.mlp.fc1.weight.any()
    assert tail.norm.weight.any()
    assert model.norm.weight.requires_grad  # freezing the copy left the model alone


@pytest.mark.parametrize("shape", SHAPES)
def test_bf16_tokens_are_close_to_fp32_tokens(shape):
    trunk, tail = cut(random_model(shape))
    tokens = trunk(random_views())
    exact = tail(tokens)
    rounded = tail(Tokens(tokens.normalised.bfloat16(), tokens.cls.bfloat16()))
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).norm() / exact.norm() < 2e-2


@pytest.mark.parametrize("shape", SHAPES)
def test_only_the_class_token_enters_raw(shape):
    """The order of the other tokens says nothing to the last block."""
    trunk, tail = cut(random_model(shape))
    tokens = trunk(random_views(2))
    others = torch.randperm(tokens.normalised.shape[1] - 1, generator=torch.Generator().manual_seed(0)) + 1
    shuffled = tokens.normalised[:, torch.cat([torch.zeros(1, dtype=torch.int64), others])]
    torch.testing.assert_close(tail(Tokens(shuffled, tokens.cls)), tail(tokens), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_pooling_in_pieces_is_pooling(monkeypatch, rows, kind):
    """Seven views in pieces of so many, against plain operations on all at once (which a trunk in training takes)."""
    monkeypatch.setattr(tail_module, "CHUNK", rows * 5 * 8)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(7, 5, 8, generator=generator).to(kind)
    probe = torch.randn(3, 7, 8, generator=generator).transpose(0, 1)
    direction = torch.randn(7, 3, 8, generator=generator)
    found = []
    for trained in (False, True):
        p, x = probe.clone().requires_grad_(), tokens.clone().requires_grad_(trained)
        mean = attentive_mean(p, x)
        (mean * direction).sum().backward()
        assert (x.grad is not None) == trained
        found.append((mean.detach(), p.grad))
    torch.testing.assert_close(found[0][0], found[1][0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], atol=1e-6, rtol=1e-5)


def test_a_trunk_in_training_gets_its_gradient():
    """The plain path: gradients with respect to the tokens are those of timm's whole block."""
    model, views = random_model("dino"), random_views()
    trunk, tail = cut(model)
    trunk.thaw()
    direction = torch.randn(5, 48, generator=torch.Generator().manual_seed(2))
    (tail(trunk(views)) * direction).sum().backward()
    mean, std = (torch.tensor(x).view(3, 1, 1) for x in (MEAN, STD))
    whole = model.requires_grad_(True).forward_features((views / 255 - mean) / std)[:, 0]
    (whole * direction).sum().backward()
    reference = model.blocks[1].mlp.fc1.weight.grad
    difference = trunk.model.blocks[1].mlp.fc1.weight.grad - reference
    assert difference.abs().max() < 1e-4 * reference.abs().max()


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100])
def test_tokens_that_lie_here_and_there_are_tokens(monkeypatch, rows):
    """What the tail makes of views that lie in several places, and its gradients, are those of one tensor of them."""
    monkeypatch.setattr(tail_module, "CHUNK", rows * 5 * 48)
    trunk, tail = cut(random_model("dino"))
    together = trunk(random_views()).rounded()
    apart = Tokens(Rows([view.clone() for view in together.normalised]), together.cls)
    assert apart.normalised.shape == together.normalised.shape
    found = []
    for tokens in (together, apart):
        tail.zero_grad()
        features = tail(tokens)
        features.square().sum().backward()
        found.append([features.detach(), *(p.grad.clone() for p in tail.parameters() if p.grad is not None)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_rows_stay_where_they_lie_unless_another_device_wants_them():
    views = torch.arange(24.0).view(2, 3, 4).bfloat16()
    rows = Rows(list(views))
    assert rows.to(torch.device("cpu")) is rows
    assert rows.to(torch.device("meta")).shape == (2, 3, 4)
    rows.touch()
    assert torch.equal(rows[1:].float(), views[1:].float())
    assert torch.equal(rows.first(), views[:, 0])
