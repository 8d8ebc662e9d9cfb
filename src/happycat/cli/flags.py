"""Command-line flags that come from config classes, and those that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints

import typer

from happycat.base.errors import HubError, InputError, InUseError
from happycat.cli.help import METHOD_VALUES, METHODS_TAKEN, default_text
from happycat.methods import METHODS

if TYPE_CHECKING:  # what needs torch is imported where it is used: a command's help need not wait for it
    from happycat.backbone.config import BackboneConfig

DATA, PROTOCOL, RUN, BACKBONE = "Data", "Protocol", "Run", "Backbone"  # the sections of help texts

SizeOption = Annotated[
    int | None, typer.Option(help="image size: pixels a side of a view [the backbone's]", rich_help_panel=BACKBONE)
]
PrecisionOption = Annotated[
    str | None, typer.Option(help="precision: bf16, fp32 or int8 [bf16 if native, else fp32]", rich_help_panel=BACKBONE)
]
DeviceOption = Annotated[str, typer.Option(help="device: cpu, cuda, mps or auto", rich_help_panel=BACKBONE)]
BackboneOption = Annotated[str | None, typer.Option(help="a timm model (`happycat list`)", rich_help_panel=BACKBONE)]
WeightsOption = Annotated[
    Path | None,
    typer.Option(help="the backbone's weights: safetensors or a plain state dict [hub]", rich_help_panel=BACKBONE),
]
DatasetArgument = Annotated[str, typer.Argument(help="a data set's name (`happycat list`) or a folder of images")]
RootOption = Annotated[Path | None, typer.Option(help="where the data set lies [data]", rich_help_panel=DATA)]
OptionOption = Annotated[
    list[str] | None, typer.Option("--option", help="a data set's option, key=value", rich_help_panel=DATA)
]
DownloadOption = Annotated[
    bool, typer.Option("--download", help="download the data set if it is not there", rich_help_panel=DATA)
]
OrderOption = Annotated[
    Path | None,
    typer.Option(help="class order: a file of class names, one a line [as published]", rich_help_panel=PROTOCOL),
]
HeldOutOption = Annotated[
    bool,
    typer.Option(
        "--held-out",
        help="run on the labelled images alone, part of their classes held out as new ones, to choose values by: no "
        "test image and no new class is looked at",
        rich_help_panel=PROTOCOL,
    ),
]
FlavourOption = Annotated[
    str,
    typer.Option(help="hyperparameters of the authors' program or of the paper: authors or paper", rich_help_panel=RUN),
]
WaitOption = Annotated[bool, typer.Option("--wait", help="wait while another command changes the model")]


@contextmanager
def advising_without_hub() -> Iterator[None]:
    """Name the flags that need no hub in the message that it cannot be reached."""
    try:
        yield
    except HubError as error:
        from happycat.backbone.packaged import OFFLINE

        raise HubError(f"{error} (--backbone {OFFLINE}; or --weights FILE)") from error


@contextmanager
def advising_to_wait() -> Iterator[None]:
    """Name --wait in the message that another process changes the model."""
    try:
        yield
    except InUseError as error:
        raise InUseError(f"{error} (--wait waits for it)") from error


Command = TypeVar("Command", bound=Callable[..., None])


def values_of(
    configs: dict[str, type], *, shared: Callable[..., Any] | None = None, methods: bool = False
) -> Callable[[Command], Command]:
    """Give a command a flag for each field of the config classes, by section; those given arrive as `values`.

    So do the flags of the function `shared`. With `methods`, the command takes the values of methods as well: their
    flags are made when it is run or asked for its help (`with_method_flags`).
    """

    def wrap(command: Command) -> Command:
        more = [_own_flags(shared)] if shared else []
        more += [_config_flags(config, section) for section, config in configs.items()]
        _add_flags(command, more)
        if methods:
            vars(command)[METHODS_TAKEN] = True
        return command

    return wrap


def with_method_flags(command: Command, words: Sequence[str]) -> Command:
    """The command with a flag for each value of a method; a help text has those of the method among its words, if any.

    Only then the methods are imported, and torch with them.
    """
    if not vars(command).get(METHODS_TAKEN):
        return command
    if "--help" not in words:
        more = [_config_flags(config, METHOD_VALUES) for _, config in METHODS.values()]
    else:
        named = [word for word in words if word in METHODS][:1]
        more = [_config_flags(METHODS[name][1], f"Values of {name}") for name in named]

    @functools.wraps(command)
    def made(**values: Any) -> None:
        command(**values)

    _add_flags(made, more)
    return cast(Command, made)


def _own_flags(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters of a function that are flags or arguments on the command line."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return {p.name: p for p in parameters if p.kind is not p.VAR_KEYWORD}


def _config_flags(config: type, section: str) -> dict[str, inspect.Parameter]:
    """A flag for each field of a config class."""
    hints, flags = get_type_hints(config), {}
    for f in fields(config):
        option = typer.Option(
            help=f.metadata.get("help", "") + default_text(f), show_default=False, rich_help_panel=section
        )
        flags[f.name] = inspect.Parameter(
            f.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[_flag_type(hints[f.name]), option],
        )
    return flags


def _add_flags(command: Callable[..., Any], more: list[dict[str, inspect.Parameter]]) -> None:
    """Give the command these flags besides its own; of several with one name the first stays."""
    flags = _own_flags(command)
    for some in more:
        flags = {**flags, **{name: flag for name, flag in some.items() if name not in flags}}
    vars(command)["__signature__"] = inspect.Signature(list(flags.values()))
    command.__annotations__ = {name: flag.annotation for name, flag in flags.items()}


def _flag_type(hint: Any) -> Any:
    """The type of a flag: several values are a list on the command line, the flag repeated."""
    return (list[get_args(hint)[0]] if get_origin(hint) is tuple else hint) | None  # type: ignore[misc]


def given(values: dict[str, Any], *configs: type) -> dict[str, Any]:
    """Those of the values that belong to the configs and were given."""
    names = {f.name for config in configs for f in fields(config)}
    found = {name: value for name, value in values.items() if name in names and value not in (None, [])}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def method_values(values: dict[str, Any]) -> dict[str, Any]:
    """Those of the values that belong to any method and were given; one that the method lacks is its user's mistake."""
    return given(values, *(config for _, config in METHODS.values()))


def backbone_config(
    name: str | None, weights: Path | None, image_size: int | None, precision: str | None, device: str
) -> BackboneConfig:
    """The backbone that the flags ask for."""
    from happycat.backbone.config import BackboneConfig

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
