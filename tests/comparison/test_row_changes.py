"""Rows that an adapter or a fine-tuning changed: which, by how much, and what is left out."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.cli.main import main
from hfposemb.errors import InputError

ROWS = np.random.default_rng(3).standard_normal((5000, 24)).astype(np.float32)


def test_planted_changes_are_found_in_order() -> None:
    after = ROWS.copy()
    after[17] *= 1.5
    after[4000] = -after[4000]
    after[4999, 3] += 1e-3
    found = hpe.row_changes(hpe.from_arrays(token=ROWS).token, hpe.from_arrays(token=after).token)
    assert found.changed.tolist() == [4000, 17, 4999]
    np.testing.assert_allclose(found.sizes[:2], [2, 0.5], rtol=1e-6)
    np.testing.assert_allclose(found.cosines[:2], [-1, 1], rtol=1e-6)
    assert (found.rows, len(found), len(found.to_frame())) == (5000, 3, 3)
    assert "3 of 5,000 rows" in str(found)


def test_zero_and_missing_rows() -> None:
    before, after = ROWS[:10].copy(), ROWS[:12].copy()
    before[3] = 0
    before[5] = after[5] = np.nan
    before[6, 2] = after[6, 2] = np.nan
    found = hpe.row_changes(hpe.from_arrays(token=before).token, hpe.from_arrays(token=after).token)
    assert found.changed.tolist() == [3]
    assert math.isinf(found.sizes[0])
    assert found.to_dict()["listed"] == [{"row": 3, "label": "3", "change": None, "cosine": None}]
    assert "rows 10 to 11 are in" in str(found)
    assert found.to_dict()["lengths"] == [10, 12]
    same = hpe.row_changes(hpe.from_arrays(token=after).token, hpe.from_arrays(token=after).token)
    assert len(same) == 0
    assert "0 of 12 rows" in str(same)


def test_other_widths_are_no_version() -> None:
    with pytest.raises(InputError, match=r"vectors of 24 numbers and .* of 8"):
        hpe.row_changes(hpe.from_arrays(token=ROWS).token, hpe.from_arrays(token=ROWS[:, :8]).token)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    for folder in (base, adapter):
        folder.mkdir()
    save_file({"model.embed_tokens.weight": ROWS}, base / "model.safetensors")
    delta = "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta"
    save_file({delta: ROWS[[5, 6]] * 2}, adapter / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 4, "trainable_token_indices": [7, 9], "base_model_name_or_path": str(base)}
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    for given in ([str(adapter), "--base"], [str(adapter), "--base", str(base)], [str(base), f"{adapter}?base={base}"]):
        assert main(["changes", *given, "--json"]) == 0
        assert {one["row"] for one in json.loads(capsys.readouterr().out)["listed"]} == {7, 9}
    assert main(["changes", str(adapter)]) == 1
    assert "or one adapter with --base" in capsys.readouterr().err


def test_rows_of_words_are_not_compared_with_positions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, tensor in (("words", "wte.weight"), ("places", "wpe.weight")):
        save_file({tensor: ROWS}, tmp_path / f"{name}.safetensors")
    assert main(["changes", *(str(tmp_path / f"{name}.safetensors") for name in ("places", "words"))]) == 1
    assert "places.safetensors has no token table" in capsys.readouterr().err
