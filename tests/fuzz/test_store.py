"""Fuzzing of stores of features: damaged files are computed again, forged recipes are nobody's store."""

from __future__ import annotations

import hashlib
import json
import shutil
import tracemalloc
import warnings
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from hypothesis import strategies as st

from happycat.backbone.housekeeping import delete_stale, partial_files, stores_below
from happycat.backbone.recipe import Recipe
from happycat.backbone.store import FeatureStore, recipes_in
from happycat.base.disk import locked
from happycat.base.errors import InputError, InUseError
from happycat.base.sealed import write_sealed
from happycat.base.strict_json import as_json
from happycat.cli.doctor import health
from tests.helpers.damage import ODD_JSON, damaged, in_one_line, try_many

NUMBERS = [pytest.param(15, id="few"), pytest.param(10_000, id="many", marks=pytest.mark.slow)]
FEATURES = torch.arange(40.0).reshape(10, 1, 4)
RECIPE = Recipe(
    kind="features", backbone="b", precision="torch.float32", pictures="p", num_pictures=10, view_names=("centre",),
    image_size=16, crop_share=0.875, mirror=True, view_seed=0, num_tokens=1, dim=4, shard=4,
)  # fmt: skip


def filled(root: Path) -> torch.Tensor:
    """The features of a store that is used: what it has not, or not whole, is computed."""
    store = FeatureStore(root, RECIPE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a shard is damaged
        store.fill(lambda shards: ({"features": FEATURES[list(shard)]} for shard in shards))
    return store.features()


@pytest.mark.parametrize("number", NUMBERS)
def test_whatever_happens_to_its_files_a_store_gives_what_was_stored(tmp_path, number):
    filled(tmp_path / "whole")
    files = sorted(path.name for path in (tmp_path / "whole" / RECIPE.name).iterdir() if path.suffix != ".lock")
    assert len(files) == 4  # a recipe and three shards
    contents = {name: (tmp_path / "whole" / RECIPE.name / name).read_bytes() for name in files}
    one = st.sampled_from(files).flatmap(lambda name: st.tuples(st.just(name), damaged(contents[name])))

    def check(given: tuple[str, bytes]) -> None:
        shutil.rmtree(tmp_path / "used", ignore_errors=True)
        shutil.copytree(tmp_path / "whole", tmp_path / "used")
        (tmp_path / "used" / RECIPE.name / given[0]).write_bytes(given[1])
        with in_one_line():
            assert torch.equal(filled(tmp_path / "used"), FEATURES)

    try_many(one, check, number)


@pytest.mark.parametrize("number", NUMBERS)
def test_forged_recipes(tmp_path, number):
    """With a right checksum, in a folder of the right name: looked at in little memory, and no traceback."""
    whole = as_json(asdict(RECIPE))
    values = st.one_of(ODD_JSON, st.sampled_from([0, -1, 10**7, 10**12, [[]], [None], ["centre", "1"]]))
    changes = st.dictionaries(st.sampled_from(sorted(whole)), values, min_size=1, max_size=3)

    def check(change: dict) -> None:
        shutil.rmtree(tmp_path / "root", ignore_errors=True)
        forged = {**whole, **change}
        try:
            name = hashlib.sha256(json.dumps(forged, sort_keys=True).encode()).hexdigest()[:16]
            write_sealed(tmp_path / "root" / name / "recipe.json", forged)
        except ValueError:  # it cannot be written
            return
        tracemalloc.start()
        with in_one_line():
            for store in stores_below(tmp_path / "root"):
                store.recorded(), store.bytes_on_disk(), store.damaged(), store.owner(), store.names()
        with in_one_line():
            assert all(recipe.covers(RECIPE) in (True, False) for recipe in recipes_in(tmp_path / "root"))
        with in_one_line():
            list(health(tmp_path / "root"))
        delete_stale(tmp_path / "root", lambda run: True)
        partial_files(tmp_path / "root")
        assert tracemalloc.get_traced_memory()[1] < 50e6
        tracemalloc.stop()

    try_many(changes, check, number)


@pytest.mark.parametrize("number", NUMBERS)
def test_who_holds_a_lock_is_said_whatever_is_in_its_file(tmp_path, number):
    lock = tmp_path / ".lock"

    def check(content: bytes) -> None:
        lock.write_bytes(content)
        with pytest.raises(InUseError) as caught, locked(lock, "the run", wait=False):
            pass
        assert str(caught.value).isprintable()

    with locked(lock, "the run", wait=False):
        try_many(st.binary(max_size=40) | damaged(lock.read_bytes()), check, number)


@pytest.mark.parametrize(
    "change", [{"num_pictures": 10**12}, {"shard": 0}, {"num_pictures": None}, {"view_names": [[]]}]
)
def test_a_recipe_that_cannot_be_is_no_store(tmp_path, change):
    forged = {**as_json(asdict(RECIPE)), **change}
    name = hashlib.sha256(json.dumps(forged, sort_keys=True).encode()).hexdigest()[:16]
    write_sealed(tmp_path / name / "recipe.json", forged)
    assert list(stores_below(tmp_path)) == []
    assert list(recipes_in(tmp_path)) == []


def test_more_pictures_than_a_store_holds_are_refused():
    with pytest.raises(InputError, match="more than the 4194304 that one store holds"):
        replace(RECIPE, num_pictures=10**9)
