"""Experiment loggers: CSV files always, TensorBoard and Weights & Biases if asked for.

RUN/epochs.csv     stage, epoch, term, value: a line for the loss and for each of its terms, of each epoch
    stages.csv     a line per stage: its scores
    tensorboard/   loss/<term> over all epochs, test/<score> over the stages
    wandb/         the same; `id` is the run's on the server

All this is a copy of the record, which alone decides where a run goes on. Opening writes it anew from there, so
that an interrupted run leaves the same as one that was not.
"""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from happycat.base.disk import storage_errors, write_text
from happycat.base.errors import InputError


def open_logs(names: Sequence[str], folder: Path, metadata: dict, epochs: list[dict], stages: list[dict]) -> Logs:
    """The logs of the run in `folder`, holding what is recorded so far: `epochs`, and the scores of the `stages`."""
    check_logs(names)
    folder = Path(folder)
    logs = Logs(folder)
    try:
        with storage_errors(folder):
            logs.writers.append(Csv(folder))
            for name in dict.fromkeys(names):
                logs.writers.append(LOGS[name](folder, metadata))
        for stage in range(len(stages) + 1):
            for line in epochs:
                if line["stage"] == stage:
                    logs.epoch(line)
            if stage < len(stages):
                logs.stage(stage, stages[stage])
    except BaseException:
        logs.close(failed=True)
        raise
    return logs


def check_logs(names: Sequence[str]) -> None:
    """Refuse a log that does not exist, or whose package is not installed. Nothing is imported or written."""
    for name in names:
        if name not in LOGS:
            raise InputError(f"there is no log {name!r}; there are {', '.join(LOGS)}, and CSV which is always written")
        package = find_spec(name)
        if package is None or package.origin is None:  # no origin: a folder of that name, such as wandb's own
            raise InputError(f"the {name} log needs the package {name}, which is missing: pip install happycat[{name}]")


class Log(Protocol):
    """Where a run is written to, an epoch and a stage at a time."""

    def epoch(self, step: int, line: dict) -> None: ...

    def stage(self, stage: int, scores: dict) -> None: ...

    def close(self, failed: bool) -> None: ...


class Logs:
    """The logs of one run, which are given each epoch and each stage as it ends."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.writers: list[Log] = []
        self._epochs = 0

    def epoch(self, line: dict) -> None:
        """Add an epoch: the line that the record holds of it."""
        self._epochs += 1
        with storage_errors(self.folder):
            for writer in self.writers:
                writer.epoch(self._epochs, line)

    def stage(self, stage: int, scores: dict) -> None:
        """Add the scores of a stage; lists among them are left to the record."""
        scalars = {name: value for name, value in scores.items() if value is None or isinstance(value, int | float)}
        with storage_errors(self.folder):
            for writer in self.writers:
                writer.stage(stage, scalars)

    def close(self, failed: bool = False) -> None:
        """Finish all logs; `failed` says that the run did not come to its end."""
        with storage_errors(self.folder):
            while self.writers:
                self.writers.pop().close(failed)

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(failed=kind is not None)


class Csv:
    """Two tables whose columns are the same for all methods. Nothing stays open between two lines."""

    def __init__(self, folder: Path):
        self.epochs_path, self.stages_path = folder / "epochs.csv", folder / "stages.csv"
        self.stages: list[dict] = []
        write_text(self.epochs_path, "stage,epoch,term,value\n")
        self._write_stages()

    def epoch(self, step: int, line: dict) -> None:
        terms = {"loss": line["loss"], **line["terms"], **_others(line)}
        with open(self.epochs_path, "a", encoding="utf-8") as file:
            rows = ((line["stage"], line["epoch"], term, value) for term, value in terms.items())
            csv.writer(file, lineterminator="\n").writerows(rows)

    def stage(self, stage: int, scores: dict) -> None:
        self.stages.append({"stage": stage, **scores})
        self._write_stages()

    def _write_stages(self) -> None:
        columns = dict.fromkeys(["stage", *(name for scores in self.stages for name in scores)])
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.stages)
        write_text(self.stages_path, text.getvalue())

    def close(self, failed: bool) -> None:
        pass


class TensorBoard:
    """An event file that holds the whole run, also after an interruption.

    `purge_step` alone would cut off what will be run again at one step, but epochs and stages are counted apart.
    So files from before are emptied, not deleted: a TensorBoard that has one open would never look at the next.
    """

    def __init__(self, folder: Path, metadata: dict):
        from torch.utils.tensorboard import SummaryWriter

        for replaced in (folder / "tensorboard").glob("events.out.tfevents.*"):
            os.truncate(replaced, 0)
        # purge_step 0 has a TensorBoard that is watching forget what it read before.
        self.writer = SummaryWriter(folder / "tensorboard", purge_step=0, flush_secs=10)
        self.writer.add_text("metadata", f"<pre>{json.dumps(metadata, indent=1, ensure_ascii=False)}</pre>")

    def epoch(self, step: int, line: dict) -> None:
        for tag, value in _epoch_tags(line).items():
            self.writer.add_scalar(tag, value, step)

    def stage(self, stage: int, scores: dict) -> None:
        for tag, value in _stage_tags(scores).items():
            self.writer.add_scalar(tag, value, stage)

    def close(self, failed: bool) -> None:
        self.writer.close()


class WeightsAndBiases:
    """A run on the server of Weights & Biases, or with WANDB_MODE=offline a folder for `wandb sync`.

    Each epoch and each stage is a row, and rows are numbered from the start of the run: those that the server has
    already are not sent again when the run goes on. Offline there is nobody to ask, so the new folder holds all
    rows and those before it are deleted.
    """

    def __init__(self, folder: Path, metadata: dict):
        import wandb

        id_file = folder / "wandb" / "id"
        if not id_file.exists():
            write_text(id_file, secrets.token_hex(4))
        run_id = id_file.read_text()
        for replaced in (folder / "wandb").glob(f"offline-run-*-{run_id}"):
            shutil.rmtree(replaced)
        try:
            self.run = wandb.init(
                dir=folder,  # wandb adds wandb/ to it
                id=run_id,
                name=folder.resolve().name,
                project=os.environ.get("WANDB_PROJECT", "happycat"),
                config=metadata,
                resume="allow",
                reinit="create_new",
                settings={"console": "off"},  # progress bars are no log
            )
        except wandb.Error as error:
            raise InputError(
                f"Weights & Biases cannot begin a run ({error}); log in (wandb login) or set WANDB_MODE=offline"
            ) from error
        self.run.define_metric("loss/*", step_metric="epoch")
        self.run.define_metric("epoch/*", step_metric="epoch")
        self.run.define_metric("test/*", step_metric="stage")
        self.rows = 0

    def epoch(self, step: int, line: dict) -> None:
        self._add({"epoch": step, **_epoch_tags(line)})

    def stage(self, stage: int, scores: dict) -> None:
        self._add({"stage": stage, **_stage_tags(scores)})

    def _add(self, row: dict[str, float]) -> None:
        if self.rows >= self.run.starting_step:
            self.run.log(row, step=self.rows, commit=True)
        self.rows += 1

    def close(self, failed: bool) -> None:
        self.run.finish(exit_code=int(failed))


LOGS: dict[str, Callable[[Path, dict], Log]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def _others(line: dict) -> dict[str, float]:
    """What an epoch's line holds besides its loss: `test_all` when the test set chooses the epoch."""
    return {name: value for name, value in line.items() if name not in ("stage", "epoch", "loss", "terms")}


def _epoch_tags(line: dict) -> dict[str, float]:
    loss = {f"loss/{term}": value for term, value in {"loss": line["loss"], **line["terms"]}.items()}
    return loss | {f"epoch/{name}": value for name, value in _others(line).items()}


def _stage_tags(scores: dict) -> dict[str, float]:
    return {f"test/{name}": value for name, value in scores.items() if value is not None}
