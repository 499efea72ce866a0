"""Bars for long work: drawn in terminals and notebooks after two seconds, never twice, and gone before any output."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

import hfposemb as hpe
from hfposemb import progress
from hfposemb.cli.main import stopped_promptly
from hfposemb.comparison.side_by_side import Run
from hfposemb.progress import SWITCH, shown, wanted


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self) -> bool:
        return True


def in_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal in which bars appear at once in the place of standard error; pytest has one of its own before."""
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.01)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def _until(text: str, terminal: Terminal) -> None:
    for _ in range(1_000):
        if text in terminal.getvalue():
            return
        time.sleep(0.01)
    raise AssertionError(f"{text!r} was never drawn; drawn was {terminal.getvalue()!r}")


def test_a_bar_says_the_stage_and_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = in_terminal(monkeypatch)
    with shown("reading") as told:
        _until("reading · 00:0", terminal)
        told(0.25, "surrogate 5 of 20")
        _until("surrogate 5 of 20", terminal)
        _until("25 %", terminal)


def test_nothing_is_drawn_of_what_is_done_or_inside_another_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = in_terminal(monkeypatch)
    with shown("outer") as told:
        _until("outer", terminal)
        with shown("inner") as inner:
            inner(0.5, "inner")
        told(1.0, "done")
        length = len(terminal.getvalue())
        time.sleep(0.1)
        assert len(terminal.getvalue()) == length
    assert "inner" not in terminal.getvalue()


def test_output_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = in_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stdout", terminal)
    with shown("working", printing=True):
        _until("working", terminal)
        print("the answer")
        time.sleep(0.1)
    assert terminal.getvalue().endswith("\rthe answer\n")


@pytest.mark.parametrize(("given", "expected"), [("0", False), ("1", True), ("", True)])
def test_a_variable_switches_bars(given: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    in_terminal(monkeypatch)
    monkeypatch.setenv(SWITCH, given)
    assert wanted() is expected


def test_scripts_and_callers_with_progress_of_their_own_see_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = in_terminal(monkeypatch)
    seen: list[float] = []
    with shown("mine", lambda share, doing: seen.append(share)) as told:
        told(0.5, "half")
    with shown("off", False) as told:
        told(0.5, "half")
        time.sleep(0.05)
    hpe.compare(hpe.sinusoidal(32, 8), draws=20, run=Run(progress=lambda share, doing: seen.append(share)))
    assert seen[0] == 0.5
    assert seen[-1] == 1.0
    hpe.compare(hpe.sinusoidal(32, 8), draws=20, run=Run(progress=False))
    assert terminal.getvalue() == ""
    terminal.isatty = lambda: False  # type: ignore[method-assign]
    with shown("quiet"):
        time.sleep(0.05)
    assert terminal.getvalue() == ""


BUSY = """
import sys, time
from hfposemb.cli.main import stopped_promptly
from hfposemb.files import unfinished
from pathlib import Path
unfinished.add(Path(sys.argv[1]))
begun = False
with stopped_promptly(0.3):
    while True:
        try:
            if not begun:  # inside, because the signal may come before this line has ended
                begun = True
                print("ready", flush=True)
            time.sleep(0.05)
        except KeyboardInterrupt:  # as compiled code does
            pass
"""


def test_work_that_does_not_heed_ctrl_c_is_ended(tmp_path: Path) -> None:
    """What it was writing is removed, and one line says that it was stopped."""
    half = tmp_path / "half"
    half.touch()
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, str(half)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (130, "hfposemb: stopped\n")
    assert not half.exists()


def test_work_that_heeds_ctrl_c_ends_by_itself() -> None:
    before = signal.getsignal(signal.SIGINT)

    def interrupted() -> None:
        with stopped_promptly():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1


def test_a_command_in_a_terminal_draws_a_bar_that_is_gone_at_the_end(tmp_path: Path) -> None:
    """The whole path, in a pseudo-terminal: a bar on standard error, the table on standard output."""
    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 80))
    setting = "from hfposemb import progress; progress.AFTER = 0.0; progress.EVERY = 0.01"
    run = "from hfposemb.cli.main import main"
    command = f"{setting}; {run}; main(['compare', 'random:256x64', 'random:256x64?seed=1', '--draws', '60'])"
    environment = {**os.environ, "HFPOSEMB_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}
    environment.pop(SWITCH, None)
    with subprocess.Popen(
        [sys.executable, "-c", command], stdout=subprocess.PIPE, stderr=follower, text=True, env=environment
    ) as child:
        os.close(follower)
        assert child.stdout is not None
        drawn = b""
        while True:
            try:
                piece = os.read(leader, 65_536)
            except OSError:  # the other side was closed
                break
            drawn += piece
        table = child.stdout.read()
    os.close(leader)
    assert "tokens of Untrained and Untrained 1: surrogate" in drawn.decode()
    assert drawn.decode().rstrip(" ").endswith("\r")
    assert table.startswith("  ")
    assert "surrogate" not in table
