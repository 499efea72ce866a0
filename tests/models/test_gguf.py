"""GGUF files in the terms of transformers: tables, tokens, heads, inputs and positions equal those of the model."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gguf
import numpy as np
import pytest
import torch
import transformers
from gguf import quants
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.checkpoints.gguf.config import ARCHITECTURES
from hfposemb.errors import CheckpointError, HfposembError, MissingTableError, SourceError
from hfposemb.models.architectures.families import is_known
from hfposemb.models.verification.verifying import verify
from hfposemb.samples import folder as sample_folder
from hfposemb.tables.rotary import Rotary
from hfposemb.tables.source_parser import parse_source
from tests.conftest import FULL, Build
from tests.hub.server import FakeHub
from tests.support.checkpoints import malformed_gguf
from tests.support.checkpoints.gguf_models import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    Model,
    Tokens,
    byte_level,
    keys_of,
    llama3_factors,
    word_piece,
)

T = TypeVar("T")
WIDTH, ROWS = 32, 40
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((ROWS, WIDTH)).astype(np.float32)
WORDS = Tokens("gpt2", [f"Ġword{row}" for row in range(ROWS)], [NORMAL] * ROWS)
LLAMA = {
    "vocab_size": ROWS,
    "hidden_size": WIDTH,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 500_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


def plain(arch: str = "llama", **tensors: NDArray[Any]) -> Model:
    """Return a model with a token table and the keys of a small Llama."""
    rope = {"rope_theta": 10_000.0}
    named = {name.replace("__", "."): values for name, values in tensors.items()}
    return Model(arch, keys_of({**LLAMA, "rope_parameters": rope}), {"token_embd.weight": TABLE, **named}, WORDS)


# --- rotary positions ------------------------------------------------------------------------------------------------

ROPES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "default": ("llama", {"rope_theta": 10_000.0}),
    "theta": ("qwen2", {"rope_theta": 1_000_000.0}),
    "linear": ("llama", {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}),
    "yarn": ("qwen2", {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}),
    "yarn with all parameters": (
        "qwen3",
        {
            "rope_type": "yarn",
            "rope_theta": 150_000.0,
            "factor": 32.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 24.0,
            "beta_slow": 2.0,
            "attention_factor": 1.25,
        },
    ),
    "llama3": ("llama", LLAMA_3),
    "longrope": (
        "phi3",
        {
            "rope_type": "longrope",
            "short_factor": np.linspace(1, 2, 8).tolist(),
            "long_factor": np.linspace(1, 40, 8).tolist(),
        },
    ),
}


@pytest.mark.parametrize("name", ROPES)
def test_frequencies_equal_those_of_transformers(name: str, tmp_path: Path) -> None:
    arch, rope = ROPES[name]
    config = {**LLAMA, "rope_parameters": {"rope_theta": 10_000.0, **rope}}
    more: dict[str, NDArray[Any]] = {}
    if name == "longrope":
        config |= {"original_max_position_embeddings": 32, "max_position_embeddings": 64}
        more = {
            f"rope_factors_{kind}.weight": np.array(rope[f"{kind}_factor"], np.float32) for kind in ("long", "short")
        }
    if name == "llama3":
        more = {"rope_freqs.weight": llama3_factors(rope, 16)}
    path = Model(arch, keys_of(config), {"token_embd.weight": TABLE, **more}).write(tmp_path / "a.gguf")
    kind = "Phi3" if arch == "phi3" else "Llama"
    module = getattr(transformers, f"{kind}Model")(
        getattr(transformers, f"{kind}Config")(**config, intermediate_size=8, pad_token_id=0)
    ).rotary_emb
    found = hpe.extract(path).position
    assert isinstance(found, Rotary)
    lengths = (32, 64) if name == "longrope" else (64,)
    for length in lengths:
        module(torch.zeros(1), torch.arange(length)[None])
        ours = found.at(length)
        np.testing.assert_allclose(ours.inv_freq, module.inv_freq.numpy(), rtol=3e-6)
        assert ours.attention_scaling == pytest.approx(module.attention_scaling, rel=1e-6)
    assert found.length == 64


def test_partial_and_separate_rotations(tmp_path: Path) -> None:
    keys = keys_of({**LLAMA, "rope_parameters": {"rope_theta": 10_000.0}})
    neox = Model("gptneox", {**keys, "rope.dimension_count": 4}, {"token_embd.weight": TABLE})
    mla = {"rope.dimension_count": 8, "attention.kv_lora_rank": 16, "attention.key_length": 24}
    deepseek = Model("deepseek2", {**keys, **mla}, {"token_embd.weight": TABLE})
    for model, pairs in ((neox, 2), (deepseek, 4)):
        found = hpe.extract(model.write(tmp_path / "a.gguf")).position
        np.testing.assert_allclose(found.inv_freq, 10_000.0 ** -(np.arange(pairs) / pairs))


def test_two_bases_of_layers_with_and_without_a_window(tmp_path: Path) -> None:
    keys = keys_of({**LLAMA, "head_dim": 16, "rope_parameters": {"rope_theta": 1_000_000.0}})
    keys |= {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}
    found = hpe.extract(Model("gemma3", keys, {"token_embd.weight": TABLE}, WORDS).write(tmp_path / "a.gguf"))
    plainly = np.arange(8) / 8
    np.testing.assert_allclose(found.positions["sliding_attention"].inv_freq, 10_000.0**-plainly)
    np.testing.assert_allclose(found.positions["full_attention"].inv_freq, 1_000_000.0**-plainly / 8)
    np.testing.assert_allclose(found.inputs([3]).normed[0], TABLE[3] * np.sqrt(np.float32(WIDTH)), rtol=1e-6)
    keys = keys_of({**LLAMA, "rope_parameters": {"rope_theta": 160_000.0}})
    model = Model("modern-bert", {**keys, "rope.freq_base_swa": 5_000.0}, {"token_embd.weight": TABLE})
    found = hpe.extract(model.write(tmp_path / "a.gguf"))
    np.testing.assert_allclose(found.positions["sliding_attention"].inv_freq, 5_000.0**-plainly)


# --- other positions -------------------------------------------------------------------------------------------------


def test_learned_positions_of_gpt2(tmp_path: Path) -> None:
    position = RNG.standard_normal((64, WIDTH)).astype(np.float32)
    path = plain("gpt2", position_embd__weight=position).write(tmp_path / "a.gguf")
    found = hpe.extract(path)
    assert found.position.kind == "learned"
    np.testing.assert_array_equal(found.position.table, position)
    np.testing.assert_array_equal(found.inputs([3, 5]).sum, TABLE[[3, 5]] + position[:2])


@pytest.mark.parametrize(("kind", "offset", "epsilon"), [("bert", 0, 1e-12), ("roberta", 2, 1e-5)])
def test_inputs_of_encoders_equal_those_of_transformers(
    build: Build, kind: str, offset: int, epsilon: float, tmp_path: Path
) -> None:
    sizes = {"vocab_size": ROWS, "hidden_size": WIDTH, "max_position_embeddings": 20 + offset}
    model: Any = build(kind, **sizes, layer_norm_eps=epsilon)
    state = {name: values.numpy() for name, values in model.embeddings.state_dict().items()}
    keys = keys_of({**model.config.to_dict(), "max_position_embeddings": 20, "rope_parameters": None})
    tensors = {
        "token_embd.weight": state["word_embeddings.weight"],
        "position_embd.weight": state["position_embeddings.weight"][offset:],
        "token_types.weight": state["token_type_embeddings.weight"],
        "token_embd_norm.weight": state["LayerNorm.weight"],
        "token_embd_norm.bias": state["LayerNorm.bias"],
    }
    found = hpe.extract(Model("bert", keys, tensors, WORDS).write(tmp_path / "a.gguf"))
    ids = [5, 7, 9, 30]
    with torch.no_grad():
        expected = model.embeddings(torch.tensor([ids])).numpy()[0]
    np.testing.assert_allclose(found.inputs(ids).normed, expected, atol=2e-6)
    assert found.position.table.shape == (20, WIDTH), "converters cut the rows before the first position"
    assert "head" not in found.heads


def test_biases_of_t5(tmp_path: Path) -> None:
    encoder, decoder, cross = (RNG.standard_normal((32, 2)).astype(np.float32) for _ in range(3))
    tensors = {
        "token_embd.weight": TABLE,
        "enc.blk.0.attn_rel_b.weight": encoder,
        "dec.blk.0.attn_rel_b.weight": decoder,
        "dec.blk.0.cross_attn_rel_b.weight": cross,
    }
    keys = {**keys_of(LLAMA), "attention.relative_buckets_count": 32}
    found = hpe.extract(Model("t5", keys, tensors, WORDS).write(tmp_path / "a.gguf"))
    config = transformers.T5Config(vocab_size=ROWS, d_model=WIDTH, d_kv=16, d_ff=8, num_layers=1, num_heads=2)
    model = transformers.T5ForConditionalGeneration(config)
    biases = {"encoder": encoder, "decoder": decoder}
    for part, values in biases.items():
        module = getattr(model, part).block[0].layer[0].SelfAttention.relative_attention_bias
        module.weight.data = torch.from_numpy(values)
    live = hpe.extract(model)
    assert list(found.positions) == list(live.positions) == ["encoder", "decoder"]
    for part in biases:
        np.testing.assert_array_equal(found.positions[part].bias, live.positions[part].bias)
        assert found.positions[part].bidirectional == live.positions[part].bidirectional


@pytest.mark.parametrize(("arch", "heads", "longest"), [("bloom", 12, 8.0), ("mpt", 12, 4.0), ("jina-bert-v2", 8, 8.0)])
def test_slopes_of_alibi(arch: str, heads: int, longest: float, tmp_path: Path) -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    keys = {**keys_of(LLAMA), "attention.head_count": heads}
    if arch == "mpt":
        keys["attention.max_alibi_bias"] = longest
    found = hpe.extract(Model(arch, keys, {"token_embd.weight": TABLE}, WORDS).write(tmp_path / "a.gguf")).position
    assert found.kind == "alibi"
    if arch == "mpt":
        alibi = build_mpt_alibi_tensor(heads, 2, longest).reshape(heads, 2)
    else:
        alibi = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32).reshape(heads, 2)
    np.testing.assert_allclose(found.slopes, (alibi[:, 1] - alibi[:, 0]).numpy(), rtol=1e-6)


def test_an_unknown_architecture_keeps_its_tables(tmp_path: Path) -> None:
    found = hpe.extract(plain("marvin").write(tmp_path / "a.gguf"))
    np.testing.assert_array_equal(found.token, TABLE)
    with pytest.raises(MissingTableError, match="the architecture 'marvin' is unknown, and no tensor holds its pos"):
        _ = found.position
    position = RNG.standard_normal((64, WIDTH)).astype(np.float32)
    learned = hpe.extract(plain("marvin", position_embd__weight=position).write(tmp_path / "b.gguf"))
    np.testing.assert_array_equal(learned.position.table, position)


def test_an_image_encoder_alone_is_no_empty_answer(tmp_path: Path) -> None:
    path = Model("clip", {}, {"v.patch_embd.weight": TABLE}).write(tmp_path / "mmproj.gguf")
    with pytest.raises(MissingTableError, match=r"no table was found.*v\.patch_embd\.weight"):
        hpe.extract(path)


def test_architectures_are_those_of_the_reference() -> None:
    assert set(ARCHITECTURES) <= set(gguf.MODEL_ARCH_NAMES.values())
    unknown = {one.model_type for one in ARCHITECTURES.values() if not is_known({"model_type": one.model_type})}
    assert unknown == {
        *("deepseek", "internlm2", "jina_bert_v2", "jina_bert_v3", "minicpm", "orion", "qwen", "refact"),
        "xverse",
    }, "model types that transformers does not have"


# --- heads -----------------------------------------------------------------------------------------------------------


def test_heads_are_tied_if_they_are_not_stored(tmp_path: Path) -> None:
    tied = hpe.extract(plain().write(tmp_path / "a.gguf")).head
    assert tied.tied
    assert "no output.weight is stored" in tied.tied.about
    np.testing.assert_array_equal(tied, TABLE)
    raw = RNG.integers(0, 256, (ROWS, 34), dtype=np.uint8)
    raw[:, :2] = np.float16([0.5]).view(np.uint8)
    own = hpe.extract(plain(output__weight=("Q8_0", raw)).write(tmp_path / "b.gguf")).head
    assert not own.tied
    np.testing.assert_array_equal(own, quants.dequantize(raw, gguf.GGMLQuantizationType.Q8_0))
    assert own.provenance.stored_dtype == "Q8_0"


def test_logits_are_not_computed_from_permuted_projections(tmp_path: Path) -> None:
    with pytest.raises(
        MissingTableError, match=r"in the order of llama\.cpp's rotation; use the safetensors checkpoint"
    ):
        hpe.extract(plain().write(tmp_path / "a.gguf")).logits([1, 2])


def test_per_layer_tables_are_not_the_token_table(tmp_path: Path) -> None:
    others = np.ones((ROWS, 2 * WIDTH), np.float32)
    found = hpe.extract(plain("gemma3n", per_layer_token_embd__weight=others).write(tmp_path / "a.gguf"))
    np.testing.assert_array_equal(found.token, TABLE)
    np.testing.assert_array_equal(found.lookup("per_layer"), others)
    assert found.looked_up([3, ROWS], "per_layer").rows.tolist() == [[3], [0]]


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "convert"), [("gpt2", byte_level), ("bert", word_piece)])
def test_labels_equal_those_of_the_tokenizer(name: str, convert: Any, tmp_path: Path) -> None:
    home = sample_folder(name)
    rows = 4008
    table = np.zeros((rows, 4), np.float32)
    path = Model(name, {}, {"token_embd.weight": table}, convert(home, rows=rows)).write(tmp_path / "a.gguf")
    from hfposemb.checkpoints.tokenizers.vocabulary_files import read_labels

    ours, theirs = hpe.extract(path).token.labels, read_labels(home, rows=rows)
    assert ours.texts == theirs.texts
    assert ours.pieces == theirs.pieces
    np.testing.assert_array_equal(ours.classes, theirs.classes)


def test_labels_of_sentencepiece(tmp_path: Path) -> None:
    texts = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xE2>", "▁the", "ing", "▁", "<tool>", "left", "▁é", "[PAD11]"]
    types = [UNKNOWN, CONTROL, CONTROL, BYTE, BYTE, NORMAL, NORMAL, NORMAL, USER_DEFINED, UNUSED, NORMAL, UNUSED]
    tokens = Tokens("llama", texts, types, {"bos": 1, "eos": 2}, "{{ bos_token }}<tool>{{ content }}")
    table = np.arange(14 * 4, dtype=np.float32).reshape(14, 4)
    found = hpe.extract(Model("llama", keys_of(LLAMA), {"token_embd.weight": table}, tokens).write(tmp_path / "a.gguf"))
    labels = found.token.labels
    assert labels.texts[5:8] == (" the", "ing", " ")
    assert labels.texts[3] == "<0x0A>"
    assert labels.texts[11:] == ("(padding 11)", "(padding 12)", "(padding 13)")
    from hfposemb.tables.table import TOKEN_CLASSES

    named = [TOKEN_CLASSES[one] for one in labels.classes]
    assert named[:3] == ["special"] * 3
    assert named[5:10] == ["word start", "continuation", "word start", "word start", "unused"]
    np.testing.assert_array_equal(found.token["the"], table[5])
    marks = found.marks()
    assert (marks.reserved, marks.chat, marks.template) == ({9}, {1, 8}, True)


def test_user_defined_tokens_of_a_byte_level_vocabulary_were_added(tmp_path: Path) -> None:
    tokens = Tokens("gpt2", ["a", "Ġb", "<|end|>", "<think>"], [NORMAL, NORMAL, CONTROL, USER_DEFINED])
    path = Model("qwen2", {}, {"token_embd.weight": TABLE[:4]}, tokens).write(tmp_path / "a.gguf")
    marks = hpe.extract(path).marks()
    assert (marks.added, marks.chat, marks.template) == ({3}, frozenset(), False)


def test_rows_without_tokens_have_numbers(tmp_path: Path) -> None:
    path = Model("llama", {}, {"token_embd.weight": TABLE}).write(tmp_path / "a.gguf")
    assert hpe.extract(path).token.labels.texts[7] == "7"


# --- files -----------------------------------------------------------------------------------------------------------

SPLIT = ("a-00001-of-00003.gguf", "a-00002-of-00003.gguf", "a-00003-of-00003.gguf")


def split(folder: Path) -> Path:
    """Write a model in three splits."""
    more = {f"blk__{layer}__weight": np.full((4, 4), layer, np.float32) for layer in range(3)}
    folder.mkdir(exist_ok=True)
    plain(**more, output__weight=TABLE + 1).write(folder / "a.gguf", most_tensors=2)
    assert sorted(file.name for file in folder.iterdir()) == list(SPLIT)
    return folder


@pytest.mark.parametrize("name", ["", *SPLIT])
def test_splits_are_one_model(name: str, tmp_path: Path) -> None:
    found = hpe.extract(split(tmp_path / "m") / name)
    np.testing.assert_array_equal(found.token, TABLE)
    np.testing.assert_array_equal(found.head, TABLE + 1)
    assert found.token.provenance.file == SPLIT[0]
    assert found.head.provenance.file == SPLIT[-1]
    assert found.token.labels.texts[3] == " word3"


def _missing(home: Path) -> None:
    (home / SPLIT[1]).unlink()


def _swapped(home: Path) -> None:
    (home / SPLIT[1]).write_bytes((home / SPLIT[0]).read_bytes())


def _renamed(home: Path) -> None:
    _missing(home)
    (home / SPLIT[2]).unlink()
    (home / SPLIT[0]).rename(home / "b.gguf")


def _of_another_model(home: Path) -> None:
    other = plain(blk__9__weight=TABLE, blk__0__weight=TABLE, output__weight=TABLE)
    (home / "other").mkdir()
    other.write(home / "other" / "a.gguf", most_tensors=2)
    (home / SPLIT[2]).write_bytes(split(home / "again").joinpath(SPLIT[2]).read_bytes())
    (home / SPLIT[0]).write_bytes((home / "other" / "a-00001-of-00002.gguf").read_bytes())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_missing, r"1 of 3 splits are missing; download 'a-00002-of-00003\.gguf' too"),
        (_swapped, "must be split 2 of 3; it states split 1 of 3"),
        (_renamed, r"its name must end in -00001-of-00003\.gguf"),
        (_of_another_model, "so its name must end in -00001-of-00002"),
    ],
)
def test_broken_splits_are_one_line(spoil: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    home = split(tmp_path / "m")
    spoil(home)
    with pytest.raises(CheckpointError, match=message) as caught:
        hpe.extract(home)
    assert str(caught.value).isprintable()


def test_a_folder_with_several_models_lists_them(tmp_path: Path) -> None:
    for name in ("m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m-F16.gguf"):
        plain().write(tmp_path / name)
    with pytest.raises(SourceError, match=r"holds 2 models, .*m-Q4_K_M\.gguf.*m-Q8_0\.gguf.*name one, such as"):
        hpe.extract(tmp_path)
    (tmp_path / "m-Q8_0.gguf").unlink()
    np.testing.assert_array_equal(hpe.extract(tmp_path).token, TABLE)


def test_a_configuration_beside_the_file_counts_if_the_head_states_none(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt_neox", "vocab_size": 2, "hidden_size": 4}')
    (tmp_path / "a.gguf").write_bytes(malformed_gguf.file())
    assert hpe.extract(tmp_path).config["model_type"] == "llama"
    (tmp_path / "a.gguf").write_bytes(malformed_gguf.file(malformed_gguf.KEYS[1:]))
    found = hpe.extract(tmp_path)
    assert found.config["model_type"] == "gpt_neox"
    assert found.token.labels.texts == ("a", "b")


def test_a_source_is_pickled_as_its_location(tmp_path: Path) -> None:
    path = plain().write(tmp_path / "a.gguf")
    found = pickle.loads(pickle.dumps(hpe.extract(path)))
    np.testing.assert_array_equal(found.token[3:5], TABLE[3:5])
    path.write_bytes(path.read_bytes()[:-64])
    with pytest.raises(CheckpointError):
        pickle.loads(pickle.dumps(hpe.extract(path)))


def quantised(rows: int, width: int) -> tuple[str, NDArray[np.uint8]]:
    """Return a table of random Q6_K blocks."""
    raw = RNG.integers(0, 256, (rows, width // 256 * 210), dtype=np.uint8)
    raw.reshape(rows, -1, 210)[:, :, 208:] = np.float16([1e-3]).view(np.uint8)
    return "Q6_K", raw


def remote(hub: FakeHub, tmp_path: Path) -> tuple[NDArray[np.uint8], int]:
    """Put a model of 6,000 rows into two repositories; return the bytes of its table and the size of the file."""
    table = quantised(6_000, 1024)
    tokens = Tokens("gpt2", [f"Ġword{row}" for row in range(6_000)], [NORMAL] * 6_000)
    keys = keys_of({**LLAMA, "hidden_size": 1024, "vocab_size": 6_000, "rope_parameters": {"rope_theta": 1e6}})
    path = Model("qwen3", keys, {"token_embd.weight": table}, tokens).write(tmp_path / "m-Q6_K.gguf")
    raw = path.read_bytes()
    hub.add("a/one", {"m-Q6_K.gguf": raw, "README.md": b"x"})
    hub.add("a/several", {"m-Q6_K.gguf": raw, "m-Q8_0.gguf": raw, "BF16/m.gguf": raw})
    hub.add("a/deep", {"Q6_K/m.gguf": raw, "BF16/m-00001-of-00002.gguf": raw})
    return table[1], len(raw)


@pytest.mark.parametrize(
    "name", ["a/one", "a/one/m-Q6_K.gguf", "a/several/m-Q6_K.gguf", "a/several/BF16", "a/deep/Q6_K"]
)
def test_rows_are_fetched_alone_from_the_hub(name: str, hub: FakeHub, tmp_path: Path) -> None:
    raw, size = remote(hub, tmp_path)
    found = hpe.extract(name)
    rows = found.token[1000:1064]
    np.testing.assert_array_equal(rows, quants.dequantize(raw[1000:1064], gguf.GGMLQuantizationType.Q6_K))
    assert found.token.labels.texts[1000] == " word1000"
    assert isinstance(found.position, Rotary)
    assert found.traffic.received < 2 * 2**18 + 64 * 840 + 10_000 < size / 8
    other = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(other.token[2000:2001], found.token[2000:2001])
    assert other.token.labels.texts[7] == " word7"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a/several", r"holds 2 models, 'm-Q6_K\.gguf', 'm-Q8_0\.gguf'; name one, such as a/several/m-Q6_K\.gguf"),
        ("a/deep", r"in other folders, .*; name one, such as a/deep/BF16/m-00001-of-00002\.gguf"),
    ],
)
def test_a_repository_of_several_models_says_how_to_name_one(
    name: str, message: str, hub: FakeHub, tmp_path: Path
) -> None:
    remote(hub, tmp_path)
    with pytest.raises(SourceError, match=message) as caught:
        hpe.extract(name)
    shown = str(caught.value).rpartition("such as ")[2]
    assert parse_source(shown) is not None
    assert hpe.extract(shown).token.shape == (6_000, 1024)


@pytest.mark.parametrize("content", [b"", b"GGUF\x03\0\0\0", b"GGUF\x03\0\0\0" + bytes(64)])
def test_a_broken_file_on_the_hub_is_one_line(content: bytes, hub: FakeHub) -> None:
    hub.add("a/broken", {"m.gguf": content})
    with pytest.raises(HfposembError) as caught:
        hpe.extract("a/broken")
    assert str(caught.value).isprintable()


def test_verify_asks_for_the_original(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"is a GGUF file, .*; verify the checkpoint it was made from"):
        verify(str(plain().write(tmp_path / "a.gguf")))


VALUES: tuple[Any, ...] = (
    *(0, 1, 2, 3, 7, 8, 2**16, 2**31 - 1, 2**31, 2**32 - 1),
    *(0.0, -1.0, 1e-30, 1e30, float("nan"), float("inf"), 10_000.0, True, "", "yarn", "linear", "longrope", "x" * 99),
    *([0, 1, 2], [1.5, float("nan")], ["a", "b"], [0]),
)
"""Values of keys, whatever their meaning."""


def test_any_values_of_keys_give_tables_or_one_line(tmp_path: Path) -> None:
    draw = random.Random(2)
    names = [key.removeprefix("llama.") for key in keys_of({**LLAMA, "rope_parameters": {"rope_theta": 1e4}})]
    names += ["rope.dimension_count", "rope.freq_base_swa", "attention.kv_lora_rank", "attention.key_length"]
    names += [f"rope.scaling.{name}" for name in ("type", "factor", "attn_factor", "original_context_length")]
    names += [f"rope.scaling.yarn_{name}" for name in ("beta_fast", "beta_slow", "attn_factor", "log_multiplier")]
    names += ["attention.max_alibi_bias", "embedding_scale", "attention.layer_norm_epsilon"]
    optional = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", "position_embd.weight")
    optional += ("token_embd_norm.weight", "output.weight", "enc.blk.0.attn_rel_b.weight", "token_types.weight")
    made = 0
    for _ in range(500 if FULL else 120):
        arch = draw.choice([*ARCHITECTURES, "marvin"])
        keys = {**plain(arch).keys, **{name: draw.choice(VALUES) for name in draw.sample(names, draw.randint(1, 5))}}
        tensors: dict[str, Any] = {"token_embd.weight": TABLE}
        for name in draw.sample(optional, draw.randint(0, 3)):
            shape = draw.choice([(8,), (16,), (1,), (0,), (ROWS, WIDTH), (4, 3)])
            tensors[name] = np.full(shape, draw.choice([0.0, 1.0, -1.0, 2.0, np.nan, np.inf]), np.float32)
        texts = [
            draw.choice(["a", "Ġb", "▁c", "", "<0x0A>", "\n", "\u202e", "é"]) for _ in range(draw.choice([3, ROWS, 60]))
        ]
        types = [draw.randint(0, 9) for _ in texts]
        tokens = Tokens(
            draw.choice(["gpt2", "llama", "bert", "t5", "none"]), texts, types, {"bos": draw.choice([0, 999])}
        )
        path = Model(arch, keys, tensors, tokens).write(tmp_path / "a.gguf")
        made += _used(path)
    assert made > 60


def _used(path: Path) -> int:
    """Use all that a source has; return 1 if it could be opened. Raises for anything but a one-line error."""
    said: list[str] = []

    def attempted(use: Callable[[], T]) -> T | None:
        try:
            return use()
        except HfposembError as error:
            said.append(str(error))
            return None

    found = attempted(partial(hpe.extract, path))
    if found is not None:
        uses: list[Callable[[], object]] = [partial(found.inputs, [1, 2]), partial(hpe.check, path), found.marks]
        uses += [lambda: found.head.bias, *(partial(found.positions.__getitem__, part) for part in found.positions)]
        for use in uses:
            attempted(use)
        assert all(text and text.isprintable() for text in found.token.labels)
        np.testing.assert_array_equal(found.token, TABLE)
    assert all(line.isprintable() for line in said)
    return int(found is not None)
