import copy
import os
import pickle

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer

from happycat.backbone import trunk as trunk_module
from happycat.backbone.config import fast_precision
from happycat.backbone.scratch import initialise, scratch_model
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.weights import check_model, load_model, read_weights
from happycat.base import products
from happycat.base.errors import HappycatError, InputError, WeightsError

SMALL = {"img_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 0}
HALF = (0.5, 0.5, 0.5)
TINY = "vit_tiny_patch16_224"


def small(**changes):
    torch.manual_seed(0)
    return VisionTransformer(**{**SMALL, **changes}).eval()


def trunk_of(model, name="small", mean=HALF, std=HALF, precision=torch.float32):
    return Trunk(copy.deepcopy(model), name, mean, std, precision)


def views(number=3, size=16):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (number, 3, size, size), dtype=torch.uint8, generator=generator)


def assert_one_line(error):
    assert isinstance(error, HappycatError)
    assert "\n" not in str(error)


@pytest.fixture(scope="module")
def tiny():
    """A tiny ViT for 64 pixels, and its state."""
    torch.manual_seed(0)
    return timm.create_model(TINY, pretrained=False, num_classes=0, img_size=64)


@pytest.fixture
def tiny_file(tiny, tmp_path):
    path = tmp_path / "tiny.pth"
    torch.save(tiny.state_dict(), path)
    return path


# Tokens


@pytest.mark.parametrize("size", [16, 64])
def test_large_work_has_its_products_by_onednn_and_plain_attention_of_few_tokens(monkeypatch, size):
    monkeypatch.setattr(products, "_are_faster", lambda: True)
    monkeypatch.setattr(trunk_module, "UNFUSED_TOKENS", {torch.float32: 5})
    model = small(embed_dim=384, depth=3, num_heads=6, img_size=size)
    trunk, allowed = trunk_of(model), []
    monkeypatch.setattr(trunk.model, "forward_features", lambda pixels, own=trunk.model.forward_features: (
        allowed.append(torch.backends.mkldnn.matmul.fp32_precision), own(pixels))[1])  # fmt: skip
    tokens = trunk(views(size=size))
    assert allowed == ["bf16"]
    assert [block.attn.fused_attn for block in trunk.model.blocks] == [size == 64] * 2
    monkeypatch.setattr(products, "_are_faster", lambda: False)
    plain = trunk(views(size=size))
    assert [block.attn.fused_attn for block in trunk.model.blocks] == [True] * 2
    torch.testing.assert_close(tokens.cls, plain.cls, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(tokens.normalised, plain.normalised, atol=1e-5, rtol=1e-5)


def test_tokens_are_those_before_the_last_block():
    model = small(reg_tokens=2)
    trunk = trunk_of(model, mean=(0.1, 0.5, 0.9), std=(0.2, 0.3, 0.4))
    found = trunk(views())
    mean, std = torch.tensor([0.1, 0.5, 0.9]).view(3, 1, 1), torch.tensor([0.2, 0.3, 0.4]).view(3, 1, 1)
    caught = []
    model.blocks[-1].register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    model((views() / 255 - mean) / std)
    x = caught[0]
    assert x.shape == (3, trunk.num_tokens, trunk.dim) == (3, 4 + 1 + 2, 16)
    torch.testing.assert_close(found.cls, x[:, 0])
    expected = (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(found.normalised, expected)


def test_a_trunk_in_bf16_gives_close_fp32_tokens():
    model = small()
    exact, rough = trunk_of(model)(views()), trunk_of(model, precision=torch.bfloat16)(views())
    assert rough.normalised.dtype == rough.cls.dtype == torch.float32
    assert 0 < (rough.normalised - exact.normalised).norm() / exact.normalised.norm() < 3e-2


def test_thawed_and_frozen_again():
    trunk = trunk_of(small(), precision=torch.bfloat16)
    assert not any(p.requires_grad for p in trunk.parameters())
    trunk.thaw()
    assert {p.dtype for p in trunk.parameters()} == {torch.float32}
    trunk(views()).cls.sum().backward()
    assert trunk.model.patch_embed.proj.weight.grad.abs().sum() > 0
    trunk.freeze()
    assert {p.dtype for p in trunk.parameters()} == {torch.bfloat16}
    assert not trunk(views()).cls.requires_grad


def test_tokens_move_together():
    tokens = Tokens(torch.ones(2, 3, 4), torch.ones(2, 4)).to(torch.device("meta"))
    assert tokens.normalised.device.type == tokens.cls.device.type == "meta"


# Fingerprint


def test_fingerprint_is_stable():
    first = trunk_of(small()).fingerprint()
    trunk = trunk_of(small())
    trunk(views())
    assert trunk.fingerprint() == first
    assert len(first) == 16
    int(first, 16)


def test_fingerprint_knows_every_weight():
    model = small()
    first = trunk_of(model).fingerprint()
    names = [name for name, _ in model.named_parameters() if not name.startswith(("blocks.1.", "norm."))]
    assert len(names) > 10
    for name in names:
        other = copy.deepcopy(model)
        with torch.no_grad():
            other.get_parameter(name).view(-1)[-1] += 1e-3
        assert trunk_of(other).fingerprint() != first, name


def test_fingerprint_leaves_out_what_comes_after_the_trunk():
    model = small()
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.blocks[-1].mlp.fc1.weight += 1
        other.norm.weight += 1
    assert trunk_of(other).fingerprint() == trunk_of(model).fingerprint()


def test_fingerprint_knows_size_precision_name_and_pixel_scale():
    model, larger = small(pos_embed="none"), small(pos_embed="none", img_size=32)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), larger.parameters(), strict=True))
    found = [
        trunk_of(model).fingerprint(),
        trunk_of(larger).fingerprint(),
        trunk_of(model, precision=torch.bfloat16).fingerprint(),
        trunk_of(model, name="other").fingerprint(),
        trunk_of(model, mean=(0.5, 0.5, 0.4)).fingerprint(),
        trunk_of(model, std=(0.5, 0.5, 0.4)).fingerprint(),
    ]
    assert len(set(found)) == len(found)


# check_model


@pytest.mark.parametrize(
    "changes", [{}, {"reg_tokens": 4, "init_values": 1e-5}, {"pre_norm": True, "act_layer": "quick_gelu"}]
)
def test_plain_vits_are_accepted(changes):
    check_model(small(**changes), "small")


@pytest.mark.parametrize(
    "changes",
    [
        {"global_pool": "avg", "class_token": False},
        {"global_pool": "avg"},
        {"qk_norm": True},
        {"final_norm": False},
        {"norm_layer": "rmsnorm"},
        {"block_fn": timm.models.vision_transformer.ParallelScalingBlock},
        {"block_fn": timm.models.vision_transformer.ResPostBlock},
        {"scale_attn_norm": True},
    ],
    ids=str,
)
def test_vits_whose_last_block_is_not_the_tails_are_refused(changes):
    with pytest.raises(InputError, match=r"backbone small has .*calm and kmeans take it") as caught:
        check_model(small(**changes), "small")
    assert_one_line(caught.value)


def test_a_network_that_is_no_vit_is_refused():
    with pytest.raises(InputError, match="resnet18 has no class token"):
        check_model(timm.create_model("resnet18", pretrained=False), "resnet18")


# read_weights


class Evil:
    """Makes a folder when it is unpickled carelessly."""

    def __init__(self, flag):
        self.flag = flag

    def __reduce__(self):
        return os.mkdir, (str(self.flag),)


def test_no_weights_file(tmp_path):
    with pytest.raises(WeightsError, match=r"there is no weights file .*none\.pth"):
        read_weights(tmp_path / "none.pth")
    with pytest.raises(WeightsError, match="there is no weights file"):
        read_weights(tmp_path)  # a folder


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
@pytest.mark.parametrize("content", [b"", b"\x00", b"not weights at all\n" * 40, b"PK\x03\x04 no zip", b"\x80\x02."])
def test_garbage_is_not_weights(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=name) as caught:
        read_weights(path)
    assert_one_line(caught.value)


@pytest.mark.parametrize("plain_pickle", [False, True])
def test_a_pickle_is_not_executed(tmp_path, plain_pickle):
    flag, path = tmp_path / "executed", tmp_path / "evil.pth"
    content = {"weight": torch.zeros(2), "evil": Evil(flag)}
    if plain_pickle:
        path.write_bytes(pickle.dumps(content, protocol=2))
    else:
        torch.save(content, path)
    with pytest.raises(WeightsError, match=r"evil\.pth") as caught:
        read_weights(path)
    assert not flag.exists()
    assert_one_line(caught.value)
    # It was a real trap: a careless reader springs it.
    if plain_pickle:
        pickle.loads(path.read_bytes())
    else:
        torch.load(path, weights_only=False)
    assert flag.exists()


@pytest.mark.parametrize(
    "content", [[torch.zeros(2)], torch.zeros(2), {"a": 1}, {"state_dict": {"a": "b"}}, {0: torch.zeros(2)}], ids=str
)
def test_what_is_not_a_state_dict_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "odd.pth")
    with pytest.raises(WeightsError, match=r"odd\.pth is not a plain state dict") as caught:
        read_weights(tmp_path / "odd.pth")
    assert_one_line(caught.value)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": state},
        lambda state: {"teacher": state, "student": {}},
        lambda state: {"state_dict": {f"module.{name}": value for name, value in state.items()}},
        lambda state: {f"module.backbone.{name}": value for name, value in state.items()},
        lambda state: {f"backbone.{name}": value for name, value in state.items()},
    ],
)
def test_state_dicts_of_all_kinds_are_read(tmp_path, wrap):
    state = {"a.weight": torch.arange(6.0).view(2, 3), "a.bias": torch.ones(2)}
    torch.save(wrap(state), tmp_path / "weights.pth")
    found = read_weights(str(tmp_path / "weights.pth"))
    assert set(found) == set(state)
    assert all(torch.equal(found[name], state[name]) for name in state)


def test_safetensors_are_read(tmp_path):
    state = {"a.weight": torch.arange(6.0).view(2, 3), "a.bias": torch.ones(2)}
    save_file(state, tmp_path / "weights.safetensors")
    found = read_weights(tmp_path / "weights.safetensors")
    assert set(found) == set(state)
    assert all(torch.equal(found[name], state[name]) for name in state)


# load_model


def test_weights_from_a_file(tiny, tiny_file, tmp_path):
    save_file(tiny.state_dict(), tmp_path / "tiny.safetensors")
    for path in (tiny_file, tmp_path / "tiny.safetensors"):
        model = load_model(TINY, path, image_size=64)
        assert all(torch.equal(value, tiny.state_dict()[name]) for name, value in model.state_dict().items())


def test_a_classifier_in_the_file_is_left_aside(tiny, tmp_path):
    torch.save({**tiny.state_dict(), "head.weight": torch.zeros(7, 192)}, tmp_path / "tiny.pth")
    assert torch.equal(load_model(TINY, tmp_path / "tiny.pth", 64).norm.weight, tiny.norm.weight)


def test_position_embeddings_are_interpolated(tiny, tmp_path):
    state = tiny.state_dict()
    # The class token's own, and for the 4×4 patches one that grows linearly from left to right.
    column = torch.arange(4.0).repeat(4).view(1, 16, 1).expand(1, 16, 192)
    state["pos_embed"] = torch.cat([torch.full((1, 1, 192), 9.0), column], dim=1)
    torch.save(state, tmp_path / "tiny.pth")
    model = load_model(TINY, tmp_path / "tiny.pth", image_size=32)
    assert model.patch_embed.img_size == (32, 32)
    assert model.pos_embed.shape == (1, 1 + 4, 192)
    assert (model.pos_embed[0, 0] == 9).all()
    grid = model.pos_embed[0, 1:, 0].view(2, 2)
    torch.testing.assert_close(grid[0], grid[1])  # rows are alike
    assert 0 <= grid[0, 0] < 1.5 < grid[0, 1] <= 3
    assert (grid[0, 0] + grid[0, 1]).item() == pytest.approx(3, abs=1e-5)  # left and right mirror each other
    assert torch.equal(model.blocks[5].mlp.fc1.weight, tiny.blocks[5].mlp.fc1.weight)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda state: {},
        lambda state: {"some.weight": torch.zeros(2)},
        lambda state: {name: value for name, value in state.items() if name != "blocks.3.attn.qkv.bias"},
        lambda state: {**state, "norm.weight": torch.zeros(5)},
        lambda state: {**state, "norm.weight": torch.zeros(5), "norm.bias": torch.zeros(5)},
        lambda state: {**state, "pos_embed": torch.zeros(3)},
        lambda state: {**state, "pos_embed": torch.zeros(1, 4, 192)},
        lambda state: {**state, "patch_embed.proj.weight": torch.zeros(7)},
        lambda state: {**state, "visual.class_embedding": torch.zeros(1)},
        lambda state: {"encoder": torch.zeros(1)},
    ],
    ids=[
        "empty",
        "other",
        "one missing",
        "one of another shape",
        "two of another shape",
        "no position grid",
        "odd position grid",
        "odd patches",
        "like clip",
        "like i-jepa",
    ],
)
def test_weights_that_do_not_fit(tiny, tmp_path, spoil):
    path = tmp_path / "other.pth"
    torch.save(spoil(dict(tiny.state_dict())), path)
    with pytest.raises(WeightsError, match=rf"other\.pth do not fit {TINY}: \S") as caught:
        load_model(TINY, path, image_size=64)
    assert_one_line(caught.value)


class OldLocalEntryNotFoundError(FileNotFoundError, ValueError):
    """As huggingface_hub before 1.0 derives the error that says the hub cannot be reached."""


@pytest.mark.parametrize("error", [OSError, ConnectionError, RuntimeError, OldLocalEntryNotFoundError])
def test_the_hub_cannot_be_reached(monkeypatch, error):
    create = timm.create_model

    def unreachable(name, pretrained=False, **kwargs):
        if pretrained:
            raise error("connection\nrefused")
        return create(name, pretrained=pretrained, **kwargs)

    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(WeightsError, match=rf"{TINY}.*hub.*give a file with its weights") as caught:
        load_model(TINY)
    assert_one_line(caught.value)


def test_the_hub_has_no_weights():
    with pytest.raises(WeightsError, match=r"no weights for .*give a file with its weights"):
        load_model(f"{TINY}.nobody")


def test_an_unknown_tag_with_a_file_is_a_persons_mistake(tiny_file):
    with pytest.raises(HappycatError, match="nobody") as caught:
        load_model(f"{TINY}.nobody", tiny_file, 64)
    assert_one_line(caught.value)


def test_unknown_name():
    with pytest.raises(InputError, match="timm has no backbone 'vit_gigantic'") as caught:
        load_model("vit_gigantic")
    assert_one_line(caught.value)


def test_a_refused_backbone_is_refused_before_its_weights_are_read(tmp_path):
    with pytest.raises(InputError, match="class token"):
        load_model("resnet18", tmp_path / "none.pth")


@pytest.mark.parametrize("size", [33, 63, 8, 0, -16])
def test_image_size_that_the_patches_do_not_fill(tiny_file, size):
    with pytest.raises(InputError, match=f"image size {size}") as caught:
        load_model(TINY, tiny_file, image_size=size)
    assert_one_line(caught.value)


# From scratch


def test_scratch_model_depends_on_the_generator_only():
    first = scratch_model("scratch_vit", None, torch.Generator().manual_seed(1)).state_dict()
    torch.rand(7)
    again = scratch_model("scratch_vit", None, torch.Generator().manual_seed(1)).state_dict()
    other = scratch_model("scratch_vit", None, torch.Generator().manual_seed(2)).state_dict()
    for name, value in first.items():
        assert torch.equal(again[name], value), name
        drawn = value.std() > 0
        assert drawn or name.endswith("bias") or "norm" in name
        assert not drawn or not torch.equal(other[name], value), name


def test_scratch_model_is_a_backbone_of_the_size_asked_for():
    model = scratch_model("scratch_vit", 32, torch.Generator().manual_seed(0))
    check_model(model, "scratch_vit")
    trunk = trunk_of(model, "scratch_vit")
    tokens = trunk(views(2, 32))
    assert trunk.image_size == 32
    assert tokens.normalised.shape == (2, 64 + 1, 64)
    assert scratch_model("scratch_vit", None, torch.Generator()).patch_embed.img_size == (16, 16)


def test_scratch_model_of_a_size_that_its_patches_do_not_fill():
    with pytest.raises(InputError, match="image size 30 is not a multiple"):
        scratch_model("scratch_vit", 30, torch.Generator())


def test_initialise_draws_by_the_number_of_inputs():
    layers = torch.nn.Sequential(torch.nn.Linear(768, 300), torch.nn.Conv2d(3, 300, 8), torch.nn.Linear(9, 2, False))
    initialise(layers, torch.Generator().manual_seed(0))
    for layer, inputs in ((layers[0], 768), (layers[1], 3 * 8 * 8)):
        std = (3 * inputs) ** -0.5
        assert layer.weight.abs().max() <= 2 * std * 1.0001
        assert layer.weight.std().item() == pytest.approx(0.88 * std, rel=0.02)  # cut at 2σ a normal keeps 0.88 of it
        assert not layer.bias.any()


@pytest.mark.parametrize(
    ("amx", "avx512_bf16", "expected"),
    [(True, True, torch.bfloat16), (False, True, torch.bfloat16), (False, False, torch.float32)],
)
def test_bf16_only_where_the_cpu_has_it(monkeypatch, amx, avx512_bf16, expected):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16, raising=False)
    assert fast_precision(torch.device("cpu")) is expected
