"""Tables beside the word table: which rows a text looks up, as transformers and the published code do."""

from __future__ import annotations

import asyncio
import itertools
import json
import pickle
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from transformers.models.blt.modeling_blt import compute_hash_embeddings

import hfposemb as hpe
from app import limits
from app.server.api import ModelAccess
from hfposemb import samples
from hfposemb.cli.main import main
from hfposemb.errors import InputError, MissingTableError
from hfposemb.models.summary import describe
from tests.architectures.tiny import build
from tests.checks.planted import write
from tests.conftest import FULL
from tests.support.checkpoints.extracted import extracted

TEXTS = 10_000 if FULL else 400
QWEN4 = {
    **{"vocab_size": 99, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 16},
    **{"num_key_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 4},
    **{"linear_num_value_heads": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16},
    **{"num_experts": 4, "num_experts_per_tok": 2, "hc_lowrank": 8, "layer_types": ["linear_attention"] * 4},
    **{"ple_layer_ids": [1, 3], "ngram_vocab_size_base": 500, "heads_per_ngram": 4, "ngram_size": 3},
    **{"split_ngram_parts": 5, "eos_token_id": [7, 8]},
}
GEMMA = {
    **{"vocab_size": 99, "vocab_size_per_layer_input": 90, "hidden_size": 32, "num_hidden_layers": 3},
    **{"hidden_size_per_layer_input": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8},
    **{"intermediate_size": 16, "num_kv_shared_layers": 0, "laurel_rank": 4, "pad_token_id": 3},
}


def texts(vocabulary: int, *marked: int) -> Iterator[NDArray[np.int64]]:
    """Yield random texts, some of whose ids are ``marked``."""
    random = np.random.default_rng(0)
    for _ in range(TEXTS):
        ids = random.integers(0, vocabulary, random.integers(1, 40))
        if marked:
            ids[random.random(len(ids)) < 0.15] = random.choice(marked)
        yield ids


def hashed(module: Any, table: Any) -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Return which rows of a table a module of torch looks up."""
    seen: list[torch.Tensor] = []
    table.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))

    def rows(ids: NDArray[np.int64]) -> NDArray[np.int64]:
        seen.clear()
        with torch.no_grad():
            module(torch.tensor(ids)[None])
        return np.concatenate([one[0].reshape(len(ids), -1).numpy() for one in seen], axis=1)

    return rows


def test_qwen4_looks_up_the_rows_of_transformers(tmp_path: Path) -> None:
    config = transformers.Qwen4ExpTextConfig(**QWEN4)
    model = transformers.Qwen4ExpForCausalLM(config).eval()
    model.save_pretrained(tmp_path)
    opened = hpe.extract(tmp_path)
    assert list(opened.lookups) == ["ngram", "layer2.ngram"]
    for key, layer in (("ngram", 0), ("layer2.ngram", 2)):
        module = model.model.layers[layer].ple.ple_embedding
        table = opened.lookups[key]
        assert np.array_equal(table, module.ngram_embedding.weight.detach()), "five parts, joined"
        theirs = hashed(lambda ids, module=module: module(ids, None), module.ngram_embedding)
        assert all(np.array_equal(table.looked_up(ids), theirs(ids)) for ids in texts(99, 7, 8))
        assert np.array_equal(pickle.loads(pickle.dumps(table)).looked_up([1, 2, 7, 3]), table.looked_up([1, 2, 7, 3]))


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (transformers.Gemma3nForCausalLM, transformers.Gemma3nTextConfig),
        (transformers.Gemma4ForCausalLM, transformers.Gemma4TextConfig),
    ],
)
def test_per_layer_rows_are_those_of_transformers(tmp_path: Path, kind: Any, config: Any) -> None:
    model = kind(config(**GEMMA, layer_types=["sliding_attention", "full_attention", "full_attention"])).eval()
    model.save_pretrained(tmp_path)
    table = hpe.extract(tmp_path).lookup("per-layer")
    assert (table.shape, table.layers) == ((90, 24), 3)
    old = kind is transformers.Gemma3nForCausalLM
    look = model.model.get_per_layer_inputs
    theirs = hashed(look, model.model.embed_tokens_per_layer)
    for ids in texts(99 if old else 90, 3):
        assert np.array_equal(table.looked_up(ids), theirs(ids)), "ids from 90 on look up row 0 in Gemma 3n"
    ids = np.array([5, 95 if old else 3, 89])
    rows = table.rows(table.looked_up(ids)[:, 0]) * np.float32(table.lookup.facts["scale"])
    with torch.no_grad():
        assert np.array_equal(rows.reshape(3, 3, 8), look(torch.tensor(ids)[None])[0])
    assert np.array_equal(table.layer(1)[7], table[7][8:16])
    if not old:
        with pytest.raises(InputError, match="token id 90 has no row; ids are 0 to 89"):
            table.looked_up([4, 90])


def test_gemma4_looks_images_up_as_padding() -> None:
    model = build("gemma4", changes={"image_token_id": 70, "video_token_id": 71, "audio_token_id": 72})
    table = hpe.extract(model).lookup("per_layer")
    text = model.language_model
    text.config.pad_token_id = model.config.text_config.pad_token_id
    theirs = hashed(lambda ids: model(input_ids=ids), text.embed_tokens_per_layer)
    ids = np.array([5, 70, 71, 72, 6, 0])
    assert np.array_equal(table.looked_up(ids), theirs(ids))


@pytest.mark.parametrize("changes", [{}, {"encoder_hash_byte_group_nb_functions": 3}])
def test_blt_looks_up_the_rows_of_transformers(tmp_path: Path, changes: dict[str, int]) -> None:
    functions = changes.get("encoder_hash_byte_group_nb_functions", 1)
    table = torch.nn.Embedding(functions * 6 * 501, 4)
    config = {"model_type": "blt", "encoder_hash_byte_group_vocab": 501, **changes}
    opened = extracted(tmp_path, {"model.encoder_hash_tok_embedding.weight": table.weight.detach()}, config)
    local = SimpleNamespace(embed_tokens=torch.nn.Embedding(260, 4))
    sizes = [3, 4, 5, 6, 7, 8]
    theirs = hashed(lambda ids: compute_hash_embeddings(ids, local, table, functions, sizes, 501), table)
    assert all(np.array_equal(opened.lookup("ngram").looked_up(ids), theirs(ids)) for ids in texts(260))


LONGCAT = {
    **{"model_type": "longcat_flash_ngram", "architectures": ["LongcatFlashNgramForCausalLM"], "vocab_size": 101},
    **{"ngram_vocab_size_ratio": 7, "emb_neighbor_num": 4, "emb_split_num": 3, "eos_token_id": 2, "hidden_size": 36},
}
NEXT = {**LONGCAT, "model_type": "longcat_next", "text_vocab_size": 97, "oe_ignored_token_ids": [97, 98, 99, 100]}
PRO = {
    **{"model_type": "longcat", "vocab_size": 101, "oe_vocab_size_ratio": 10.567, "oe_neighbor_num": 5},
    **{"oe_split_num": 2, "eos_token_id": 2},
}


def longcat_rows(ids: list[int], config: dict[str, Any]) -> list[list[int]]:
    """Return the rows that ``NgramEmbedding`` looks up, each from its own table, −1 where it takes zeros.

    Written from https://huggingface.co/meituan-longcat/LongCat-Flash-Lite/blob/main/modeling_longcat_ngram.py, and for
    configurations with ``oe_ignored_token_ids`` from that file of meituan-longcat/LongCat-Next: such ids become 0, an
    id 0 ends a segment and has nothing before it, and row 0 is masked.
    """
    several = "oe_ignored_token_ids" in config
    base = config["text_vocab_size" if several else "vocab_size"]
    ids = [0 if one in config.get("oe_ignored_token_ids", ()) else one for one in ids]
    orders = range(2, config.get("emb_neighbor_num", config.get("oe_neighbor_num")) + 1)
    each = config.get("emb_split_num", config.get("oe_split_num"))
    ratio = config.get("ngram_vocab_size_ratio", config.get("oe_vocab_size_ratio"))
    found = []
    for place, one in enumerate(ids):
        start = place
        while start > 0 and ids[start - 1] != 2 and not (several and ids[start - 1] == 0):
            start -= 1
        rows = []
        for order in orders:
            for split in range(each):
                size = int(ratio * base + 2 * ((order - 2) * each + split) + 1)
                value, power = one, 1
                for back in range(1, order):
                    power = power * base % size
                    known = place - back >= start and not (several and one == 0)
                    value += (ids[place - back] if known else 0) * power
                rows.append(-1 if several and value % size == 0 else value % size)
        found.append(rows)
    return found


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LONGCAT, "model.ngram_embeddings.embedders.{}.weight"),
        (NEXT, "model.ngram_embeddings.embedders.{}.weight"),
        (PRO, "oe_embed_tokens{}.weight"),
    ],
)
def test_longcat_looks_up_the_rows_of_the_published_code(tmp_path: Path, config: dict[str, Any], name: str) -> None:
    sizes = longcat_sizes(config)
    tensors = {name.format(at): np.full((size, 4), at, np.float32) for at, size in enumerate(sizes)}
    opened = extracted(tmp_path, {**tensors, "model.embed_tokens.weight": np.zeros((101, 36), np.float32)}, config)
    table = opened.lookup("ngram")
    assert opened.token.shape == (101, 36)
    starts = np.cumsum([0, *sizes[:-1]])
    for ids in itertools.islice(texts(101, 2, 0), 200):
        theirs = np.array(longcat_rows(ids.tolist(), config))
        assert np.array_equal(table.looked_up(ids), np.where(theirs < 0, -1, theirs + starts))
    with pytest.raises(InputError, match="token id 101 is out of range; ids are 0 to 100"):
        table.looked_up([3, 101])
    assert np.array_equal(table.rows(starts)[:, 0], np.arange(len(sizes))), "each head has a table of its own"
    assert table[-1].tolist() == [len(sizes) - 1] * 4


def longcat_sizes(config: dict[str, Any]) -> list[int]:
    """Return the sizes of the tables, as the published code makes them."""
    count = config.get("emb_split_num", 2) * (config.get("emb_neighbor_num", 5) - 1)
    base = config["text_vocab_size" if "oe_ignored_token_ids" in config else "vocab_size"]
    ratio = config.get("ngram_vocab_size_ratio", 10.567)
    return [int(ratio * base + at * 2 + 1) for at in range(count)]


ENGRAM = {
    **{"engram_vocab_size": [600, 700], "max_ngram_size": 3, "n_head_per_ngram": 4, "n_embed_per_ngram": 16},
    **{"layer_ids": [1, 3], "pad_id": 2, "seed": 5},
}


def engram_rows(folder: Path, layer: int) -> tuple[Callable[[NDArray[np.int64]], NDArray[np.int64]], list[int]]:
    """Return what ``NgramHashMapping`` looks up in a layer, and the sizes of its heads.

    Written from https://github.com/deepseek-ai/Engram/blob/main/engram_demo_v1.py, with Python's own Unicode.
    """
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    numbers: dict[str, int] = {}
    joined = []
    for token in range(len(tokenizer)):
        text = tokenizer.decode([token], skip_special_tokens=False)
        plain = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text))
        plain = "".join(one for one in plain if unicodedata.category(one) != "Mn").lower()
        plain = re.sub(r"[ \t\r\n]+", " ", plain)
        plain = plain if plain == " " else plain.strip()
        key = tokenizer.convert_ids_to_tokens(token) if "\ufffd" in text else plain or text
        joined.append(numbers.setdefault(key, len(numbers)))
    seen: set[int] = set()
    for _ in ENGRAM["layer_ids"][: ENGRAM["layer_ids"].index(layer) + 1]:
        sizes = []
        for first in ENGRAM["engram_vocab_size"]:
            free = (
                n for n in itertools.count(first) if n not in seen and all(n % d for d in range(2, int(n**0.5) + 1))
            )
            sizes.append(list(itertools.islice(free, 4)))
            seen |= set(sizes[-1])
    random = np.random.default_rng(5 + 10007 * layer)
    half = max(1, (2**63 - 1) // len(numbers) // 2)
    factors = random.integers(low=0, high=half, size=(3,), dtype=np.int64) * 2 + 1
    starts = np.cumsum([0, *sizes[0], *sizes[1]])

    def rows(ids: NDArray[np.int64]) -> NDArray[np.int64]:
        padded = np.concatenate([[joined[2]] * 2, np.array(joined)[ids]])
        mixed = padded[2:] * factors[0] ^ padded[1:-1] * factors[1]
        columns = [mixed % size for size in sizes[0]]
        mixed = mixed ^ padded[:-2] * factors[2]
        return np.stack([*columns, *(mixed % size for size in sizes[1])], axis=1) + starts[:-1]

    return rows, [*sizes[0], *sizes[1]]


@pytest.mark.parametrize("nested", [False, True])
def test_engram_looks_up_the_rows_of_the_published_code(tmp_path: Path, nested: bool) -> None:
    shutil.copy(samples.folder("gpt2") / "tokenizer.json", tmp_path)
    rules = {layer: engram_rows(tmp_path, layer) for layer in (1, 3)}
    name = "layers.{}.engram.multi_head_embedding.embedding.weight"
    tables = {name.format(layer): np.zeros((sum(sizes), 4), np.float32) for layer, (_, sizes) in rules.items()}
    opened = extracted(tmp_path, tables, {"model_type": "mine", **({"engram": ENGRAM} if nested else ENGRAM)})
    for key, layer in (("ngram", 1), ("layer3.ngram", 3)):
        theirs, sizes = rules[layer]
        assert opened.lookup(key).lookup.facts["moduli"] == sizes
        assert all(np.array_equal(opened.lookup(key).looked_up(ids), theirs(ids)) for ids in texts(4000))
    assert opened.looked_up("the king", "ngram").rows.shape[1] == 8
    assert np.array_equal(opened.looked_up([1, 2]).rows, opened.looked_up([1, 2], "ngram").rows)


HOSTILE = [
    ({"ngram_size": -1}, "ngram_size of config.json is -1; expected a whole number from 2 to 16"),
    ({"ngram_size": 1}, "ngram_size of config.json is 1; expected"),
    ({"heads_per_ngram": 10**30}, "heads_per_ngram of config.json is 1000"),
    ({"heads_per_ngram": 0}, "heads_per_ngram of config.json is 0; expected"),
    ({"heads_per_ngram": "8"}, "heads_per_ngram of config.json is '8'; expected a whole number"),
    ({"heads_per_ngram": 4.0}, "heads_per_ngram of config.json is 4.0; expected a whole number"),
    ({"heads_per_ngram": 2000}, "states 4,000 heads|which 4,000 heads do not divide"),
    ({"ngram_vocab_size_base": 0}, "ngram_vocab_size_base of config.json is 0; expected"),
    ({"ngram_vocab_size_base": [500]}, "ngram_vocab_size_base of config.json is \\[500\\]; expected"),
    ({"ngram_vocab_size_base": 600}, "has the shape .*, and config.json states"),
    ({"make_ngram_vocab_size_divisible_by": 0}, "divisible_by of config.json is 0"),
    ({"ple_layer_ids": [2]}, "without the layer of"),
    ({"ple_layer_ids": "all"}, "ple_layer_ids of config.json is 'all'; expected a list"),
    ({"eos_token_id": None}, "eos_token_id of config.json is not stated"),
    ({"eos_token_id": {"a": 1}}, "eos_token_id of config.json is"),
    ({"seed": True}, "seed of config.json is True"),
    ({"vocab_size": -5}, "vocab_size of config.json is -5"),
    ({"model_type": "mine"}, "the model type 'mine' has no known rule"),
]


@pytest.fixture(scope="module")
def qwen4(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a tiny Qwen4-Exp and the tokenizer of the sample."""
    folder = tmp_path_factory.mktemp("qwen4")
    config = transformers.Qwen4ExpTextConfig(**{**QWEN4, "vocab_size": 4000})
    transformers.Qwen4ExpForCausalLM(config).save_pretrained(folder)
    shutil.copy(samples.folder("gpt2") / "tokenizer.json", folder)
    return folder


@pytest.mark.parametrize(("changes", "message"), HOSTILE)
def test_a_configuration_that_cannot_be_used_leaves_the_table_listed(
    qwen4: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    folder = shutil.copytree(qwen4, tmp_path / "copy")
    write(folder, "config.json", json.loads((folder / "config.json").read_text()) | changes)
    opened = hpe.extract(folder)
    facts = describe(opened)["tables"]["ngram"]
    assert (facts["shape"], facts["looked_up_by"], facts["lookup"]) == ([4352, 8], None, {})
    assert re.search(message, facts["unknown"])
    assert opened.lookup("ngram")[4351].shape == (8,), "its rows can be read all the same"
    with pytest.raises(InputError, match=message) as caught:
        opened.looked_up([1, 2])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("buffer", "values", "message"),
    [
        ("ngram_heads_vocab_sizes", [0] * 8, "ngram_heads_vocab_sizes holds 0; expected numbers from 1"),
        ("ngram_heads_vocab_sizes", [2] * 3, r"has the shape \[3\] I64; expected \[8\] I64"),
        ("ngram_heads_offsets", [-1] * 8, "ngram_heads_offsets holds -1; expected numbers from 0"),
        ("ngram_heads_offsets", [10**9] * 8, "looks up row 1,000,000,.* which has 4,352 rows"),
        ("layer_multipliers", [3, 5, 7], ""),
    ],
)
def test_stored_buffers_count_as_in_transformers(
    qwen4: Path, tmp_path: Path, buffer: str, values: list[int], message: str
) -> None:
    folder = shutil.copytree(qwen4, tmp_path / "copy")
    tensors = load_file(folder / "model.safetensors")
    tensors[f"model.layers.0.ple.ple_embedding.{buffer}"] = np.array(values)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    opened = hpe.extract(folder)
    if message:
        with pytest.raises(InputError, match=message):
            opened.looked_up([1, 2, 3])
        return
    module = transformers.Qwen4ExpForCausalLM.from_pretrained(folder).model.layers[0].ple.ple_embedding
    theirs = hashed(lambda ids: module(ids, None), module.ngram_embedding)
    assert np.array_equal(opened.looked_up([1, 2, 3]).rows, theirs(np.array([1, 2, 3])))


def test_names_without_a_rule_are_listed(tmp_path: Path) -> None:
    names = ["a.ngram_tables.0.weight", "a.ngram_tables.1.weight", "b.engram.memory.weight", "c.per_layer_embed.weight"]
    others = [
        "model.per_layer_model_projection.weight",
        "model.ngram_embeddings.post_projs.0.weight",
        "x.ngram_norm.weight",
    ]
    parts = [f"m.ngram_embeddings.embedders.{at}.weight" for at in (0, 2)]
    save_file({name: np.ones((6, 4), np.float32) for name in (*names, *others, *parts)}, tmp_path / "model.safetensors")
    opened = hpe.extract(tmp_path)
    facts = describe(opened)
    assert {one["tensor"] for one in facts["tables"].values()} == set(names)
    assert all(one["looked_up_by"] is None and "no rule is known" in one["unknown"] for one in facts["tables"].values())
    assert any("lacks its part 1, so rows have no numbers" in note for note in facts["notes"])


def test_no_more_tables_are_listed_than_can_be_read(tmp_path: Path) -> None:
    names = [f"a{at}.ngram_table.weight" for at in range(150)]
    save_file({name: np.ones((2, 2), np.float32) for name in names}, tmp_path / "model.safetensors")
    opened = hpe.extract(tmp_path)
    assert len(opened.lookups) == 100
    assert any("the first 100 of 150 tables beside the word table are listed" in note for note in opened.notes)


def test_commands_read_and_show_rows(qwen4: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not main(["info", str(qwen4), "--text", "the king", "--table", "ngram", "--json"])
    facts = json.loads(capsys.readouterr().out)
    opened = hpe.extract(qwen4)
    assert facts["looked_up"]["ngram"]["rows"] == opened.looked_up("the king").rows.tolist()
    assert facts["looked_up"]["ngram"]["heads"][4] == "3-gram 0"
    assert facts["tables"]["ngram"]["lookup"]["orders"] == [2, 3]
    assert not main(["info", str(qwen4), "--ids", "5,6"])
    said = capsys.readouterr().out
    assert "looked up by: 2- and 3-grams of tokens, 4 heads each: XOR of id × multiplier, modulo 503 to 563" in said
    assert said.count("2 tokens look up") == 2, "both tables"
    main(["extract", str(qwen4), "--table", "layer2.ngram", "--rows", "4700", "--out", str(tmp_path / "rows.npy")])
    assert np.array_equal(np.load(tmp_path / "rows.npy")[0], opened.lookup("layer2.ngram")[4700])
    main(["neighbours", str(qwen4), "17", "--table", "ngram", "-k", "2"])
    assert "nearest to '17'" in capsys.readouterr().out
    for wrong, message in (
        (["info", "sample:gpt2", "--ids", "1"], "no table 'ngram': it has none beside its word table"),
        (
            ["info", str(qwen4), "--ids", "1,x"],
            "--ids takes whole numbers separated by commas, such as 177,188; got 'x'",
        ),
        (["info", str(qwen4), "--table", "ngram"], "give one of them"),
        (["extract", str(qwen4), "--table", "per-layer", "--out", "x.npy"], "has no per_layer table.*tables: token, "),
    ):
        assert main(wrong) == 1
        assert re.search(message, capsys.readouterr().err)
    with pytest.raises(MissingTableError, match="it has ngram, layer2"):
        opened.lookup("per_layer")


def test_the_api_reads_small_tables_alone(qwen4: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def opened(self: ModelAccess, source: str, *needs: str) -> hpe.Embeddings:
        return hpe.extract(source)

    monkeypatch.setattr(ModelAccess, "opened", opened)
    access = ModelAccess(SimpleNamespace())  # type: ignore[arg-type]
    role, table = asyncio.run(access.chosen(str(qwen4), "layer2.ngram"))
    assert (role, table.shape) == ("layer2.ngram", (4736, 8))
    monkeypatch.setattr(limits, "HELD_BYTES", 1000)
    with pytest.raises(
        InputError, match=r"too large to be compared here, 4,352 × 8 float32; hfposemb extract .* --rows 5"
    ):
        asyncio.run(access.chosen(str(qwen4), "ngram"))


# --- audio codes, and the token tables of other parts ----------------------------------------------------------------


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Build a model of a type once for the tests that read it, and return its folder."""

    @cache
    def made(model_type: str) -> Path:
        build(model_type).save_pretrained(folder := tmp_path_factory.mktemp(model_type))
        return folder

    return made


@pytest.mark.parametrize(
    ("model_type", "tensors", "said"),
    [
        ("musicgen", [f"decoder.model.decoder.embed_tokens.{n}.weight" for n in range(4)], "each of 4 codebooks; the"),
        ("moshi_depth", [f"embed_tokens.{n}.weight" for n in range(7)], "each of 7 codebooks; the"),
        ("bark", [f"fine_acoustics.input_embeds_layers.{n}.weight" for n in range(8)], "each of 8 codebooks; the"),
        ("csm", ["embed_tokens.embed_audio_tokens.weight"], "each of 32 codebooks, 99 rows each"),
        ("qwen2_5_omni", ["token2wav.code2wav_dit_model.text_embed.codec_embed.weight"], "a code of audio"),
    ],
)
def test_tables_of_audio_codes_are_listed(
    model_type: str, tensors: list[str], said: str, folder_of: Callable[[str], Path]
) -> None:
    folder = folder_of(model_type)
    found = hpe.extract(folder)
    stored = load_file(folder / "model.safetensors")
    np.testing.assert_array_equal(found.lookups["codes"].vectors, np.concatenate([stored[name] for name in tensors]))
    assert said in str(found.lookup("codes").lookup)
    with pytest.raises(InputError, match="give row numbers"):
        found.looked_up([1, 2], "codes")


@pytest.mark.parametrize(
    ("model_type", "key", "tensor"),
    [
        ("instructblip", "qformer.token", "qformer.embeddings.word_embeddings.weight"),
        ("qwen2_5_omni", "talker.token", "talker.model.embed_tokens.weight"),
        ("bark", "audio.token", "coarse_acoustics.input_embeds_layer.weight"),
    ],
)
def test_token_tables_of_other_parts_are_listed(
    model_type: str, key: str, tensor: str, folder_of: Callable[[str], Path]
) -> None:
    folder = folder_of(model_type)
    found = hpe.extract(folder)
    np.testing.assert_array_equal(found.tables[key], load_file(folder / "model.safetensors")[tensor])
    assert found.tables[key].labels.exact("5") == 5  # the tokenizer is the text's
    assert any(f"token: using {found.token.provenance.tensor}, since" in note for note in found.notes)


@pytest.mark.parametrize("model_type", ["musicgen", "musicgen_melody", "musicgen_decoder"])
def test_a_decoder_of_codes_has_its_own_positions(model_type: str, tmp_path: Path) -> None:
    model = build(model_type)
    model.save_pretrained(tmp_path)
    (stated,) = (one.weights for name, one in model.named_modules() if name.endswith("embed_positions"))
    found = hpe.extract(tmp_path).positions
    own = found["position" if model_type == "musicgen_decoder" else "decoder"]
    np.testing.assert_allclose(own.table, stated, atol=3e-6)
