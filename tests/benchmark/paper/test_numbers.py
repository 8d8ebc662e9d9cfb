"""The paper's tables against each other and against arithmetic, so that a slip in copying them shows."""

import doctest
import json
from importlib import resources

import pytest

from happycat.benchmark.paper import numbers
from happycat.benchmark.paper.numbers import mean_over_stages, published, rows
from happycat.images.datasets import DATASETS

TEXT = resources.files("happycat.benchmark.paper").joinpath("numbers.json").read_text(encoding="utf-8")
TABLES = json.loads(TEXT)

METHODS = ["kmeans", "vanilla_gcd", "simgcd", "simgcd_lwf", "frost", "gm", "metagcd", "happy"]
METRICS = {"all", "old", "new", "m_f", "m_d", "delta_p", "delta_r", "var_0", "acc_h"}
SWITCHES = {"entropy", "init", "prototypes", "distillation", "hardness"}
WEIGHTS = {"hardness_temperature", "entropy_weight", "distillation_weight", "contrast_weight"}
COLUMNS = {"dataset", "method", "stage", "row"} | METRICS | SWITCHES | WEIGHTS

SIZES = {
    "tab:main-all": 4 * 8 * 6,
    "tab:discover-forget-cifar100-tiny": 2 * 4,
    "tab:appendix-10-step-cifar100-full": 3 * 11,
    "tab:appendix-10-step-tiny-full": 3 * 11,
    "tab:main-ablation": 2 * 7,
    "tab:sensitivity-tau-h": 2 * 5,
    "tab:unknown-class-number": 3,
    "tab:dataset-splits": 4,
    "tab:prob-bias-mitigation": 2 * 2,
    "tab:hard-bias-mitigation": 2 * 2,
    "tab:appendix-fine-grained": 2 * 3,
    "tab:sensitivity-lambda1": 5,
    "tab:sensitivity-lambda2": 5,
    "tab:sensitivity-lambda3": 5,
}

# Of tab:main-all, worked out apart from the file: accuracy at stage 0; mean of All, Old, New over five stages.
AVERAGES = {
    "cifar100": {
        "kmeans": (66.16, 37.19, 38.56, 27.66),
        "vanilla_gcd": (90.82, 61.06, 65.30, 33.42),
        "simgcd": (90.36, 56.25, 64.34, 3.92),
        "simgcd_lwf": (90.36, 61.25, 67.86, 18.82),
        "frost": (90.36, 59.50, 61.72, 45.34),
        "gm": (90.36, 65.01, 67.95, 45.62),
        "metagcd": (90.82, 64.29, 68.37, 37.76),
        "happy": (90.36, 69.00, 71.82, 51.36),
    },
    "imagenet100": {
        "kmeans": (85.56, 54.57, 56.50, 41.04),
        "vanilla_gcd": (95.96, 67.62, 70.46, 48.04),
        "simgcd": (96.20, 64.27, 71.05, 21.08),
        "simgcd_lwf": (96.20, 68.99, 76.10, 23.36),
        "frost": (96.20, 74.78, 77.68, 55.92),
        "gm": (96.20, 78.74, 81.51, 61.88),
        "metagcd": (95.96, 70.46, 73.15, 50.42),
        "happy": (96.20, 84.95, 86.94, 72.88),
    },
    "tiny_imagenet": {
        "kmeans": (61.70, 34.92, 35.76, 28.38),
        "vanilla_gcd": (84.20, 51.69, 54.55, 32.22),
        "simgcd": (85.86, 52.81, 60.57, 2.83),
        "simgcd_lwf": (85.86, 55.67, 62.39, 12.78),
        "frost": (85.86, 56.10, 59.11, 34.96),
        "gm": (85.86, 60.75, 65.50, 28.52),
        "metagcd": (84.20, 54.28, 57.37, 33.68),
        "happy": (85.86, 65.58, 68.92, 43.38),
    },
    "cub": {
        "kmeans": (43.93, 30.07, 28.78, 38.92),
        "vanilla_gcd": (89.20, 54.71, 56.40, 44.24),
        "simgcd": (90.26, 57.37, 64.42, 11.77),
        "simgcd_lwf": (90.26, 59.05, 65.55, 16.89),
        "frost": (90.26, 49.63, 52.66, 31.30),
        "gm": (90.26, 62.61, 66.41, 37.51),
        "metagcd": (89.20, 57.38, 58.82, 47.27),
        "happy": (90.26, 68.88, 71.29, 53.13),
    },
}

# Sums of the columns, for slips of a digit that are too small for the other tests to see.
SUMS = {
    "tab:main-all": {"all": 12338.40, "old": 10139.13, "new": 5681.54},
    "tab:appendix-10-step-cifar100-full": {"all": 2280.49, "old": 2073.41, "new": 1126.20},
    "tab:appendix-10-step-tiny-full": {"all": 2042.19, "old": 1843.96, "new": 1032.60},
    "tab:discover-forget-cifar100-tiny": {"m_f": 138.57, "m_d": 312.12},
    "tab:main-ablation": {"all": 854.12, "old": 938.06, "new": 313.68},
    "tab:sensitivity-tau-h": {"all": 660.62},
    "tab:unknown-class-number": {"all": 190.80, "old": 202.71, "new": 113.60},
    "tab:prob-bias-mitigation": {"delta_p": 180.71, "delta_r": 150.30},
    "tab:hard-bias-mitigation": {"var_0": 64.42, "acc_h": 266.38},
    "tab:appendix-fine-grained": {"all": 307.67, "old": 313.46, "new": 271.22},
    "tab:sensitivity-lambda1": {"all": 321.85},
    "tab:sensitivity-lambda2": {"all": 339.49},
    "tab:sensitivity-lambda3": {"all": 344.76},
}

STAGED = ["tab:main-all", "tab:appendix-10-step-cifar100-full", "tab:appendix-10-step-tiny-full"]

# Rows of the paper whose All is not the weighted mean of their Old and New: printed All, weighted mean.
UNBALANCED = {
    ("tab:main-all", "imagenet100", "metagcd", 2): (73.79, 72.93),
    ("tab:main-all", "tiny_imagenet", "kmeans", 4): (34.77, 34.68),
    ("tab:main-all", "tiny_imagenet", "simgcd_lwf", 5): (42.98, 43.08),
    ("tab:main-all", "cub", "metagcd", 3): (57.53, 56.66),
    ("tab:appendix-10-step-cifar100-full", "cifar100", "vanilla_gcd", 2): (75.68, 76.68),
    ("tab:appendix-10-step-cifar100-full", "cifar100", "vanilla_gcd", 5): (64.29, 65.29),
}
# Share of new images in CUB's test of each stage: its classes differ in size, so it comes from the other rows.
CUB_SHARES = [0.1711, 0.1410, 0.1243, 0.1124, 0.1006]


def share_of_new(table, row):
    """The part of a stage's test images that are of new classes."""
    if row["dataset"] == "cub" and row["method"] != "simgcd_lwf":  # whose All takes the classes as equally large
        return CUB_SHARES[row["stage"] - 1]
    base = {"cifar100": 50, "imagenet100": 50, "tiny_imagenet": 100, "cub": 100}[row["dataset"]]
    step = base / (5 if table == "tab:main-all" else 10)
    return step / (base + step * row["stage"])


def later_rows(table):
    return [row for row in rows(table) if row["stage"] > 0]


def test_examples_in_docstrings():
    result = doctest.testmod(numbers)
    assert result.attempted >= 4
    assert result.failed == 0


def test_the_file_is_read_and_compared_by_people():
    def unique(pairs):
        assert len({key for key, _ in pairs}) == len(pairs), f"a key comes twice: {pairs}"
        return dict(pairs)

    assert json.loads(TEXT, object_pairs_hook=unique) == TABLES
    records = [line for line in TEXT.splitlines() if '"dataset"' in line]
    assert [json.loads(line.strip().rstrip(",")) for line in records] == [row for t in TABLES for row in rows(t)]


def test_every_table_is_whole():
    assert {table: len(rows(table)) for table in TABLES} == SIZES
    for content in TABLES.values():
        assert set(content) == {"caption", "rows"}
        assert content["caption"].endswith(".")


@pytest.mark.parametrize("table", sorted(set(SIZES) - {"tab:dataset-splits"}))
def test_names_and_ranges(table):
    seen = set()
    for row in rows(table):
        assert set(row) <= COLUMNS
        assert row["dataset"] in DATASETS
        assert row.get("method", "happy") in METHODS
        assert all(type(row[name]) is bool for name in SWITCHES & set(row))
        assert METRICS & set(row)
        assert all(0 <= row[metric] <= 100 for metric in METRICS & set(row))
        assert ("old" in row) == ("new" in row)
        if row.get("stage") == 0:
            assert METRICS & set(row) == {"all"}
        key = tuple((name, value) for name, value in row.items() if name not in METRICS)
        assert key not in seen
        seen.add(key)


@pytest.mark.parametrize("dataset", AVERAGES)
@pytest.mark.parametrize("method", METHODS)
def test_five_stage_averages(dataset, method):
    base, *averages = AVERAGES[dataset][method]
    where = {"dataset": dataset, "method": method}
    assert published("tab:main-all", "all", stage=0, **where) == base
    found = [mean_over_stages("tab:main-all", metric, **where) for metric in ("all", "old", "new")]
    assert found == pytest.approx(averages, abs=0.0051)


def test_happy_averages_to_the_whole_ablation():
    for dataset in ("cifar100", "cub"):
        for metric in ("all", "old", "new"):
            whole = published("tab:main-ablation", metric, dataset=dataset, row="g")
            assert mean_over_stages("tab:main-all", metric, dataset=dataset, method="happy") == pytest.approx(
                whole, abs=0.0051
            )


def test_ablation_rows_switch_what_the_paper_says():
    switches = ("entropy", "init", "prototypes", "distillation")
    for dataset in ("cifar100", "cub"):
        on = {
            row["row"]: "".join(s[0] for s in switches if row[s])
            for row in rows("tab:main-ablation")
            if row["dataset"] == dataset
        }
        assert on == {"a": "", "b": "e", "c": "i", "d": "ei", "e": "pd", "f": "eip", "g": "eipd"}


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("tab:sensitivity-tau-h", {"hardness_temperature": 0.1}),
        ("tab:sensitivity-lambda1", {"entropy_weight": 1}),
        ("tab:sensitivity-lambda2", {"distillation_weight": 1}),
        ("tab:sensitivity-lambda3", {"contrast_weight": 1}),
    ],
)
def test_sweeps_meet_the_main_table_at_the_default(table, where):
    main = mean_over_stages("tab:main-all", "all", dataset="cifar100", method="happy")
    assert published(table, "all", dataset="cifar100", **where) == pytest.approx(main, abs=0.0051)


def test_discovery_is_the_mean_of_new():
    for row in rows("tab:discover-forget-cifar100-tiny"):
        mean = mean_over_stages("tab:main-all", "new", dataset=row["dataset"], method=row["method"])
        assert row["m_d"] == pytest.approx(mean, abs=0.0051)


def test_forgetting_is_no_less_than_at_stage_1():
    """At stage 1 the old classes are the labelled ones, so their loss there bounds m_f from below."""
    for row in rows("tab:discover-forget-cifar100-tiny"):
        where = {"dataset": row["dataset"], "method": row["method"]}
        bound = published("tab:main-all", "all", stage=0, **where) - published("tab:main-all", "old", stage=1, **where)
        if where == {"dataset": "tiny_imagenet", "method": "vanilla_gcd"}:  # so in the paper
            assert (row["m_f"], bound) == pytest.approx((20.20, 25.28))
        else:
            assert row["m_f"] >= bound - 0.011


def test_ten_stages_start_where_five_do():
    for table in STAGED[1:]:
        for row in rows(table):
            if row["stage"] == 0:
                assert row["all"] == published("tab:main-all", "all", **row)


@pytest.mark.parametrize("table", SUMS)
def test_columns_add_up(table):
    for metric, expected in SUMS[table].items():
        assert sum(row.get(metric, 0) for row in rows(table)) == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize("table", STAGED)
def test_all_lies_between_old_and_new(table):
    for row in later_rows(table):
        low, high = sorted((row["old"], row["new"]))
        assert low <= row["all"] <= high, row


@pytest.mark.parametrize("table", STAGED)
def test_all_is_the_weighted_mean_of_old_and_new(table):
    """All = (1 − s)·Old + s·New with s the share of new test images: K_new / (K_old + K_new) if classes are even."""
    odd = {}
    for row in later_rows(table):
        share = share_of_new(table, row)
        mean = (1 - share) * row["old"] + share * row["new"]
        if abs(row["all"] - mean) > 0.06:
            odd[table, row["dataset"], row["method"], row["stage"]] = (row["all"], mean)
    assert odd == {key: pytest.approx(pair, abs=0.011) for key, pair in UNBALANCED.items() if key[0] == table}


def test_averaged_rows_weigh_new_as_the_stages_do():
    """New is from 1/6 (stage 1) to 1/10 (stage 5) of the test images; in all averaged rows it comes to about 0.135."""
    for table in ("tab:main-ablation", "tab:unknown-class-number", "tab:appendix-fine-grained"):
        for row in rows(table):
            assert (row["all"] - row["old"]) / (row["new"] - row["old"]) == pytest.approx(0.135, abs=0.01), row


def test_published_wants_one_row():
    assert published("tab:main-all", "all", dataset="cub", method="gm", stage=2) == 67.91
    assert published("tab:main-all", "all", dataset="cars", method="gm", stage=2) is None
    assert published("tab:main-all", "m_f", dataset="cub", method="gm", stage=2) is None
    assert published("tab:main-all", "all", dataset="cub", method="gm", stage=2, seed=None) is None
    with pytest.raises(ValueError, match="8 rows of tab:main-all"):
        published("tab:main-all", "all", dataset="cub", stage=2)
    with pytest.raises(KeyError, match="tab:none"):
        published("tab:none", "all")


def test_mean_over_stages_leaves_out_stage_0():
    where = {"dataset": "cub", "method": "gm"}
    stages = [published("tab:main-all", "all", stage=t, **where) for t in range(1, 6)]
    assert mean_over_stages("tab:main-all", "all", **where) == pytest.approx(sum(stages) / 5)
    assert mean_over_stages("tab:main-all", "all", stage=0, **where) is None
    assert mean_over_stages("tab:main-all", "m_f", **where) is None
    assert mean_over_stages("tab:main-ablation", "all", dataset="cub", row="g") is None
    with pytest.raises(ValueError, match="several rows a stage"):
        mean_over_stages("tab:main-all", "all", dataset="cub")


def test_rows_may_be_changed_by_whoever_asked():
    rows("tab:main-all")[0]["all"] = -1.0
    assert rows("tab:main-all")[0]["all"] == 66.16
