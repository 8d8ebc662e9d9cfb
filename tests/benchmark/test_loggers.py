"""The logs hold the run's numbers, and the same ones whether or not it was interrupted."""

from __future__ import annotations

import json
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from happycat.base.errors import InputError
from happycat.benchmark.loggers import check_logs, open_logs

ABOUT = {"method": "happy", "numbers": {"seed": 0, "epochs": 2}}
EPOCHS = [
    {"stage": 0, "epoch": 1, "loss": 1.5, "terms": {"contrast": 1.0, "cross-entropy": 0.5}},
    {"stage": 0, "epoch": 2, "loss": 0.1 + 0.2, "terms": {"contrast": 0.1, "cross-entropy": 0.2}},
    {"stage": 1, "epoch": 1, "loss": 0.25, "terms": {"entropy old": 0.25}, "test_all": 62.5},
    {"stage": 1, "epoch": 2, "loss": 0.125, "terms": {"entropy old": 0.125}, "test_all": 75.0},
]
STAGES = [
    {"all": 90.0, "new": None, "nmi": 0.875, "per_class": [90.0, None], "identities": [0, 1]},
    {"all": 75.0, "new": 1 / 3, "nmi": 0.5, "per_class": [75.0, 80.0], "identities": [0, 1, -1]},
]


def follow(folder: Path, names=(), epochs: int = 0, stages: int = 0, until: int = 4) -> None:
    """A run that goes on after `epochs` epochs and `stages` stages, and is interrupted after `until` epochs.

    The logs are closed even then: the more they hold already, the more could be there twice in the end.
    """
    with open_logs(names, folder, ABOUT, as_recorded(EPOCHS[:epochs]), as_recorded(STAGES[:stages])) as logs:
        for number in range(epochs, until):
            logs.epoch(EPOCHS[number])
            if number % 2:
                logs.stage(number // 2, STAGES[number // 2])


def as_recorded(lines: list[dict]) -> list[dict]:
    return json.loads(json.dumps(lines))


# CSV


def test_csv_by_hand(tmp_path):
    follow(tmp_path)
    assert (tmp_path / "epochs.csv").read_text() == (
        "stage,epoch,term,value\n"
        "0,1,loss,1.5\n"
        "0,1,contrast,1.0\n"
        "0,1,cross-entropy,0.5\n"
        "0,2,loss,0.30000000000000004\n"
        "0,2,contrast,0.1\n"
        "0,2,cross-entropy,0.2\n"
        "1,1,loss,0.25\n"
        "1,1,entropy old,0.25\n"
        "1,1,test_all,62.5\n"
        "1,2,loss,0.125\n"
        "1,2,entropy old,0.125\n"
        "1,2,test_all,75.0\n"
    )
    assert (tmp_path / "stages.csv").read_text() == (
        "stage,all,new,nmi\n"  # no lists
        "0,90.0,,0.875\n"
        "1,75.0,0.3333333333333333,0.5\n"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"epochs.csv", "stages.csv"}


def test_csv_can_be_read_while_the_run_goes_on(tmp_path):
    with open_logs((), tmp_path, ABOUT, [], []) as logs:
        assert (tmp_path / "epochs.csv").read_text() == "stage,epoch,term,value\n"
        assert (tmp_path / "stages.csv").read_text() == "stage\n"
        logs.epoch(EPOCHS[2])
        assert (tmp_path / "epochs.csv").read_text().endswith("1,1,test_all,62.5\n")


@pytest.mark.parametrize("killed_after", [1, 2, 3])
@pytest.mark.parametrize("epochs", [0, 1, 2, 3])
def test_csv_of_an_interrupted_run_is_that_of_an_undisturbed_one(tmp_path, killed_after, epochs):
    """The checkpoint may be some epochs behind; a stage, once scored, stays."""
    epochs = min(killed_after, max(epochs, killed_after // 2 * 2))
    follow(tmp_path / "undisturbed")
    follow(tmp_path / "killed", until=killed_after)
    with open(tmp_path / "killed" / "epochs.csv", "a") as file:
        file.write("1,9,lo")  # torn
    follow(tmp_path / "killed", epochs=epochs, stages=epochs // 2)
    for name in ("epochs.csv", "stages.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "undisturbed" / name).read_bytes()


# What cannot be had


def test_an_unknown_log(tmp_path):
    with pytest.raises(InputError, match="no log 'mlflow'; there are tensorboard, wandb, and CSV"):
        open_logs(["mlflow"], tmp_path, ABOUT, [], [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=rf"{name}, which is missing: pip install happycat\[{name}\]"):
        open_logs([name], tmp_path, ABOUT, [], [])
    assert not list(tmp_path.iterdir())


def test_a_folder_called_wandb_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(InputError, match="which is missing"):
        check_logs(["wandb"])


# TensorBoard


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    # Without purging, so that a step written twice is seen twice.
    events = EventAccumulator(str(folder / "tensorboard"), purge_orphaned_data=False).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    follow(tmp_path, ["tensorboard"])
    assert scalars(tmp_path) == {
        "loss/loss": [(1, 1.5), (2, pytest.approx(0.3)), (3, 0.25), (4, 0.125)],
        "loss/contrast": [(1, 1.0), (2, pytest.approx(0.1))],
        "loss/cross-entropy": [(1, 0.5), (2, pytest.approx(0.2))],
        "loss/entropy old": [(3, 0.25), (4, 0.125)],
        "epoch/test_all": [(3, 62.5), (4, 75.0)],
        "test/all": [(0, 90.0), (1, 75.0)],
        "test/new": [(1, pytest.approx(1 / 3))],
        "test/nmi": [(0, 0.875), (1, 0.5)],
    }


def test_tensorboard_of_an_interrupted_run_has_each_step_once(tmp_path):
    pytest.importorskip("tensorboard")
    follow(tmp_path / "undisturbed", ["tensorboard"])
    follow(tmp_path / "killed", ["tensorboard"], until=3)
    follow(tmp_path / "killed", ["tensorboard"], epochs=2, stages=1)
    assert scalars(tmp_path / "killed") == scalars(tmp_path / "undisturbed")


def test_a_watching_tensorboard_sees_the_run_go_on(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    follow(tmp_path, ["tensorboard"], until=3)
    watching = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [e.step for e in watching.Scalars("loss/loss")] == [1, 2, 3]
    time.sleep(1.1)  # event files are ordered by the second they were begun in
    follow(tmp_path, ["tensorboard"], epochs=2, stages=1)
    watching.Reload()
    assert [e.step for e in watching.Scalars("loss/loss")] == [1, 2, 3, 4]
    assert [e.step for e in watching.Scalars("test/all")] == [0, 1]


# Weights & Biases

ROWS = [
    {"epoch": 1, "loss/loss": 1.5, "loss/contrast": 1.0, "loss/cross-entropy": 0.5},
    {"epoch": 2, "loss/loss": 0.1 + 0.2, "loss/contrast": 0.1, "loss/cross-entropy": 0.2},
    {"stage": 0, "test/all": 90.0, "test/nmi": 0.875},
    {"epoch": 3, "loss/loss": 0.25, "loss/entropy old": 0.25, "epoch/test_all": 62.5},
    {"epoch": 4, "loss/loss": 0.125, "loss/entropy old": 0.125, "epoch/test_all": 75.0},
    {"stage": 1, "test/all": 75.0, "test/new": 1 / 3, "test/nmi": 0.5},
]


class Server(ModuleType):
    """Stands for the package and its server: a run goes on after its last row."""

    class Error(Exception):
        pass

    def __init__(self):
        super().__init__("wandb")
        self.__spec__ = ModuleSpec("wandb", None, origin="a test")
        self.runs, self.endings, self.refusal = {}, [], None

    def init(self, *, id, resume, **_):
        if self.refusal:
            raise self.Error(self.refusal)
        assert resume == "allow"
        return ServerRun(self, self.runs.setdefault(id, []))


class ServerRun:
    def __init__(self, server: Server, rows: list):
        self.server, self.rows, self.starting_step = server, rows, len(rows)

    def define_metric(self, *_, **__):
        pass

    def log(self, row, step, commit):
        assert step == len(self.rows)
        assert commit
        self.rows.append(row)

    def finish(self, exit_code):
        self.server.endings.append(exit_code)


@pytest.fixture
def server(monkeypatch) -> Server:
    server = Server()
    monkeypatch.setitem(sys.modules, "wandb", server)
    return server


@pytest.mark.parametrize(("arrived", "epochs"), [(4, 2), (4, 3), (2, 2), (0, 3)])
def test_wandb_sends_what_the_server_lacks(tmp_path, server, arrived, epochs):
    """The server may be ahead of the checkpoint (its rows come again, and are the same) or behind it."""
    follow(tmp_path, ["wandb"], until=3)
    (rows,) = server.runs.values()
    assert rows == ROWS[:4]
    del rows[arrived:]
    follow(tmp_path, ["wandb"], epochs=epochs, stages=1)
    assert list(server.runs.values()) == [ROWS]


def test_two_runs_are_two_on_the_server(tmp_path, server):
    follow(tmp_path / "one", ["wandb"])
    follow(tmp_path / "two", ["wandb"])
    assert list(server.runs.values()) == [ROWS, ROWS]


def test_wandb_is_told_how_the_run_ended(tmp_path, server):
    with open_logs(["wandb"], tmp_path / "well", ABOUT, [], []):
        pass
    with pytest.raises(KeyboardInterrupt), open_logs(["wandb"], tmp_path / "badly", ABOUT, [], []):
        raise KeyboardInterrupt
    assert server.endings == [0, 1]


def test_wandb_without_an_account(tmp_path, server):
    server.refusal = "no API key"
    with pytest.raises(InputError, match=r"\(no API key\); log in \(wandb login\) or set WANDB_MODE=offline"):
        open_logs(["wandb"], tmp_path, ABOUT, [], [])


@pytest.fixture
def offline(tmp_path, monkeypatch) -> ModuleType:
    """The real package, kept from the network and from writing anywhere but in `tmp_path`."""
    wandb = pytest.importorskip("wandb")
    for name in ("HOME", "WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.chdir(tmp_path)
    wandb.teardown()
    yield wandb
    wandb.teardown()


def stored(path: Path) -> list:
    """The records in a .wandb file: 7 bytes, then 32 KiB blocks of pieces (checksum 4, length 2, kind 1, data)."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, place, parts, records = path.read_bytes(), 7, b"", []
    while place < len(data):
        if 2**15 - place % 2**15 < 7:
            place += 2**15 - place % 2**15  # what is left of a block is too small for a piece
            continue
        length, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last piece of one
            records.append(Record.FromString(parts))
            parts = b""
    return records


def stored_rows(records: list) -> list[dict]:
    rows = [{item.key or item.nested_key[0]: json.loads(item.value_json) for item in r.history.item} for r in records]
    return [{key: row[key] for key in row if not key.startswith("_")} for row in rows if row]


def test_wandb_offline(tmp_path, offline):
    folder = tmp_path / "a run"
    follow(folder, ["wandb"], until=3)
    offline.teardown()  # ends its process
    run_id = (folder / "wandb" / "id").read_text()
    follow(folder, ["wandb"], epochs=2, stages=1)
    offline.teardown()  # and writes out what it holds
    (path,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    assert path.name == f"run-{run_id}.wandb"
    records = stored(path)
    assert stored_rows(records) == ROWS
    run = next(r.run for r in records if r.HasField("run"))
    assert (run.run_id, run.display_name, run.project) == (run_id, "a run", "happycat")
    config = {item.key: json.loads(item.value_json) for item in run.config.update}
    assert {key: config[key] for key in ABOUT} == ABOUT
    assert not list((tmp_path / "WANDB_DIR").iterdir())
