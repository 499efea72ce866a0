"""Log messages: retries, cache hits and bytes by one logger, which prints nothing by itself and names no secret."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import traceback

import numpy as np
import pytest
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.logs import OneLine, WithoutTracebacks
from tests.hub import FakeHub

TOKEN = "hf_secret_of_this_test"


@pytest.fixture
def model(hub: FakeHub) -> str:
    """A model on the fake Hub whose first answer is an error of the server."""
    config = {"model_type": "gpt2", "n_positions": 8, "n_embd": 4, "vocab_size": 20}
    tables = {"wpe.weight": np.eye(8, 4, dtype=np.float32), "wte.weight": np.ones((20, 4), np.float32)}
    hub.add("lab/tiny", {"config.json": json.dumps(config), "model.safetensors": save(tables)})
    hub.grant(TOKEN)
    hub.fault("status", code=503, times=1)
    return "lab/tiny"


def test_retries_reads_and_cache_hits_are_logged(
    model: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with caplog.at_level(logging.DEBUG, "hfposemb"):
        _ = hpe.extract(model).position.table.vectors
        first = caplog.text
        caplog.clear()
        _ = hpe.extract(model).position.table.vectors
    retries = [one for one in first.splitlines() if "trying again in" in one]
    assert len(retries) == 1
    assert "INFO" in retries[0]
    assert "lab/tiny model.safetensors: read " in first
    assert "lab/tiny model.safetensors" in caplog.text
    assert "found in the cache" in caplog.text
    for text in (first, caplog.text):
        assert "://" not in text
        assert "?" not in text
        assert TOKEN not in text


def test_verbose_prints_them(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", model, "--json", "--verbose"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["name"] == model
    assert "INFO lab/tiny" in said.err
    assert main(["--verbose", "info", "sample:bert", "--json"]) == 0
    assert main(["info", model]) == 0
    assert capsys.readouterr().err == ""
    assert [type(one) for one in logging.getLogger("hfposemb").handlers] == [logging.NullHandler]


def test_a_program_without_logging_prints_nothing(model: str) -> None:
    code = "import hfposemb.checkpoints.hub.http, logging; logging.getLogger('hfposemb').warning('not seen')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_log_of_a_server_has_one_line_for_each_message_and_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    minutes = iter([0.0, *[1.0] * 50, 61.0])
    handler = OneLine(3, clock=lambda: next(minutes))
    try:
        raise KeyError("a\nb")
    except KeyError:
        failed = sys.exc_info()
    for number in range(51):
        handler.handle(logging.LogRecord("uvicorn", logging.ERROR, "", 0, "no %d\n\x1b", (number,), failed))
    lines = capsys.readouterr().err.splitlines()
    assert [line[9:] for line in lines[:3]] == [f"ERROR no {n} ⟨U+001B CONTROL⟩: KeyError: 'a\\nb'" for n in range(3)]
    assert lines[3:5] == ["3 messages in a minute; more are counted only", "47 more messages were left out"]
    assert len(lines) == 6


def test_traceback_that_is_printed_becomes_one_message(caplog: pytest.LogCaptureFixture) -> None:
    stream = WithoutTracebacks(io.StringIO())
    try:
        try:
            raise ValueError("first")
        except ValueError:
            raise KeyError("second")  # noqa: B904
    except KeyError:
        traceback.print_exc(file=stream)
    print("said", file=stream)
    assert stream.getvalue().strip() == "said"
    assert [one.getMessage().strip() for one in caplog.records] == ["ValueError: first", "KeyError: 'second'"]
