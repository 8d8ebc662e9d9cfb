"""The report of each of the paper's experiments: its tables, with the paper's numbers beside ours, and its figure."""

from __future__ import annotations

from collections.abc import Callable

from happycat.benchmark.paper import outputs, reports, sweeps
from happycat.benchmark.paper.curves import orders_report, preliminary_report
from happycat.benchmark.paper.reports import Report
from happycat.benchmark.paper.results import Results


def report_of(name: str, severity: int = 2, own_corruptions: bool = False) -> Callable[[Results], Report]:
    """What makes the report of that experiment; `severity` and `own_corruptions` are for `corruption`."""
    stages, averages = reports.stages_report, reports.averages_report
    made = {
        "main": stages(name, "Continual category discovery, stage by stage", lambda _: "tab:main-all"),
        "forgetting": reports.forgetting_report,
        "ten-stages": stages(name, "Ten stages", _ten_stage_table),
        "ablation": averages(name, "Ablation, averages over the stages", "tab:main-ablation"),
        "hardness": sweeps.hardness_report,
        "lambdas": sweeps.lambdas_report,
        "prior": sweeps.prior_report,
        "unknown-k": reports.unknown_k_report,
        "bias": reports.bias_report,
        "preliminary": preliminary_report,
        "confidence": outputs.confidence_report,
        "corruption": outputs.corruption_report(severity, own_corruptions),
        "fine-grained": averages(name, "Fine-grained data sets, averages over the stages", "tab:appendix-fine-grained"),
        "orders": orders_report,
        "tuning": sweeps.tuning_report,
        "calm-ablation": averages(name, "Calm without its parts, averages over the stages"),
    }
    return made[name]


def _ten_stage_table(dataset: str) -> str:
    return "tab:appendix-10-step-tiny-full" if dataset == "tiny_imagenet" else "tab:appendix-10-step-cifar100-full"
