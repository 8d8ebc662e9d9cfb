"""Every table and figure of the paper by name: what is run, on which data sets, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from happycat.benchmark.paper import experiments, outputs, reports
from happycat.benchmark.paper.experiments import Variant
from happycat.benchmark.paper.reports import Report
from happycat.benchmark.paper.results import Results
from happycat.benchmark.protocol import Split
from happycat.methods.happy import HappyConfig

FOUR = ("cifar100", "imagenet100", "tiny_imagenet", "cub")


class Experiment(NamedTuple):
    """What it shows, the paper's data sets for it, its variants, and the report on its results."""

    title: str
    datasets: tuple[str, ...]
    variants: Callable[[Split, HappyConfig], tuple[Variant, ...]]
    report: Callable[[Results], Report]


def catalogue(severity: int = 2, own_corruptions: bool = False) -> dict[str, Experiment]:
    """All experiments; the arguments are those of `corruption`."""
    return {
        "main": Experiment(
            "all methods, stage by stage",
            FOUR,
            experiments.main,
            reports.stages_report("main", "Continual category discovery, stage by stage", lambda _: "tab:main-all"),
        ),
        "forgetting": Experiment(
            "forgetting M_f and discovery M_d",
            ("cifar100", "tiny_imagenet"),
            experiments.forgetting,
            reports.forgetting_report,
        ),
        "ten-stages": Experiment(
            "ten stages instead of five",
            ("cifar100", "tiny_imagenet"),
            experiments.ten_stages,
            reports.stages_report("ten-stages", "Ten stages", _ten_stage_table),
        ),
        "ablation": Experiment(
            "Happy's parts switched on one after another",
            ("cifar100", "cub"),
            experiments.ablation,
            reports.averages_report("ablation", "Ablation, averages over the stages", "tab:main-ablation"),
        ),
        "hardness": Experiment(
            "with and without hardness, and its temperature",
            FOUR,
            experiments.hardness,
            reports.hardness_report,
        ),
        "lambdas": Experiment(
            "the three weights of the loss",
            ("cifar100",),
            experiments.lambdas,
            reports.lambdas_report,
        ),
        "prior": Experiment(
            "the true ratio of new images in the entropy term",
            ("cifar100",),
            experiments.prior,
            reports.prior_report,
        ),
        "unknown-k": Experiment(
            "the number of new classes estimated",
            ("cifar100",),
            experiments.unknown_k,
            reports.unknown_k_report,
        ),
        "bias": Experiment(
            "prediction bias and hardness bias",
            ("cifar100", "cub"),
            experiments.bias,
            reports.bias_report,
        ),
        "confidence": Experiment(
            "confidence in old and new classes",
            ("cifar100",),
            experiments.confidence,
            outputs.confidence_report,
        ),
        "corruption": Experiment(
            "15 shifted distributions",
            ("cifar100",),
            experiments.some_methods,
            outputs.corruption_report(severity, own_corruptions),
        ),
        "fine-grained": Experiment(
            "cars and aircraft",
            ("cars", "aircraft"),
            experiments.some_methods,
            reports.averages_report(
                "fine-grained", "Fine-grained data sets, averages over the stages", "tab:appendix-fine-grained"
            ),
        ),
        "calm-ablation": Experiment(
            "Calm's parts left out one at a time",
            ("cifar100",),
            experiments.calm_ablation,
            reports.averages_report("calm-ablation", "Calm without its parts, averages over the stages"),
        ),
    }


def _ten_stage_table(dataset: str) -> str:
    return "tab:appendix-10-step-tiny-full" if dataset == "tiny_imagenet" else "tab:appendix-10-step-cifar100-full"
