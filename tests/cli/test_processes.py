"""Commands with two real processes: they compute what one does, and when one dies the run ends and can be resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import timm
from PIL import Image
from safetensors.torch import save_file

from happycat.base.disk import read_json
from happycat.base.errors import InputError
from happycat.cli.processes import Processes
from tests.cli.test_practitioner import say
from tests.helpers.runs import QUICK, quick_run

ROOT = Path(__file__).parents[2]
PYTHON = [sys.executable, "-m"]
TWO = ["--devices", "2", "--device", "cpu"]
TORCHRUN = [*PYTHON, "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
# The run of the fixture `finished`
BENCH = ["bench", "happy", "glyphs", "--option", "num_classes=8", "--option", "per_class=10", "--base-classes", "4"]
BENCH += ["--stages", "2", "--views", "2", "--checkpoint-seconds", "0"]
BENCH += [word for name, value in QUICK.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def run(*words) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, words)], env=ENVIRONMENT, capture_output=True, text=True, timeout=240)


def second_process(parent: int) -> int:
    """The process of rank 1 among the children of a process."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True).stdout
    for child in map(int, listed.split()):
        if b"RANK=1" in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return child
    raise AssertionError(listed)


def same_run(one: Path, two: Path) -> None:
    """The same predictions and scores; probabilities may differ in the last digit."""
    for stage in range(3):
        for name in ("assigned.csv", "predictions.csv"):
            rows = [
                np.genfromtxt(folder / f"stages/{stage}/{name}", delimiter=",", names=True, dtype=None, encoding=None)
                for folder in (one, two)
            ]
            assert (rows[0]["predicted"] == rows[1]["predicted"]).all()
            np.testing.assert_allclose(rows[0]["probability"], rows[1]["probability"], atol=1e-3)
        found = [read_json(folder / f"stages/{stage}/scores.json")["all"] for folder in (one, two)]
        assert found[0] == found[1]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the second process is found in /proc")
def test_torchrun_gives_the_numbers_of_one_process_and_a_run_goes_on_after_a_kill(tmp_path, finished):
    out = tmp_path / "run"
    started = subprocess.Popen(
        [*TORCHRUN, "-m", "happycat", *BENCH, "--out", str(out)],
        env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        begun = time.monotonic()
        while not (out / "stages/0").exists():
            assert started.poll() is None, started.communicate()[1][-2000:]
            assert time.monotonic() - begun < 200
            time.sleep(0.02)
        os.kill(second_process(started.pid), 9)
        stdout, stderr = started.communicate(timeout=60)
    finally:
        started.kill()
    assert started.returncode != 0
    assert "happycat: process 2 of 2 has ended before the work was done; the same command with --resume" in stderr
    assert not stdout
    assert not (out / "stages/2").exists()
    assert read_json(out / "run.json")["processes"] == 2
    options = {"num_classes": "8", "per_class": "10"}  # as the command line has them
    quick_run(out, resume=True, dataset_options=options)  # by one process
    same_run(out, finished)


WATCH = """
import subprocess, sys, time
from types import SimpleNamespace as Some
from happycat.cli.processes import _children_watched
children = [subprocess.Popen([sys.executable, "-c", code]) for code in sys.argv[1:]]
procs = [*children]
with _children_watched(Some(strategy=Some(launcher=Some(procs=procs))), 3, "try again"):
    time.sleep(60 if len(children) > 1 else 1)
assert not procs
"""
SLEEP, DIE = "import time; time.sleep(50)", "import os; os.kill(os.getpid(), 9)"


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(
    ("codes", "ended", "said"),
    [
        ((SLEEP, DIE), 1, "happycat: process 3 of 3 has ended before the work was done; try again\n"),
        ((SLEEP, "raise SystemExit(2)"), 2, ""),  # it has said why itself
        (("",), 0, ""),
    ],
)
def test_a_process_that_dies_before_all_are_connected_is_noticed_and_said(codes, ended, said):
    """As one that the system kills for its memory while it starts."""
    done = run(sys.executable, "-c", WATCH, *codes)
    assert (done.returncode, done.stderr) == (ended, said)


@pytest.mark.slow
def test_speed_is_measured_by_two_processes_and_said_once():
    words = ["speed", "--backbone", "vit_tiny_patch16_224", "--image-size", "32", "--seconds", "0.2", "--json"]
    done = run(*PYTHON, "happycat", *words, *TWO)
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout)
    assert figures["processes"] == 2
    assert 0 < figures["reference"] < figures["cached"]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory) -> Path:
    """Pictures of four colours in folders, and the weights of a small ViT."""
    folder, random = tmp_path_factory.mktemp("labelled"), np.random.default_rng(0)
    save_file(timm.create_model("vit_tiny_patch16_224", num_classes=0).state_dict(), folder / "tiny.safetensors")
    for c in range(4):
        (folder / f"images/{c}").mkdir(parents=True)
        for i in range(20):
            colour = 40 + 150 * np.array([c >> 1 & 1, c & 1, 0])
            pixels = np.clip(colour + random.integers(-40, 40, (40, 40, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"images/{c}/{i}.png")
    return folder


@pytest.mark.slow
def test_fit_and_predict_share_the_extraction(labelled):
    backbone = ["--weights", labelled / "tiny.safetensors", "--workers", "0"]
    fit = ["fit", labelled / "images", "--backbone", "vit_tiny_patch16_224", *backbone, "--image-size", 32]
    one, two = say(*fit, "-o", labelled / "X.cat"), run(*PYTHON, "happycat", *fit, "-o", labelled / "Y.cat", *TWO)
    assert (one[0], two.returncode) == (0, 0), two.stderr[-2000:]
    assert two.stdout.replace("Y.cat", "X.cat") == one[1]
    assert not (labelled / "Y.cat.cache").exists()
    words = ["predict", labelled / "Y.cat", labelled / "images", "--csv", *backbone]
    one, two = say(*words), run(*PYTHON, "happycat", *words, *TWO)
    assert one[1].count("\n") == 81
    assert one[1].splitlines() == two.stdout.splitlines()


@pytest.mark.slow
def test_a_mistake_is_one_line_of_one_process(tmp_path, finished):
    done = run(*PYTHON, "happycat", *BENCH, *TWO, "--out", finished)
    assert done.returncode == 2
    assert done.stderr.strip().splitlines()[-1].startswith("happycat:")
    assert done.stderr.count("holds a run already") == 1


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "3"}, (3, 2)),
        ({"SLURM_PROCID": "0", "SLURM_JOB_NAME": "run", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, (4, 2)),
        ({"SLURM_PROCID": "0", "SLURM_JOB_NAME": "bash", "SLURM_NTASKS": "8", "SLURM_NNODES": "2"}, None),
    ],
)
def test_what_a_launcher_has_started_is_known(monkeypatch, environment, expected):
    for name in [*os.environ]:
        if name.startswith(("SLURM", "TORCHELASTIC", "WORLD", "LOCAL")):
            monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Processes().external == expected
    assert Processes().checked()[:2] == (expected or (1, 1))
    if expected:
        with pytest.raises(InputError, match="leave --devices and --nodes out"):
            Processes(5, 1).checked()


def test_an_unknown_strategy_is_refused():
    with pytest.raises(InputError, match="no strategy 'fsdp'"):
        Processes(strategy="fsdp").checked()
