"""Output heads: which tensor is one, how it is tied, its bias, and what is none."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hfposemb as hpe
from hfposemb.errors import MissingTableError
from hfposemb.models.architectures.head_names import is_headed
from tests.support.checkpoints.extracted import extracted

ROWS, WIDTH = 12, 4
RNG = np.random.default_rng(0)
TOKENS, HEAD = (RNG.standard_normal((ROWS, WIDTH)).astype(np.float32) for _ in range(2))
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": ROWS}


def saved(folder: Path, config: dict[str, Any], **tensors: np.ndarray) -> hpe.Embeddings:
    """Save tensors, whose names have ``__`` for dots, and return what is extracted."""
    return extracted(folder, {name.replace("__", "."): values for name, values in tensors.items()}, config)


def test_head_that_is_not_stored_is_the_token_table(tmp_path: Path) -> None:
    found = saved(tmp_path, GPT2, wte__weight=TOKENS)
    assert found.head.tied.how == "absent"
    assert found.head.tied
    assert found.head.tied is found.ties["head"]
    assert str(found.head.tied).endswith("no head is stored, and tie_word_embeddings is not stated, which means true")
    assert np.array_equal(found.head.vectors, TOKENS)
    assert found.head.provenance.tensor == "wte.weight"
    assert found.head.bias is None
    assert found.head.tied_by_bytes is found.head.tied


def test_head_of_its_own_is_read_with_its_bias(tmp_path: Path) -> None:
    bias = np.arange(ROWS, dtype=np.float32)
    config = {**GPT2, "tie_word_embeddings": False}
    found = saved(tmp_path, config, wte__weight=TOKENS, lm_head__weight=HEAD, lm_head__bias=bias)
    assert (found.head.tied.tied, found.head.tied.how) == (False, "own tensor")
    assert np.array_equal(found.head.vectors, HEAD)
    assert np.array_equal(found.head.bias, bias)
    assert found.head.bias_tensor == "lm_head.bias"
    assert found.head.labels is found.token.labels
    assert found.head.tied_by_bytes.how == "different bytes"
    assert f"{ROWS} of {ROWS} rows differ: 0, 1, 2, 3, 4, …" in found.head.tied_by_bytes.about
    again = pickle.loads(pickle.dumps(hpe.extract(tmp_path)))
    assert np.array_equal(again.head.vectors, HEAD)
    assert np.array_equal(again.head.bias, bias)
    assert again.head.tied == found.head.tied
    assert again.head.tied_by_bytes.how == "different bytes"


def test_two_stored_tables_are_compared_only_when_asked(tmp_path: Path) -> None:
    config = {**GPT2, "tie_word_embeddings": True}
    found = saved(tmp_path, config, wte__weight=TOKENS, lm_head__weight=TOKENS.copy())
    assert found.head.tied.how == "configuration"
    assert found.head.tied_by_bytes.how == "equal bytes"
    changed = TOKENS.copy()
    changed[7, 2] += 1
    found = saved(tmp_path, config, wte__weight=TOKENS, lm_head__weight=changed)
    assert not found.head.tied_by_bytes
    assert found.head.tied_by_bytes.about.endswith("1 of 12 rows differ: 7")
    longer = np.concatenate([TOKENS, HEAD[:4]])
    found = saved(tmp_path, config, wte__weight=TOKENS, lm_head__weight=longer)
    assert not found.head.tied
    assert found.head.tied.about == "lm_head.weight and wte.weight have 16 and 12 rows"
    assert found.head.tied_by_bytes.about.endswith("have 16 and 12 rows; the rows of both are equal")


def test_absent_head_of_an_untied_model_is_a_fault(tmp_path: Path) -> None:
    found = saved(tmp_path, {**GPT2, "tie_word_embeddings": False}, wte__weight=TOKENS)
    with pytest.raises(MissingTableError, match="tie_word_embeddings is false, but no tensor is named as one"):
        _ = found.head
    assert any(note.startswith("head: GPT2LMHeadModel has one") for note in found.notes)


def test_a_class_is_asked_for_only_where_there_is_a_configuration(tmp_path: Path) -> None:
    saved(tmp_path, {}, wte__weight=TOKENS)
    (tmp_path / "config.json").unlink()
    with pytest.raises(MissingTableError, match=r"named as one, and there is no config\.json"):
        _ = hpe.extract(tmp_path).head


def test_absent_head_of_a_class_that_never_ties_one_is_a_fault(tmp_path: Path) -> None:
    config = {"model_type": "csm", "architectures": ["CsmForConditionalGeneration"], "tie_word_embeddings": True}
    found = saved(tmp_path, config, embed_text_tokens__weight=TOKENS)
    with pytest.raises(MissingTableError, match="CsmForConditionalGeneration has one and never ties it, but"):
        _ = found.head


@pytest.mark.parametrize(
    ("config", "tensor", "message"),
    [
        ({"architectures": ["GPT2Model"]}, None, "it is a GPT2Model, which has none"),
        ({"architectures": ["MyModel"]}, None, "its class MyModel is not known to have one"),
        ({}, None, "no class in config.json has one"),
        ({"architectures": ["GPT2ForSequenceClassification"]}, "score", "score.weight is a classification head"),
        ({"architectures": ["BertForQuestionAnswering"]}, "qa_outputs", "a head that finds answers"),
        ({"architectures": ["BertModel"]}, "cls__predictions__transform__dense", "the transform before an output head"),
    ],
)
def test_what_is_no_head_is_named(tmp_path: Path, config: dict[str, Any], tensor: str | None, message: str) -> None:
    more = {} if tensor is None else {f"{tensor}__weight": HEAD[:3]}
    found = saved(tmp_path, {"model_type": "gpt2", "vocab_size": ROWS, **config}, wte__weight=TOKENS, **more)
    with pytest.raises(MissingTableError, match=message) as raised:
        _ = found.head
    assert "\n" not in str(raised.value)
    assert not any("head" in note for note in found.notes)


@pytest.mark.parametrize(
    ("kind", "tensor", "what"),
    [
        ("MusicgenForConditionalGeneration", "decoder__lm_heads__0__weight", "one of the heads of audio codes"),
        ("DiaForConditionalGeneration", "logits_dense__weight", "the head of audio codes"),
        ("PI0ForConditionalGeneration", "action_out_proj__weight", "a head of actions"),
    ],
)
def test_a_head_that_predicts_no_tokens_is_not_taken_for_a_tied_one(
    tmp_path: Path, kind: str, tensor: str, what: str
) -> None:
    config = {"model_type": "t5", "architectures": [kind], "vocab_size": ROWS, "tie_word_embeddings": True}
    found = saved(tmp_path, config, text_encoder__shared__weight=TOKENS, **{tensor: HEAD[:3]})
    assert not found.ties
    with pytest.raises(MissingTableError, match=f"predicts no tokens: .* is {what}"):
        _ = found.head


def test_text_comes_before_the_codes_of_a_speech_model(tmp_path: Path) -> None:
    names = ("embed_text_tokens__weight", "depth_decoder__model__embed_tokens__weight")
    config = {"model_type": "csm", "architectures": ["CsmForConditionalGeneration"], "tie_codebooks_embeddings": True}
    found = saved(tmp_path, config, lm_head__weight=HEAD[:5], **{names[0]: TOKENS, names[1]: HEAD[:9]})
    assert found.token.provenance.tensor == "embed_text_tokens.weight"
    assert not found.head.tied
    assert any("depth_decoder.model.embed_tokens.weight" in note for note in found.notes)


def test_transform_alone_shows_a_masked_model_without_class(tmp_path: Path) -> None:
    bias = np.ones(ROWS, np.float32)
    tensors = {"bert__embeddings__word_embeddings__weight": TOKENS, "cls__predictions__bias": bias}
    found = saved(tmp_path, {"model_type": "bert", "vocab_size": ROWS}, **tensors)
    assert found.head.tied.how == "absent"
    assert np.array_equal(found.head.bias, bias)


def test_only_the_head_is_stored(tmp_path: Path) -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}
    found = saved(tmp_path, config, lm_head__weight=HEAD)
    assert found.head.tied.how == "same tensor"
    assert np.array_equal(found.token.vectors, found.head.vectors)


ONE_COPY = {
    "whisper": ("WhisperForConditionalGeneration", "proj_out.weight"),
    "xlnet": ("XLNetLMHeadModel", "lm_loss.weight"),
    "albert": ("AlbertForMaskedLM", "predictions.decoder.weight"),
    "distilbert": ("DistilBertForMaskedLM", "vocab_projector.weight"),
    "modernbert": ("ModernBertForMaskedLM", "decoder.weight"),
    "electra": ("ElectraForMaskedLM", "generator_lm_head.weight"),
    "bart": ("BartForConditionalGeneration", "lm_head.weight"),
}
"""Classes whose head is tied, with the name of the head: the only one that a file may have."""


@pytest.mark.parametrize("model_type", ONE_COPY)
def test_a_tied_table_is_found_by_either_name(model_type: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from safetensors.torch import load_file
    from safetensors.torch import save_file as save_torch

    from tests.architectures.tiny import configurations, randomise

    kind, name = ONE_COPY[model_type]
    model = getattr(transformers, kind)(next(configurations(model_type))).eval()
    randomise(model)
    model.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    table = model.get_input_embeddings().weight.detach()
    kept = {one: values for one, values in stored.items() if not np.array_equal(values.numpy(), table.numpy())}
    save_torch({**kept, name: table.clone()}, tmp_path / "model.safetensors")
    again = getattr(transformers, kind).from_pretrained(tmp_path)
    assert np.array_equal(again.get_input_embeddings().weight.detach().numpy(), table.numpy())
    found = hpe.extract(tmp_path)
    assert np.array_equal(found.token.vectors, table.numpy())
    assert found.head.tied.how == "same tensor"


@pytest.mark.parametrize("model_type", ["bart", "marian", "m2m_100", "switch_transformers", "t5", "pegasus_x"])
def test_an_encoder_and_a_decoder_that_are_not_tied_have_tables_of_their_own(model_type: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tests.architectures.tiny import build

    model = build(model_type, changes={"tie_word_embeddings": False})
    model.save_pretrained(tmp_path)
    weights = {name: values.numpy() for name, values in model.state_dict().items()}
    encoder, decoder = (
        next(weights[one] for one in weights if one.endswith(f"{part}.embed_tokens.weight"))
        for part in ("encoder", "decoder")
    )
    found = hpe.extract(tmp_path)
    assert np.array_equal(found.token.vectors, encoder)
    assert np.array_equal(found.tables.get("decoder.token", found.token).vectors, decoder)


def test_opening_reads_no_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hfposemb.checkpoints.safetensors.checkpoint import Checkpoint

    asked: list[str] = []

    def told(call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(self: Checkpoint, name: str, *rest: Any) -> Any:
            asked.append(name)
            return call(self, name, *rest)

        return recorded

    monkeypatch.setattr(Checkpoint, "info", told(Checkpoint.info))
    monkeypatch.setattr(Checkpoint, "read", told(Checkpoint.read))
    found = saved(tmp_path, {**GPT2, "tie_word_embeddings": False}, wte__weight=TOKENS, lm_head__weight=HEAD)
    assert not found.ties["head"]
    assert found.token.shape == (ROWS, WIDTH)
    assert "lm_head.weight" not in asked
    assert found.head[3].tolist() == HEAD[3].tolist()
    assert "lm_head.weight" in asked


def test_decoder_with_a_vocabulary_of_its_own_has_the_head(tmp_path: Path) -> None:
    config = {"model_type": "marian", "architectures": ["MarianMTModel"], "tie_word_embeddings": True}
    tensors = {"model__encoder__embed_tokens__weight": TOKENS, "model__decoder__embed_tokens__weight": HEAD}
    positions = {
        f"model__{one}__embed_positions__weight": np.ones((8, WIDTH), np.float32) for one in ("encoder", "decoder")
    }
    found = saved(tmp_path, config, **tensors, **positions)
    assert list(found.heads) == ["decoder.head"]
    assert found.head.tied.token == "decoder.token"
    assert np.array_equal(found.head.vectors, HEAD)
    assert found.part("decoder").head is found.head
    assert list(found.part("decoder").ties) == ["head"]


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (("vocab.json", "target_vocab.json"), ["</s>", "y"]),
        (("vocab-src.json", "vocab-tgt.json"), ["</s>", "y"]),
        (("vocab.json",), ["0", "1"]),
    ],
    ids=["marian", "fsmt", "unstated"],
)
def test_decoder_with_a_vocabulary_of_its_own_has_its_names(
    tmp_path: Path, files: tuple[str, ...], names: list[str]
) -> None:
    for file, pieces in zip(files, ({"</s>": 0, "a": 1, "b": 2}, {"</s>": 0, "y": 1}), strict=False):
        (tmp_path / file).write_text(json.dumps(pieces), encoding="utf-8")
    config = {"model_type": "marian", "architectures": ["MarianMTModel"]}
    tensors = {"model__encoder__embed_tokens__weight": TOKENS[:3], "model__decoder__embed_tokens__weight": HEAD[:2]}
    found = saved(tmp_path, config, **tensors)
    assert list(found.token.labels) == ["</s>", "a", "b"]
    assert list(found.tables["decoder.token"].labels) == list(found.head.labels) == names


def test_live_models_name_their_head() -> None:
    import transformers

    config = transformers.GPT2Config(vocab_size=ROWS, n_embd=WIDTH, n_layer=1, n_head=1, n_positions=8)
    model = transformers.GPT2LMHeadModel(config)
    assert hpe.extract(model).head.tied.how == "alias"
    with pytest.raises(MissingTableError, match="no output head"):
        _ = hpe.extract(model.transformer).head


@pytest.mark.usefixtures("forked")
def test_pickled_checkpoints_name_tied_heads_twice(tmp_path: Path) -> None:
    import torch

    token = torch.from_numpy(TOKENS)
    torch.save({"wte.weight": token, "lm_head.weight": token}, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(GPT2))
    found = hpe.extract(tmp_path)
    assert (found.head.tied.tied, found.head.tied.how) == (True, "alias")
    assert np.array_equal(found.head.vectors, TOKENS)
    torch.save({"wte.weight": token, "lm_head.weight": torch.from_numpy(HEAD)}, tmp_path / "pytorch_model.bin")
    assert np.array_equal(hpe.extract(tmp_path).head.vectors, HEAD)


def test_head_given_as_an_array() -> None:
    found = hpe.from_arrays(token=TOKENS, head=HEAD, labels=[f"t{row}" for row in range(ROWS)])
    assert found.head["t3"].tolist() == HEAD[3].tolist()
    assert not found.head.tied
    with pytest.raises(hpe.HfposembError, match="one row for each of the 12 token vectors; it has 3"):
        hpe.from_arrays(token=TOKENS, head=HEAD[:3])


@pytest.mark.parametrize(
    ("name", "headed"),
    [
        *((name, True) for name in ("LlamaForCausalLM", "GPT2LMHeadModel", "MarianMTModel", "BertForPreTraining")),
        *((name, True) for name in ("T5ForConditionalGeneration", "EvollaForProteinText2Text", "EncoderDecoderModel")),
        *((name, False) for name in ("BertModel", "T5EncoderModel", "GPT2ForSequenceClassification", "CLIPModel")),
    ],
)
def test_class_names(name: str, headed: bool) -> None:
    assert is_headed(name) is headed


def test_a_layer_that_is_named_like_a_head_is_no_token_table(tmp_path: Path) -> None:
    """TimesFM ties by default, and has no vocabulary."""
    with pytest.raises(MissingTableError, match="no table was found"):
        saved(tmp_path, {"model_type": "timesfm"}, input_ff_layer__output_layer__weight=TOKENS)
