"""Fuzzing of model files and reviews: whatever is in them, one clear line or a model that works."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load, save

from happycat import Happycat
from happycat.base.errors import HappycatError
from happycat.base.text import shown
from happycat.cli.corrections import show
from happycat.methods.calm import CalmConfig
from happycat.model import corrections, fitting, membership
from happycat.model import file as model_file
from happycat.model.review import FILE, Review
from tests.helpers.forgery import change_something, changed_array, put_together, taken_apart

KIND = np.repeat(np.arange(4), 12)
VECTORS = np.eye(8)[KIND] + 0.05 * np.random.default_rng(0).normal(size=(48, 8))
STEPS = 10  # of `use`
FEW, MANY = 60, 20_000  # files that are tried in the usual run, and in the long one


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A model of three versions with a review: fitted, discovered in, and corrected."""
    path = tmp_path_factory.mktemp("fuzz") / "shop.cat"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "CalmConfig", partial(CalmConfig, episodes=1))
        cat = Happycat().fit(VECTORS[:36], np.array(list("abcd"))[KIND[:36]])
    cat.save(path)
    found = cat.discover(VECTORS[30:], 1)
    review = Review.of(found, cat.stage_).write(path.parent)
    cat.save(path, "discover", {"results": str(path.parent), "review": review, "images": 18})
    corrections.correct_images(path, "move", move)
    corrections.correct(path, "merge", lambda registry: registry.merge("a", "b"))
    corrections.undo(path)
    return path


def move(correction: corrections.Correction) -> None:
    membership.move(correction.registry, correction.chosen([0, 1]), "#1")


def use(path: Path) -> int:
    """Do with a model file what people do; how many of these things worked. Any other error is a failure."""
    steps = [
        lambda: show(path),
        lambda: show(path, as_json=True),
        lambda: predicted(path),
        lambda: corrections.correct(path, "name", lambda registry: registry.name("#3", "zebra")),
        lambda: corrections.correct_images(path, "move", move),
        lambda: corrections.correct(path, "split", lambda registry: registry.split("#0")),
        lambda: corrections.undo(path),
        lambda: corrections.redo(path),
        lambda: predicted(path),
        lambda: model_file.repair(path),
    ]
    refused = []
    for step in steps:
        try:
            step()
        except HappycatError as error:
            refused.append(shown(error))  # as the commands print it
    assert all(refused)
    return len(steps) - len(refused)


def predicted(path: Path) -> None:
    cat = Happycat.load(path)
    if cat.backbone_ != "vectors":
        raise HappycatError("a model of images needs its backbone")
    probabilities = cat.predict_proba(VECTORS)
    assert np.isfinite(probabilities).all()
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-4)
    assert len(cat.predict(VECTORS)) == len(VECTORS)


def try_files(model: Path, folder: Path, seeds: range) -> int:
    whole, worked = taken_apart(model), 0
    for seed in seeds:
        chance, content = random.Random(seed), copy.deepcopy(whole)
        done = [change_something(content, chance) for _ in range(chance.choice([1, 1, 1, 2, 3]))]
        path = folder / "forged.cat"
        try:
            put_together(path, content)
        except (TypeError, ValueError, KeyError, AttributeError):  # what was changed cannot be written at all
            continue
        try:
            worked += use(path) == STEPS
        except BaseException:
            print(f"seed {seed}: {done}")
            raise
    return worked


def test_a_file_put_together_again_works(model, tmp_path, capsys):
    put_together(tmp_path / "same.cat", taken_apart(model))
    assert use(tmp_path / "same.cat") == STEPS


def test_forged_model_files(model, tmp_path):
    assert 0 < try_files(model, tmp_path, range(FEW)) < FEW  # some changes harm nothing


def test_the_folder_of_a_discovery_may_have_any_name(model, tmp_path):
    content, path = taken_apart(model), tmp_path / "forged.cat"
    for name, is_a_path in (("a" * 5000, True), ("a/" * 5000, True), ("\udc80", True), (".", True), ("\ud800", False)):
        content["versions"][1]["description"]["results"] = name
        put_together(path, content)
        assert (use(path) > 0) is is_a_path


def test_forged_reviews(model, tmp_path):
    try_reviews(model, tmp_path, range(FEW // 3))


def try_reviews(model: Path, folder: Path, seeds: range) -> None:
    whole, content = load((model.parent / FILE).read_bytes()), taken_apart(model)
    for seed in seeds:
        chance, arrays = random.Random(seed), dict(whole)
        name = chance.choice(sorted(arrays))
        if name == "metadata":
            metadata = json.loads(arrays[name].tobytes())
            change_something(metadata, chance)
            arrays[name] = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
        else:
            arrays[name] = changed_array(arrays[name], chance)
        (folder / FILE).write_bytes(forged := save(arrays))
        said = content["versions"][1]["description"]
        said["review"], said["results"] = hashlib.sha256(forged).hexdigest(), str(folder)
        put_together(folder / "shop.cat", content)
        try:
            use(folder / "shop.cat")
        except BaseException:
            print(f"seed {seed}: {name}")
            raise


def test_any_damage_is_noticed_or_harms_nothing(model, tmp_path):
    """Bytes that were changed or cut off, behind checksums that are not right any more."""
    whole, path, chance = model.read_bytes(), tmp_path / "damaged.cat", random.Random(0)
    for _ in range(2 * FEW):
        data = bytearray(whole)
        place = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[place] ^= 1 << chance.randrange(8)
        else:
            del data[place:]
        path.write_bytes(data)
        try:
            assert dict(model_file.read(path).arrays).keys() == dict(model_file.read(model).arrays).keys()
            assert model_file.damaged_versions(path)  # what was changed is not of the present version
        except HappycatError:
            continue


@pytest.mark.slow
def test_many_forged_files(model, tmp_path):
    try_files(model, tmp_path, range(FEW, MANY))
    try_reviews(model, tmp_path, range(FEW // 3, MANY // 4))
