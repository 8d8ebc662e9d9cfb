"""Tables and figures of an experiment: the paper's numbers with ours beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from happycat.benchmark.paper.experiments import Variant
from happycat.benchmark.paper.results import Results, at, mean_of, over_seeds
from happycat.benchmark.record import Record
from happycat.report.figures import Panel, Series, bars, lines
from happycat.report.tables import Cell, ResultTable

GROUPS = ("all", "old", "new")


class Report(NamedTuple):
    """Tables by the name of their file, and what draws the figures, given a folder."""

    tables: dict[str, ResultTable]
    draw: Callable[[Path], list[Path]]


# Accuracy after each stage: main, ten-stages


def stages_report(name: str, title: str, table: Callable[[str], str]) -> Callable[[Results], Report]:
    """A row for each method with All, Old, New after each stage and on average, as the paper's `table(data set)`."""

    def report(results: Results) -> Report:
        stages = range(1, results.num_stages + 1)
        columns = (
            "S0 All",
            *(f"S{t} {g.title()}" for t in stages for g in GROUPS),
            *(f"avg {g.title()}" for g in GROUPS),
        )
        rows, panels = [], []
        for dataset in results.datasets:
            curves = []
            for variant in results.variants(dataset):
                cells = [_stage_cell(results, table(results.paper_names[dataset]), dataset, variant, 0, "all")]
                cells += [
                    _stage_cell(results, table(results.paper_names[dataset]), dataset, variant, t, g)
                    for t in stages
                    for g in GROUPS
                ]
                cells += [
                    _average_cell(results, table(results.paper_names[dataset]), dataset, variant, g) for g in GROUPS
                ]
                rows.append(((dataset, variant.label), tuple(cells)))
                curves.append(series(variant.label, [cells[0], *cells[1 : 1 + 3 * len(stages) : 3]]))
            panels.append(Panel(dataset, [0, *stages], [c._replace(paper=None) for c in curves], "stage", "All (%)"))
            if any(c.paper for c in curves):
                theirs = [Series(c.name, c.paper or [None] * len(c.values)) for c in curves]
                name_there = f"{results.paper_names[dataset]} in the paper"
                panels.append(Panel(name_there, [0, *stages], theirs, "stage", "All (%)"))
        made = ResultTable(
            title=title,
            labels=("data set", "method"),
            columns=columns,
            rows=tuple(rows),
            better=("", *("high",) * (len(columns) - 1)),  # methods share Stage-0
            notes=results.evaluation_notes(),
        )
        return Report({name: made}, lambda folder: lines(panels, folder / name))

    return report


def _stage_cell(results: Results, table: str, dataset: str, variant: Variant, stage: int, group: str) -> Cell:
    paper = results.published(table, group, dataset, stage=stage, **variant.paper)
    return results.cell(dataset, variant, at(stage, group), paper)


def _average_cell(results: Results, table: str, dataset: str, variant: Variant, group: str) -> Cell:
    paper = results.published_mean(table, group, dataset, **variant.paper)
    return results.cell(dataset, variant, mean_of(f"mean_{group}"), paper)


def series(name: str, cells: list[Cell]) -> Series:
    """Cells as what a figure draws."""
    spread = [cell.spread for cell in cells]
    paper = [cell.paper for cell in cells]
    return Series(
        name,
        [cell.mean for cell in cells],
        spread if any(value is not None for value in spread) else None,
        paper if any(value is not None for value in paper) else None,
    )


# Averages over the stages: ablation, unknown-k, fine-grained


def averages_report(name: str, title: str, table: str | None = None) -> Callable[[Results], Report]:
    """A row for each variant with the averages of All, Old, New, as the paper's `table`, if it has one."""

    def report(results: Results) -> Report:
        rows, panels = [], []
        for dataset in results.datasets:
            bars_of = []
            for variant in results.variants(dataset):
                cells = [
                    results.cell(
                        dataset,
                        variant,
                        mean_of(f"mean_{group}"),
                        results.published(table, group, dataset, **variant.paper) if table else None,
                    )
                    for group in GROUPS
                ]
                rows.append(((dataset, variant.label), tuple(cells)))
                bars_of.append(series(variant.label, cells))
            panels.append(Panel(dataset, [group.title() for group in GROUPS], bars_of, "", "average over stages (%)"))
        made = ResultTable(
            title=title,
            labels=("data set", "variant"),
            columns=tuple(group.title() for group in GROUPS),
            rows=tuple(rows),
            better=("high",) * 3,
            notes=results.evaluation_notes(),
        )
        return Report({name: made}, lambda folder: bars(panels, folder / name))

    return report


def unknown_k_report(results: Results) -> Report:
    """The averages, and how many new classes were estimated at each stage."""
    averages = averages_report("unknown-k", "The number of new classes estimated", "tab:unknown-class-number")(results)
    stages = range(1, results.num_stages + 1)
    rows = []
    for dataset in results.datasets:
        for variant in results.variants(dataset):
            cells = tuple(
                over_seeds([_found(record, t) for record in results.records(dataset, variant)]) for t in stages
            )
            rows.append(((dataset, variant.label), cells))
        true = results.split(dataset)
        rows.append(((dataset, "true"), tuple(Cell(float(true.num_new(t))) for t in stages)))
    estimated = ResultTable(
        title="Estimated number of new classes",
        labels=("data set", "method"),
        columns=tuple(f"S{t}" for t in stages),
        rows=tuple(rows),
    )
    return Report({**averages.tables, "unknown-k-estimates": estimated}, averages.draw)


def _found(record: Record, stage: int) -> float:
    return float(sum(c["stage"] == stage for c in record.model(stage)["classes"]))


# One figure a run: forgetting, bias


def forgetting_report(results: Results) -> Report:
    """M_f and M_d of each method."""
    table, rows, panels = "tab:discover-forget-cifar100-tiny", [], []
    for dataset in results.datasets:
        bars_of = []
        for variant in results.variants(dataset):
            cells = [
                results.cell(
                    dataset, variant, mean_of(metric), results.published(table, metric, dataset, **variant.paper)
                )
                for metric in ("m_f", "m_d")
            ]
            rows.append(((dataset, variant.label), tuple(cells)))
            bars_of.append(series(variant.label, cells))
        panels.append(Panel(dataset, ["M_f (lower is better)", "M_d (higher is better)"], bars_of, "", "points"))
    made = ResultTable(
        title="Forgetting of the labelled classes (M_f) and discovery of the new ones (M_d)",
        labels=("data set", "method"),
        columns=("M_f", "M_d"),
        rows=tuple(rows),
        better=("low", "high"),
        notes=results.evaluation_notes(),
    )
    return Report({"forgetting": made}, lambda folder: bars(panels, folder / "forgetting"))


def bias_report(results: Results) -> Report:
    """Δp and Δr after stage 1 with and without entropy; Var_0 and Acc_h at the end with and without hardness.

    Beside Δp over all test images, as the paper defines it, stands the one in which old and new images weigh alike.
    """
    last = results.num_stages
    made, panels = {}, []
    for name, title, table, stage, part, metrics, better in (
        ("probability", "Prediction bias after stage 1", "tab:prob-bias-mitigation", 1, "entropy",
         ("delta_p", "delta_p_balanced", "delta_r"), ("low", "", "low")),
        ("hardness", "Hardness bias after the last stage", "tab:hard-bias-mitigation", last, "hardness",
         ("var_0", "acc_h"), ("low", "high")),
    ):  # fmt: skip
        columns = {"delta_p": "Δp", "delta_p_balanced": "Δp balanced", "delta_r": "Δr"}
        columns |= {"var_0": "Var_0", "acc_h": "Acc_h"}
        rows = []
        for dataset in results.datasets:
            shown = [v for v in results.variants(dataset) if part in v.paper]
            shown_bars = []
            for variant in shown:
                label = f"with {part}" if variant.paper[part] else f"without {part}"
                cells = [
                    results.cell(
                        dataset,
                        variant,
                        at(stage, metric),
                        results.published(table, metric, dataset, **{part: variant.paper[part]}),
                    )
                    for metric in metrics
                ]
                rows.append(((dataset, label), tuple(cells)))
                shown_bars.append(series(label, cells))
            panels.append(Panel(f"{dataset}: {part}", [columns[m] for m in metrics], shown_bars, "", ""))
        made[f"bias-{name}"] = ResultTable(
            title=title,
            labels=("data set", "variant"),
            columns=tuple(columns[m] for m in metrics),
            rows=tuple(rows),
            better=better,
        )
    return Report(made, lambda folder: bars(panels, folder / "bias"))
