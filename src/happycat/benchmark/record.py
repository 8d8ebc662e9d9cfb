"""The run folder: configuration, a line per epoch, a folder per finished stage, and the checkpoint to resume from.

RUN/run.json            method, values, data, seed, versions
    split.json          which images are served when
    epochs.jsonl        a line per epoch: its loss terms
    stages.jsonl        a line per stage: its scores, as `scores.score_stage` names and explains them
    epochs.csv, stages.csv   the same for a spreadsheet
    stages/2/           all of stage 2 (`finished.py`)
    checkpoint.safetensors   the stage under way, between two epochs; it names the checksum of epochs.jsonl by then

Every file that is read again has a checksum (`base/sealed.py`, `backbone/tensor_file.py`); a damaged one is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from happycat.backbone.tensor_file import load_tensors, save_tensors
from happycat.base.disk import (
    PARTIAL,
    delete,
    file_sha256,
    locked,
    make_folder,
    read_json,
    replacing,
    storage_errors,
    sync,
    write_bytes,
)
from happycat.base.errors import DamagedError, HappycatError, InputError
from happycat.base.ranks import ALONE, Ranks
from happycat.base.sealed import SealedLines, read_sealed, write_sealed
from happycat.base.strict_json import as_json, check_shape
from happycat.benchmark.finished import FinishedStage
from happycat.benchmark.protocol import Split

FORMAT = 2
METADATA = {"numbers": {"method": str, "config": dict, "dataset": str, "seed": int, "trunk": str}, "threads": int}
EPOCH = {"stage": int, "epoch": int, "loss": (int, float), "terms": dict}
BEFORE = {".lock", "split.json", "epochs.jsonl"}  # what is written before run.json, which makes a folder a run


class Record:
    """A run folder, locked while it is open. Of several processes (`ranks`) the first writes, and all read."""

    def __init__(self, folder: Path, ranks: Ranks = ALONE):
        self.folder, self.ranks = Path(folder), ranks
        self._epochs = SealedLines(self.folder / "epochs.jsonl")
        self._lock = ExitStack()

    @classmethod
    def open(cls, folder: Path, metadata: dict, split: Split, resume: bool, ranks: Ranks = ALONE) -> Record:
        """A new run folder; or, to resume, the one that is there. A run killed before it began is begun again."""
        record = cls(folder, ranks)
        try:
            ranks.lead(lambda: record._begin(metadata, split, resume))
        except BaseException:
            record.close()
            raise
        return record

    def _begin(self, metadata: dict, split: Split, resume: bool) -> None:
        folder = self.folder
        names = {path.name for path in Path(folder).iterdir()} if Path(folder).is_dir() else set()
        if resume and {name for name in names if not name.endswith(PARTIAL)} - BEFORE:
            self._reopen(metadata, split)
        else:
            self._create(metadata, split)

    def _create(self, metadata: dict, split: Split) -> None:
        """Make a new run folder. `metadata["numbers"]` holds everything that decides the run's numbers."""
        if (self.folder / "run.json").exists():
            raise InputError(f"{self.folder} holds a run already; resume that run, or give another folder")
        make_folder(self.folder)
        self._take_lock()
        write_sealed(self.folder / "split.json", split.content())
        self._epochs.write([])
        write_sealed(self.folder / "run.json", {"format": FORMAT, **metadata})

    def _reopen(self, metadata: dict, split: Split) -> None:
        """Open the run folder of an interrupted run, if it was started with the same values."""
        folder, before = self.folder, self.metadata()
        for name, value in as_json(metadata["numbers"]).items():
            if before["numbers"].get(name) != value:
                raise InputError(
                    f"{folder} was started with {name} = {_short(before['numbers'].get(name))}, now it is "
                    f"{_short(value)}; resume with the same values, or give another folder"
                )
        if self.split() != split:
            raise InputError(f"{folder} was started with another split; resume with the same data and protocol")
        self._take_lock()
        self._clean()

    def metadata(self) -> dict:
        """The metadata of the run (run.json): method, values, data, seed, versions."""
        if not (self.folder / "run.json").exists():
            raise InputError(f"{self.folder} is not a run folder: it has no run.json")
        metadata = read_json(self.folder / "run.json")
        if metadata.get("format") != FORMAT:  # one of another version need not have a checksum
            raise InputError(
                f"{self.folder} is a run of another version (format {metadata.get('format')}, happycat "
                f"{metadata.get('happycat')}); this version reads format {FORMAT}"
            )
        return check_shape(read_sealed(self.folder / "run.json"), METADATA, str(self.folder / "run.json"))

    def split(self) -> Split:
        """Which images are served when."""
        return Split.of(read_sealed(self.folder / "split.json"), str(self.folder / "split.json"))

    def _take_lock(self) -> None:
        self._lock.enter_context(locked(self.folder / ".lock", str(self.folder), wait=False))

    def close(self) -> None:
        self._lock.close()

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Epochs

    def epoch(self, stage: int, number: int, terms: dict[str, float], **more: float) -> dict:
        """Add a line for an epoch, and return what it holds."""
        line = {"stage": stage, "epoch": number, "loss": sum(terms.values()), "terms": terms, **more}
        if not self.ranks.first:
            return line
        self._epochs.append(line)
        return line

    def epochs(self) -> list[dict]:
        """The lines of all recorded epochs; a last one that was torn by a kill is left out."""
        return check_shape(self._epochs.read(), [EPOCH], str(self._epochs.path))

    def _clean(self) -> None:
        """Drop what an interrupted process left half done: lines of epochs that will be run again, torn files."""
        stage, done = len(self.stage_scores()), self.checkpoint_epoch()
        kept = [e for e in self.epochs() if e["stage"] < stage or (e["stage"] == stage and e["epoch"] <= done)]
        expected = self._load_checkpoint()[1]["epochs"] if done else None
        if expected and hashlib.sha256(SealedLines.text(kept)).hexdigest() != expected:
            raise DamagedError(f"{self._epochs.path} is damaged: lines that the checkpoint counts on are missing")
        self._epochs.write(kept)
        for torn in self.folder.rglob(f".*{PARTIAL}"):
            delete(torn)
        self._write_stage_lines()

    # The checkpoint between two epochs

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "checkpoint.safetensors"

    def save_checkpoint(self, stage: int, tensors: dict[str, Tensor]) -> None:
        if not self.ranks.first:
            return
        with storage_errors(self._epochs.path):
            sync(self._epochs.path)  # the checkpoint counts on its lines
            metadata = {"stage": str(stage), "epochs": file_sha256(self._epochs.path).hex()}
        with replacing(self._checkpoint) as temporary:
            save_tensors(temporary, tensors, metadata)

    def load_checkpoint(self, stage: int) -> dict[str, Tensor] | None:
        """Where training stood within this stage, if it had begun."""
        if not self._checkpoint.exists():
            return None
        tensors, metadata = self._load_checkpoint()
        return tensors if metadata["stage"] == str(stage) else None

    def _load_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        try:
            tensors, metadata = load_tensors(self._checkpoint)
            if not {"stage", "epochs"} <= metadata.keys():
                raise DamagedError(f"{self._checkpoint} is no checkpoint")
        except DamagedError as error:
            raise DamagedError(f"{error}; delete it to begin its stage again") from error
        return tensors, metadata

    def checkpoint_epoch(self) -> int:
        tensors = self.load_checkpoint(len(self.stage_scores()))
        return int(tensors.get("epoch", 0)) if tensors else 0

    # Finished stages

    def adopt(self, other: Record, method: str, config: dict) -> None:
        """Take Stage-0 of another run for this one's; the tensors, scores and predictions are the same."""
        self.ranks.lead(lambda: self._adopt(other, method, config))

    def _adopt(self, other: Record, method: str, config: dict) -> None:
        other.stage(0).copy_to(self.stage(0).folder, method=method, config=config)
        self._write_stage_lines()

    def stage(self, stage: int) -> FinishedStage:
        """A stage, whether it has been finished or not."""
        return FinishedStage(self.folder / "stages" / str(stage))

    def finish_stage(self, stage: int, **parts: Any) -> None:
        """Write all of a finished stage at once (`FinishedStage.write`); the checkpoint is deleted."""
        self.ranks.lead(lambda: self._finish_stage(stage, parts))

    def _finish_stage(self, stage: int, parts: dict[str, Any]) -> None:
        with storage_errors(self._epochs.path):
            sync(self._epochs.path)
        FinishedStage.write(self.stage(stage).folder, **parts)
        delete(self._checkpoint)
        self._write_stage_lines()

    def stages(self) -> list[FinishedStage]:
        """The finished stages, in order."""
        there = [path for path in (self.folder / "stages").glob("[0-9]*") if path.name.isdigit()]
        for number in range(len(there)):
            if not self.stage(number).exists():
                raise DamagedError(f"{self.stage(number).folder} is missing, though later stages are there")
        return [self.stage(number) for number in range(len(there))]

    def stage_scores(self) -> list[dict]:
        """The scores of the finished stages, in order."""
        return [stage.scores() for stage in self.stages()]

    def assigned(self, stage: int) -> list[dict]:
        """Where the images of a finished stage went: `image`, `predicted`, `probability` of each."""
        return self.stage(stage).rows("assigned")

    def _write_stage_lines(self) -> None:
        lines = [{"stage": t, **scores} for t, scores in enumerate(self.stage_scores())]
        write_bytes(self.folder / "stages.jsonl", SealedLines.text(lines))

    def model(self, stage: int) -> dict:
        """The metadata of the model after a stage (model.json)."""
        return self.stage(stage).model()

    def load_state(self, stage: int, name: str = "model") -> dict[str, Tensor]:
        """The tensors of `name`.safetensors after a stage, checked against their checksum."""
        return self.stage(stage).state(name)


def is_unfinished(folder: Path) -> bool:
    """Whether there is a run in a folder that has stages left to run."""
    if not (Path(folder) / "run.json").exists():
        return False
    try:
        record = Record(folder)
        return len(record.stages()) <= len(record.split().stages)
    except HappycatError:
        return True  # damaged: for a person to look at


def prediction_rows(keys: Sequence[str], classes: np.ndarray, probabilities: np.ndarray) -> list[dict]:
    """A row an image: its key, the class (N,) it was given, and how probable that is (N,)."""
    rows = zip(keys, classes.tolist(), probabilities.tolist(), strict=True)
    return [{"image": key, "predicted": c, "probability": f"{p:.6f}"} for key, c, p in rows]


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else text[:77] + "…"
