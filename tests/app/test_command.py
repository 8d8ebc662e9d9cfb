"""The command `app`: its address, a second one on the same model, Ctrl-C."""

from __future__ import annotations

import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from happycat import Happycat
from happycat.base.errors import InUseError
from happycat.base.progress import SILENT
from happycat.cli.app import discover_next
from happycat.model import file as model_file
from tests.app.people import Running

COMMAND = [sys.executable, "-m", "happycat", "app"]


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent otherwise there")
def test_the_app_is_served_to_this_computer_and_ends_with_one_line(model):
    with subprocess.Popen(
        [*COMMAND, model, "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as app:
        try:
            said = app.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/\S{32}/", said)[0]
            assert "happycat" in httpx.get(address).text
            assert httpx.get(address[:-20] + "/").status_code == 404
            second = subprocess.run([*COMMAND, model, "--no-browser"], capture_output=True, text=True, check=False)
            assert second.returncode == 2
            assert re.fullmatch(r"happycat: the app of \S+ is in use by process \d+ of .*\n", second.stderr)
            app.send_signal(signal.SIGINT)
            out, error = app.communicate(timeout=20)
        finally:
            app.kill()
    assert (app.returncode, out) == (0, "")
    assert error == f"happycat: the app of {model} is closed; every correction is in the file\n"
    assert not model.with_name(".shop.cat.app.lock").exists()


def test_what_is_no_model_is_one_line(tmp_path):
    (tmp_path / "shop.cat").write_text("no model")
    ended = subprocess.run([*COMMAND, tmp_path / "shop.cat"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1


def test_a_discovery_of_the_app_holds_the_model_and_keeps_embeddings(model, monkeypatch):
    def discover(model, inbox, num_new="auto", folder=None, progress=None, *, cache_dir=None, **backbone):
        Happycat(**backbone)  # knows every parameter
        assert cache_dir.is_dir()
        with pytest.raises(InUseError), model_file.locked(model):
            pass
        return SimpleNamespace(seen=((2, 7),))

    monkeypatch.setattr("happycat.model.discovering.discover_inbox", discover)
    backbone = {"weights": None, "precision": None, "device": "cpu", "workers": 0}
    said = discover_next(model, model.parent / "inbox", 2, SILENT, backbone)
    assert said == "7 of these images were in the discovery of version 2."
    assert not model.with_name("shop.cat.cache").exists()


def test_the_example_of_another_program_names_a_class(model, monkeypatch, capsys):
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/app_client.py"))
    running = Running(model)
    try:
        monkeypatch.setattr(sys, "argv", ["app_client.py", running.address])
        example["main"]()
        shown = capsys.readouterr().out
        monkeypatch.setattr(sys, "argv", ["app_client.py", running.address, "6", "fox"])
        example["main"]()
        assert capsys.readouterr().out == "version 3: name #6 'fox'\n"
        monkeypatch.setattr(sys, "argv", ["app_client.py", running.address, "99", "fox"])
        with pytest.raises(SystemExit, match="there is no class 99"):
            example["main"]()
    finally:
        running.stop()
    assert "#6 class 6, " in shown
    assert ".png" in shown
