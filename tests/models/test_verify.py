"""verify on models that are smaller, or stranger, than those it was written for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hfposemb.errors import SourceError
from hfposemb.models.verification import verify
from tests.conftest import Build


@pytest.mark.parametrize("words", [2, 3, 11, 12])
@pytest.mark.parametrize("model_type", ["gpt2", "roberta"])
def test_a_tiny_vocabulary_is_fed_ids_that_it_has(tmp_path: Path, build: Build, model_type: str, words: int) -> None:
    model: Any = build(model_type, vocab_size=words, pad_token_id=1)
    model.save_pretrained(tmp_path)
    found = verify(str(tmp_path))
    assert found.passed, str(found)
    assert [check.verdict for check in found.of("first layer")] == ["equal"]


def test_what_torch_asserts_is_one_line(tmp_path: Path, build: Build) -> None:
    model: Any = build("gpt2")
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    tiny = {"model_type": "bert", "vocab_size": 3, "pad_token_id": 7}  # torch asserts that padding is a word
    (tmp_path / "config.json").write_text(json.dumps(config | tiny))
    with pytest.raises(SourceError, match=r"transformers cannot load .*: Padding_idx"):
        verify(str(tmp_path))
