"""Int8 quantisation of linear layers, dynamic and per row, computed by ONNX Runtime on a CPU."""

from __future__ import annotations

import functools
import platform
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from happycat.base.errors import InputError

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MISSING = "precision int8 needs {}, which is not installed; pip install 'happycat[int8]', or choose fp32"
ZERO = 128  # what stands for 0 in unsigned bytes
TINY = 1e-30  # in place of the range of a row whose values are all the same


class Int8Linear(nn.Module):
    """A linear layer in bytes: y ≈ x Wᵀ + b.

    Weights are W ≈ s ∘ Q with 127 steps on either side and a scale s for each output. A row of x has its own scale r
    and zero z, x ≈ r (q − z) with bytes q, so that a token is quantised alike whatever goes in with it. Then
    y = r s ∘ ((q − 128) Qᵀ) + r (128 − z) (W 1) + b, of which (q − 128) Qᵀ, (N, in) × (in, out), is exact in integers.
    """

    columns: Tensor
    scale: Tensor
    zeros: Tensor
    sums: Tensor
    bias: Tensor

    def __init__(self, linear: nn.Linear):
        super().__init__()
        weight = linear.weight.detach()
        scale = weight.abs().amax(1).clamp_min(TINY) / 127
        steps, signed = (weight / scale[:, None]).round(), _signed_bytes()
        columns = steps.to(torch.int8) if signed else (steps + ZERO).to(torch.uint8)
        bias = torch.zeros(len(weight)) if linear.bias is None else linear.bias.detach()
        self.register_buffer("columns", columns.T.contiguous())
        self.register_buffer("scale", scale)
        self.register_buffer("sums", (steps * scale[:, None]).sum(1))
        self.register_buffer("bias", bias)
        self.register_buffer("zeros", torch.full((len(weight),), 0 if signed else ZERO, dtype=columns.dtype))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        low, high = rows.amin(1).clamp_max(0), rows.amax(1).clamp_min(0)  # `aminmax` takes 17 times as long
        scale = ((high - low) / 255).clamp_min(TINY)
        zero = (-low / scale).round()
        given = {"rows": rows, "row_scale": scale, "row_zero": zero.to(torch.uint8)}
        given |= {"columns": self.columns, "scale": self.scale, "zeros": self.zeros}
        product = _product(torch.get_num_threads(), self.columns.dtype is torch.int8)
        y = torch.from_numpy(product.run(None, {name: value.numpy() for name, value in given.items()})[0])
        y.mul_(scale[:, None]).addcmul_((scale * (ZERO - zero))[:, None], self.sums).add_(self.bias)
        return y.unflatten(0, x.shape[:-1])


def quantise(model: nn.Module, name: str) -> None:
    """Put int8 layers in the place of the model's linear ones; what else there is stays as it is."""
    _packages()
    found = [
        (module, part, child)
        for module in model.modules()
        for part, child in module.named_children()
        if type(child) is nn.Linear
    ]
    if not found:
        raise InputError(f"backbone {name} has no linear layers, for which int8 is; choose precision fp32 or bf16")
    for module, part, child in found:
        setattr(module, part, Int8Linear(child))


def is_installed() -> bool:
    """Whether the packages that int8 needs are there."""
    try:
        _packages()
    except InputError:
        return False
    return True


def _packages() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise InputError(MISSING.format(error.name)) from error


def _signed_bytes() -> bool:
    """Whether unsigned times signed bytes are multiplied exactly; the integers are the same either way.

    Without VNNI an x86 CPU adds pairs of such products in 16 bits, which overflow. Unsigned times unsigned bytes
    are exact there, and a little slower.
    """
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
    return not x86 or getattr(torch.cpu, "_is_vnni_supported", bool)()


@functools.lru_cache(maxsize=4)
def _product(threads: int, signed: bool) -> InferenceSession:
    """ONNX Runtime's product of rows, which it quantises, and bytes, by so many threads; one serves all layers."""
    import onnxruntime
    from onnx import TensorProto, helper

    kind = TensorProto.INT8 if signed else TensorProto.UINT8
    described = helper.make_tensor_value_info
    inputs = [
        described("rows", TensorProto.FLOAT, ["n", "in"]),
        described("row_scale", TensorProto.FLOAT, ["n"]),
        described("row_zero", TensorProto.UINT8, ["n"]),
        described("columns", kind, ["in", "out"]),
        described("scale", TensorProto.FLOAT, ["out"]),
        described("zeros", kind, ["out"]),
    ]
    constants = [
        helper.make_tensor("one", TensorProto.FLOAT, [], [1.0]),
        helper.make_tensor("zero", TensorProto.UINT8, [], [ZERO]),
    ]
    quantised = helper.make_node("QuantizeLinear", ["rows", "row_scale", "row_zero"], ["bytes"], axis=0)
    names = ["bytes", "columns", "one", "scale", "zero", "zeros"]
    product = helper.make_node("MatMulIntegerToFloat", names, ["y"], domain="com.microsoft")
    output = described("y", TensorProto.FLOAT, ["n", "out"])
    graph = helper.make_graph([quantised, product], "product", inputs, [output], constants)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    # Threads that spin between two layers would take the processor from torch's.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
