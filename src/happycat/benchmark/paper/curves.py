"""Reports of stages and class orders: the paper's preliminary figure, and the spread over class orders."""

from __future__ import annotations

from happycat.benchmark.paper.experiments import Variant
from happycat.benchmark.paper.reports import GROUPS, Report, series
from happycat.benchmark.paper.results import Results, at, mean_of, over_seeds
from happycat.report.figures import Panel, lines
from happycat.report.tables import Cell, ResultTable, Row


def preliminary_report(results: Results) -> Report:
    """Old and New after each stage (a, c), and the accuracy of each labelled class before and after (d).

    What the paper's (b) shows, confidence in old and new classes, is the experiment `confidence`.
    """
    stages = range(1, results.num_stages + 1)
    rows: list[Row] = []
    classes: list[Row] = []
    panels = []
    for dataset in results.datasets:
        for variant in results.variants(dataset):
            curves = {g: [results.cell(dataset, variant, at(t, g)) for t in stages] for g in ("old", "new")}
            rows.append(((dataset, variant.label), tuple(cell for cells in curves.values() for cell in cells)))
            shown = [series(group.title(), cells) for group, cells in curves.items()]
            panels.append(Panel(f"{dataset}: {variant.label}", list(stages), shown, "stage", "accuracy (%)"))
            of_classes = _labelled_classes(results, dataset, variant)
            classes += [((dataset, variant.label, name), cells) for name, cells in of_classes]
            panels.append(_sorted_panel(f"{dataset}: {variant.label}", of_classes, results.num_stages))
    curves_table = ResultTable(
        title="Old and New after each stage, before Happy's parts are complete",
        labels=("data set", "variant"),
        columns=tuple(f"S{t} {group}" for group in ("Old", "New") for t in stages),
        rows=tuple(rows),
    )
    classes_table = ResultTable(
        title="Accuracy of each labelled class after Stage-0 and after the last stage, the hardest first",
        labels=("data set", "variant", "class"),
        columns=("after Stage-0", f"after stage {results.num_stages}"),
        rows=tuple(classes),
    )
    tables = {"preliminary": curves_table, "preliminary-classes": classes_table}
    return Report(tables, lambda folder: lines(panels, folder / "preliminary"))


def _labelled_classes(results: Results, dataset: str, variant: Variant) -> list[tuple[str, tuple[Cell, Cell]]]:
    """Each labelled class with its accuracy after Stage-0 and after the last stage, the lowest last one first."""
    last, split = results.num_stages, results.split(dataset)

    def cell(c: int, stage: int) -> Cell:
        return results.cell(dataset, variant, lambda scores: scores[stage]["per_class"][c])

    found = [(name, (cell(c, 0), cell(c, last))) for c, name in enumerate(split.classes[: split.num_seen(0)])]
    return sorted(found, key=lambda one: one[1][1].mean or 0.0)


def _sorted_panel(title: str, classes: list[tuple[str, tuple[Cell, Cell]]], last: int) -> Panel:
    before, after = zip(*(cells for _, cells in classes), strict=True)
    shown = [series("labelled, after Stage-0", list(before)), series(f"labelled, after stage {last}", list(after))]
    return Panel(title, list(range(1, len(classes) + 1)), shown, "labelled class, hardest first", "accuracy (%)")


def orders_report(results: Results) -> Report:
    """The averages of All, Old, New for each class order, and their mean and deviation over the orders."""
    rows: list[Row] = []
    panels = []
    for dataset in results.datasets:
        by_method: dict[str, list[Variant]] = {}
        for variant in results.variants(dataset):
            by_method.setdefault(variant.label, []).append(variant)
        curves = []
        for label, variants in by_method.items():
            names = [_order_name(variant) for variant in variants]
            cells = [tuple(results.cell(dataset, v, mean_of(f"mean_{g}")) for g in GROUPS) for v in variants]
            rows += [((dataset, label, name), order) for name, order in zip(names, cells, strict=True)]
            spread = tuple(over_seeds([cell[i].mean for cell in cells]) for i in range(len(GROUPS)))
            rows.append(((dataset, label, f"mean of {len(cells)}"), spread))
            curves.append(series(label, [*(cell[0] for cell in cells), spread[0]]))
        panels.append(Panel(dataset, [*names, "mean"], curves, "class order", "average All (%)"))
    made = ResultTable(
        title="Class orders: averages over the stages",
        labels=("data set", "method", "class order"),
        columns=tuple(group.title() for group in GROUPS),
        rows=tuple(rows),
        notes=("A row of a class order is over seeds; the row of the mean is over the class orders.",),
    )
    return Report({"orders": made}, lambda folder: lines(panels, folder / "orders"))


def _order_name(variant: Variant) -> str:
    seed = variant.protocol.get("order_seed")
    return "usual" if seed is None else f"shuffled {seed}"
