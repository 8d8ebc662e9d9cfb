"""The command `app`: its address, a second one on the same model, Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import httpx
import pytest

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
