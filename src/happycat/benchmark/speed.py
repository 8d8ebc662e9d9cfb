"""Throughput benchmark: a training step of Happy, three ways, feature extraction and reading; measured in one run."""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image
from rich.table import Table
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from happycat.backbone.config import PRECISIONS, BackboneConfig, choose_device, choose_precision, fast_precision
from happycat.backbone.extraction import TRUNK_BATCH
from happycat.backbone.int8 import is_installed
from happycat.backbone.pooled import PooledBackbone
from happycat.backbone.recipe import Recipe
from happycat.backbone.tail import Tail, Vectors
from happycat.backbone.token_store import TokenStore
from happycat.backbone.trunk import Tokens, Trunk
from happycat.backbone.views import ViewDataset, ViewPlan, view_loader
from happycat.backbone.weights import check_model, create_model
from happycat.base.allocator import keep_freed_memory
from happycat.base.products import products_for
from happycat.base.progress import Progress
from happycat.base.ranks import ALONE, Ranks
from happycat.base.threads import at_most, cores, load, network_flops, suitable
from happycat.benchmark.reference import NUM_NEW, NUM_OLD, REFERENCE_BATCH, reference_steps
from happycat.images.pictures import ArrayPictures, FilePictures
from happycat.learning.batches import FreshViews, StoredViews, Unlabelled
from happycat.learning.heads import random_rows
from happycat.learning.training import Training
from happycat.methods.happy import Happy, HappyConfig

BATCH = 128
IMAGES = 4 * BATCH
TURNS = 3  # that each precision of the trunk has
PHOTOS = {"loader": (500, 375), "loader_12mp": (4000, 3000)}  # width and height


class Meter(NamedTuple):
    """Measures rates, each for so many seconds at least, of all processes together."""

    seconds: float
    device: torch.device
    ranks: Ranks = ALONE

    def rate(self, steps: Iterator[float], warm_up: int = 2, share: float = 1.0) -> float:
        """Views per second: `steps` yields how many views of each step that is done this process has computed."""
        for _ in range(warm_up):
            next(steps)
        self.ranks.wait()
        started, views = time.perf_counter(), 0.0
        while self._goes_on(started + share * self.seconds):
            views += next(steps)
        return self._sum(views / (time.perf_counter() - started))

    def _goes_on(self, end: float) -> bool:
        """Whether the first process still measures: all take the same number of steps, some of which they share."""
        return self._sum(self.ranks.first and time.perf_counter() < end) > 0

    def _sum(self, value: float) -> float:
        return float(self.ranks.sum(torch.tensor(float(value), device=self.device)))


def measure_speed(config: BackboneConfig, seconds: float, progress: Progress, ranks: Ranks = ALONE) -> dict:
    """Views per second of one Happy step, three ways, with the ratios, and of extraction and reading.

    Several processes work at the same time, and their rates are added up. A step of ours is shared by them, as in
    training; of the reference each has its own, as if gathering gradients took no time.
    """
    keep_freed_memory()
    place, backbone = choose_device(config.device), config.name
    model = check_model(create_model(backbone, config.image_size), backbone)
    whole, tail = copy.deepcopy(model).to(place), Tail(model).to(place)
    trunk = _trunk(model, backbone, choose_precision(config.precision, place), place)
    pictures = _noise(trunk.image_size)
    plan = ViewPlan(image_size=trunk.image_size)
    progress.message(
        f"{backbone}, {trunk.image_size} px, {trunk.num_tokens} tokens, trunk in {trunk.precision}, {place}"
    )
    threads, others, meter = suitable(network_flops(trunk)), load(), Meter(seconds, place, ranks)
    progress.message(threads_line(threads, others))

    with at_most(threads):
        progress.message("the trunk in every precision, and the matrix multiply that bounds it")
        extraction = _extraction(whole, trunk, pictures, meter)
        share = extraction[_name(trunk.precision)] * _flops_per_view(whole, trunk) / _matmul_flops(trunk, meter)
        loading = {name: _loader_speed(plan, size, meter) for name, size in PHOTOS.items()}
        progress.message("(a) the reference step: the whole ViT in fp32, three passes, the whole last block")
        plain = reference_steps(whole, pictures.pixels[: 2 * REFERENCE_BATCH], place)
        before = meter.rate(plain, warm_up=1, share=0.5)
        progress.message("(b) fresh views: one trunk pass a view")
        one_batch = ArrayPictures(pictures.pixels[:BATCH])
        fresh = meter.rate(_happy_steps(tail, FreshViews(trunk, one_batch, plan, 1, ranks)), warm_up=0)
        progress.message("(c) cached tokens")
        with _stored(trunk, pictures, plan, ranks) as views:
            cached = meter.rate(_happy_steps(tail, views))
        progress.message("(a) again: a machine that became slower or faster meanwhile shall not decide the ratios")
        reference = (before + meter.rate(plain, warm_up=0, share=0.5)) / 2
    return {
        "backbone": backbone,
        "image_size": trunk.image_size,
        "tokens": trunk.num_tokens,
        "trunk_precision": _name(trunk.precision),
        "device": str(place),
        "processes": ranks.size,
        "threads": threads,
        "cores": cores(),
        "load": others,
        "batch_size": BATCH,
        "reference_batch_size": REFERENCE_BATCH,
        "reference": reference,
        "fresh": fresh,
        "cached": cached,
        "ratio": {"fresh": fresh / reference, "cached": cached / reference},
        "extraction": extraction,
        "extraction_ratio": {name: rate / extraction["fp32"] for name, rate in extraction.items()},
        "extraction_share_of_matmul": share,
        **loading,
    }


def threads_line(threads: int, others: float) -> str:
    """How many threads of how many cores are used, and how many cores other processes keep busy."""
    return f"threads: {threads} of {cores()} cores, load {others:.1f}"


def speed_table(figures: dict) -> Table:
    """The figures as a table."""
    table = Table(
        title=f"{figures['backbone']}, {figures['image_size']} px, {figures['device']}, "
        f"trunk in {figures['trunk_precision']}, processes: {figures['processes']}, "
        f"{threads_line(figures['threads'], figures['load'])}",
        title_justify="left",
    )
    table.add_column("one Happy step, batch 128")
    table.add_column("views/s", justify="right")
    table.add_column("ratio", justify="right")
    table.add_row("(a) reference: whole ViT, fp32, three passes", f"{figures['reference']:.2f}", "1")
    table.add_row("(b) fresh views", f"{figures['fresh']:.2f}", f"{figures['ratio']['fresh']:.1f}")
    table.add_row("(c) cached tokens", f"{figures['cached']:.0f}", f"{figures['ratio']['cached']:.0f}")
    table.add_section()
    share = f"{figures['extraction_share_of_matmul']:.0%} of a bare matmul"
    for name, rate in figures["extraction"].items():
        chosen = f", {share}" if name == figures["trunk_precision"] else ""
        table.add_row(
            f"trunk alone (extraction), {name}", f"{rate:.2f}", f"{figures['extraction_ratio'][name]:.2f}{chosen}"
        )
    for name, (width, height) in PHOTOS.items():
        table.add_row(f"reading and cropping JPEGs of {width} × {height}, one worker", f"{figures[name]:.0f}", "")
    return table


def _trunk(model: VisionTransformer, name: str, precision: torch.dtype, device: torch.device) -> Trunk:
    return Trunk(model, name, (0.5,) * 3, (0.25,) * 3, precision).to(device)


def _name(precision: torch.dtype) -> str:
    return next(name for name, kind in PRECISIONS.items() if kind is precision)


def _noise(size: int) -> ArrayPictures:
    random = np.random.default_rng(0)
    side = size * 8 // 7
    return ArrayPictures(random.integers(0, 256, (IMAGES, side, side, 3), dtype=np.uint8))


def _happy_steps(tail: Tail, views: StoredViews | FreshViews) -> Iterator[float]:
    """A stage of Happy itself, for ever: a model that knows 50 classes discovers 10.

    Yields this process's share of the views of an epoch.
    """
    # Where new classes start is decided before the first step: random rows save a pass over the images.
    config = HappyConfig(batch_size=BATCH, epochs=10**6, cluster_init=False)
    generator = torch.Generator().manual_seed(0)
    method = Happy(copy.deepcopy(tail), config).to(views.device)
    rows = random_rows(NUM_OLD, tail.dim, generator, unit=True)
    method.head.grow(rows)
    method.memory.learn(rows.to(views.device), torch.arange(NUM_OLD, device=views.device), rows.to(views.device))
    for _ in method.discover(Unlabelled(views), NUM_NEW, Training(generator, ranks=views.ranks)):
        yield 2 * len(views) / views.ranks.size


@contextmanager
def _stored(trunk: Trunk, pictures: ArrayPictures, plan: ViewPlan, ranks: Ranks = ALONE) -> Iterator[StoredViews]:
    """A token store in a temporary folder. Throughput does not depend on the tokens' values: noise will do."""
    with tempfile.TemporaryDirectory(prefix="happycat-speed-") as folder:
        store = TokenStore(Path(folder), Recipe.of(trunk, "noise", pictures, plan, views=2))
        shape = (3 * len(pictures), trunk.num_tokens, trunk.dim)
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        store.adopt(noise.bfloat16(), noise[:, 0])
        yield StoredViews(store, trunk.device, ranks)


def _trunk_speed(trunk: Trunk | PooledBackbone, pictures: ArrayPictures, meter: Meter, share: float = 1.0) -> float:
    side = trunk.image_size
    views = torch.from_numpy(pictures.pixels[:TRUNK_BATCH, :side, :side]).permute(0, 3, 1, 2).contiguous()

    def steps() -> Iterator[int]:
        with torch.inference_mode():
            while True:
                said = trunk(views.to(trunk.device))
                (said.cls if isinstance(said, Tokens) else said).sum().item()
                yield len(views)

    return meter.rate(steps(), warm_up=1, share=share)


def _extraction(whole: VisionTransformer, chosen: Trunk, pictures: ArrayPictures, meter: Meter) -> dict[str, float]:
    """Views per second of the trunk in fp32, in what else the device computes natively, and in the chosen precision.

    They take turns: a machine that becomes slower or faster meanwhile shall not decide their ratios.
    """
    device, trunks = chosen.device, {chosen.precision: chosen}
    precisions = [torch.float32, fast_precision(device), chosen.precision]
    precisions += [torch.int8] if device.type == "cpu" and is_installed() else []
    for precision in precisions:
        if precision not in trunks:
            trunks[precision] = _trunk(copy.deepcopy(whole), chosen.name, precision, device)
    turns = [
        {precision: _trunk_speed(trunk, pictures, meter, 1 / TURNS) for precision, trunk in trunks.items()}
        for _ in range(TURNS)
    ]
    return {_name(p): sum(turn[p] for turn in turns) / TURNS for p in dict.fromkeys(precisions)}


def _flops_per_view(whole: VisionTransformer, trunk: Trunk) -> float:
    """Multiply-adds × 2 in the trunk's linear layers: 12 D² a token and block for a plain ViT."""
    weights = sum(p.numel() for p in whole.blocks[:-1].parameters() if p.ndim == 2)
    return 2 * trunk.num_tokens * weights


def _matmul_flops(trunk: Trunk, meter: Meter) -> float:
    """Operations per second of the trunk's largest matrix multiply, bare, in its precision (of int8, in fp32)."""
    rows = trunk.views_at_once(TRUNK_BATCH) * trunk.num_tokens
    dtype = torch.float32 if trunk.precision is torch.int8 else trunk.precision
    a = torch.ones(rows, trunk.dim, dtype=dtype, device=trunk.device)
    layer = torch.ones(4 * trunk.dim, trunk.dim).to(a)

    def steps() -> Iterator[int]:
        while True:
            with products_for(network_flops(trunk)):
                nn.functional.linear(a, layer)[0, 0].item()
            yield 2 * len(a) * layer.numel()

    return meter.rate(steps(), share=0.5)


def _loader_speed(plan: ViewPlan, size: tuple[int, int], meter: Meter) -> float:
    """Views per second that one worker makes of JPEG photographs of that size: read, decode, resize, crop twice."""
    random, keys = np.random.default_rng(0), [f"{i}.jpg" for i in range(4)]
    with tempfile.TemporaryDirectory(prefix="happycat-speed-") as folder:
        for key in keys:
            coarse = Image.fromarray(random.integers(0, 256, (25, 33, 3), dtype=np.uint8))
            coarse.resize(size, Image.Resampling.BICUBIC).save(Path(folder) / key)
        dataset = ViewDataset(FilePictures(Path(folder), keys), plan, ("1", "2"))

        def steps() -> Iterator[int]:
            while True:
                for views in view_loader(dataset, [[i] for i in range(len(keys))], workers=0):
                    yield views.shape[1]

        return meter.rate(steps(), share=min(1.0, 3 / meter.seconds))


def extraction_rates(trunk: Trunk | PooledBackbone) -> dict[str, float]:
    """About how many views per second the backbone extracts, in its precision and, of a ViT, in int8; takes seconds."""
    pictures, meter = ArrayPictures(_noise(trunk.image_size).pixels[:16]), Meter(1.0, trunk.device)
    rates = {_name(trunk.precision): _trunk_speed(trunk, pictures, meter)}
    fp32_vit = isinstance(trunk, Trunk) and trunk.precision is torch.float32
    if fp32_vit and trunk.device.type == "cpu" and is_installed():
        in_bytes = copy.deepcopy(trunk)
        in_bytes.precision = torch.int8
        in_bytes.freeze()
        rates["int8"] = _trunk_speed(in_bytes, pictures, meter)
    return rates


def training_rate(trunk: Trunk | PooledBackbone, tail: Tail | Vectors) -> float:
    """About how many views per second a method trains on stored tokens; takes seconds."""
    assert isinstance(trunk, Trunk)  # no method is trained on features
    assert isinstance(tail, Tail)
    pictures, plan = ArrayPictures(_noise(trunk.image_size).pixels[:BATCH]), ViewPlan(image_size=trunk.image_size)
    with _stored(trunk, pictures, plan) as views:
        return Meter(2.0, trunk.device).rate(_happy_steps(tail, views))
