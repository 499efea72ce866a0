"""Tables of every family, from files and from live models, against transformers' own modules, bit for bit."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import hfposemb as hpe
from hfposemb.cli.options import role_of
from hfposemb.errors import CheckpointError, InputError, MissingTableError, SourceError
from hfposemb.models.row_checks import of_shard
from hfposemb.tables.sources import SampleSource
from tests.checks.planted import change, edit
from tests.conftest import ABSOLUTE, Build
from tests.hub import FakeHub
from tests.support.checkpoints.extracted import extracted

OFFSETS = {"roberta": 2, "xlm-roberta": 2, "camembert": 2, "mpnet": 2, "opt": 2, "bart": 2, "mbart": 2}


def _positions(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The model's own position tables by part, as its modules hold them: stored rows, offset included."""
    names = ("position_embeddings", "wpe", "positions_embed", "embed_positions")
    found = {name: module.weight for name, module in model.named_modules() if name.rpartition(".")[2] in names}
    assert found
    if len(found) == 1:
        return {"position": next(iter(found.values()))}
    return {"encoder" if "encoder" in name else "decoder": weight for name, weight in found.items()}


def _assert_tables(embeddings: hpe.Embeddings, model: torch.nn.Module, model_type: str) -> None:
    token = model.get_input_embeddings().weight.detach().float().numpy()
    np.testing.assert_array_equal(embeddings.token.vectors, token)
    expected = _positions(model)
    assert set(embeddings.positions) - {"relative"} == set(expected)
    assert ("relative" in embeddings.positions) == (model_type == "mpnet")
    offset = OFFSETS.get(model_type, 0)
    for part, weight in expected.items():
        encoding = embeddings.positions[part]
        assert encoding.kind == "learned"
        assert encoding.offset == offset
        np.testing.assert_array_equal(encoding.table.vectors, weight.detach().float().numpy()[offset:])
        assert encoding.table.provenance.row_offset == offset
    own = [m.weight for name, m in model.named_modules() if name.endswith("token_type_embeddings")]
    assert ("token_type" in embeddings.tables) == bool(own)
    for weight in own:
        np.testing.assert_array_equal(embeddings.token_type.vectors, weight.detach().float().numpy())


@pytest.mark.parametrize(
    ("model_type", "dtype"),
    [*((name, torch.float32) for name in ABSOLUTE), ("bert", torch.float16), ("bart", torch.bfloat16)],
)
def test_saved_folder_and_live_model(build: Build, tmp_path: Path, model_type: str, dtype: torch.dtype) -> None:
    model = build(model_type).to(dtype)
    model.save_pretrained(tmp_path)
    for source in (str(tmp_path), model):
        _assert_tables(hpe.extract(source), model, model_type)


@pytest.mark.parametrize(
    ("model_type", "auto"),
    [
        ("bert", "AutoModelForMaskedLM"),
        ("gpt2", "AutoModelForCausalLM"),
        ("roberta", "AutoModelForMaskedLM"),
        ("bart", "AutoModelForSeq2SeqLM"),
        ("opt", "AutoModelForCausalLM"),
        ("mpnet", "AutoModelForMaskedLM"),
    ],
)
def test_models_with_heads_and_shards(build: Build, tmp_path: Path, model_type: str, auto: str) -> None:
    model = build(model_type, auto)
    model.save_pretrained(tmp_path, max_shard_size="3KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    _assert_tables(hpe.extract(tmp_path), model, model_type)


@pytest.mark.parametrize("prefix", ["model.", "module.", "_orig_mod.", "base_model.model.bert.", "0.auto_model."])
def test_any_prefix(build: Build, tmp_path: Path, prefix: str) -> None:
    model = build("bert")
    model.save_pretrained(tmp_path)
    renamed = {
        prefix + name: tensor for name, tensor in safetensors.torch.load_file(tmp_path / "model.safetensors").items()
    }
    safetensors.torch.save_file(renamed, tmp_path / "model.safetensors")
    _assert_tables(hpe.extract(tmp_path), model, "bert")


def test_a_file_alone_uses_the_config_beside_it(build: Build, tmp_path: Path) -> None:
    model = build("roberta")
    model.save_pretrained(tmp_path)
    _assert_tables(hpe.extract(tmp_path / "model.safetensors"), model, "roberta")


def test_a_file_without_config_is_read_by_names_and_says_so(build: Build, tmp_path: Path) -> None:
    model = build("gpt2")
    model.save_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    embeddings = hpe.extract(tmp_path / "model.safetensors")
    _assert_tables(embeddings, model, "gpt2")
    assert "no config.json" in embeddings.notes[0]


def test_aliases_of_the_header_are_resolved(build: Build, tmp_path: Path) -> None:
    """As facebook/bart-large-cnn is stored: only one name of the tied table, the others in __metadata__."""
    model = build("bart")
    model.save_pretrained(tmp_path)
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    table = tensors.pop("shared.weight")
    tensors = {name: t for name, t in tensors.items() if "embed_tokens" not in name} | {"odd.name": table}
    metadata = {"format": "pt", "model.shared.weight": "odd.name"}
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors", metadata)
    _assert_tables(hpe.extract(tmp_path), model, "bart")


def test_a_weight_before_its_parametrization_is_read_and_said_to_be(build: Build, tmp_path: Path) -> None:
    """As jina-embeddings-v3 is stored, whose factors for its tasks are beside the table."""
    model = build("bert")
    model.save_pretrained(tmp_path)
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    parts = {"embeddings.word_embeddings", "embeddings.token_type_embeddings"}
    for part in parts:
        tensors[f"{part}.parametrizations.weight.original"] = tensors.pop(f"{part}.weight")
        tensors[f"{part}.parametrizations.weight.0.lora_A"] = torch.zeros(5, 4, 16)
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    embeddings = hpe.extract(tmp_path)
    _assert_tables(embeddings, model, "bert")
    stored = "embeddings.word_embeddings.parametrizations.weight.original"
    assert f"{stored} is the weight before its parametrization, which is not applied" in embeddings.notes


def test_a_table_cut_by_columns_is_said_to_be_narrow(build: Build, tmp_path: Path) -> None:
    build("gpt2").save_pretrained(tmp_path)
    assert not any("states n_embd" in note for note in hpe.extract(tmp_path).notes)
    edit(tmp_path, lambda tensors: tensors.update({"wte.weight": np.array(tensors["wte.weight"][:, :9])}))
    edit(tmp_path, lambda tensors: tensors.update({"wpe.weight": np.array(tensors["wpe.weight"][:, :9])}))
    for table in ("wte", "wpe"):
        said = f"config.json states n_embd 16, but the vectors of {table}.weight have 9 numbers"
        assert said in hpe.extract(tmp_path).notes


def test_a_tied_head_is_the_last_resort(build: Build, tmp_path: Path) -> None:
    model = build("gpt2", "AutoModelForCausalLM")
    model.save_pretrained(tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({"lm_head.weight": tensors.pop("transformer.wte.weight")}))
    embeddings = hpe.extract(tmp_path)
    _assert_tables(embeddings, model, "gpt2")
    assert "lm_head.weight" in embeddings.notes[0]
    change(tmp_path, tie_word_embeddings=False)
    with pytest.raises(MissingTableError, match="has no token table"):
        _ = hpe.extract(tmp_path).token


def test_two_candidates_are_both_named(build: Build, tmp_path: Path) -> None:
    build("gpt2").save_pretrained(tmp_path)
    edit(tmp_path, lambda tensors: tensors.update({"other.wte.weight": np.zeros((5, 16), np.float32)}))
    embeddings = hpe.extract(tmp_path)
    assert embeddings.token.shape == (61, 16)
    said = "token: using wte.weight, since its path is shorter; ?token=TENSOR names another: other.wte.weight"
    assert said in embeddings.notes[0]


@pytest.mark.parametrize("shape", [(0,), (0, 16)])
def test_tables_that_zero_3_left_empty_are_not_taken_for_other_names(
    build: Build, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    build("gpt2").save_pretrained(tmp_path)
    empty = {"token": "wte.weight", "position": "wpe.weight", "head": "lm_head.weight"}
    edit(tmp_path, lambda tensors: tensors.update(dict.fromkeys(empty.values(), np.zeros(shape, np.float32))))
    embeddings = hpe.extract(tmp_path)
    for table, name in empty.items():
        said = rf"{name} is empty, of the shape \[0.*; if DeepSpeed's ZeRO-3.*save the model gathered"
        with pytest.raises(MissingTableError, match=said):
            getattr(embeddings, table)


def test_relative_positions_and_a_named_tensor_that_zero_3_left_empty(build: Build, tmp_path: Path) -> None:
    build("t5").save_pretrained(tmp_path)
    bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    edit(tmp_path, lambda tensors: tensors.update(dict.fromkeys((bias, "shared.weight"), np.zeros(0, np.float32))))
    with pytest.raises(CheckpointError, match=rf"{bias} is empty, of the shape \[0\]; if DeepSpeed's ZeRO-3"):
        _ = hpe.extract(tmp_path).positions["encoder"].distances
    with pytest.raises(InputError, match=r"shared.weight is empty, of the shape \[0\]; if DeepSpeed's ZeRO-3"):
        hpe.extract(f"{tmp_path}?token=shared.weight")


def test_one_shard_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    for shard, name in enumerate(("wte.weight", "wpe.weight"), 1):
        rows = {name: torch.randn(20, 16)}
        safetensors.torch.save_file(rows, tmp_path / f"model-0000{shard}-of-00002.safetensors")
    embeddings = hpe.extract(tmp_path / "model-00002-of-00002.safetensors")
    said = ("this is file 2 of 2; tables in the others are not read, open their folder",)
    assert said[0] in embeddings.notes
    assert of_shard("owner/name/model-00002-of-00002.safetensors@refs/pr/1") == said
    assert of_shard("owner/name/model-00001-of-00001.safetensors@main") == ()


def test_positions_alone(tmp_path: Path) -> None:
    safetensors.torch.save_file({"wpe.weight": torch.randn(20, 16)}, tmp_path / "model.safetensors")
    embeddings = hpe.extract(tmp_path)
    assert embeddings.position.table.shape == (20, 16)
    with pytest.raises(MissingTableError, match=r"has no token table.*wpe\.weight"):
        _ = embeddings.token
    with pytest.raises(MissingTableError, match="no token table"):
        embeddings.inputs([1])


def test_llama_gives_tokens_and_names_its_positions(build: Build, tmp_path: Path) -> None:
    model = build("llama")
    model.save_pretrained(tmp_path)
    for source in (tmp_path, model):
        embeddings = hpe.extract(source)
        np.testing.assert_array_equal(embeddings.token.vectors, model.get_input_embeddings().weight.detach().numpy())
        assert embeddings.position.kind == "rotary"
        assert embeddings.position.table.shape == (20, 8)
        np.testing.assert_allclose(embeddings.position.inv_freq, model.rotary_emb.inv_freq.numpy(), rtol=2e-5)
    with pytest.raises(MissingTableError, match="no position table"):
        _ = embeddings.tables["position"] if "position" in embeddings.tables else embeddings._table("position")
    change(tmp_path, rope_parameters={"rope_type": "spiral", "rope_theta": 1e4})
    position = hpe.extract(tmp_path).position
    assert position.kind == "rotary"
    with pytest.raises(MissingTableError, match="'spiral'"):
        position.profile(np.arange(3))


def test_sinusoids_that_distilbert_stores_are_called_so(build: Build, tmp_path: Path) -> None:
    build("distilbert", sinusoidal_pos_embds=True).save_pretrained(tmp_path)
    assert hpe.extract(tmp_path).position.kind == "sinusoidal"


def test_why_there_are_no_tokens_is_known_of_some_types(build: Build, tmp_path: Path) -> None:
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    build("canine", **small, max_position_embeddings=32, num_hash_buckets=8).save_pretrained(tmp_path)
    for ask in (lambda: hpe.extract(tmp_path).token, lambda: role_of(hpe.extract(tmp_path), None)):
        with pytest.raises(MissingTableError, match="no token table: it hashes characters into several tables; no t"):
            ask()


def test_axial_positions_are_those_that_reformer_puts_together(build: Build, tmp_path: Path) -> None:
    shape = {"axial_pos_shape": (3, 8), "axial_pos_embds_dim": (10, 6), "hidden_size": 16, "vocab_size": 61}
    model = build("reformer", **shape, attn_layers=["local"], num_attention_heads=2, attention_head_size=8)
    model.save_pretrained(tmp_path)
    truth = model.embeddings.position_embeddings(torch.arange(24)[None])[0].detach().numpy()
    for source in (tmp_path, model):
        embeddings = hpe.extract(source)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(embeddings.position)).table.vectors, truth)
        np.testing.assert_array_equal(embeddings.position.table[[23, 8]], truth[[23, 8]])
        np.testing.assert_array_equal(embeddings.inputs([5, 7]).position, truth[:2])
    torn = model.state_dict() | {"embeddings.position_embeddings.weights.0": torch.ones(3, 2, 10)}
    safetensors.torch.save_file(torn, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="must have one long axis"):
        _ = hpe.extract(tmp_path).position


@pytest.mark.parametrize("padding", [0, 1, 5])
def test_offset_follows_the_padding_id(build: Build, tmp_path: Path, padding: int) -> None:
    model = build("roberta", pad_token_id=padding)
    model.save_pretrained(tmp_path)
    position = hpe.extract(tmp_path).position
    assert position.offset == padding + 1
    assert position.table.shape[0] == 20 - padding - 1


def test_mpnet_counts_its_padding_as_1_in_any_configuration(build: Build, tmp_path: Path) -> None:
    model = build("mpnet", pad_token_id=5)
    model.save_pretrained(tmp_path)
    found, ids = hpe.extract(tmp_path), [7, 8, 5, 9]
    theirs = model.eval().embeddings(torch.tensor([ids])).detach()[0].numpy()
    assert found.position.offset == 2
    np.testing.assert_allclose(found.inputs(ids).normed, theirs, atol=1e-6)


@pytest.mark.parametrize("padding", [-1, 19, 10**9, True, "1", None, 1.0])
def test_absurd_padding_ids_do_not_move_the_table(tmp_path: Path, padding: object) -> None:
    rows = {"wpe.weight": torch.randn(20, 16)}
    assert extracted(tmp_path, rows, {"model_type": "roberta", "pad_token_id": padding}).position.offset == 2


def test_a_table_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"the shape \[2, 16\], and 2 leading rows are not positions"):
        _ = extracted(tmp_path, {"wpe.weight": torch.randn(2, 16)}, {"model_type": "roberta"}).position


def test_bare_embedding() -> None:
    """The textbook's untrained layer: six tokens, three dimensions, seed 123."""
    torch.manual_seed(123)
    layer = torch.nn.Embedding(6, 3)
    table = hpe.extract(layer).token
    np.testing.assert_array_equal(table.vectors, layer.weight.detach().numpy())
    np.testing.assert_allclose(table.vectors[3], [-0.4015, 0.9666, -1.1481], atol=5e-5)
    before = table.vectors.copy()
    torch.nn.init.zeros_(layer.weight)
    np.testing.assert_array_equal(table.vectors, before, err_msg="what was read stays")


class HandWritten(torch.nn.Module):
    """The class of many a tutorial."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.tok = torch.nn.Embedding(31, width)
        self.pos = torch.nn.Embedding(12, width)
        self.norm = torch.nn.LayerNorm(width)
        torch.nn.init.normal_(self.norm.weight)
        torch.nn.init.normal_(self.norm.bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Sum and normalise."""
        return self.norm(self.tok(ids) + self.pos(torch.arange(ids.shape[-1])))


def test_hand_written_module() -> None:
    module = HandWritten()
    embeddings = hpe.extract(module)
    np.testing.assert_array_equal(embeddings.token.vectors, module.tok.weight.detach().numpy())
    np.testing.assert_array_equal(embeddings.position.table.vectors, module.pos.weight.detach().numpy())
    own = module(torch.tensor([[3, 1, 4, 1, 5]]))[0].detach().numpy()
    np.testing.assert_allclose(embeddings.inputs([3, 1, 4, 1, 5]).normed, own, atol=1e-5)


def test_minilm(minilm_folder: Path) -> None:
    embeddings = hpe.extract(minilm_folder)
    assert embeddings.token.shape == (30522, 384)
    assert embeddings.position.table.shape == (512, 384)
    assert embeddings.token.labels[2332] == "king"
    assert embeddings.token.provenance.tensor == "embeddings.word_embeddings.weight"
    own = safetensors.torch.load_file(minilm_folder / "model.safetensors")["embeddings.word_embeddings.weight"]
    np.testing.assert_array_equal(embeddings.token.vectors, own.float().numpy())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("./does-not-exist", "does not exist"),
        ("gpt2", "on the Hub"),
        ("openai-community/gpt2@main", "on the Hub"),
        ("sample:bort", "the samples are bert, gpt2 and minilm"),
        ("sample:gpt2@step-1", "its steps are"),
        ("sample:minilm@step-1", "sample:minilm has no training steps; write sample:minilm, or"),
        (SampleSource("minilm", 1), "has no training steps"),
        ("nonsense:3x4", "unknown prefix"),
        ("a b", "is not a source"),
        (42, "got int"),
        (torch.nn.Linear(3, 4), r"Linear has no nn\.Embedding"),
    ],
)
def test_unknown_sources(source: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        hpe.extract(source)
    assert "\n" not in str(caught.value)


def test_weights_that_are_not_there() -> None:
    with torch.device("meta"):
        layer = torch.nn.Embedding(6, 3)
    with pytest.raises(hpe.HfposembError, match="load it with real weights"):
        _ = hpe.extract(layer).token.vectors


T5 = {"vocab_size": 61, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}


def test_slopes_of_any_number_of_heads() -> None:
    from transformers.models.bloom.modeling_bloom import _get_alibi_slopes

    from hfposemb.tables.encodings import alibi_slopes

    for heads in range(1, 34):
        theirs = _get_alibi_slopes(heads, torch.device("cpu")).numpy()
        np.testing.assert_allclose(alibi_slopes(heads), theirs, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("model_type", ["t5", "mt5", "umt5"])
def test_relative_biases_equal_the_models_own(build: Build, tmp_path: Path, model_type: str) -> None:
    model = build(model_type, **T5)
    model.save_pretrained(tmp_path)
    found = hpe.extract(tmp_path)
    assert list(found.positions) == ["encoder", "decoder"]
    assert any("layers have their own biases" in note for note in found.notes) == (model_type == "umt5")
    length = 150
    distances = np.arange(length)[None, :] - np.arange(length)[:, None]
    for part, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        theirs = stack.block[0].layer[0].SelfAttention.compute_bias(length, length)[0].detach().numpy()
        encoding = found.positions[part]
        assert encoding.kind == "relative-bias"
        ours = encoding.bias_at(distances.reshape(-1)).reshape(length, length, -1).transpose(2, 0, 1)
        assert np.array_equal(ours.astype(np.float32), theirs)
    fed = found.inputs([5, 6, 7])
    assert np.array_equal(fed.normed, model.get_input_embeddings()(torch.tensor([5, 6, 7])).detach().numpy())


@pytest.mark.parametrize(
    ("name", "rows", "more"),
    [
        ("ByT5Tokenizer", 384, {}),
        ("PerceiverTokenizer", 262, {}),
        ("ByT5Tokenizer", 269, {"extra_ids": 10}),
        ("ByT5Tokenizer", 385, {"added": ["<x>"]}),
    ],
)
def test_bytes_are_named_where_only_the_class_of_the_tokenizer_states_them(
    hub: FakeHub, tmp_path: Path, name: str, rows: int, more: dict[str, Any]
) -> None:
    import transformers

    tokenizer = getattr(transformers, name)(**{one: more[one] for one in more if one != "added"})
    tokenizer.add_tokens(more.get("added", []))
    tokenizer.save_pretrained(tmp_path)
    safetensors.torch.save_file({"shared.weight": torch.ones(rows, 8)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "t5", "vocab_size": rows}))
    hub.add("me/bytes", {one.name: one.read_bytes() for one in tmp_path.iterdir()})
    theirs = tokenizer.convert_ids_to_tokens(list(range(rows)))
    same = [row for row, token in enumerate(theirs) if token.isprintable() and (len(token) > 1 or token.isascii())]
    for source in (tmp_path, "me/bytes"):
        found = hpe.extract(source)
        assert not any("numbered" in note for note in found.notes)
        texts = found.token.labels.texts
        assert [texts[row] for row in same] == [theirs[row] for row in same]
        assert texts[theirs.index("\xe9")] == "<0xE9>"


@pytest.mark.parametrize("written", ["{", "[]", '{"tokenizer_class": ["ByT5Tokenizer"]}'])
def test_a_tokenizer_config_that_is_none_leaves_rows_numbered(tmp_path: Path, written: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(written)
    found = extracted(tmp_path, {"shared.weight": torch.ones(7, 8)}, {"model_type": "t5"})
    assert found.token.labels.texts == tuple("0123456")
    assert any("so rows are numbered" in note for note in found.notes)


def test_positions_of_a_type_that_transformers_has_not(tmp_path: Path) -> None:
    """They are what its configuration or its tensors say; else they are not known, which is not none."""
    weights, angles = {"model.embed_tokens.weight": torch.ones(7, 8)}, torch.tensor([1.0, 0.25])
    heads = {"hidden_size": 8, "num_attention_heads": 2}

    def made(name: str, tensors: dict[str, Any], **config: Any) -> hpe.Embeddings:
        (tmp_path / name).mkdir()
        return extracted(tmp_path / name, weights | tensors, heads | config)

    linear = made("jina", {}, model_type="bert", position_embedding_type="alibi").position
    assert linear.kind == "alibi"
    assert linear.slopes.tolist() == [2**-4, 2**-8]
    for name, stated in {
        "dnabert": {"model_type": "bert", "alibi_starting_size": 512},
        "replit": {"model_type": "replit_lm", "attn_config": {"alibi": True}},
    }.items():
        assert made(name, {}, **stated).position.slopes.tolist() == [2**-4, 2**-8]
    longest = made("mpt", {}, model_type="mpt", attn_config={"alibi_bias_max": 16})
    assert longest.position.slopes.tolist() == [2**-8, 2**-16]
    assert any("states alibi_bias_max 16" in note and "transformers takes 8" in note for note in longest.notes)
    olmo = made("olmo", {}, model_type="hf_olmo", rope=True, max_position_embeddings=9).position
    phi = made("phi", {}, model_type="phi3small", rope_embedding_base=1e6, max_position_embeddings=9).position
    np.testing.assert_allclose([olmo.inv_freq, phi.inv_freq], [[1, 1e-2], [1, 1e-3]])
    stored = made("stored", {"rotary_emb.inv_freq": angles}, model_type="lantern", seq_length=50)
    turned = stored.position
    assert any("states no layout: halves" in note for note in stored.notes)
    assert turned.kind == "rotary"
    assert (turned.inv_freq.tolist(), turned.length) == (angles.tolist(), 50)
    for name, tensor in (("negative", -angles), ("long", torch.ones(4097)), ("empty", torch.ones(0))):
        odd = made(name, {"rotary_pos_emb.inv_freq": tensor}, model_type="lantern").position
        assert "must hold 1 to 4,096 positive frequencies" in odd.reason
    with pytest.raises(MissingTableError, match="type 'lantern' is unknown"):
        _ = made("lantern", {"visual.rotary_pos_emb.inv_freq": angles}, model_type="lantern").position


_WIDE = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 32}
_GPT = {"n_embd": 16, "n_head": 2, "n_layer": 2, "n_positions": 32}
_CHATGLM = {**_WIDE, "model_type": "chatglm", "seq_length": 32}
_MPT = {"d_model": 16, "n_heads": 2, "n_layers": 2, "max_seq_len": 32, "model_type": "mpt"}
_ROPE = {"rope": True, "rope_theta": 1e8, "alibi": False}
_ROTATED: dict[str, tuple[dict[str, Any], float, str]] = {
    "baichuan 7B": ({**_WIDE, "model_type": "baichuan"}, 1e4, "half"),
    "MiniCPM": ({**_WIDE, "model_type": "minicpm", "rope_scaling": None}, 1e4, "half"),
    "InternLM": ({**_WIDE, "model_type": "internlm", "rotary": {"base": 1e8, "type": "origin"}}, 1e8, "half"),
    "Qwen": (
        {**_WIDE, "model_type": "qwen", "kv_channels": 8, "rotary_emb_base": 1e8, "use_dynamic_ntk": True},
        1e8,
        "half",
    ),
    "the first ChatGLM": (
        {**_WIDE, "model_type": "chatglm", "position_encoding_2d": True, "hidden_size": 32},
        1e4,
        "half",
    ),
    "ChatGLM2": (
        {**_WIDE, "model_type": "chatglm", "kv_channels": 16, "rope_ratio": 1e4, "seq_length": 32},
        1e8,
        "interleaved",
    ),
    "MOSS": ({**_GPT, "n_embd": 32, "model_type": "moss", "rotary_dim": 8}, 1e4, "interleaved"),
    "MPT with rotary positions": ({**_MPT, "attn_config": _ROPE}, 1e8, "half"),
    "DBRX": ({**_MPT, "model_type": "dbrx", "attn_config": {"rope_theta": 1e8}}, 1e8, "half"),
    "Nomic's own fields": (
        {**_GPT, "n_embd": 32, "model_type": "nomic_bert", "rotary_emb_base": 1e8, "rotary_emb_fraction": 0.5}
        | {"rotary_scaling_factor": 2, "auto_map": {}},
        1e8,
        "half",
    ),
    "GLM-4": ({**_CHATGLM, "kv_channels": 16, "rope_ratio": 500, "original_rope": True}, 5e6, "interleaved"),
    "ChatGLM3": ({**_CHATGLM, "kv_channels": 16, "original_rope": True}, 1e4, "interleaved"),
    "StableLM": ({**_WIDE, "model_type": "stablelm_epoch", "hidden_size": 64, "rope_pct": 0.25}, 1e4, "half"),
    "FlashAttention's GPT": (
        {**_WIDE, "hidden_size": 32, "rotary_emb_base": 1e3, "rotary_emb_fraction": 0.5}
        | {"rotary_emb_interleaved": True},
        1e3,
        "interleaved",
    ),
    "the first Falcon": ({**_WIDE, "model_type": "RefinedWebModel", "alibi": False}, 1e4, "half"),
    "OpenLM": ({**_WIDE, "model_type": "openlm", "positional_embedding_type": "rotary"}, 1e4, "half"),
}
"""Configurations of types that transformers has not; base and layout by the code published with the models."""


@pytest.mark.parametrize("name", _ROTATED)
def test_rotary_positions_as_published_code_reads_them(tmp_path: Path, name: str) -> None:
    config, base, layout = _ROTATED[name]
    found = extracted(tmp_path, {"embed_tokens.weight": torch.ones(7, 16)}, config)
    turned = found.position
    np.testing.assert_allclose(turned.inv_freq, base ** -np.array([0, 0.25, 0.5, 0.75]))
    assert (turned.layout, turned.length) == (layout, 32)
    unread = [
        field for field in ("use_dynamic_ntk", "position_encoding_2d", "rotary_scaling_factor") if field in config
    ]
    assert all(any(f"states {field}, which hfposemb does not read" in note for note in found.notes) for field in unread)
    assert any("states no layout" in note for note in found.notes) == (name in ("StableLM", "OpenLM"))


def test_positions_that_published_code_has_instead_of_rotary_ones(tmp_path: Path) -> None:
    tensors = {"wte.weight": torch.ones(7, 16), "wpe.weight": torch.ones(32, 16)}
    assert extracted(tmp_path, tensors, {**_GPT, "model_type": "gpt_refact"}).position.kind == "alibi"
    learned = extracted(tmp_path, tensors, {**_MPT, "attn_config": {"alibi": False}})
    assert learned.position.kind == "learned"
    assert not any("no mpt model" in note for note in learned.notes)


@pytest.mark.parametrize("changed", [{"num_hidden_layers": 40}, {"max_position_embeddings": None}])
def test_the_larger_baichuan_has_alibi_and_an_unknown_types_layout_is_assumed(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    words = {"embed_tokens.weight": torch.ones(7, 16)}
    config = {name: value for name, value in (_WIDE | changed).items() if value is not None}
    larger = extracted(tmp_path, words, config | {"model_type": "baichuan"})
    assert larger.position.slopes.tolist() == [2**-4, 2**-8]
    unknown = extracted(tmp_path, words, _WIDE | {"model_type": "lantern", "rope_theta": 1e4})
    assert "config.json states no layout: halves, which most models rotate, are assumed" in unknown.notes


def test_positions_of_images_are_not_those_of_the_words(tmp_path: Path) -> None:
    """MiniCPM-V's resampler has the shorter path; CogVLM's words rotate, which its configuration does not say."""
    tensors = {"llm.model.embed_tokens.weight": torch.ones(7, 16), "resampler.pos_embed": torch.ones(70, 70, 16)}
    found = extracted(tmp_path, tensors, _WIDE | {"model_type": "minicpmv", "rope_theta": 1e6})
    assert (found.fed, found.position.kind) == (("text",), "rotary")
    cogvlm = extracted(tmp_path, tensors, _WIDE | {"model_type": "cogvlm"})
    assert "positions of the words were not found, only those of other parts: vision" in cogvlm.notes
