"""Power loss while a run writes: a checkpoint and the epochs it counts on, a finished stage, a shard of a store."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from happycat.backbone.recipe import Recipe
from happycat.backbone.store import FeatureStore
from happycat.backbone.tensor_file import load_tensors
from happycat.base.errors import HappycatError, NoSpaceError
from happycat.base.sealed import SealedLines
from tests.helpers.power_loss import Disk, put
from tests.helpers.records import checkpoint, open_record, stage_parts, write_record

Act = Callable[[Path], object]
Found = Callable[[Path], object]  # what is there afterwards; raises if it is not whole


def save(folder: Path) -> None:
    with open_record(folder, resume=True) as record:
        record.epoch(1, 3, {"fit": 0.25})
        record.save_checkpoint(1, checkpoint(3))


def saved(folder: Path) -> int:
    """The epoch of the checkpoint, which has all lines that it counts on."""
    with open_record(folder, resume=True) as record:
        epoch = record.checkpoint_epoch()
        assert [line["epoch"] for line in record.epochs() if line["stage"] == 1] == list(range(1, epoch + 1))
        return epoch


def finish(folder: Path) -> None:
    with open_record(folder, resume=True) as record:
        record.epoch(1, 3, {"fit": 0.25})
        record.finish_stage(1, **stage_parts(1))


def finished(folder: Path) -> int:
    """How many stages are finished, every file of which is whole."""
    with open_record(folder, resume=True) as record:
        for stage in record.stages():
            for name in stage.files():
                stage.content(name)
        done = len(record.stages())
        if done == 2:
            assert len([line for line in record.epochs() if line["stage"] == 1]) == 3
    return done


def written_lines(folder: Path) -> int:
    """How many stages stages.jsonl has, before anybody writes it anew."""
    return len(SealedLines(folder / "stages.jsonl").read())


RECIPE = Recipe(
    kind="features", backbone="b", precision="torch.float32", pictures="p", num_pictures=3, view_names=("centre",),
    image_size=16, crop_share=0.875, mirror=True, view_seed=0, num_tokens=1, dim=4,
)  # fmt: skip


def shard(folder: Path) -> None:
    FeatureStore(folder, RECIPE)._write(0, {"features": torch.ones(3, 1, 4)})


def shards(folder: Path) -> int:
    return len([load_tensors(path) for path in folder.glob("*/00000.safetensors")])


def outcome(found: Found, state: dict, folder: Path) -> object:
    shutil.rmtree(folder, ignore_errors=True)
    try:
        return found(put(state, folder))
    except (HappycatError, AssertionError) as error:
        return repr(error)


def begin(found: Found, folder: Path) -> Path:
    if found is shards:
        (folder / RECIPE.name).mkdir(parents=True)
    else:
        write_record(folder)
    return folder


@pytest.mark.parametrize(
    ("act", "found", "before", "after"),
    [(save, saved, 2, 3), (finish, finished, 1, 2), (finish, written_lines, 1, 2), (shard, shards, 0, 1)],
)
def test_what_is_there_after_a_power_failure(tmp_path, act: Act, found: Found, before, after):
    disk = Disk(begin(found, tmp_path / "disk"))
    last = disk.watch(lambda: act(tmp_path / "disk"))
    outcomes = [outcome(found, state, tmp_path / "after") for state in disk.states]
    assert set(outcomes) == {before, after}
    assert {outcome(found, state, tmp_path / "after") for state in last} == {after}


@pytest.mark.parametrize(("act", "found", "after"), [(save, saved, 3), (finish, finished, 2), (shard, shards, 1)])
def test_every_fsync_of_what_is_new_is_needed(tmp_path, act: Act, found: Found, after):
    """Without any one of them there is a power failure after which something is torn, or lost though it was said."""
    needless = []
    syncs = 1
    skip = 0
    seen: dict[frozenset, object] = {}  # most states come again, whichever is left out

    def known(state: dict) -> object:
        key = frozenset(state.items())
        if key not in seen:
            seen[key] = outcome(found, state, tmp_path / "after")
        return seen[key]

    while skip < syncs:
        disk = Disk(begin(found, tmp_path / str(skip)), skip)
        last = disk.watch(lambda: act(tmp_path / str(skip)))  # noqa: B023
        syncs = disk.syncs
        outcomes = {known(state) for state in disk.states}
        ended = {known(state) for state in last}
        if outcomes <= {after - 1, after} and ended == {after}:
            needless.append(skip)
        skip += 1
    assert needless == NEEDLESS[act](syncs), f"of {syncs}"


# Opening a run writes epochs.jsonl and stages.jsonl anew, the same as before, with two fsyncs each: only the content of
# epochs.jsonl must be on the disk before it gets its name. A finished stage ends with stages.jsonl, which is a copy
# (`written_lines`).
NEEDLESS = {
    save: lambda syncs: [1, 2, 3],
    finish: lambda syncs: [1, 2, 3, syncs - 2, syncs - 1],
    shard: lambda syncs: [],
}


@pytest.mark.parametrize(("act", "found", "after"), [(save, saved, 3), (finish, finished, 2), (shard, shards, 1)])
def test_a_full_disk_at_every_write_is_one_line_and_loses_nothing(tmp_path, monkeypatch, act: Act, found: Found, after):
    sync, left = os.fsync, [0]

    def full(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    for number in itertools.count():
        folder, left[0] = begin(found, tmp_path / str(number)), number
        monkeypatch.setattr(os, "fsync", full)
        try:
            act(folder)
        except NoSpaceError as error:
            monkeypatch.undo()
            assert_one_line(error)
            assert found(folder) in (after - 1, after)
        else:
            break
    monkeypatch.undo()
    assert number > 1
    assert found(folder) == after


def assert_one_line(error: NoSpaceError) -> None:
    assert "\n" not in str(error)
    assert "no space left for" in str(error)
