"""A tokenizer in a child cuts as the one in this process does, and ends for certain."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from hfposemb.checkpoints.tokenizers import worker as cutting
from hfposemb.checkpoints.tokenizers.loading import load_tokenizer
from hfposemb.checkpoints.tokenizers.worker import Cutter
from hfposemb.errors import InputError, SourceError
from hfposemb.samples import TRAINED, folder
from tests.support.checkpoints.hostile import _SLOW, tokenizer

TEXTS = [
    "The king saw the queen, unbelievably.",
    "naïve café 🙂 日本語 12 345",
    "",
    "a \ud800 b",
    "two\nlines\r\n",
    "x" * 3000,
]


def write(home: Path, **parts: object) -> Path:
    (home / "tokenizer.json").write_text(json.dumps(tokenizer(**parts)), "utf-8")
    return home


def slow(home: Path) -> Path:
    one = {"type": "Replace", "pattern": {"Regex": _SLOW}, "content": "x"}
    return write(home, normalizer={"type": "Sequence", "normalizers": [one] * 3000})


@pytest.mark.parametrize("name", [*TRAINED, "minilm"])
def test_pieces_are_those_of_this_process(minilm_folder: Path, name: str) -> None:
    home = minilm_folder if name == "minilm" else folder(name)
    here, there = load_tokenizer(home), Cutter(home)
    assert here is not None
    assert [there(text) for text in TEXTS] == [here(text) for text in TEXTS]


def test_a_child_is_kept_and_started_anew_when_it_has_idled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Cutter(write(tmp_path))
    assert cut._child is None, "nothing runs before there is a text"
    first = cut("the king")
    assert cut._child is not None
    kept = cut._child._process
    assert cut("the king") == first
    assert cut._child._process is kept
    os.kill(kept.pid, signal.SIGALRM)  # what the system sends it after ten seconds
    kept.wait(5)
    assert cut("the king") == first
    assert cut._child._process.pid != kept.pid


def test_a_killed_child_is_one_line_and_the_next_text_is_cut(tmp_path: Path) -> None:
    cut = Cutter(write(tmp_path))
    first = cut("the king")
    assert cut._child is not None
    cut._child._process.kill()
    cut._child._process.wait(5)
    with pytest.raises(SourceError, match="was stopped"):
        cut("the king")
    assert cut("the king") == first


def test_what_takes_too_long_is_stopped(tmp_path: Path) -> None:
    cut = Cutter(slow(tmp_path))
    assert cut("1").texts == ("[UNK]",)
    assert cut._child is not None
    process = cut._child._process
    with pytest.raises(SourceError, match="too long and was stopped; give token ids"):
        cut("the king saw the queen")
    assert process.poll() is not None


def test_a_child_ends_with_its_cutter(tmp_path: Path) -> None:
    cut = Cutter(write(tmp_path))
    cut("the king")
    assert cut._child is not None
    process = cut._child._process
    del cut
    gc.collect()
    assert process.poll() is not None


def test_a_folder_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file states its tokens"):
        Cutter(tmp_path)("the king")


def test_a_child_that_cannot_start_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(SourceError, match="no process could be started"):
        Cutter(write(tmp_path))("the king")


def test_the_clock_ends_what_uses_no_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Cutter(write(tmp_path))
    cut("the king")
    assert cut._child is not None
    os.kill(cut._child._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(cutting, "_WALL", 0.1)
    with pytest.raises(SourceError, match="too long"):
        cut("the king")


def test_a_text_is_a_text(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        Cutter(tmp_path)(3)  # type: ignore[arg-type]


def test_the_users_token_stays_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    cut = Cutter(write(tmp_path))
    cut("the king")
    assert cut._child is not None
    if not (environment := Path(f"/proc/{cut._child._process.pid}/environ")).exists():
        pytest.skip("the environment of a process is read from /proc")
    assert b"hf_secret" not in environment.read_bytes()
