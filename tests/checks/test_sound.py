"""Models that transformers builds and saves have nothing wrong; `make test-families` goes through all types."""

from __future__ import annotations

import pytest

from tests.checks.sound import one

SOME = [
    *("albert", "bart", "bert", "bigbird_pegasus", "bloom", "cpmant", "deepseek_v3", "distilbert", "gemma3_text"),
    *("glm4v", "gpt2", "gpt_neox", "llama", "mllama", "opt", "phi3", "qwen2_vl", "roberta", "t5", "whisper"),
]


@pytest.mark.parametrize("model_type", SOME)
def test_models_of_transformers_have_nothing_wrong(model_type: str) -> None:
    rows = [one((model_type, head)) for head in (False, True)]
    assert any(row.built for row in rows), rows
    for row in rows:
        assert not row.wrong, row
        assert not row.reason.startswith(("failed", "not checked")), row
