"""Two processes (gloo) compute what one does: losses, gradients, predictions of every trained method."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from happycat.base.ranks import ALONE
from tests.helpers.together import CASES, everything

ROOT = Path(__file__).parents[2]
# Of the largest number. Through a trunk that is trained along fp32's rounding goes a longer way than 1e-6 on some CPUs,
# as it does in one process that takes a batch in other pieces; so that case is computed in float64, and bounded by it.
BOUNDS = {"stored": 1e-6, "fresh": 1e-6, "thawed": 1e-12}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return everything(ALONE, tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    file = tmp_path_factory.mktemp("together") / "found.safetensors"
    command = [sys.executable, "-m", "tests.helpers.together", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env={**os.environ})
    assert done.returncode == 0, done.stderr[-3000:]
    return load_file(file)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_two_processes_have_the_losses_and_gradients_of_one(alone, together, name, kind):
    own = [key for key in alone if key.startswith(f"{name} {kind} ")]
    assert own == [key for key in sorted(together, key=list(alone).index) if key.startswith(f"{name} {kind} ")]
    gradients = [key for key in own if " gradient " in key]
    assert sum(bool(alone[key].any()) for key in gradients) > 10
    for key in own:
        largest = max(1.0, float(alone[key].abs().max()))
        assert float((together[key] - alone[key]).abs().max()) <= BOUNDS[kind] * largest, key


def test_two_processes_find_the_classes_of_one(alone, together):
    assert alone["calm classes"].unique().numel() == 7  # four old ones and three new
    assert torch.equal(together["calm classes"], alone["calm classes"])
    torch.testing.assert_close(together["calm chosen"], alone["calm chosen"])
