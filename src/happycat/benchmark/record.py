"""The run folder: configuration, a line per epoch, a folder per finished stage, and the checkpoint to resume from.

RUN/run.json            method, values, data, seed, versions
    split.json          which images are served when
    epochs.jsonl        a line per epoch: its loss terms
    stages.jsonl        a line per stage: its scores, as `metrics.score_stage` names and explains them
    epochs.csv, stages.csv   the same for a spreadsheet
    stages/2/           all of stage 2, there as a whole or not at all:
        model.safetensors, model.json, scores.json, assigned.csv, predictions.csv;
        counter.safetensors, if a counter beside the method has a memory;
        trunk.safetensors (stage 0) of a backbone from scratch; tail.safetensors, if the method has none of its own
    checkpoint.safetensors   the stage under way, between two epochs
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from happycat.base.disk import file_sha256, locked, read_json, replacing, storage_errors, sync, write_json, write_text
from happycat.base.errors import InputError, NoSpaceError, StorageError
from happycat.base.ranks import ALONE, Ranks
from happycat.benchmark.protocol import Split

FORMAT = 1


class Record:
    """A run folder, locked while it is open. Of several processes (`ranks`) the first writes, and all read."""

    def __init__(self, folder: Path, ranks: Ranks = ALONE):
        self.folder, self.ranks = Path(folder), ranks
        self._lock = ExitStack()

    @classmethod
    def open(cls, folder: Path, metadata: dict, split: Split, resume: bool, ranks: Ranks = ALONE) -> Record:
        """A new run folder; or, to resume, the one that is there. A run killed before it began is begun again."""
        record = cls(folder, ranks)
        ranks.lead(lambda: record._begin(metadata, split, resume))
        return record

    def _begin(self, metadata: dict, split: Split, resume: bool) -> None:
        folder = self.folder
        names = {path.name for path in Path(folder).iterdir()} if Path(folder).is_dir() else set()
        begun = not names <= {".lock", "split.json", ".split.json.partial", ".run.json.partial"}
        if resume and begun:
            self._reopen(metadata, split)
        else:
            self._create(metadata, split)

    def _create(self, metadata: dict, split: Split) -> None:
        """Make a new run folder. `metadata["numbers"]` holds everything that decides the run's numbers."""
        if (self.folder / "run.json").exists():
            raise InputError(f"{self.folder} holds a run already; resume that run, or give another folder")
        with storage_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        split.write(self.folder / "split.json")
        write_json(self.folder / "run.json", {"format": FORMAT, **metadata})

    def _reopen(self, metadata: dict, split: Split) -> None:
        """Open the run folder of an interrupted run, if it was started with the same values."""
        folder, before = self.folder, self.metadata()
        for name, value in json.loads(json.dumps(metadata["numbers"])).items():
            if before["numbers"].get(name) != value:
                raise InputError(
                    f"{folder} was started with {name} = {_short(before['numbers'].get(name))}, now it is "
                    f"{_short(value)}; resume with the same values, or give another folder"
                )
        if Split.read(folder / "split.json") != split:
            raise InputError(f"{folder} was started with another split; resume with the same data and protocol")
        self._take_lock()
        self._clean()

    def metadata(self) -> dict:
        """The metadata of the run (run.json): method, values, data, seed, versions."""
        if not (self.folder / "run.json").exists():
            raise InputError(f"{self.folder} is not a run folder: it has no run.json")
        metadata = read_json(self.folder / "run.json")
        if metadata.get("format") != FORMAT:
            raise InputError(
                f"{self.folder} is a run of another version (format {metadata.get('format')}, happycat "
                f"{metadata.get('happycat')}); this version reads format {FORMAT}"
            )
        return metadata

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
        with storage_errors(self.folder), open(self.folder / "epochs.jsonl", "a") as file:
            file.write(json.dumps(line) + "\n")
        return line

    def epochs(self) -> list[dict]:
        """The lines of all recorded epochs; a torn last line is left out."""
        path, lines = self.folder / "epochs.jsonl", []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                lines.append(json.loads(line))
            except ValueError:
                break
        return lines

    def _clean(self) -> None:
        """Drop what an interrupted process left half done: lines of epochs that will be run again, torn files."""
        stage, done = len(self.stage_scores()), self.checkpoint_epoch()
        kept = [e for e in self.epochs() if e["stage"] < stage or (e["stage"] == stage and e["epoch"] <= done)]
        write_text(self.folder / "epochs.jsonl", "".join(json.dumps(epoch) + "\n" for epoch in kept))
        for torn in (self.folder / "stages").glob(".*.partial"):
            shutil.rmtree(torn)
        self._write_stage_lines()

    # The checkpoint between two epochs

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "checkpoint.safetensors"

    def save_checkpoint(self, stage: int, tensors: dict[str, Tensor]) -> None:
        if not self.ranks.first:
            return
        with replacing(self._checkpoint) as temporary:
            _save(tensors, temporary, {"stage": str(stage)})

    def load_checkpoint(self, stage: int) -> dict[str, Tensor] | None:
        """Where training stood within this stage, if it had begun."""
        if not self._checkpoint.exists():
            return None
        try:
            with safe_open(self._checkpoint, "pt") as file:
                if file.metadata()["stage"] != str(stage):
                    return None
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, KeyError) as error:
            raise StorageError(
                f"{self._checkpoint} is damaged ({error}); delete it to begin its stage again"
            ) from error

    def checkpoint_epoch(self) -> int:
        tensors = self.load_checkpoint(len(self.stage_scores()))
        return int(tensors["epoch"]) if tensors else 0

    # Finished stages

    def adopt(self, other: Record, method: str, config: dict) -> None:
        """Take Stage-0 of another run for this one's; the tensors, scores and predictions are the same."""
        self.ranks.lead(lambda: self._adopt(other, method, config))

    def _adopt(self, other: Record, method: str, config: dict) -> None:
        folder, temporary = self.stage_folder(0), self.stage_folder(0).with_name(".0.partial")
        with storage_errors(folder):
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.copytree(other.stage_folder(0), temporary)
            write_json(temporary / "model.json", {**other.model(0), "method": method, "config": config})
            self._put_in_place(temporary, folder)
        self._write_stage_lines()

    def stage_folder(self, stage: int) -> Path:
        return self.folder / "stages" / str(stage)

    def finish_stage(
        self,
        stage: int,
        *,
        states: dict[str, dict[str, Tensor]],
        model: dict,
        scores: dict,
        assigned: list[dict],
        predictions: list[dict],
    ) -> None:
        """Write all of a finished stage at once, `states` being tensors by file; the checkpoint is deleted."""
        self.ranks.lead(lambda: self._finish_stage(stage, states, model, scores, assigned, predictions))

    def _finish_stage(
        self,
        stage: int,
        states: dict[str, dict[str, Tensor]],
        model: dict,
        scores: dict,
        assigned: list[dict],
        predictions: list[dict],
    ) -> None:
        folder = self.stage_folder(stage)
        temporary = folder.with_name(f".{stage}.partial")
        with storage_errors(folder):
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            for name, tensors in states.items():
                _save(tensors, temporary / f"{name}.safetensors", {})
            checksums = {path.name: file_sha256(path).hex() for path in sorted(temporary.glob("*.safetensors"))}
            write_json(temporary / "model.json", {"format": FORMAT, **model, "sha256": checksums})
            write_json(temporary / "scores.json", scores)
            _write_csv(temporary / "assigned.csv", assigned)
            _write_csv(temporary / "predictions.csv", predictions)
            self._put_in_place(temporary, folder)
        self._checkpoint.unlink(missing_ok=True)
        self._write_stage_lines()

    def _put_in_place(self, temporary: Path, folder: Path) -> None:
        for path in temporary.iterdir():
            sync(path)
        sync(temporary)
        os.rename(temporary, folder)
        sync(folder.parent)

    def stage_scores(self) -> list[dict]:
        """The scores of the finished stages, in order."""
        scores: list[dict] = []
        while (self.stage_folder(len(scores)) / "scores.json").exists():
            scores.append(read_json(self.stage_folder(len(scores)) / "scores.json"))
        return scores

    def assigned(self, stage: int) -> list[dict]:
        """Where the images of a finished stage went: `image`, `predicted`, `probability` of each."""
        with open(self.stage_folder(stage) / "assigned.csv", newline="", encoding="utf-8") as file:
            return [
                {**row, "predicted": int(row["predicted"]), "probability": float(row["probability"])}
                for row in csv.DictReader(file)
            ]

    def _write_stage_lines(self) -> None:
        lines = [json.dumps({"stage": t, **scores}) for t, scores in enumerate(self.stage_scores())]
        write_text(self.folder / "stages.jsonl", "".join(line + "\n" for line in lines))

    def model(self, stage: int) -> dict:
        """The metadata of the model after a stage (model.json)."""
        return read_json(self.stage_folder(stage) / "model.json")

    def has_state(self, stage: int, name: str) -> bool:
        """Whether a stage has recorded tensors of that name."""
        return f"{name}.safetensors" in self.model(stage)["sha256"]

    def load_state(self, stage: int, name: str = "model") -> dict[str, Tensor]:
        """The tensors of `name`.safetensors after a stage, checked against their checksum."""
        path = self.stage_folder(stage) / f"{name}.safetensors"
        expected = self.model(stage)["sha256"]
        if not path.exists() or expected.get(path.name) != file_sha256(path).hex():
            raise StorageError(f"{path} is missing or damaged: its checksum is not the recorded one")
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


def _save(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:  # what the library makes of an operating system's refusal
        raise NoSpaceError(f"cannot write {path}: {error}; free some space") from error


def prediction_rows(keys: Sequence[str], classes: np.ndarray, probabilities: np.ndarray) -> list[dict]:
    """A row an image: its key, the class (N,) it was given, and how probable that is (N,)."""
    rows = zip(keys, classes.tolist(), probabilities.tolist(), strict=True)
    return [{"image": key, "predicted": c, "probability": f"{p:.6f}"} for key, c, p in rows]


def _write_csv(path: Path, rows: list[dict]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else text[:77] + "…"
