"""Tables and figures of methods with other values: Happy's hardness, weights and prior; the other methods' own."""

from __future__ import annotations

from happycat.benchmark.paper.experiments import HARDNESS, LAMBDAS, NAMES, new_shares
from happycat.benchmark.paper.reports import GROUPS, Report, series
from happycat.benchmark.paper.results import Results, at, mean_of, over_seeds
from happycat.benchmark.record import Record
from happycat.report.figures import Panel, Series, lines
from happycat.report.tables import Cell, ResultTable, Row


def hardness_report(results: Results) -> Report:
    """The average All with and without hardness, and for each temperature."""
    table, rows, panels = "tab:sensitivity-tau-h", [], []
    usual = f"τ_h = {0.1:g}"
    for dataset in results.datasets:
        cells = {}
        for variant in results.variants(dataset):
            paper = results.published(table, "all", dataset, **variant.paper) if variant.paper else None
            cells[variant.label] = results.cell(dataset, variant, mean_of("mean_all"), paper)
            rows.append(((dataset, variant.label), (cells[variant.label],)))
        without = cells.pop("without hardness", None)  # each may have been left out
        tried = [t for t in HARDNESS if f"τ_h = {t:g}" in cells] or list(HARDNESS)
        curves = [series("with hardness", list(cells.values()))] if cells else []
        curves += [series("without hardness", [without] * len(tried))] if without else []
        panels.append(Panel(dataset, [f"{t:g}" for t in tried], curves, "τ_h", "average All (%)"))
    made = ResultTable(
        title=f"Hardness-aware sampling; the usual value is {usual}",
        labels=("data set", "variant"),
        columns=("All",),
        rows=tuple(rows),
        better=("high",),
    )
    return Report({"hardness": made}, lambda folder: lines(panels, folder / "hardness"))


def lambdas_report(results: Results) -> Report:
    """The average All for each value of the three weights."""
    rows, panels = [], []
    for dataset in results.datasets:
        by_label = {variant.label: variant for variant in results.variants(dataset)}
        for i, (symbol, (_, factors)) in enumerate(LAMBDAS.items(), 1):
            tried = [factor for factor in factors if f"{symbol} = {factor:g}" in by_label]
            if not tried:
                continue
            cells = []
            for factor in tried:
                variant = by_label[f"{symbol} = {factor:g}"]
                paper = results.published(f"tab:sensitivity-lambda{i}", "all", dataset, **variant.paper)
                cells.append(results.cell(dataset, variant, mean_of("mean_all"), paper))
                rows.append(((dataset, variant.label), (cells[-1],)))
            panels.append(
                Panel(
                    f"{dataset}: {symbol}",
                    [f"{f:g}" for f in tried],
                    [series("Happy", cells)],
                    symbol,
                    "average All (%)",
                )
            )
    made = ResultTable(
        title="The weights of entropy (λ1), distillation (λ2) and contrast (λ3), as factors of their usual values",
        labels=("data set", "weight"),
        columns=("All",),
        rows=tuple(rows),
    )
    return Report({"lambdas": made}, lambda folder: lines(panels, folder / "lambdas"))


def prior_report(results: Results) -> Report:
    """All, Old, New and the share of images that went to new classes, stage by stage."""
    stages = range(1, results.num_stages + 1)
    rows: list[Row] = []
    panels = []
    for dataset in results.datasets:
        accuracy, ratio = [], []
        for variant in results.variants(dataset):
            records = results.records(dataset, variant)
            alls = [results.cell(dataset, variant, at(t, "all")) for t in stages]
            shares = [over_seeds([predicted_new_share(record, t) for record in records]) for t in stages]
            means = [results.cell(dataset, variant, mean_of(f"mean_{group}")) for group in GROUPS]
            rows.append(((dataset, variant.label), (*means, *shares)))
            accuracy.append(series(variant.label, alls))
            ratio.append(series(f"{variant.label}, predicted", shares))
        true = [100 * share for share in new_shares(results.split(dataset))]
        rows.append(((dataset, "in the data"), (None, None, None, *(Cell(share) for share in true))))
        ratio.append(Series("in the data", true))
        panels.append(Panel(f"{dataset}: accuracy", list(stages), accuracy, "stage", "All (%)"))
        panels.append(Panel(f"{dataset}: share of new images", list(stages), ratio, "stage", "new (%)"))
    made = ResultTable(
        title="The true ratio of old and new images in place of the entropy between them",
        labels=("data set", "variant"),
        columns=(*(f"avg {g.title()}" for g in GROUPS), *(f"S{t} new share" for t in stages)),
        rows=tuple(rows),
    )
    return Report({"prior": made}, lambda folder: lines(panels, folder / "prior"))


def tuning_report(results: Results) -> Report:
    """The averages over the stages of held-out classes; the best of each method's values in bold."""
    rows: list[Row] = []
    for dataset in results.datasets:
        for variant in results.variants(dataset):
            cells = tuple(results.cell(dataset, variant, mean_of(f"mean_{group}")) for group in GROUPS)
            rows.append(((f"{dataset}, {NAMES[variant.method]}", variant.label), cells))
    made = ResultTable(
        title="Values tried on held-out classes, averages over the stages",
        labels=("data set, method", "values"),
        columns=tuple(group.title() for group in GROUPS),
        rows=tuple(rows),
        better=("high", "", ""),
        notes=("labelled images alone: some of their classes are met as new ones", *results.evaluation_notes()),
    )
    return Report({"tuning": made}, lambda folder: [])


def predicted_new_share(record: Record, stage: int) -> float:
    """Per cent of a stage's images that were given a class found at that stage."""
    new = {c["id"] for c in record.model(stage)["classes"] if c["stage"] == stage}
    assigned = record.assigned(stage)
    return 100 * sum(row["predicted"] in new for row in assigned) / len(assigned)
