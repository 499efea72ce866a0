"""A bug of ours ends in one line and a file that can be sent, with nothing in it that is secret."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from hfposemb.bug_reports import MOST_FILES, Fault, keep, redacted, without_passwords
from hfposemb.cli.main import BUG, main
from hfposemb.cli.parser import parser
from hfposemb.errors import InputError

TOKEN = "hf_canaryToken0123456789"


pytestmark = pytest.mark.usefixtures("cache_folder")


def failing(error: BaseException) -> argparse.ArgumentParser:
    """Return the parser with one more command, which raises."""

    def run(given: argparse.Namespace) -> None:
        raise error

    known = parser()
    (commands,) = [action for action in known._actions if isinstance(action, argparse._SubParsersAction)]
    command = commands.add_parser("fail")
    command.add_argument("--token", default="")
    command.set_defaults(run=run)
    return known


def test_bug_is_one_line_and_a_file(cache_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bug = IndexError("index 20065 is out of bounds")
    assert main(["fail", "--token", TOKEN], known=failing(bug)) == BUG == 70
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("hfposemb: this is a bug in hfposemb (IndexError: index 20065 is out of bounds); please")
    (file,) = (cache_folder / "faults").iterdir()
    assert str(file) in said
    text = file.read_text()
    for part in ("Traceback (most recent call last)", "in run", "IndexError: index 20065", "command   hfposemb fail"):
        assert part in text, part
    assert f"Python    {sys.version.split()[0]}" in text
    assert "numpy " in text
    assert TOKEN not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_debug_prints_the_traceback_before_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--debug", "fail"], known=failing(KeyError("x.position"))) == BUG
    *traceback, line = capsys.readouterr().err.splitlines()
    assert traceback[0] == "Traceback (most recent call last):"
    assert line.startswith("hfposemb: this is a bug")
    assert main(["info", "./nowhere", "--debug"]) == 1
    *traceback, line = capsys.readouterr().err.splitlines()
    assert "SourceError" in traceback[-1]
    assert "does not exist" in line


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError("no"), "hfposemb: no\n"),
        (MemoryError(), "hfposemb: out of memory; choose fewer rows, dimensions or sources\n"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x"), "hfposemb: No space left on device: x\n"),
    ],
)
def test_what_is_no_bug_is_not_reported_as_one(
    error: Exception, said: str, cache_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fail"], known=failing(error)) == 1
    assert capsys.readouterr().err == said
    assert not (cache_folder / "faults").exists()


def test_same_bug_has_one_file_and_there_are_few_and_short_ones(tmp_path: Path) -> None:
    first = keep("a bug", folder=tmp_path)
    assert keep("a bug", folder=tmp_path) == first
    for number in range(MOST_FILES + 5):
        keep(f"bug {number}", folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == MOST_FILES
    found = keep("x" * 10**6 + "\nIndexError: the end", folder=tmp_path)
    assert found.path.stat().st_size < 300_000
    assert "IndexError: the end" in found.path.read_text()


def test_folder_that_cannot_be_written_is_replaced_by_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    found = keep("a bug that goes elsewhere", folder=tmp_path / "file" / "faults")
    assert found.path.parent == tmp_path / "temporary"
    assert keep("a bug that goes elsewhere", folder=tmp_path / "file" / "faults") == found
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert keep("a bug without a file", folder=tmp_path / "file" / "faults") == Fault(
        keep("a bug without a file").code, None
    )


def test_link_in_the_place_of_a_file_is_not_written_through(tmp_path: Path) -> None:
    code = keep("a bug", folder=tmp_path / "first").code
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / f"{code}.txt").symlink_to(tmp_path / "other")
    keep("a bug", folder=tmp_path / "faults")
    assert not (tmp_path / "other").exists()


def test_secrets_are_left_out() -> None:
    known = {
        "HF_TOKEN": "canary-one",
        "HFPOSEMB_AUTH": "ada:canary-two",
        "PATH": "/bin",
        "NO_TOKEN": "false",
    }
    text = f"canary-one, canary-two, {TOKEN}, https://ada:pw@host/x, false, /bin"
    assert redacted(text, known) == "***, ***, hf_***, https://***@host/x, false, /bin"
    command = ["hfposemb", "app", "--auth", "a:b", "--port", "1", "--auth=a:b"]
    assert without_passwords(command) == ["hfposemb", "app", "--auth", "***", "--port", "1", "--auth=***"]
