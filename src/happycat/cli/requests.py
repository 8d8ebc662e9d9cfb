"""The flags that `bench` and `paper` share, and the request for a run that they make."""

from __future__ import annotations

from typing import Any

from happycat.benchmark.config import LoopConfig
from happycat.benchmark.protocol import Protocol
from happycat.cli.flags import (
    BackboneOption,
    DeviceOption,
    DownloadOption,
    FlavourOption,
    HeldOutOption,
    OptionOption,
    OrderOption,
    PrecisionOption,
    RootOption,
    SizeOption,
    WeightsOption,
    backbone_config,
    dataset_options,
    given,
    method_values,
)
from happycat.cli.processes import DevicesOption, NodesOption, Processes, StrategyOption


def request_values(
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    class_order: OrderOption = None,
    held_out: HeldOutOption = False,
    flavour: FlavourOption = "authors",
    backbone: BackboneOption = None,
    weights: WeightsOption = None,
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    devices: DevicesOption = 1,
    nodes: NodesOption = 1,
    strategy: StrategyOption = "auto",
    **values: Any,
) -> dict[str, Any]:
    """What the flags that `bench` and `paper` share ask for, as fields of a `Request`; `processes_of` has the rest."""
    return {
        "root": root,
        "dataset_options": dataset_options(option, download),
        "class_order": class_order,
        "held_out": held_out,
        "flavour": flavour,
        "backbone": backbone_config(backbone, weights, image_size, precision, device),
        "method_values": method_values(values),
        "protocol_values": given(values, Protocol),
        "loop": LoopConfig(**given(values, LoopConfig)),
    }


def processes_of(values: dict[str, Any]) -> Processes:
    """The processes that the flags ask for."""
    return Processes(values["devices"], values["nodes"], values["strategy"])
