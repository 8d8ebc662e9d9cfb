"""The paper's table of splits, class orders as files, and a command for each of the paper's tables and figures."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import pytest

from happycat.base.disk import file_sha256
from happycat.benchmark.paper import numbers
from happycat.benchmark.paper.experiments import EXPERIMENTS, OWN_EXPERIMENTS
from happycat.benchmark.paper.splits import numbers_of, split_table, write_orders
from happycat.benchmark.protocol import default_protocol, make_split
from happycat.images.datasets import DATASETS, PUBLISHED, load

PAGE = (Path(__file__).parents[3] / "docs" / "splits.md").read_text("utf-8")
PAPER = resources.files("happycat.benchmark.paper")
LABELS = json.loads(PAPER.joinpath("labels.json").read_text(encoding="utf-8"))
OURS = {"orders", "tuning", "calm-ablation", "calm-check", "questions"}  # what the paper has not


@pytest.mark.parametrize("label", LABELS)
def test_each_table_and_figure_of_the_paper_has_its_command(label):
    content = LABELS[label]
    if "none" in content:
        assert set(content) == {"none"}
        assert content["none"].startswith(("a diagram", "an algorithm"))
    else:
        assert content["experiments"]
        assert set(content["experiments"]) <= {*EXPERIMENTS, *OWN_EXPERIMENTS} - OURS


def test_the_labels_are_those_of_the_experiments_and_numbers():
    named = {name for content in LABELS.values() for name in content.get("experiments", ())}
    assert named == {*EXPERIMENTS, *OWN_EXPERIMENTS} - OURS
    tables = json.loads(PAPER.joinpath("numbers.json").read_text(encoding="utf-8"))
    assert set(tables) <= set(LABELS)
    kinds = [label.split(":")[0] for label in LABELS]
    assert {kind: kinds.count(kind) for kind in kinds} == {"fig": 8, "tab": 17, "alg": 1, "subfig": 4}


def test_the_table_has_the_papers_numbers():
    rows = {labels[0]: cells for labels, cells in split_table().rows}
    assert [cell.mean for cell in rows["cifar100"]] == [50, 400, 10, 400, 25]
    for row in numbers.rows("tab:dataset-splits"):
        name = row.pop("dataset")
        assert [cell.paper for cell in rows[name]] == list(row.values())
        ours = numbers_of(PUBLISHED[name])
        for column, value in row.items():  # the paper rounds: about 1,000 of ImageNet-100, about 25 of CUB
            assert ours[column] == (pytest.approx(value, rel=0.1) if column == "labelled_per_class" else value)


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_order_meets_each_class_once(name):
    data = PUBLISHED[name]
    assert sorted(data.order) == list(range(len(data.order)))
    assert name in DATASETS
    assert data.test > 0
    assert data.protocol["base_classes"] < len(data.order) < data.train


def test_the_orders_files_have_the_checksums_of_the_docs(tmp_path):
    for name, (path, checksum) in write_orders(tmp_path).items():
        assert json.loads(path.read_text("utf-8"))["classes"] == list(PUBLISHED[name].order)
        assert f"| `{name}` | `{checksum}` |" in PAGE


def test_the_split_of_the_digits_is_the_same_everywhere(tmp_path):
    """Its images come with scikit-learn, so every machine and version can check how splits are drawn."""
    data = load("digits")
    assert (len(data.train), len(data.test)) == (PUBLISHED["digits"].train, PUBLISHED["digits"].test)
    path = tmp_path / "split.json"
    make_split(data, default_protocol(data)).write(path)
    assert re.search(rf"`happycat stages digits`.*`{file_sha256(path).hex()}`", PAGE, re.DOTALL)
