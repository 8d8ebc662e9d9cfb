"""Model files taken apart and put together again with right checksums, whatever was changed in between."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from happycat.model import blobs
from happycat.model.blobs import Index

ODD = [
    *(None, True, -1, 0, 7, 2**40, 2**70, -(2**63), 0.5, 1e300, float("nan"), float("inf"), "", "x", "\0", "\x1b[2J"),
    *("a" * 300, "2026-01-01", "9" * 64, "f" * 64, [], {}, [[]], [0, 0], {"a": 1}, [[[[0]]]], "vectors", "scratch_vit"),
]


def taken_apart(path: Path) -> dict[str, Any]:
    """What a model file holds, as values that can be changed."""
    index = Index.read(path)

    def part(record: blobs.Record) -> dict[str, Any]:
        arrays = dict(blobs.Blobs(path, index, record.arrays))
        metadata = index.json(path, record.metadata)
        return {"description": dict(record.description), "metadata": metadata, "arrays": arrays}

    versions = [part(record) for record in index.versions]
    return {"base": part(index.base), "versions": versions, "current": index.current, "next_id": index.next_id}


def put_together(path: Path, content: dict[str, Any]) -> None:
    """Write such values as a model file with right checksums."""
    data: dict[str, bytes] = {}

    def blob(content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        data[name] = content
        return name

    def record(part: Any) -> Any:
        if not isinstance(part, dict) or not isinstance(part.get("arrays"), dict):
            return part
        arrays = {
            name: {"blob": blob(array.tobytes()), "dtype": array.dtype.name, "shape": list(array.shape)}
            if isinstance(array, np.ndarray)
            else array
            for name, array in part["arrays"].items()
        }
        metadata = blob(json.dumps(part.get("metadata")).encode())
        return {
            "description": part.get("description"),
            "metadata": metadata,
            "arrays": blob(json.dumps(arrays).encode()),
        }

    versions = content.get("versions")
    index = {**content, "base": record(content.get("base"))}
    index["versions"] = [record(part) for part in versions] if isinstance(versions, list) else versions
    places, end = [], 0
    for name, one in data.items():
        places.append({"sha256": name, "offset": end, "length": len(one)})
        end += len(one)
    text = json.dumps({**index, "blobs": places}).encode()
    head = blobs.MAGIC + blobs.HEAD.pack(len(text), hashlib.sha256(text).digest())
    path.write_bytes(head + text + b"".join(data.values()))


def change_something(content: Any, chance: random.Random) -> str:
    """Change one value anywhere in it; what was done, in words."""
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in list(pairs):
            places.append((value, key))
            collect(inner)

    collect(content)
    holder, key = chance.choice(places)
    value = holder[key]
    if isinstance(value, np.ndarray) and chance.random() < 0.9:
        holder[key] = changed_array(value, chance)
        return f"array {key} of {value.dtype} {value.shape} is of {holder[key].dtype} {holder[key].shape}"
    way = chance.choice(["set", "set", "set", "near", "remove", "shuffle", "again"])
    if way == "near" and type(value) in (int, float):
        holder[key] = value + chance.choice([-1, 1, 2, 1000, 0.5])
    elif way == "remove":
        del holder[key]
    elif way == "shuffle" and isinstance(value, list):
        chance.shuffle(value)
    elif way == "again" and isinstance(value, list) and value:
        value.append(value[0])
    else:
        holder[key] = chance.choice(ODD)
    return f"{way} {key!r}: {str(value)[:60]}"


def changed_array(array: np.ndarray, chance: random.Random) -> np.ndarray:
    """An array with other values, another type or another shape."""
    way = chance.choice(["value", "value", "all", "type", "shape", "cut", "shuffle", "again"])
    other = array.copy()
    if way == "value" and other.size:
        odd = [-1, 0, 1, 5, 2**31 - 1, -(2**31)]
        if array.dtype.kind == "f":
            odd += [float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 1e-30]
        other.reshape(-1)[chance.randrange(other.size)] = np.array(chance.choice(odd)).astype(array.dtype)
    elif way == "all":
        other[...] = np.array(chance.choice([-1, 0, 1, 3])).astype(array.dtype)
    elif way == "type":
        other = other.astype(chance.choice(["float64", "float16", "int8", "int64", "bool", "uint8"]))
    elif way == "shape":
        other = chance.choice([other.reshape(-1), other.T, other[None], other[..., None]])
    elif way == "cut":
        other = other[: chance.randrange(len(other) + 1)] if other.ndim else other[None]
    elif way == "shuffle" and other.ndim:
        other = other[chance.sample(range(len(other)), len(other))]
    elif other.ndim:
        other = np.concatenate([other, other])
    return np.ascontiguousarray(other)
