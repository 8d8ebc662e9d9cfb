"""A run that is killed at any moment goes on and ends with the same numbers, to the bit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from happycat.backbone import recipe, store
from happycat.base.errors import InputError, StorageError
from happycat.base.progress import SILENT
from happycat.benchmark.record import Record
from happycat.benchmark.setup import prepare
from tests.helpers.runs import assert_same_run, quick_loop, quick_request, quick_run

FAULTS = Path(__file__).parents[2] / "benchmarks" / "faults" / "runs.py"


def faults(*flags: object) -> str:
    """Have the harness kill runs; it ends badly if one of them is not the same as one that was not killed."""
    result = subprocess.run(
        [sys.executable, FAULTS, *map(str, flags)], capture_output=True, text=True, timeout=3000, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()[-1]


def test_same_seed_same_numbers(finished, tmp_path):
    quick_run(tmp_path / "again")
    assert_same_run(finished, tmp_path / "again")


def test_another_seed_gives_other_numbers(finished, tmp_path):
    quick_run(tmp_path / "other", loop={"seed": 1})
    assert (finished / "epochs.jsonl").read_text() != (tmp_path / "other" / "epochs.jsonl").read_text()


def test_killed_five_times(finished):
    """At random moments, and before random file operations."""
    assert "kills" in faults("--kills", 5, "--seed", 4, "--reference", finished)


@pytest.mark.slow
def test_killed_two_hundred_times():
    assert "kills" in faults("--kills", 200)


class Killed(BaseException):
    """Stands for a kill at an exact place."""


@pytest.mark.parametrize("place", ["epoch", "save_checkpoint", "finish_stage", "_write_stage_lines"])
def test_killed_at_an_exact_place(finished, tmp_path, place):
    """Before and after each thing that the loop writes, in every stage; what is left of a stage ends as it would."""
    out = tmp_path / "run"
    for stage in range(3):
        loop = quick_loop(out, resume=True)
        loop.record.__dict__[place] = dying(loop.record, place, stage)
        with pytest.raises(Killed):
            loop.run()
        loop.record.close()
    quick_run(out, resume=True)
    assert_same_run(finished, out)


def dying(record: Record, place: str, stage: int):
    """A function of a record that is killed in a stage, when what it does is done."""
    original = getattr(record, place)

    def done_and_killed(*args, **kwargs):
        at = len(record.stage_scores())
        found = original(*args, **kwargs)
        if at == stage + (place == "_write_stage_lines"):
            raise Killed
        return found

    return done_and_killed


def test_killed_while_tokens_are_extracted(tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "SHARD", 3)
    quick_run(tmp_path / "whole")
    loop = quick_loop(tmp_path / "run")
    write, calls = store.Store._write, []

    def dying(self, number, tensors):
        calls.append(number)
        if len(calls) == 14:
            raise Killed
        write(self, number, tensors)

    monkeypatch.setattr(store.Store, "_write", dying)
    with pytest.raises(Killed):
        loop.run()
    loop.record.close()
    monkeypatch.setattr(store.Store, "_write", write)
    quick_run(tmp_path / "run", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_full_disk_loses_nothing(finished, tmp_path, monkeypatch):
    out = tmp_path / "run"
    loop = quick_loop(out)
    write = os.fsync

    def full(handle):
        if len(loop.record.stage_scores()) == 1:
            raise OSError(28, "No space left on device")
        write(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="no space left"):
        loop.run()
    loop.record.close()
    monkeypatch.undo()
    quick_run(out, resume=True)
    assert_same_run(finished, out)


def test_tokens_are_deleted(finished):
    assert not list((finished / "tokens").iterdir())


def test_oracle_keeps_the_best_test_epoch_and_resumes(tmp_path):
    scores = quick_run(tmp_path / "oracle", loop={"select": "oracle"})
    loop = quick_loop(tmp_path / "killed", loop={"select": "oracle"})
    lines = [e for e in Record(tmp_path / "oracle").epochs() if e["stage"] == 1]
    assert scores[1]["all"] == pytest.approx(max(e["test_all"] for e in lines))
    save, calls = loop.record.save_checkpoint, []

    def dying(*args):
        save(*args)
        calls.append(args)
        if len(calls) == 4:
            raise Killed

    loop.record.save_checkpoint = dying
    with pytest.raises(Killed):
        loop.run()
    loop.record.close()
    quick_run(tmp_path / "killed", resume=True, loop={"select": "oracle"})
    assert_same_run(tmp_path / "oracle", tmp_path / "killed")


def test_resume_refuses_other_values(finished):
    with pytest.raises(InputError, match="seed = 0, now it is 1"):
        prepare(quick_request(finished, resume=True, loop={"seed": 1}), SILENT)


def test_resume_refuses_another_split(finished):
    changed = {"base_classes": 4, "stages": 2, "split_seed": 5}
    with pytest.raises(InputError, match="another split"):
        prepare(quick_request(finished, resume=True, protocol_values=changed), SILENT)


def test_a_run_folder_is_not_overwritten(finished):
    with pytest.raises(InputError, match="holds a run already"):
        quick_loop(finished)


def test_two_processes_on_one_run_folder(tmp_path):
    loop = quick_loop(tmp_path / "run")
    with pytest.raises(InputError, match="in use"):
        quick_loop(tmp_path / "run", resume=True)
    loop.record.close()


def test_a_damaged_state_is_recognised(tmp_path, finished):
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / "stages" / "2" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match="damaged"):
        quick_run(tmp_path / "run", resume=True)


def test_a_run_of_another_version(tmp_path, finished):
    shutil.copytree(finished, tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 99'))
    with pytest.raises(InputError, match="another version"):
        quick_run(tmp_path / "run", resume=True)


def test_a_resumed_run_has_the_threads_it_was_begun_with(monkeypatch, tmp_path):
    """The last bits depend on them, and other processes may have come or gone meanwhile."""
    used = []

    @contextmanager
    def at_most(number):
        used.append(number)
        yield

    monkeypatch.setattr("happycat.benchmark.loop.at_most", at_most)
    for suitable, until in ((3, 0), (1, 1)):
        monkeypatch.setattr("happycat.benchmark.setup.suitable", lambda _, number=suitable: number)
        quick_run(tmp_path / "run", resume=True, loop={"until": until})
    assert used == [3, 3]
    assert Record(tmp_path / "run").metadata()["threads"] == 3
