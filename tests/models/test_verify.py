"""verify on models that are smaller, or stranger, than those it was written for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import hfposemb as hpe
from hfposemb.errors import SourceError
from hfposemb.models.verification.verifying import verify
from hfposemb.tables.rotary import Rotary
from tests.checks.planted import change
from tests.conftest import Build
from tests.support.checkpoints.extracted import extracted


@pytest.mark.parametrize("words", [2, 3, 11, 12])
@pytest.mark.parametrize("model_type", ["gpt2", "roberta"])
def test_a_tiny_vocabulary_is_fed_ids_that_it_has(tmp_path: Path, build: Build, model_type: str, words: int) -> None:
    model: Any = build(model_type, vocab_size=words, pad_token_id=1)
    model.save_pretrained(tmp_path)
    found = verify(tmp_path)
    assert found.passed, str(found)
    assert [check.verdict for check in found.of("first layer")] == ["equal"]


def test_what_torch_asserts_is_one_line(tmp_path: Path, build: Build) -> None:
    model: Any = build("gpt2")
    model.save_pretrained(tmp_path)
    change(tmp_path, model_type="bert", vocab_size=3, pad_token_id=7)  # torch asserts that padding is a word
    with pytest.raises(SourceError, match=r"transformers cannot load .*: Padding_idx"):
        verify(tmp_path)


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
    result = verify(tmp_path)
    found = [check for check in result.checks if check.what.startswith(name)]
    assert [check.verdict for check in found] == ["equal"] * 3, [str(check) for check in found]
    assert len({line.index("equal") for line in str(result).splitlines()[1:]}) == 1  # one below the other
    monkeypatch.setattr(Rotary, "at", lambda self, length: replace(self, length=length))  # frequencies never change
    assert not verify(tmp_path).passed


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
    found = verify(tmp_path)
    (check,) = found.of("output head")
    assert check.verdict == "different"
    assert check.theirs.startswith("vectors of transformer.wpe.weight [20, 16], not [61, 16]")
    assert not found.passed


def test_a_head_that_the_checkpoint_lacks_is_not_compared(build: Build, tmp_path: Path) -> None:
    headed(build, tmp_path, tied=True)
    change(tmp_path, tie_word_embeddings=False)
    (check,) = verify(tmp_path).of("output head")
    assert check.verdict == "not compared"
    assert "tie_word_embeddings is false, but no tensor is named as one" in check.ours


_SMALL = {"d_model": 32, "decoder_layers": 1, "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "vocab_size": 99}
_HEADS = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
_DIA = {**_HEADS, "num_key_value_heads": 4, "head_dim": 8}
_ENCODED = {"encoder_layers": 1, "encoder_attention_heads": 4, "encoder_ffn_dim": 48}
_SPOKEN = {"conv_dim": [16], "conv_stride": [5], "conv_kernel": [10], "num_conv_pos_embedding_groups": 4}
UNUSUAL: dict[str, tuple[str, str, dict[str, Any]]] = {
    "an encoder alone": (
        "T5EncoderModel",
        "t5",
        {"d_model": 32, "num_layers": 1, "num_heads": 4, "d_kv": 8, "d_ff": 48, "vocab_size": 99},
    ),
    "a part without an automatic class": ("SiglipTextModel", "siglip_text_model", {**_HEADS, "vocab_size": 99}),
    "sinusoids of a saved head": (
        "MarianMTModel",
        "marian",
        {**_SMALL, **_ENCODED, "pad_token_id": 98, "decoder_start_token_id": 98},
    ),
    "sinusoids in place of a table": (
        "TrOCRForCausalLM",
        "trocr",
        {**_SMALL, "use_learned_position_embeddings": False},
    ),
    "layer norm in place of none": (
        "MobileBertModel",
        "mobilebert",
        {**_HEADS, "embedding_size": 16, "vocab_size": 99, "normalization_type": "layer_norm"},
    ),
    "two bases": (
        "DiaModel",
        "dia",
        {
            "encoder_config": {
                **_DIA,
                "vocab_size": 99,
                "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
            },
            "decoder_config": {
                **{**_DIA, "vocab_size": 60, "rope_parameters": {"rope_type": "default", "rope_theta": 7000.0}},
                **{"cross_num_attention_heads": 4, "cross_num_key_value_heads": 4, "cross_head_dim": 8},
                **{"cross_hidden_size": 32, "num_channels": 9},
            },
        },
    ),
    "rotary positions beside a convolution": (
        "Wav2Vec2ConformerModel",
        "wav2vec2-conformer",
        {**_HEADS, **_SPOKEN, "num_conv_pos_embeddings": 8, "position_embeddings_type": "rotary"},
    ),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_classes_and_settings_that_are_not_the_default(tmp_path: Path, name: str) -> None:
    import transformers

    kind, model_type, fields = UNUSUAL[name]
    torch.manual_seed(0)
    getattr(transformers, kind)(transformers.AutoConfig.for_model(model_type, **fields)).save_pretrained(tmp_path)
    found = verify(tmp_path)
    assert found.passed, str(found)


def test_a_decoder_of_words_has_other_positions_than_its_encoder_of_images(tmp_path: Path) -> None:
    """TrOCR's larger models compute sinusoids for the words."""
    import transformers

    images = transformers.ViTConfig(**_HEADS, image_size=32, patch_size=8)
    words = transformers.TrOCRConfig(**_SMALL, use_learned_position_embeddings=False, layernorm_embedding=False)
    both = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(images, words)
    model: Any = transformers.VisionEncoderDecoderModel(both).eval()
    model.save_pretrained(tmp_path)
    found = hpe.extract(tmp_path)
    assert {part: one.kind for part, one in found.positions.items()} == {"decoder": "sinusoidal", "encoder": "learned"}
    fed: list[torch.Tensor] = []
    first = model.decoder.model.decoder.layers[0]
    first.register_forward_pre_hook(lambda _, given, named: fed.append((*given, *named.values())[0]), with_kwargs=True)
    model.decoder(input_ids=torch.tensor([[5, 6, 7]]))
    np.testing.assert_allclose(found.inputs([5, 6, 7]).normed, fed[0][0].detach().numpy(), atol=1e-6)


def test_untied_tables_of_a_speech_translator(tmp_path: Path) -> None:
    """Seamless keeps ``shared`` beside the tables of its text encoder and decoder."""
    names = ("shared", "text_encoder.embed_tokens", "text_decoder.embed_tokens", "t2u_model.model.decoder.embed_tokens")
    config = {"model_type": "seamless_m4t", "tie_word_embeddings": False, "vocab_size": 9, "hidden_size": 4}
    tables = {f"{name}.weight": torch.full((9, 4), float(row)) for row, name in enumerate(names)}
    found = extracted(tmp_path, tables | {"t2u_model.model.encoder.layer_norm.weight": torch.ones(4)}, config)
    assert found.token.provenance.tensor == "text_encoder.embed_tokens.weight"
    assert found.fed == ("encoder", "decoder")
    assert [name for name in found.tables if "token" in name] == ["token"]
