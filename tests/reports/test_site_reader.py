"""The static page reads files by the same rules as Python: both readers get the same files, sound and hostile ones."""

from __future__ import annotations

import base64
import json
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.analysis.projection.projecting import project
from hfposemb.checkpoints.limits import DEFAULT_LIMITS
from hfposemb.checkpoints.safetensors.checkpoint import parse_header
from hfposemb.checkpoints.strict_json import parse_json
from hfposemb.checkpoints.tokenizers.vocabulary_files import read_labels
from hfposemb.errors import CheckpointError, HfposembError, SourceError
from hfposemb.tables.closed_forms import sine_rows
from hfposemb.tables.encodings import Absolute
from tests.conftest import FULL
from tests.support.checkpoints.hostile import CONFIGS, TOKENIZERS
from tests.support.checkpoints.malformed import CASES, ENTRY, VALID
from tests.support.site_reader import in_javascript, needs_node

pytestmark = needs_node

SOUND = (
    VALID,
    "{}",
    "{ \n }  ",
    '{"__metadata__":null,"t":' + ENTRY + "}   ",
    '{ "t" : { "shape" : [ 4 , 2 ] , "dtype" : "F32" , "data_offsets" : [ 0 , 32 ] } }',
    '{"t":{"data_offsets":[0,32],"shape":[],"dtype":"F32"}}',
    '{"t":{"dtype":"F32","shape":[0,9223372036],"data_offsets":[0,0]},"u":' + ENTRY + "}",
    '{"\\u00e9t\\u00e9 \\ud83d\\ude00":' + ENTRY + ',"__metadata__":{"a\\n":"b\\u0000","":""}}',
    '{"a":{"dtype":"F4","shape":[16],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[12],"data_offsets":[8,32]}}',
)
ALPHABET = '{}[]":, \n\\u0123456789eE.-+tF{"dtype":"shape"'


def changed(count: int) -> list[str]:
    """Return headers in which some characters are replaced, removed, inserted or moved."""
    draw, found = random.Random(0), []
    for turn in range(count):
        text = list(SOUND[turn % len(SOUND)])
        for _ in range(draw.choice((1, 1, 1, 2, 3))):
            at = draw.randrange(len(text) or 1)
            end = min(len(text), at + draw.choice((0, 1, 1, 4)))
            text[at:end] = draw.choice(("", " ", draw.choice(ALPHABET), "".join(text[at:end]) * 2))
        found.append("".join(text))
    return found


def test_every_malformed_file_is_refused(tmp_path: Path) -> None:
    """The corpus of the Python reader; the bulk of 25 MB each in ``make test-full``."""
    cases = [case for case in CASES if FULL or not case.name.startswith(("bulk", "length-"))]
    answers = in_javascript("file", [str(case.write(tmp_path)) for case in cases], tmp_path)
    assert {case.name for case, one in zip(cases, answers, strict=True) if "refused" not in one} == set()
    said = [one["refused"] for one in answers]
    assert all(len(line) <= 300 and "\n" not in line for line in said), [line for line in said if len(line) > 300]


def test_headers_are_accepted_and_refused_as_in_python(tmp_path: Path) -> None:
    texts = [*SOUND, *changed(20_000 if FULL else 4_000)]
    items = [(text.encode(), size) for text in texts for size in (len(text.encode()) + 8 + 32,)]
    items += [(text, size - 32) for text, size in items[:20]]
    answers = in_javascript(
        "header", [{"text": base64.b64encode(text).decode(), "size": size} for text, size in items], tmp_path
    )
    accepted = 0
    for (text, size), answer in zip(items, answers, strict=True):
        try:
            found = parse_header(text, file_bytes=size, name="x")
        except CheckpointError:
            assert "refused" in answer, text
            continue
        accepted += 1
        tensors = {one.name: [one.dtype, list(one.shape), one.start, one.stop] for one in found.tensors.values()}
        assert answer.get("found") == tensors, (text, answer)
    assert len(SOUND) < accepted < len(items) - 1000


def test_configurations_are_read_as_in_python(tmp_path: Path) -> None:
    raws = [case.build()["config.json"] for case in CONFIGS]
    answers = in_javascript("config", [base64.b64encode(raw).decode() for raw in raws], tmp_path)
    for case, raw, answer in zip(CONFIGS, raws, answers, strict=True):
        try:
            found = parse_json(raw, size=len(raw), name="x", limit=DEFAULT_LIMITS.config_bytes, kind=dict)
        except CheckpointError:
            assert "refused" in answer, case.name
            continue
        assert set(answer.get("found", ())) == set(found), (case.name, str(answer)[:300])


# Tensors with their rows, and the configuration: one of each way in which positions are stored or stated.
_BERT = {"embeddings.word_embeddings.weight": 40, "embeddings.position_embeddings.weight": 16}
_BART = {
    "model.shared.weight": 40,
    "model.encoder.embed_positions.weight": 18,
    "model.decoder.embed_positions.weight": 18,
    "model.encoder.layers.0.fc1.weight": 4,
}
MODELS: dict[str, tuple[dict[str, int], dict[str, Any]]] = {
    "gpt2": ({"wte.weight": 40, "wpe.weight": 16, "h.0.attn.c_attn.weight": 4}, {"model_type": "gpt2"}),
    "bert": ({f"bert.{name}": rows for name, rows in _BERT.items()}, {"model_type": "bert"}),
    "roberta": (_BERT, {"model_type": "roberta", "pad_token_id": 1}),
    "roberta of sentence-transformers": (
        {f"0.auto_model.{name}": rows for name, rows in _BERT.items()},
        {"model_type": "roberta", "pad_token_id": 1},
    ),
    "roberta without padding": (_BERT, {"model_type": "roberta"}),
    "lilt": (_BERT, {"model_type": "lilt"}),
    "opt": ({"decoder.embed_tokens.weight": 40, "decoder.embed_positions.weight": 18}, {"model_type": "opt"}),
    "bart": (_BART, {"model_type": "bart", "vocab_size": 40}),
    "two more rows": (_BERT, {"model_type": "new", "max_position_embeddings": 14}),
    "no configuration": (_BERT, {}),
    "pegasus": (_BART, {"model_type": "pegasus", "max_position_embeddings": 18}),
    "loose ending": ({"embedding.weight": 40, "pos_embed": 16}, {"model_type": "new", "vocab_size": 40}),
    "loose ending of another size": (
        {"embedding.weight": 41, "pos_embed": 16},
        {"model_type": "new", "vocab_size": 40},
    ),
    "names of methods": ({f"constructor.{name}": rows for name, rows in _BERT.items()}, {"model_type": "toString"}),
    "padded": ({"backbone.embedding.weight": 40}, {"vocab_size": 35, "pad_vocab_size_multiple": 8}),
    "cut into parts": ({f"word_emb.emb_layers.{part}.weight": 20 for part in (0, 1)}, {"model_type": "transfo-xl"}),
    "vision": (
        {"vision_model.embeddings.position_embedding.weight": 17, "text_model.embeddings.position_embedding.weight": 16}
        | {"text_model.embeddings.token_embedding.weight": 40},
        {"model_type": "clip", "text_config": {"model_type": "clip_text_model", "vocab_size": 40}},
    ),
    "tied head": ({"lm_head.weight": 40, "wpe.weight": 16}, {"model_type": "gpt2", "tie_word_embeddings": True}),
    "untied head": ({"lm_head.weight": 40, "wpe.weight": 16}, {"model_type": "gpt2", "tie_word_embeddings": False}),
    "head of a class that always ties": (
        {"lm_head.weight": 40},
        {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "tie_word_embeddings": False},
    ),
    "head of a type that never ties": ({"lm_head.weight": 40, "wpe.weight": 16}, {"model_type": "wav2vec2"}),
    "head that the text part does not tie": (
        {"lm_head.weight": 40},
        {"model_type": "internvl", "text_config": {"model_type": "qwen2", "tie_word_embeddings": False}},
    ),
    "head that the text part ties": (
        {"lm_head.weight": 40},
        {"model_type": "llava", "text_config": {"model_type": "llama", "tie_word_embeddings": True}},
    ),
    "head that its decoder ties": (
        {"decoder.lm_head.weight": 40},
        {"model_type": "encoder-decoder", "tie_word_embeddings": False}
        | {"encoder": {"model_type": "bert"}, "decoder": {"model_type": "bert"}},
    ),
    "two joined models, with a vocabulary of the whole": (
        {f"{side}.{name}": rows + 2 for name, rows in _BERT.items() for side in ("encoder", "decoder")},
        {"model_type": "encoder-decoder", "vocab_size": 42, "pad_token_id": 7}
        | {"encoder": {"model_type": "roberta", "pad_token_id": 1}, "decoder": {"model_type": "bert"}},
    ),
    "words of a model of words and pictures": (
        {f"visual_bert.{name}": rows for name, rows in _BERT.items()},
        {"model_type": "visual_bert", "vocab_size": 40},
    ),
    "rotary": (
        {"model.embed_tokens.weight": 40},
        {"model_type": "llama", "rope_theta": 10000.0, "head_dim": 8, "max_position_embeddings": 64},
    ),
    "rotary, of a share": (
        {"model.embed_tokens.weight": 40},
        {"model_type": "phi", "hidden_size": 32, "num_attention_heads": 2, "max_position_embeddings": 64},
    ),
    "rotary, with the base of its type": (
        {"model.embed_tokens.weight": 40},
        {"model_type": "smollm3", "hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": 64},
    ),
    "rotary, whole whatever is stated": (
        {"model.embed_tokens.weight": 40},
        {"model_type": "llama", "partial_rotary_factor": 0.5, "head_dim": 8, "max_position_embeddings": 64},
    ),
    "rotary, scaled by default": (
        {"model.embed_tokens.weight": 40},
        {"model_type": "gpt_oss", "head_dim": 16, "max_position_embeddings": 64},
    ),
    "roformer": (_BERT, {"model_type": "roformer"}),
    "alibi": ({"word_embeddings.weight": 40}, {"model_type": "bloom", "n_head": 2}),
    "alibi, turned off": (
        {"transformer.wte.weight": 40},
        {"model_type": "mpt", "n_heads": 2, "attn_config": {"alibi": False, "rope": True, "rope_theta": 10_000}},
    ),
    "none": ({"backbone.embeddings.weight": 40}, {"model_type": "mamba", "vocab_size": 40}),
    "relative": (
        {"shared.weight": 40, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": 32},
        {"model_type": "t5"},
    ),
    "computed sinusoids": (
        {"shared.weight": 40},
        {"model_type": "marian", "d_model": 8, "max_position_embeddings": 12},
    ),
    "sinusoids from padding on": (
        {"shared.weight": 40},
        {"model_type": "m2m_100", "d_model": 8, "max_position_embeddings": 12, "pad_token_id": 1},
    ),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a folder of each of ``MODELS``, with rows that are drawn."""
    draw, home = np.random.default_rng(3), tmp_path_factory.mktemp("models")
    folders = {}
    for place, (name, (shapes, config)) in enumerate(MODELS.items()):
        folders[name] = home / str(place)
        folders[name].mkdir()
        tensors = {key: draw.standard_normal((rows, 8)).astype(np.float32) for key, rows in shapes.items()}
        save_file(tensors, folders[name] / "model.safetensors")
        if config:
            (folders[name] / "config.json").write_text(json.dumps(config))
    return folders


def test_tables_and_their_first_rows_are_those_of_python(models: dict[str, Path], tmp_path: Path) -> None:
    answers = in_javascript("model", [str(folder) for folder in models.values()], tmp_path)
    for (name, folder), answer in zip(models.items(), answers, strict=True):
        found, source = answer["found"], hpe.extract(folder)
        token = source.tables.get("token")
        assert found["token"] == (None if token is None else token.provenance.tensor), name
        tables = [one.table for one in source.positions.values() if isinstance(one, Absolute)]
        assert len(found["positions"]) == len(tables), (name, found)
        for page, table in zip(found["positions"], tables, strict=True):
            assert (page["rows"], page["tensor"]) == (len(table), table.provenance.tensor or ""), name
            assert page["offset"] == table.provenance.row_offset, name
            np.testing.assert_allclose(page["norms"], hpe.norms(table), rtol=1e-6, err_msg=name)


def test_mechanisms_are_those_of_python(models: dict[str, Path], tmp_path: Path) -> None:
    names = ("rotary", "roformer", "alibi", "alibi, turned off", "none", "relative")
    answers = in_javascript("model", [str(models[name]) for name in names], tmp_path)
    kinds = [answer["found"]["kind"] for answer in answers]
    assert kinds == ["rotary", "rotary", "alibi", "rotary", "none", "relative"]
    python = [hpe.extract(models[name]).position.kind for name in names]
    assert [kind.partition("-")[0] for kind in python] == kinds
    turning = [name for name in models if name.startswith("rotary")]
    for name, answer in zip(
        turning, in_javascript("model", [str(models[one]) for one in turning], tmp_path), strict=True
    ):
        if "scaled" in name:
            assert answer["found"].get("waves") is None
        else:
            expected = 2 * np.pi / hpe.extract(models[name]).position.inv_freq
            np.testing.assert_allclose(answer["found"]["waves"], expected, rtol=1e-12, err_msg=name)


_KINDS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("falcon", {}), ("falcon", {"alibi": True}), ("RefinedWeb", {}), ("RefinedWeb", {"alibi": True})),
    *(("baichuan", {}), ("baichuan", {"max_position_embeddings": 64})),
    ("baichuan", {"max_position_embeddings": 64, "num_hidden_layers": 40}),
    *(("zamba2", {}), ("zamba2", {"use_mem_rope": True}), ("granitemoehybrid", {}), ("internlm", {})),
    ("granitemoehybrid", {"position_embedding_type": "rope"}),
    *(("qwen3", {"position_embedding_type": "absolute"}), ("gemma2", {"position_embedding_type": "absolute"})),
    *(("llama", {"alibi": True}), ("llama", {"alibi": True, "auto_map": {}})),
    *(("falcon", {"position_embedding_type": "absolute"}), ("granitemoehybrid", {"alibi": True})),
    *(("marian", {"alibi": True}), ("marian", {"alibi": True, "auto_map": {}})),
    *(("other", {"use_alibi": True}), ("other", {"alibi_starting_size": 8})),
    *(("other", {"attn_config": {"use_alibi": True}}), ("other", {"position_embeddings_type": "rotary"})),
    *(("other", {"positional_embedding_type": "nope"}), ("other", {"rope_pct": 0.5})),
    ("other", {"position_embedding_type": "absolute", "rope_theta": 1e4}),
    ("other", {"position_embedding_type": None, "rope": True}),
    *((kind, {"vocab_size": 40, "architectures": ["LlavaLlamaForCausalLM"]}) for kind in ("llava", "llava_llama")),
    *((kind, {"vocab_size": 40, "architectures": ["toString"]}) for kind in ("constructor", "toString")),
    ("gemma2", {"vocab_size": 40, "architectures": ["MyLlamaForCausalLM"]}),
    *(("other", {"model_type": kind, "vocab_size": 40, "architectures": [kind]}) for kind in ({"a": 1}, [], None, 7)),
    ("glm", {"vocab_size": 40, "block_position_encoding": True}),
    *(
        ("other", {"vocab_size": 40, "architectures": [name]})
        for name in ("MyMptForCausalLM", "ALlamaModel", "ForCausalLM")
    ),
)


def test_kinds_of_positions_are_those_of_python(tmp_path: Path) -> None:
    """The kind that fields state, and that of model types whose configurations leave them out."""
    folders = []
    for place, (kind, fields) in enumerate(_KINDS):
        folders.append(tmp_path / f"{place} {kind}")
        folders[-1].mkdir()
        save_file({"word_embeddings.weight": np.ones((40, 8), np.float32)}, folders[-1] / "model.safetensors")
        config = {"model_type": kind, "hidden_size": 8, "num_attention_heads": 2, **fields}
        (folders[-1] / "config.json").write_text(json.dumps(config))
    answers = in_javascript("model", list(map(str, folders)), tmp_path)
    found = {folder.name: answer["found"]["kind"] for folder, answer in zip(folders, answers, strict=True)}
    read = {folder.name: hpe.extract(folder).positions for folder in folders}
    assert found == {name: one["position"].kind if one else "" for name, one in read.items()}
    assert set(found.values()) == {"", "rotary", "alibi", "none", "sinusoidal"}


def test_sinusoids_are_those_of_python(tmp_path: Path) -> None:
    layouts: tuple[Any, ...] = ("interleaved", "concatenated", "tensor2tensor")
    asked = [{"rows": 11, "width": width, "layout": layout, "first": 2} for layout in layouts for width in (8, 7)]
    for one, answer in zip(asked, in_javascript("waves", asked, tmp_path), strict=True):
        table = sine_rows(0, 11, one["width"], layout=one["layout"], offset=2).astype(np.float32)
        np.testing.assert_allclose(answer["found"]["table"], table.ravel(), atol=1e-7, err_msg=str(one))
        units = table / np.linalg.norm(table, axis=1, keepdims=True)
        whole = units @ units.T
        blocks = [[whole[i : i + 3, j : j + 3].mean() for j in range(0, 11, 3)] for i in range(0, 11, 3)]
        np.testing.assert_allclose(np.reshape(answer["found"]["blocks"], (4, 4)), blocks, atol=1e-6, err_msg=str(one))


@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
def test_numbers_are_those_of_python(dtype: str, minilm_like: Path, tmp_path: Path) -> None:
    """Coordinates, shares, cosines, norms and neighbours of the sample with learned positions, in each dtype."""
    folder = minilm_like / dtype
    words = ["king", "queen", "house", "the"]
    [answer] = in_javascript("numbers", [{"folder": str(folder), "words": words, "query": "king"}], tmp_path)
    found, source = answer["found"], hpe.extract(folder)
    table = source.position.table
    drawn = project(table, method="pca", dims=3)
    scale = float(np.abs(drawn.coordinates).max())
    np.testing.assert_allclose(np.transpose(found["coordinates"]), drawn.coordinates, atol=1e-5 * scale)
    np.testing.assert_allclose(found["shares"], drawn.explained_variance_ratio, rtol=1e-8)
    np.testing.assert_allclose(found["norms"], hpe.norms(table), rtol=1e-6)
    cosines = hpe.similarity(table)
    np.testing.assert_allclose(np.reshape(found["cells"], cosines.shape), cosines, atol=2e-6)
    means = [np.diagonal(cosines, step).mean() for step in range(len(table) - 1)]
    np.testing.assert_allclose(found["byDistance"], means, atol=2e-6)
    near = hpe.neighbours(source.token, "king")
    assert [one["row"] for one in found["near"]] == near.rows.tolist()
    assert [one["label"] for one in found["near"]] == list(near.labels)
    np.testing.assert_allclose([one["value"] for one in found["near"]], near.values, atol=2e-6)
    alike = hpe.similarity(hpe.extract(folder, rows=words).token)
    np.testing.assert_allclose(np.reshape(found["words"], (4, 4)), alike, atol=2e-6)


@pytest.fixture(scope="module")
def minilm_like(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sample ``bert`` in three dtypes, each a folder of its own."""
    import torch
    from safetensors.torch import save_file as save_torch

    from hfposemb.samples import folder as sample

    home = tmp_path_factory.mktemp("dtypes")
    source = hpe.extract("sample:bert")
    for dtype, kind in (("F32", torch.float32), ("F16", torch.float16), ("BF16", torch.bfloat16)):
        folder = home / dtype
        folder.mkdir()
        tensors = {table.provenance.tensor: torch.tensor(table.vectors).to(kind) for table in source.tables.values()}
        save_torch(tensors, folder / "model.safetensors")
        for file in sample("bert").iterdir():
            if file.suffix == ".json" or file.name == "vocab.txt":
                (folder / file.name).write_bytes(file.read_bytes())
    return home


@pytest.mark.parametrize("name", ["bert", "gpt2", "minilm"])
def test_labels_are_those_of_python(name: str, tmp_path: Path) -> None:
    from hfposemb.samples import folder as sample

    home = sample(name)
    path = next(home / file for file in ("tokenizer.json", "vocab.txt", "vocab.json") if (home / file).exists())
    token = hpe.extract(f"sample:{name}").token
    rows = list(range(0, token.shape[0], 7))
    [answer] = in_javascript("labels", [{"path": str(path), "rows": rows}], tmp_path)
    expected = [token.labels[row] for row in rows]
    # Python writes the names of invisible characters; the page does when it shows a text.
    different = [(one, other) for one, other in zip(answer["found"], expected, strict=True) if one != other]
    assert all("⟨U+" in other for _, other in different), different[:10]
    assert len(different) < len(rows) / 50


LENIENT = {"ten-megabytes-of-emoji", "twenty-megabytes-of-emoji", "decoders-nested-100000"}
"""Tokenizers that Python may refuse for the memory and the depth of its own parser, and the page reads."""


def test_hostile_vocabularies_are_refused_as_in_python(tmp_path: Path) -> None:
    small = [case for case in TOKENIZERS if FULL or not re.search("megabytes|million|of-lines|never-closed", case.name)]
    items, expected = [], []
    for case in small:
        files = case.build()
        name = next((one for one in ("tokenizer.json", "vocab.txt", "vocab.json") if one in files), None)
        if name is None or len(files[name]) > DEFAULT_LIMITS.tokenizer_bytes:
            continue
        home = tmp_path / case.name
        home.mkdir()
        (home / name).write_bytes(files[name])
        items.append({"path": str(home / name), "rows": [0, 1, 2]})
        expected.append((case, read_refused(home)))
    answers = in_javascript("labels", items, tmp_path)
    assert len(items) > 30
    for (case, is_refused), answer in zip(expected, answers, strict=True):
        if case.name.removeprefix("tokenizer-") not in LENIENT:
            assert ("refused" in answer) == is_refused, (case.name, str(answer)[:300])


def read_refused(folder: Path) -> bool:
    """Return whether Python refuses the vocabulary of a folder."""
    try:
        read_labels(folder, rows=12)
    except SourceError:
        return True
    return False


def test_a_folder_without_a_file_and_a_quantised_table_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    [answer] = in_javascript("model", [str(folder)], tmp_path)
    assert "no .safetensors file" in answer["refused"]
    with pytest.raises(HfposembError, match=r"no \.safetensors file"):
        hpe.extract(folder)
    tables = {"wte.weight": np.zeros((40, 8), np.int8), "wpe.weight": np.ones((16, 8), np.float32)}
    save_file(tables, folder / "model.safetensors")
    [answer] = in_javascript("numbers", [{"folder": str(folder), "words": ["a"], "query": "a"}], tmp_path)
    assert "stored as I8" in answer["refused"]
