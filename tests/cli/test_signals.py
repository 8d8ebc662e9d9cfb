"""SIGINT, SIGTERM and SIGHUP: one line, the exit code that a shell expects, and what a kill would leave."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import typer

from happycat.cli import commands
from happycat.cli.interruption import interruptible
from happycat.cli.signals import Terminated, catching_signals

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="these signals are sent otherwise there")

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
BY = {signal.SIGINT: "", signal.SIGTERM: " by SIGTERM", signal.SIGHUP: " by SIGHUP"}
WAITING = """
import signal
import time
from happycat.cli import commands

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and nohup SIGHUP
signal.signal(signal.SIGHUP, signal.SIG_DFL)

def app():
    print("ready", flush=True)
    time.sleep(60)

commands.app = app
commands.main()
"""


@pytest.mark.parametrize("number", CODES)
def test_a_process_that_is_sent_a_signal(number):
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, said) == (CODES[number], f"happycat: interrupted{BY[number]}\n")


@pytest.fixture
def heeded():
    """The signals as a person's terminal has them, whatever started the tests."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", CODES)
def test_within_a_command_the_advice_is_given(number, monkeypatch, capsys):
    def app() -> None:
        with interruptible("the same command goes on from here"):
            signal.raise_signal(number)

    monkeypatch.setattr(commands, "app", app)
    with pytest.raises(typer.Exit) as ended:
        commands.main()
    assert ended.value.exit_code == CODES[number]
    assert capsys.readouterr().err == f"happycat: interrupted{BY[number]}; the same command goes on from here\n"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("name", ["list", "cache", "demo", "speed"])
def test_every_command_ends_with_one_line(name, monkeypatch, capsys):
    """Commands that give no advice of their own, and one that does."""

    def terminated(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(sys, "argv", ["happycat", name])
    monkeypatch.setattr("happycat.cli.help.SectionedCommand.invoke", terminated)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 143
    assert capsys.readouterr().err == "happycat: interrupted by SIGTERM\n"


def test_a_signal_that_is_ignored_stays_so():
    """As with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with catching_signals():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(Terminated):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_reading_process_that_was_killed_is_one_line(monkeypatch, capsys):
    def app() -> None:
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. \nDetails are lost.")

    monkeypatch.setattr(commands, "app", app)
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("happycat: DataLoader worker (pid 7) is killed by signal: Killed; ")
