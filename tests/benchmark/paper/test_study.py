"""An experiment's runs: shared, not repeated, resumed; and what is made of them."""

from __future__ import annotations

import csv
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from happycat.backbone.config import BackboneConfig
from happycat.base.errors import HubError, InputError
from happycat.base.progress import SILENT, Progress, duration
from happycat.benchmark.paper import experiments, jobs, outputs, plan, sweeps
from happycat.benchmark.paper.catalogue import report_of
from happycat.benchmark.paper.experiments import EXPERIMENTS, new_shares
from happycat.benchmark.paper.jobs import Setting, with_protocol
from happycat.benchmark.paper.outputs import confidences
from happycat.benchmark.paper.plan import longest
from happycat.benchmark.paper.results import Results, over_seeds
from happycat.benchmark.paper.study import Study
from happycat.benchmark.protocol import Split
from happycat.benchmark.record import Record
from happycat.benchmark.setup import Request, load_images, the_split
from happycat.cli.paper import chosen_rows
from happycat.images.corruptions import CORRUPTIONS
from happycat.methods import METHODS
from happycat.methods.happy import HappyConfig
from happycat.report.tables import Cell
from tests.helpers.runs import QUICK, quick_request


def study(name: str, folder: Path, seeds: int = 1, only: tuple[str, ...] = (), **changes) -> Study:
    """An experiment on a few glyphs; with all of its methods, or `only` some."""

    def variants(split, config):
        return tuple(row for row in EXPERIMENTS[name].variants(split, config) if not only or row.method in only)

    values = {**QUICK, "episodes": 1}  # each method takes those that it has
    request = quick_request(
        folder, **{"loop": {"tokens": folder / "tokens", "keep_tokens": True}, "method_values": values, **changes}
    )
    setting = Setting(request)
    return Study(variants, {"glyphs": setting}, range(seeds), folder, {"glyphs": "cifar100"})


def run(method: str, *changes: str) -> str:
    """The name of a run's folder: the tests train for two epochs, which is not the usual number."""
    return "-".join([method, *(["epochs=2"] if METHODS[method][0].trains else []), *changes, "seed0"])


def quick_split(folder: Path) -> Split:
    """The split of these runs when no class is held out."""
    request = quick_request(folder)
    return the_split(request, load_images(request))


@pytest.fixture(scope="module")
def main(tmp_path_factory) -> Study:
    """All methods, run once."""
    made = study("main", tmp_path_factory.mktemp("main"))
    made.carry_out(1, SILENT)
    return made


def marks(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("model.safetensors")}


def test_all_methods_run_and_share_stage_0(main):
    names = sorted(path.name for path in (main.folder / "glyphs").iterdir())
    assert names == sorted(
        [run(method) for method in experiments.COMPARED] + ["stage0-happy-seed0", "stage0-vanilla_gcd-seed0"]
    )
    first = Record(main.folder / "glyphs" / "stage0-happy-seed0")
    assert len(first.stage_scores()) == 1
    for method in ("simgcd", "simgcd_lwf", "frost", "gm", "happy"):
        record = Record(main.folder / "glyphs" / run(method))
        assert record.stage(0).files() == first.stage(0).files()
        assert len(record.stage_scores()) == 3


def test_runs_that_are_there_are_not_repeated_by_this_or_another_experiment(main):
    before = marks(main.folder)
    main.carry_out(1, SILENT)
    study("forgetting", main.folder).carry_out(1, SILENT)
    assert marks(main.folder) == before
    assert study("forgetting", main.folder).plan(1)[0].startswith("6 runs, 0 of them to be done")


def test_values_equal_to_the_usual_ones_are_the_same_run(main):
    jobs = {job.request.out.name: job for job in study("ablation", main.folder).jobs()}
    assert jobs[run("happy")].finished()  # row (g)
    sweep = {job.request.out.name for job in study("hardness", main.folder).jobs()}
    assert {run("happy"), run("happy", "hardness=false"), run("happy", "hardness_temperature=0.01")} <= sweep
    assert run("happy", "hardness_temperature=0.1") not in sweep


def test_a_run_with_other_values_in_its_place_is_told(main):
    other = study("main", main.folder, method_values={**QUICK, "momentum": 0.5})
    with pytest.raises(InputError, match="was run with another config"):
        other.carry_out(1, SILENT)


def test_runs_of_other_epochs_or_another_evaluation_lie_beside_and_start_from_the_same_stage_0(main):
    values = {**QUICK, "epochs": 3, "rate": 0.02, "evaluation": "transductive"}
    made = {job.request.out.name: job for job in study("main", main.folder, method_values=values).jobs()}
    assert made["stage0-happy-seed0"].finished()
    assert made["happy-epochs=3-seed0"].done() == 0
    # where test images are clustered anew, those of Stage-0 are, too
    assert made["metagcd-epochs=3-evaluation=transductive-seed0"].request.start.name == (
        "stage0-vanilla_gcd-evaluation=transductive-seed0"
    )
    assert "kmeans-evaluation=transductive-seed0" in made


def test_an_interrupted_experiment_goes_on(main, tmp_path):
    class Stop(Exception):
        pass

    class Impatient(Progress):
        """Stops the experiment when the second run begins."""

        def message(self, text):
            if text.startswith("glyphs, frost"):
                raise Stop

    some = ("vanilla_gcd", "frost")
    half = study("forgetting", tmp_path, only=some)
    with pytest.raises(Stop):
        half.carry_out(1, Impatient())
    assert half.plan(1)[0].startswith("4 runs, 1 of them to be done")
    before = marks(tmp_path)
    assert before
    study("forgetting", tmp_path, only=some).carry_out(1, SILENT)
    assert before.items() <= marks(tmp_path).items()
    for method in some:
        ours, theirs = (Record(folder / "glyphs" / run(method)).stage_scores() for folder in (tmp_path, main.folder))
        assert ours == theirs


def test_the_plan_says_how_much_there_is_to_do(tmp_path):
    first, contrastive, parametric, last = study("main", tmp_path).plan(2)
    assert first.startswith("11 runs, 11 of them to be done")
    # Stage-0: 32 images, 2 epochs, 2 views; then, for each method, two stages of 16 images, 2 epochs, 2 views;
    # KMeans and Calm train nothing
    assert f"{32 * 2 * 2 + 5 * 2 * 16 * 2 * 2:,} views to train on" in parametric
    assert "parametric (Stage-0, simgcd, simgcd_lwf, frost, gm, happy): " in parametric
    assert f"{32 * 2 * 2 + 2 * 2 * 16 * 2 * 2:,} views to train on" in contrastive
    assert "contrastive (Stage-0, vanilla_gcd, metagcd): " in contrastive
    assert "2 runs at a time, and some minutes for each run that trains nothing (2)" in last


@pytest.fixture
def quick_rates(monkeypatch):
    """Ten views a second through the trunk, forty in int8, a thousand to train on."""
    monkeypatch.setattr(plan, "extraction_rates", lambda trunk: {"fp32": 10.0, "int8": 40.0})
    monkeypatch.setattr(plan, "training_rate", lambda trunk, tail: 1000.0)


def planned(folder: Path, dataset: str, **changes) -> Study:
    """The main experiment on a data set that is not there, with a small backbone whose weights are not there."""
    backbone = BackboneConfig(name="vit_tiny_patch16_224.augreg_in21k", image_size=32, device="cpu")
    values = {"backbone": backbone, "root": folder / "data", **changes}
    setting = Setting(Request(dataset=dataset, out=folder / "runs", **values), planned=True)
    return Study(EXPERIMENTS["main"].variants, {dataset: setting}, range(1), folder / "runs", {dataset: dataset})


def test_a_data_set_that_is_not_there_is_planned_by_its_published_size(tmp_path, quick_rates, monkeypatch):
    def no_hub(config, seed):
        raise HubError("the hub cannot be reached")

    monkeypatch.setattr(jobs, "build", no_hub)
    study = planned(tmp_path, "cifar100")
    lines, split = study.plan(1), next(study.jobs()).split
    # Stage-0: 50 classes of 400; stage t: 10 new classes of 400, 50 + 10 (t − 1) earlier ones of 25; 4 views and the
    # centre view of each image, the centre view of 10,000 test images
    served = [*split.labelled.values(), *(keys for stage in split.stages for keys in stage["images"].values())]
    assert sum(map(len, served)) == 50 * 400 + sum(10 * 400 + (50 + 10 * t) * 25 for t in range(5))
    views = 5 * len({key for keys in served for key in keys}) + 10_000  # what is served again is copied
    assert lines[1] == (
        f"cifar100: {views:,} views to extract at 10.00 a second in fp32: {duration(views / 10)}; "
        f"at 40.00 a second in int8: {duration(views / 40)}"
    )
    again = views + 3 * 10_000
    assert study.plan(1, again=3)[1].startswith(f"cifar100: {again:,} views to extract")
    assert "cifar100: planned by its published size, 60,000 images, for want of its files" in lines[2]
    assert "cifar100: planned with random weights (the hub cannot be reached)" in lines[3]
    stored = 5 * sum(map(len, served)) + 10_000
    size = stored * (5 * 192 * 2 + 192 * 4)  # five tokens in bf16, and the class token in fp32
    assert lines[4].startswith(f"cifar100: {size / 1e9:.1f} GB of tokens and features on disk")
    assert ", contrastive (Stage-0, vanilla_gcd, metagcd): " in lines[5]
    assert ", parametric (Stage-0, simgcd, simgcd_lwf, frost, gm, happy): " in lines[6]
    assert len(lines) == 8


def test_the_plan_counts_every_corruption():
    assert EXPERIMENTS["corruption"].again == len(CORRUPTIONS)


def test_only_a_plan_does_without_the_files(tmp_path):
    with pytest.raises(InputError, match="CIFAR-100 is missing"):
        Setting(Request(dataset="cifar100", root=tmp_path, out=tmp_path))
    with pytest.raises(InputError, match="no data set or folder"):  # nobody published its size
        planned(tmp_path, "pictures-of-mine")


def test_methods_with_features_only_come_last_and_wait_for_tokens(tmp_path):
    every = list(study("main", tmp_path).jobs())
    assert [job.request.method for job in every[-2:]] == ["kmeans", "calm"]
    assert not any(job.features_only for job in every[:-2])
    (stores,) = longest(every)  # the others take its tokens, or make features of them
    assert not stores.features_only
    assert stores.num_stages == 3
    assert longest(every[-2:]) == every[-2:]  # without it each extracts its own


@pytest.mark.slow
def test_several_runs_at_a_time_give_the_same_numbers(main, tmp_path):
    study("forgetting", tmp_path).carry_out(2, SILENT)
    for method in ("vanilla_gcd", "happy"):
        ours, theirs = (Record(folder / "glyphs" / run(method)).stage_scores() for folder in (tmp_path, main.folder))
        assert ours == theirs


def test_tables_hold_our_numbers_and_the_papers(main, tmp_path):
    report = report_of("main")(main.results())
    table = report.tables["main"]
    with open(table.write(tmp_path, "main")[1], newline="") as file:
        rows = {(row["method"], row["column"]): row for row in csv.DictReader(file)}
    happy = Record(main.folder / "glyphs" / run("happy")).stage_scores()
    assert float(rows["Happy", "S2 New"]["mean"]) == pytest.approx(happy[2]["new"])
    assert float(rows["Happy", "avg All"]["mean"]) == pytest.approx((happy[1]["all"] + happy[2]["all"]) / 2)
    assert float(rows["Happy", "S2 New"]["paper"]) == 49.30
    assert float(rows["GM", "S0 All"]["paper"]) == 90.36
    assert {path.suffix for path in report.draw(tmp_path)} == {".png", ".svg"}


@pytest.mark.parametrize(
    "name", ["ablation", "prior", "unknown-k", "bias", "preliminary", "confidence", "corruption", "calm-ablation"]
)
def test_an_experiment_runs_and_is_drawn(name, main, tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "CORRUPTIONS", {one: CORRUPTIONS[one] for one in ("fog", "jpeg_compression")})
    made = study(name, main.folder)
    made.carry_out(1, SILENT)
    report = report_of(name)(made.results())
    assert all(path.exists() for path in report.draw(tmp_path))
    for file, table in report.tables.items():
        assert all(path.exists() for path in table.write(tmp_path, file))
        assert any(cell is not None and cell.mean is not None for _, cells in table.rows for cell in cells)


ALONE = [
    *(("hardness", "τ_h = 0.1"), ("lambdas", "λ2 = 1"), ("bias", "Happy"), ("prior", "soft entropy")),
    *(("confidence", "Happy"), ("orders", "Happy"), ("forgetting", "MetaGCD")),
]


@pytest.mark.parametrize(("name", "label"), ALONE)
def test_a_row_alone_is_a_table_and_a_figure(name, label, main, tmp_path, monkeypatch):
    """`--only` may leave out any row; these are runs that are there."""
    monkeypatch.setattr(experiments, "ORDERS", 1)
    rows = partial(chosen_rows, EXPERIMENTS[name].variants, [label])
    monkeypatch.setitem(EXPERIMENTS, name, EXPERIMENTS[name]._replace(variants=rows))
    report = report_of(name)(study(name, main.folder).results())
    assert all(path.exists() for path in report.draw(tmp_path))
    assert all(path.exists() for file, table in report.tables.items() for path in table.write(tmp_path, file))


def test_hardness_alone_is_left_out(main, tmp_path, monkeypatch):
    rows = partial(chosen_rows, EXPERIMENTS["hardness"].variants, ["without hardness"])
    monkeypatch.setitem(EXPERIMENTS, "hardness", EXPERIMENTS["hardness"]._replace(variants=rows))
    made = study("hardness", main.folder)
    made.carry_out(1, SILENT)
    assert all(path.exists() for path in report_of("hardness")(made.results()).draw(tmp_path))


def test_ten_stages_start_from_the_same_stage_0(main):
    jobs = list(study("ten-stages", main.folder).jobs())
    assert {job.request.out.name for job in jobs if job.request.start} == {
        run(method, "stages=10") for method in ("vanilla_gcd", "metagcd", "happy")
    }


def test_each_class_order_has_its_own_stage_0_and_the_spread_is_shown(main, tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "ORDERS", 2)
    made = study("orders", main.folder)
    jobs = {job.request.out.name: job for job in made.jobs()}
    assert list(jobs) == [
        *("stage0-happy-seed0", "stage0-happy-order_seed=1-seed0", run("happy"), run("happy", "order_seed=1")),
        *("calm-seed0", "calm-order_seed=1-seed0"),
    ]
    usual, shuffled = (jobs[run("happy", *change)].split for change in ((), ("order_seed=1",)))
    assert usual.classes != shuffled.classes
    made.carry_out(1, SILENT)
    report = report_of("orders")(made.results())
    rows = {labels[1:]: cells for labels, cells in report.tables["orders"].rows}
    found = [rows["Happy", order][0].mean for order in ("usual", "shuffled 1")]
    assert rows["Happy", "mean of 2"][0] == over_seeds(found)
    assert all(path.exists() for path in report.draw(tmp_path))


def test_values_are_tried_on_held_out_classes(tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "TRIED", {"simgcd": {"entropy_weight": (2.0,)}})
    made = study("tuning", tmp_path, dataset_options={"num_classes": 8, "per_class": 30}, held_out=True)
    made.carry_out(1, SILENT)
    runs = {job.request.out.name: job for job in made.jobs()}
    assert list(runs) == ["stage0-happy-seed0", run("simgcd"), run("simgcd", "entropy_weight=2")]
    assert set(runs[run("simgcd")].split.classes) == set(quick_split(tmp_path).labelled)
    (table,) = report_of("tuning")(made.results()).tables.values()
    assert [labels for labels, _ in table.rows] == [
        ("glyphs, SimGCD", "as usual"),
        ("glyphs, SimGCD", "entropy_weight 2"),
    ]


@pytest.mark.parametrize("method", experiments.TRIED)
def test_values_that_are_tried_are_the_methods_own(method):
    usual = METHODS[method][1].authors()
    for row in experiments.tuning(None, HappyConfig()):
        if row.method == method:
            replace(usual, **row.values)
    tried = [row.values for row in experiments.tuning(None, HappyConfig()) if row.method == method]
    assert any(all(getattr(usual, name) == value for name, value in row.items()) for row in tried)  # the usual ones


def test_a_shuffled_order_takes_the_place_of_a_given_one(tmp_path):
    request = quick_request(tmp_path, class_order=tmp_path / "order.txt")
    assert with_protocol(request, {"base_classes": 4}).class_order == tmp_path / "order.txt"
    assert with_protocol(request, {"base_classes": 4, "order_seed": 1}).class_order is None


@pytest.mark.parametrize("evaluation", ["inductive", "transductive"])
def test_tables_say_how_k_means_was_tested(evaluation, tmp_path):
    results = study("forgetting", tmp_path, method_values={**QUICK, "evaluation": evaluation}).results()
    (note,) = results.evaluation_notes()
    assert note.startswith("metagcd, vanilla_gcd: ")
    assert note.endswith(f"({evaluation})")
    assert study("bias", tmp_path).results().evaluation_notes() == ()


def test_every_curve_has_error_bars_where_there_are_seeds(monkeypatch, tmp_path):
    """The sweep over τ_h, whose flat line is one number repeated."""
    drawn = []
    monkeypatch.setattr(sweeps, "lines", lambda panels, stem: drawn.extend(panels))
    monkeypatch.setattr(Results, "cell", lambda *_: Cell(50.0, 2.0))
    report_of("hardness")(study("hardness", tmp_path, seeds=2).results()).draw(tmp_path)
    assert [list(line.spread) for panel in drawn for line in panel.series] == [[2.0] * 5] * 2


def test_the_ablation_switches_what_its_rows_say():
    rows = experiments.ablation(None, HappyConfig())
    values = {row.paper["row"]: row.values for row in rows}
    assert values["g"] == {}
    assert values["f"] == {"distillation_weight": 0.0}
    assert set(values["e"]) == {"entropy_weight", "cluster_init"}
    assert len(values["a"]) == 4


def test_lambdas_are_factors_of_the_usual_weights():
    rows = {row.label: row.values for row in experiments.lambdas(None, HappyConfig())}
    assert rows["λ2 = 1"] == {"distillation_weight": 2.0}
    assert rows["λ1 = 0.5"] == {"entropy_weight": 0.5}


def test_the_share_of_new_images_is_counted_from_the_split(main):
    split = main.results().split("glyphs")
    by_hand = []
    for stage in split.stages:
        new = sum(len(keys) for name, keys in stage["images"].items() if name in stage["new"])
        by_hand.append(new / sum(map(len, stage["images"].values())))
    assert new_shares(split) == pytest.approx(tuple(by_hand))


def test_confidences_by_hand():
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]])) + np.array([[3.0], [0.0]])
    found = confidences(logits)
    assert found["max softmax"] == pytest.approx([0.5, 0.8])
    assert found["margin"] == pytest.approx([0.25, 0.7])
    assert found["max logit"] == pytest.approx([3 + np.log(0.5), np.log(0.8)])
    assert found["negative entropy"][0] == pytest.approx(0.5 * np.log(0.5) + 0.5 * np.log(0.25))


def test_mean_and_spread_over_seeds():
    assert over_seeds([1.0, 3.0], 5.0) == (2.0, pytest.approx(2**0.5), 5.0)
    assert over_seeds([1.0]) == (1.0, None, None)
    assert over_seeds([None, None]).mean is None
