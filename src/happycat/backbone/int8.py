"""Int8 quantisation of a network's linear layers, dynamic and by groups of inputs, computed by OpenVINO on a CPU."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from happycat.base.errors import InputError

if TYPE_CHECKING:
    import openvino

MISSING = "precision int8 needs {}, which is not installed; pip install 'happycat[int8]', or choose fp32"
GROUP = 64  # inputs of a token with a scale of their own
TINY = np.float32(1e-30)  # in place of the range of weights that are all 0


class Int8Network:
    """A network (B, 3, S, S) → Tensor whose linear layers are computed in bytes: y ≈ x Wᵀ + b.

    Weights are W ≈ s ∘ Q with 127 steps on either side and a scale s for each output. Each `GROUP` inputs of a token
    have their own scale, found when they are there, so that a token is quantised alike whatever goes in with it, and
    one large number spoils 63 others at most. On a CPU without VNNI the weights alone are bytes, and x stays in fp32.
    """

    def __init__(self, compute: Callable[[Tensor], Tensor], network: nn.Module, name: str, image_size: int):
        """`compute` is what is traced: a function of pixels that calls the network."""
        check_installed()
        if not any(isinstance(part, nn.Linear) for part in network.modules()):
            raise InputError(f"backbone {name} has no linear layers, for which int8 is; choose precision fp32 or bf16")
        try:
            self._graph = _traced(compute, image_size)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise InputError(f"backbone {name} cannot be computed in int8; choose fp32 or bf16") from error
        _put_weights_in_bytes(self._graph)
        self._compiled: dict[int, openvino.CompiledModel] = {}  # by the number of threads

    def __call__(self, pixels: Tensor) -> Tensor:
        threads = torch.get_num_threads()
        if threads not in self._compiled:
            self._compiled[threads] = _compile(self._graph, threads)
        return torch.from_numpy(np.array(self._compiled[threads]([pixels.contiguous().numpy()])[0]))


def check_installed() -> None:
    """Say what is missing and how to get it, if int8 cannot be computed."""
    try:
        import openvino  # noqa: F401
    except ImportError as error:
        raise InputError(MISSING.format(error.name)) from error


def is_installed() -> bool:
    """Whether the package that int8 needs is there."""
    try:
        check_installed()
    except InputError:
        return False
    return True


def is_native() -> bool:
    """Whether this CPU multiplies bytes (VNNI)."""
    return bool(getattr(torch.cpu, "_is_vnni_supported", bool)())


def arithmetic() -> str:
    """What is computed on this CPU, in words: part of the name of what is stored."""
    return f"int8, OpenVINO, {f'groups of {GROUP}' if is_native() else 'weights alone'}"


class _Traceable(nn.Module):
    def __init__(self, compute: Callable[[Tensor], Tensor]):
        super().__init__()
        self.compute = compute

    def forward(self, pixels: Tensor) -> Tensor:
        return self.compute(pixels)


def _traced(compute: Callable[[Tensor], Tensor], image_size: int) -> openvino.Model:
    """OpenVINO's graph of a function of pixels, for any number of views."""
    import openvino

    views = torch.zeros(2, 3, image_size, image_size)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tracer's, about shapes, which are always the same here
        graph = openvino.convert_model(_Traceable(compute), example_input=views, verbose=False)
    graph.reshape([-1, *views.shape[1:]])
    return graph


def _put_weights_in_bytes(graph: openvino.Model) -> None:
    """Replace x Wᵀ by x (s ∘ Q)ᵀ, which OpenVINO computes in bytes, wherever W is a constant matrix."""
    from openvino import opset13 as op

    for node in graph.get_ordered_ops():
        weight = node.input_value(1).get_node() if node.get_type_name() == "MatMul" else None
        if weight is None or weight.get_type_name() != "Constant" or len(weight.get_output_shape(0)) != 2:
            continue
        rows = weight.get_data() if node.get_attributes()["transpose_b"] else weight.get_data().T
        scale = np.maximum(np.abs(rows).max(1, keepdims=True), TINY) / np.float32(127)
        with np.errstate(invalid="ignore"):  # weights that are no numbers: their scale, which is none, shows it
            steps = op.constant(np.round(rows / scale).astype(np.int8))
        columns = op.multiply(op.convert(steps, "f32"), op.constant(scale))
        product = op.matmul(node.input_value(0), columns, node.get_attributes()["transpose_a"], True)
        node.output(0).replace(product.output(0))


def _compile(graph: openvino.Model, threads: int) -> openvino.CompiledModel:
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP,
        "ENABLE_CPU_PINNING": False,  # a pinned thread waits for its core, whoever has it
    }
    return _core().compile_model(graph, "CPU", options)


@functools.lru_cache(1)
def _core() -> openvino.Core:
    """The one of this process, for ever.

    Each has a stack for signals, and puts back the one that was there before when it goes: with two of them that may
    be the stack of one that is gone, and the next signal, a Ctrl-C, ends the process with a segmentation fault.
    """
    import openvino

    return openvino.Core()
