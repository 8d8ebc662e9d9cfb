"""The command `doctor`: what is whole, what is damaged, and the repair of a model file."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from happycat import Happycat
from happycat.cli import doctor, main
from happycat.model import corrections
from happycat.model import file as model_file
from happycat.model.blobs import Index
from tests.helpers.vectors import clouds


@pytest.fixture(scope="module")
def once(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "shop.cat"
    Happycat().fit(*clouds(range(3), each=6, noise=0.03)).save(path)
    for name in ("ant", "bee"):
        corrections.correct(path, f"name {name}", lambda registry, name=name: registry.name("#0", name))
    return path


@pytest.fixture
def model(once, tmp_path) -> Path:
    (tmp_path / "shop.cat").write_bytes(once.read_bytes())
    return tmp_path / "shop.cat"


def run(capsys, *words: object) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["happycat", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
    said = capsys.readouterr()
    return stop.value.code or 0, said.out + said.err


def test_the_installation(capsys, monkeypatch):
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("no route")

    monkeypatch.setattr(doctor, "urlopen", unreachable)
    code, said = run(capsys, "doctor")
    assert code == 0
    for word in ("torch", "device: cpu", "threads: ", "GB are free", "cannot be reached (no route); weights must be"):
        assert word in said


@pytest.mark.parametrize(
    ("native", "bytes_", "asked"), [(False, True, True), (False, False, False), (True, True, False)]
)
def test_int8_is_offered_where_it_is_faster_than_the_default(capsys, monkeypatch, native, bytes_, asked):
    for name, there in {"_is_vnni_supported": bytes_, "_is_amx_tile_supported": native}.items():
        monkeypatch.setattr(torch.cpu, name, lambda there=there: there, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: native, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr(doctor, "hub", lambda: doctor.Finding("hub", "not asked"))
    code, said = run(capsys, "doctor")
    assert code == 0
    assert f"computes in {'bfloat16' if native else 'float32'}" in said
    assert ("--precision int8" in said) is asked


def test_a_model_that_is_whole(model, capsys):
    code, said = run(capsys, "doctor", model)
    assert (code, "version 3 is whole: 3 classes" in said) == (0, True)
    before = model.read_bytes()
    assert "is whole" in run(capsys, "doctor", model, "--repair")[1]
    assert model.read_bytes() == before


def test_a_damaged_model_is_repaired_and_kept(model, capsys):
    model.write_bytes(cut := model.read_bytes()[:-1])
    code, said = run(capsys, "doctor", model)
    assert code == 1
    assert "its last good version is 2 of 3: `happycat doctor" in said
    code, said = run(capsys, "undo", model)
    assert (code, "--repair" in said, model.read_bytes() == cut) == (2, True, True)
    code, said = run(capsys, "doctor", model, "--repair")
    assert "is at version 2; as it was, it is kept as" in said
    assert (code, "version 2 is whole" in said) == (0, True)
    assert model.with_name("shop.cat.damaged").read_bytes() == cut
    assert model_file.read(model).number == 2
    corrections.correct(model, "name", lambda registry: registry.name("#0", "cow"))
    assert run(capsys, "doctor", model)[0] == 0


def test_an_earlier_version_that_is_damaged_is_told(model, capsys):
    index, data = Index.read(model), bytearray(model.read_bytes())
    place = index.places[index.versions[1].metadata]
    data[index.start + place.offset] ^= 1
    model.write_bytes(data)
    code, said = run(capsys, "doctor", model)
    assert (code, "damaged: 2; there is no going back" in said) == (1, True)
    assert "version 3 is whole" in said


def test_what_is_stored_is_listed(model, capsys):
    code, said = run(capsys, "show", model, "--stored")
    assert code == 0
    assert "softmax_temperature" in said
    parts = {part["name"]: part for part in json.loads(run(capsys, "show", model, "--stored", "--json")[1])}
    assert sum(part["size"] for part in parts.values()) == model.stat().st_size
    assert parts["pool.0.vectors"]["meaning"].startswith("directions: the sum of each class's images' points")


def test_a_run_and_its_damage(finished, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    code, said = run(capsys, "doctor", folder)
    assert (code, "finished stages" in said) == (0, True)
    state = sorted(folder.glob("stages/*/model.safetensors"))[0]
    state.write_bytes(state.read_bytes()[:100])
    assert run(capsys, "doctor", folder)[0] == 1


def test_what_is_none_of_these(tmp_path, capsys):
    assert run(capsys, "doctor", tmp_path)[0] == 2
    assert run(capsys, "doctor", tmp_path / "none")[0] == 2
    assert run(capsys, "doctor", "--repair")[0] == 2
    np.save(tmp_path / "x.npy", np.ones(3))
    assert run(capsys, "doctor", tmp_path / "x.npy")[0] == 1
