"""Single rows and tensors by name on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.cli.main import main

ROWS = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)


def test_a_tensor_by_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a checkpoint with names that nothing knows."""
    odd, out = tmp_path, tmp_path / "table.npy"
    save_file({"encoder.lookup": ROWS, "norm.scale": ROWS[0]}, odd / "model.safetensors")
    assert main(["info", str(odd)]) == 1
    assert "name one: ?token=TENSOR" in capsys.readouterr().err
    assert main(["extract", str(odd), "--tensor", "encoder.lookup", "--out", str(out)]) == 0
    np.testing.assert_array_equal(np.load(out), ROWS)
    assert main(["extract", f"{odd}?token=encoder.lookup", "--rows", "7", "3", "--out", str(out)]) == 0
    np.testing.assert_array_equal(np.load(out), ROWS[[7, 3]])
    assert main(["neighbours", str(odd), "5", "--tensor", "encoder.lookup", "-k", "2", "--json"]) == 0
    assert main(["extract", str(odd), "--tensor", "norm.scale", "--out", str(out)]) == 1
    assert "has the shape [8]; a table needs" in capsys.readouterr().err
    assert main(["extract", str(odd), "--tensor", "encoder.lookup", "--table", "token", "--out", str(out)]) == 1
    assert capsys.readouterr().err == "hfposemb: give --table or --tensor, not both\n"
    assert main(["extract", "sample:gpt2", "--rows", "king", "queen", "--out", str(out)]) == 0
    np.testing.assert_array_equal(np.load(out), hpe.extract("sample:gpt2").token[["king", "queen"]])
