"""How long the paper's experiments take on a GPU, reckoned from two rates; needs no images and no GPU.

    python benchmarks/hours.py

What is counted: the views of all served images, once through the trunk for all methods, seeds and class orders,
and every view that is trained on. The rates are assumptions for one GPU of an A100's class, made from what is known and
not measured on one:

- extraction: ViT-B/16 at 224 px is 35 Gflop a view; a quarter of 312 Tflop/s (bf16) gives 2,200 views a second.
- training on stored tokens: a view is 300 kB; 1.5 GB/s from memory or disk give 5,000 views a second.

`happycat paper NAME --plan` measures both rates on the machine it runs on, and counts the same views.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import NamedTuple

from happycat.benchmark.paper.experiments import EXPERIMENTS, Variant
from happycat.images.datasets import PUBLISHED
from happycat.methods import METHODS
from happycat.methods.happy import HappyConfig

EXTRACTION, TRAINING = 2_200, 5_000  # views a second
VIEWS, TOKENS = 5, 197 * 768 * 2  # four random views and the centre; bytes of a view's tokens in bf16


class Cost(NamedTuple):
    """Runs, hours of the first seed and of each further one, and gigabytes of tokens of an experiment."""

    runs: int
    first: float
    further: float
    gigabytes: float


class Stub:
    """A split of one image, for an experiment that asks for the shares of its stages."""

    stages = ({"new": ["a"], "images": {"a": ["1"]}},)


def served(dataset: str, stages: int) -> tuple[int, list[int]]:
    """How many images Stage-0 has, and each of so many later stages."""
    data = PUBLISHED[dataset]
    base, num_classes = int(data.protocol["base_classes"]), len(data.order)
    labelled = base * int(data.protocol["labelled_share"] * round(data.train / num_classes))
    size = (num_classes - base) // stages
    numbers = [size * (t + 1) if t + 1 < stages else num_classes - base for t in range(stages)]  # new classes so far
    new = [b - a for a, b in zip([0, *numbers], numbers, strict=False)]
    seen = [base + number for number in (0, *numbers[:-1])]
    per_new, per_old = data.protocol["new_per_class"], data.protocol["old_per_class"]
    return labelled, [int(n * per_new + s * per_old) for n, s in zip(new, seen, strict=True)]


def distinct(variants: tuple[Variant, ...]) -> list[Variant]:
    """One of those that are the same run: their values are Happy's usual ones, or those of another."""
    usual = asdict(HappyConfig())
    runs = {}
    for variant in variants:
        values = {k: v for k, v in variant.values.items() if variant.method != "happy" or usual[k] != v}
        runs[json.dumps([variant.method, values, variant.loop, variant.protocol])] = variant
    return list(runs.values())


def cost(name: str) -> Cost:
    """The cost of an experiment on the paper's data sets."""
    number, extracted, stored, base_views, stage_views = 0, 0, 0, 0, 0
    for dataset in EXPERIMENTS[name].datasets:
        data = PUBLISHED[dataset]
        variants = distinct(EXPERIMENTS[name].variants(Stub(), HappyConfig()))
        protocols = {json.dumps(variant.protocol): variant.protocol for variant in variants}
        images, tests = 0, data.test * (1 + EXPERIMENTS[name].again)
        for protocol in protocols.values():
            labelled, later = served(dataset, protocol.get("stages", int(data.protocol["stages"])))
            images += labelled + sum(later)
        stored += VIEWS * images + len(protocols) * tests
        extracted += VIEWS * min(images, data.train) + tests  # what another order or number of stages has is copied
        starts = {(METHODS[v.method][0].family, v.protocol.get("order_seed")) for v in variants if _trained(v)}
        base_views += len(starts) * 2 * labelled * HappyConfig().base_epochs
        number += len(starts) + len(variants)
        for variant in filter(_trained, variants):
            _, later = served(dataset, variant.protocol.get("stages", int(data.protocol["stages"])))
            epochs = 20 if dataset == "cub" and METHODS[variant.method][0].family == "parametric" else 30
            stage_views += 2 * sum(later) * epochs
    training = (base_views + stage_views) / TRAINING / 3600
    return Cost(number, extracted / EXTRACTION / 3600 + training, training, stored * TOKENS / 1e9)


def _trained(variant: Variant) -> bool:
    return METHODS[variant.method][0].trains


def line(name: str) -> str:
    """The cost of an experiment in words, as its recipe has it."""
    runs, first, further, gigabytes = cost(name)
    return f"{runs} runs a seed; {first:.1f} hours, {further:.1f} for each further seed; {gigabytes:.0f} GB of tokens"


if __name__ == "__main__":
    for experiment in EXPERIMENTS:
        print(f"{experiment}: {line(experiment)}")
