"""Command-line flags that come from config classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import typer

from happycat.backbone.config import BackboneConfig
from happycat.base.errors import InputError
from happycat.methods import METHODS

SizeOption = Annotated[int | None, typer.Option(help="pixels a side of a view [the backbone's]")]
PrecisionOption = Annotated[str | None, typer.Option(help="of the trunk: bf16 or fp32 [the fastest]")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda, mps or auto")]


def values_of(*configs: type, methods: bool = False) -> Callable:
    """Give a command a flag for each field of the config classes; the values given arrive as `values`.

    With `methods`, also one for each value that any method has.
    """
    owners = {name: config for name, (_, config) in METHODS.items()} if methods else {}
    shared: dict[str, list[str]] = {}
    for name, config in owners.items():
        for f in fields(config):
            shared.setdefault(f.name, []).append(name)

    def wrap(command: Callable) -> Callable:
        signature = inspect.signature(command, eval_str=True)
        flags = {p.name: p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD}
        for config in (*configs, *owners.values()):
            hints = get_type_hints(config)
            for f in fields(config):
                text, default = f.metadata.get("help", ""), f.default
                if default not in (MISSING, None, ()):
                    text += f" [{_shown(default)}{_otherwise(f.name, default, owners)}]"
                if f.name in shared and len(shared[f.name]) < len(owners):
                    text += f" ({', '.join(shared[f.name])})"
                flags.setdefault(
                    f.name,
                    inspect.Parameter(
                        f.name,
                        inspect.Parameter.KEYWORD_ONLY,
                        default=None,
                        annotation=Annotated[_flag_type(hints[f.name]), typer.Option(help=text, show_default=False)],
                    ),
                )
        flags = list(flags.values())
        command.__signature__ = signature.replace(parameters=flags)
        command.__annotations__ = {p.name: p.annotation for p in flags}
        return command

    return wrap


def _flag_type(hint):
    """The type of a flag: several values are a list on the command line, the flag repeated."""
    return (list[get_args(hint)[0]] if get_origin(hint) is tuple else hint) | None


def given(values: dict, *configs: type) -> dict:
    """Those of the values that belong to the configs and were given."""
    names = {f.name for config in configs for f in fields(config)}
    found = {name: value for name, value in values.items() if name in names and value not in (None, [])}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def method_values(values: dict) -> dict:
    """Those of the values that belong to any method and were given; one that the method lacks is its user's mistake."""
    return given(values, *(config for _, config in METHODS.values()))


def backbone_config(
    name: str | None, weights: Path | None, image_size: int | None, precision: str | None, device: str
) -> BackboneConfig:
    """The backbone that the flags ask for."""
    return BackboneConfig(name=name or "", weights=weights, image_size=image_size, precision=precision, device=device)


def dataset_options(pairs: list[str] | None, download: bool) -> dict[str, str | bool]:
    """`key=value` pairs as a dict, and whether to download."""
    options: dict[str, str | bool] = {"download": True} if download else {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign:
            raise InputError(f"--option takes key=value, got {pair!r}")
        options[key] = value
    return options


def _shown(value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _otherwise(name: str, usual, owners: dict[str, type]) -> str:
    """The methods for which a value is not the usual one."""
    theirs = {m: f.default for m, config in owners.items() for f in fields(config) if f.name == name}
    return "".join(f"; {method}: {_shown(value)}" for method, value in theirs.items() if value != usual)
