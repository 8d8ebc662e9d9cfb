"""Fingerprints of weights: SHA-256 over the bytes of named tensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import torch
from torch import Tensor


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor in row-major order; bf16, which numpy does not know, as well."""
    return tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data


def fingerprint(content: list, tensors: Mapping[str, Tensor]) -> str:
    """Sixteen hex digits that change with `content` (what JSON can hold) and with any bit of any tensor."""
    digest = hashlib.sha256(json.dumps(content).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor_bytes(tensor))
    return digest.hexdigest()[:16]
