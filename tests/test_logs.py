"""Log messages: retries, cache hits and bytes by one logger, which prints nothing by itself and names no secret."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save

import hfposemb as hpe
from hfposemb.cli.main import main
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
    code = "import hfposemb.checkpoints.http_retries, logging; logging.getLogger('hfposemb').warning('not seen')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
