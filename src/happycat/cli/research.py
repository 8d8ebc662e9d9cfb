"""Commands for research: bench, demo, list, stages, features, speed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from happycat.base.disk import file_sha256
from happycat.base.errors import InputError
from happycat.base.progress import SILENT
from happycat.benchmark.config import LoopConfig
from happycat.benchmark.protocol import Protocol, plan_text
from happycat.cli.display import display_of, print_line
from happycat.cli.display import results as out
from happycat.cli.flags import (
    BACKBONE,
    PROTOCOL,
    RUN,
    BackboneOption,
    DatasetArgument,
    DeviceOption,
    DownloadOption,
    OptionOption,
    OrderOption,
    PrecisionOption,
    RootOption,
    SizeOption,
    WeightsOption,
    advising_without_hub,
    backbone_config,
    dataset_options,
    given,
    values_of,
)
from happycat.cli.interruption import interruptible, keeping, kept_so_far
from happycat.cli.processes import DevicesOption, NodesOption, Processes, StrategyOption, together
from happycat.cli.requests import processes_of, request_values

# What needs torch is imported where it is used: a command's help need not wait for it.


@values_of({PROTOCOL: Protocol, RUN: LoopConfig}, shared=request_values, methods=True)
def bench(
    method: Annotated[str, typer.Argument(help="the method (`happycat list`)")],
    dataset: DatasetArgument,
    out_folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="the run folder [runs/METHOD-DATASET]", rich_help_panel=RUN)
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="resume an interrupted run", rich_help_panel=RUN)] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="write what was learned to this model file, to predict with (calm)", rich_help_panel=RUN),
    ] = None,
    split: Annotated[Path | None, typer.Option(help="a split file to run on", rich_help_panel=PROTOCOL)] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="start from the Stage-0 of another run: its folder", rich_help_panel=RUN),
    ] = None,
    **values: Any,
) -> None:
    """Run a method over all stages of a data set and score it."""
    from happycat.benchmark.setup import Request
    from happycat.cli.running import run

    request = Request(
        method=method,
        dataset=dataset,
        split=split,
        out=out_folder or Path("runs") / f"{method}-{Path(dataset).name}",
        resume=resume,
        start=start,
        **request_values(**values),
    )
    run(request, save, processes_of(values))


def demo(
    out_folder: Annotated[Path, typer.Option("--out", "-o", help="the run folder")] = Path("runs/demo"),
    seed: Annotated[int, typer.Option(help="random seed of the run")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="resume an interrupted demo")] = False,
) -> None:
    """Learn six handwritten digits with their labels, then discover the other four without.

    Needs no download and no GPU: scikit-learn's bundled digits and a small ViT trained from scratch.
    """
    from happycat.cli.running import run_demo

    run_demo(out_folder, seed, resume)


def list_() -> None:
    """Show the methods, data sets and tested backbones."""
    from happycat.cli.running import lists

    for table in lists():
        out.print(table)
        out.print()


@values_of({PROTOCOL: Protocol})
def stages(
    dataset: DatasetArgument,
    out_file: Annotated[Path, typer.Option("--out", "-o", help="the file to write")] = Path("split.json"),
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    class_order: OrderOption = None,
    **values: Any,
) -> None:
    """Write the split of a data set to a file that can be published: the same images everywhere."""
    from happycat.benchmark.setup import Request, the_split
    from happycat.images.datasets import load

    data = load(dataset, root=root, **dataset_options(option, download))
    request = Request(dataset=dataset, protocol_values=given(values, Protocol), class_order=class_order, out=out_file)
    made = the_split(request, data)
    made.write(out_file)
    out.print(plan_text(made))
    print_line(f"written to {out_file}, SHA-256 {file_sha256(out_file).hex()}")


def features(
    dataset: DatasetArgument,
    out_file: Annotated[Path, typer.Option("--out", "-o", help="the file to write")] = Path("features.npz"),
    root: RootOption = None,
    option: OptionOption = None,
    download: DownloadOption = False,
    backbone: BackboneOption = None,
    weights: WeightsOption = None,
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    devices: DevicesOption = 1,
    nodes: NodesOption = 1,
    strategy: StrategyOption = "auto",
    patches: Annotated[
        bool,
        typer.Option(
            "--patches", help="the mean of a ViT's patch tokens beside its class token", rich_help_panel=BACKBONE
        ),
    ] = False,
) -> None:
    """Write the features of a data set's images to a NumPy file, for `paper calm-check` or other programs.

    Of the centre view of each image: X (N, D), with cls, part ("train" or "test") and key, (N,) each.
    """
    from happycat.backbone.extraction import FeatureExtractor
    from happycat.base.threads import network_flops, threads_for
    from happycat.benchmark.features import write_features
    from happycat.benchmark.setup import chosen_backbone
    from happycat.images.datasets import load

    if out_file.exists():
        raise InputError(f"{out_file} is there already; give another name (--out), or delete it")
    data = load(dataset, root=root, **dataset_options(option, download))
    again = "the same command goes on with what is kept"
    with together(Processes(devices, nodes, strategy), device, again) as (ranks, place), advising_without_hub():
        config = chosen_backbone(backbone_config(backbone, weights, image_size, precision, place), data)
        if config.from_scratch:
            raise InputError(f"{config.name} has no weights to extract features with; name a backbone (--backbone)")
        extractor = FeatureExtractor.of(
            config, mirror=data.mirror, crop_share=data.crop_share, ranks=ranks, patches=patches
        )
        with (
            display_of(ranks.first) as display,
            keeping(out_file) as cache,
            interruptible(lambda: kept_so_far(display, cache)),
            threads_for(network_flops(extractor.trunk)),
        ):
            images, dim = write_features(out_file, data, extractor, display, cache)
    print_line(f"written: {out_file}, {dim} numbers for each of {images} images")


def speed(
    backbone: Annotated[
        str, typer.Option(help="a timm ViT; its weights do not matter here", rich_help_panel=BACKBONE)
    ] = "vit_base_patch16_224.dino",
    image_size: SizeOption = None,
    precision: PrecisionOption = None,
    device: DeviceOption = "auto",
    devices: DevicesOption = 1,
    nodes: NodesOption = 1,
    strategy: StrategyOption = "auto",
    seconds: Annotated[float, typer.Option(help="seconds to measure each figure, at least")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Measure throughput: a training step (reference, fresh, cached), extraction by precision, reading."""
    from happycat.benchmark.speed import measure_speed, speed_table

    again = "give the same command again"
    with together(Processes(devices, nodes, strategy), device, again) as (ranks, place):
        config = backbone_config(backbone, None, image_size, precision, place)
        with display_of(ranks.first) as display:
            figures = measure_speed(config, seconds, SILENT if as_json else display, ranks)
    if as_json:
        out.print_json(data=figures)
    else:
        out.print(speed_table(figures))
