"""verify on models that are smaller, or stranger, than those it was written for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hfposemb.errors import SourceError
from hfposemb.models.verification.verifying import verify
from hfposemb.tables.rotary import Rotary
from tests.checks.planted import change
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
    change(tmp_path, model_type="bert", vocab_size=3, pad_token_id=7)  # torch asserts that padding is a word
    with pytest.raises(SourceError, match=r"transformers cannot load .*: Padding_idx"):
        verify(str(tmp_path))


def test_transformers_loads_nothing_with_a_torch_whose_pickles_are_not_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides by itself which file it takes."""
    monkeypatch.setattr(torch, "__version__", "2.9.1+cu128")
    with pytest.raises(SourceError, match=r"^torch 2\.9\.1\+cu128 is installed.*; verify, .* needs 2\.10 or later: "):
        verify("sample:bert")


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "dynamic", "factor": 2.0},
        {
            **{"rope_type": "longrope", "original_max_position_embeddings": 16},
            **{"short_factor": [1.0, 1.5], "long_factor": [2.0, 30.0]},
        },
    ],
    ids=lambda scaling: scaling["rope_type"],
)
def test_rotary_frequencies_are_compared_beyond_the_trained_length(
    tmp_path: Path, build: Build, scaling: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = build("llama", head_dim=4, rope_parameters={"rope_theta": 10_000.0, **scaling})
    model.save_pretrained(tmp_path)
    name = "rotary frequencies at"
    found = [check for check in verify(str(tmp_path)).checks if check.what.startswith(name)]
    assert [check.verdict for check in found] == ["equal"] * 3, [str(check) for check in found]
    monkeypatch.setattr(Rotary, "at", lambda self, length: replace(self, length=length))  # frequencies never change
    assert not verify(str(tmp_path)).passed


def headed(build: Build, folder: Path, *, tied: bool) -> Path:
    """Save a small GPT-2 with a head of its own, or the token table's."""
    build("gpt2", "AutoModelForCausalLM", tie_word_embeddings=tied).save_pretrained(folder)  # type: ignore[operator]
    return folder


@pytest.mark.parametrize("tied", [True, False])
def test_heads_are_compared_with_the_class_that_was_saved(build: Build, tmp_path: Path, tied: bool) -> None:
    found = verify(str(headed(build, tmp_path, tied=tied)))
    (check,) = found.of("output head")
    assert (check.verdict, check.difference) == ("equal", 0.0)
    assert check.ours.endswith(", tied" if tied else ", untied")
    assert found.passed
    assert {"token table", "position table", "first layer's input"} <= {check.what for check in found.checks}


def test_a_head_that_differs_fails(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    headed(build, tmp_path, tied=False)
    monkeypatch.setattr("hfposemb.models.architectures.head_names.HEAD_ENDINGS", ("wpe.weight",))
    found = verify(str(tmp_path))
    (check,) = found.of("output head")
    assert check.verdict == "different"
    assert check.theirs.startswith("vectors of transformer.wpe.weight [20, 16], not [61, 16]")
    assert not found.passed


def test_a_head_that_the_checkpoint_lacks_is_not_compared(build: Build, tmp_path: Path) -> None:
    headed(build, tmp_path, tied=True)
    change(tmp_path, tie_word_embeddings=False)
    (check,) = verify(str(tmp_path)).of("output head")
    assert check.verdict == "not compared"
    assert "tie_word_embeddings is false, but no tensor is named as one" in check.ours
