"""Faults planted in sound checkpoints are found, each by its own finding; sound checkpoints have none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

import hfposemb as hpe
from hfposemb.checkpoints.limits import DEFAULT_LIMITS
from hfposemb.checks import table_rows
from hfposemb.checks.checked_source import open_source
from hfposemb.checks.findings import RULES
from hfposemb.checks.output_head import head_facts
from hfposemb.models.opened_model import are_padding, padded_rows
from hfposemb.tables.closed_forms import sine_rows
from tests.checks.planted import (
    EMBED,
    LLAMA,
    PLACES,
    TOKENS,
    WIDTH,
    Arrays,
    Plant,
    bert,
    change,
    edit,
    llama,
    rows,
    set_rows,
    shards,
    t5,
    tokenizer,
    write,
)

TYPES = "embeddings.token_type_embeddings.weight"
BIASES = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
YARN = {"rope_type": "yarn", "factor": 4.0}


def renamed(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({f"module.{name}": array for name, array in tensors.items()}, folder / "model.safetensors")


def drop(name: str) -> Plant:
    return edits(lambda tensors: tensors.__delitem__(name))


def edits(change: Callable[[Arrays], None]) -> Plant:
    """Return what changes tensors of a checkpoint."""
    return lambda folder: edit(folder, change)


def emptied(tensors: Arrays) -> None:
    """Leave a table as ZeRO-3 leaves it in each process."""
    tensors[EMBED] = tensors[EMBED][:0].reshape(0)


@edits
def swapped_table(tensors: Arrays) -> None:
    """Let the encoder's table come from the head, as it silently did for MADLAD."""
    tensors["encoder.embed_tokens.weight"] = tensors["lm_head.weight"].copy()


@edits
def shifted(tensors: Arrays) -> None:
    tensors[PLACES] = sine_rows(0, 64, WIDTH, offset=2).astype(np.float32)


def stored_frequencies(theta: float) -> Plant:
    half = WIDTH // 2
    frequencies = (theta ** -(np.arange(0, half, 2) / half)).astype(np.float32)
    return edits(lambda tensors: tensors.update({"model.layers.0.self_attn.rotary_emb.inv_freq": frequencies}))


def cut_vocabulary(folder: Path) -> None:
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    (folder / "vocab.txt").write_text("\n".join(lines[: TOKENS // 3]) + "\n", encoding="utf-8")


def padded(folder: Path) -> None:
    """Pad tables beyond the tokenizer, as Qwen's are."""

    def pad(tensors: Arrays) -> None:
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            tensors[name] = np.concatenate([tensors[name], rows(32, seed=9)])

    edit(folder, pad)
    change(folder, vocab_size=TOKENS + 32)


@edits
def other_dtype(tensors: Arrays) -> None:
    tensors["lm_head.weight"] = tensors["lm_head.weight"].astype(np.float16)


@edits
def equal_rows(tensors: Arrays) -> None:
    tensors[EMBED][7] = tensors[EMBED][3]


@edits
def repeated(tensors: Arrays) -> None:
    tensors[PLACES][32:] = tensors[PLACES][:32]


def biased(value: float) -> Plant:
    """Let a tied head have a bias with one number of its own."""

    def plant(folder: Path) -> None:
        bias = rows(TOKENS, 1).ravel()
        bias[7] = value
        edit(folder, lambda tensors: tensors.update({"cls.predictions.bias": bias}))
        change(folder, architectures=["BertForMaskedLM"])

    return plant


def head_copied(*, tied: bool) -> Plant:
    def plant(folder: Path) -> None:
        edit(folder, lambda tensors: tensors.update({"lm_head.weight": tensors["model.embed_tokens.weight"].copy()}))
        change(folder, tie_word_embeddings=tied)

    return plant


def stated(name: str = "config.json", **values: object) -> Plant:
    """Return what changes fields of a JSON file."""
    return lambda folder: change(folder, name, **values)


def another_token(folder: Path) -> None:
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    settings["added_tokens_decoder"]["92"]["content"] = "<|human|>"
    write(folder, "tokenizer_config.json", settings)


PLANTS: dict[str, tuple[Callable[[Path], Path], Plant, str, str]] = {
    "madlad's swapped table": (t5, swapped_table, "copies-differ", "wrong"),
    "head untied in the file only": (llama, stated(tie_word_embeddings=True), "head-differs", "wrong"),
    "head neither tied nor stored": (llama, drop("lm_head.weight"), "head-missing", "wrong"),
    "tied head stored as well": (llama, head_copied(tied=True), "head-stored-twice", "note"),
    "untied head equal to the table": (llama, head_copied(tied=False), "head-equal-untied", "suspicious"),
    "Qwen's padding": (llama, padded, "padded-rows", "note"),
    "a reserved row in use is zero": (llama, set_rows(EMBED, 92, 0), "reserved-row-in-use", "wrong"),
    "a zero row": (llama, set_rows(EMBED, 5, 0), "zero-rows", "suspicious"),
    "a row of NaN": (llama, set_rows(EMBED, 11, np.nan), "not-finite", "wrong"),
    "an infinite number": (bert, set_rows(PLACES, (9, 3), np.inf), "not-finite", "wrong"),
    "positions that were never filled": (bert, set_rows(PLACES, slice(None), 0), "one-table", "suspicious"),
    "no token table": (llama, drop(EMBED), "table-missing", "wrong"),
    "an empty token table": (llama, edits(emptied), "table-missing", "wrong"),
    "no positions": (bert, drop(PLACES), "table-missing", "wrong"),
    "no token types": (bert, drop(TYPES), "table-missing", "wrong"),
    "no relative positions": (t5, drop(BIASES), "table-missing", "wrong"),
    "an infinite row of the head": (llama, set_rows("lm_head.weight", 5, np.inf), "not-finite", "wrong"),
    "a zero row of the head": (llama, set_rows("lm_head.weight", 5, 0), "rows-zero", "suspicious"),
    "a token type of NaN": (bert, set_rows(TYPES, 1, np.nan), "not-finite", "wrong"),
    "a zero token type": (bert, set_rows(TYPES, 1, 0), "rows-zero", "suspicious"),
    "relative positions of NaN": (t5, set_rows(BIASES, (3, 1), np.nan), "not-finite", "wrong"),
    "a bias of the head that is NaN": (bert, biased(np.nan), "not-finite", "wrong"),
    "two equal rows": (llama, equal_rows, "equal-rows", "suspicious"),
    "a table that was never filled": (llama, set_rows(EMBED, slice(None), 1), "one-table", "wrong"),
    "a wrong base of the frequencies": (llama, stored_frequencies(10_000.0), "rope-stored-differs", "wrong"),
    "a scaling counted twice": (
        llama,
        stated(rope_scaling={**YARN}, max_position_embeddings=2048),
        "rope-counted-twice",
        "suspicious",
    ),
    "an unknown scaling": (
        llama,
        stated(rope_scaling={**YARN, "rope_type": "telechat3-yarn"}),
        "rope-unknown-type",
        "wrong",
    ),
    "a scaling without its factor": (llama, stated(rope_scaling={"rope_type": "linear"}), "rope-parameter", "wrong"),
    "a scaling that does nothing": (
        llama,
        stated(rope_scaling={"rope_type": "linear", "factor": 1.0}),
        "rope-no-effect",
        "suspicious",
    ),
    "two bases": (
        llama,
        stated(rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
        "rope-stated-twice",
        "suspicious",
    ),
    "a base too small": (llama, stated(rope_theta=100.0, max_position_embeddings=8192), "rope-base", "note"),
    "an attention factor that engines drop": (
        llama,
        stated(rope_scaling={**YARN, "attention_factor": 1.0, "original_max_position_embeddings": 16}),
        "rope-engines-differ",
        "note",
    ),
    "a shifted table of positions": (bert, shifted, "positions-shifted", "wrong"),
    "positions copied to extend them": (bert, repeated, "positions-repeated", "suspicious"),
    "positions without vectors": (bert, set_rows(PLACES, slice(50, None), 0), "positions-zero", "suspicious"),
    "too few positions": (bert, stated(max_position_embeddings=128), "position-rows", "wrong"),
    "texts longer than the positions": (
        bert,
        stated("tokenizer_config.json", model_max_length=512),
        "longest-text",
        "suspicious",
    ),
    "a truncated vocabulary": (bert, cut_vocabulary, "surplus-rows", "suspicious"),
    "a vocabulary with a hole": (
        llama,
        lambda f: write(f, "tokenizer.json", {"model": {"vocab": {"a": 0, "b": 80}}, "added_tokens": []}),
        "missing-ids",
        "suspicious",
    ),
    "fewer rows than stated": (llama, stated(vocab_size=TOKENS + 3), "vocabulary-size", "wrong"),
    "tokens without rows": (
        llama,
        stated("tokenizer_config.json", added_tokens_decoder={"130": {"content": "<|new|>"}}),
        "token-beyond-table",
        "wrong",
    ),
    "one id, two tokens": (llama, another_token, "two-tokens-one-id", "wrong"),
    "a special token without a row": (llama, stated(eos_token_id=128_009), "special-id", "wrong"),
    "another end of text": (llama, stated(eos_token_id=92), "special-ids-differ", "suspicious"),
    "a padding id without a row": (llama, stated(pad_token_id=TOKENS), "padding-id", "wrong"),
    "padding that ends texts": (
        llama,
        stated("tokenizer_config.json", pad_token="<|end|>"),
        "padding-ends-text",
        "note",
    ),
    "a template with an unknown token": (
        llama,
        stated("tokenizer_config.json", chat_template="<|system|>{{ messages }}"),
        "template-token",
        "suspicious",
    ),
    "a broken tokenizer": (
        llama,
        lambda f: (f / "tokenizer.json").write_text('{"model": ["a"'),
        "tokenizer-unreadable",
        "suspicious",
    ),
    "a missing shard": (llama, lambda f: shards(f, drop=True), "missing-shard", "wrong"),
    "a tensor in another shard": (llama, lambda f: shards(f, misplace=True), "index-mismatch", "wrong"),
    "missing layers": (llama, stated(num_hidden_layers=4), "layers-missing", "wrong"),
    "more layers than stated": (llama, stated(num_hidden_layers=1), "layers-unexplained", "suspicious"),
    "names of a wrapper": (llama, renamed, "wrapped-names", "suspicious"),
    "an optimizer's state": (
        llama,
        edits(lambda tensors: tensors.update({"optimizer.exp_avg": rows(2)})),
        "foreign-tensors",
        "note",
    ),
    "another width": (llama, stated(hidden_size=64), "width", "wrong"),
    "mixed dtypes": (llama, other_dtype, "mixed-dtypes", "note"),
    "another dtype": (llama, stated(dtype="bfloat16"), "dtype-differs", "note"),
}
"""Planted faults: sound checkpoint, plant, the finding and its severity."""


def test_what_was_not_read_of_a_head_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "chosen_spans", lambda source, table, wanted: [range(4)])
    found = hpe.check(llama(tmp_path))
    for name in ("the token table", "lm_head.weight"):
        assert any(f"4 of {TOKENS} rows of {name} are read" in said for said in found.not_checked), found.not_checked


@pytest.mark.parametrize("make", [llama, bert, t5])
def test_sound_checkpoints_have_no_finding(make: Callable[[Path], Path], tmp_path: Path) -> None:
    found = hpe.check(make(tmp_path))
    assert [str(one) for one in found.findings] == []
    assert found.passed


@pytest.mark.parametrize("name", PLANTS)
def test_planted_faults_are_found(name: str, tmp_path: Path) -> None:
    make, plant, finding, severity = PLANTS[name]
    folder = make(tmp_path)
    plant(folder)
    found = hpe.check(folder)
    assert finding in found, str(found)
    one = found[finding]
    assert one.severity == severity
    assert one.numbers or finding == "tokenizer-unreadable"
    assert "{" not in one.fix.replace("{%", "").replace("{'", "").replace('{"', "").replace("{name.", "")
    assert "\n" not in one.message + one.why + one.fix
    if severity != "wrong":
        assert found.passed, f"nothing else is wrong: {found}"


def test_the_line_for_numbers_that_are_not_finite_mends_every_table() -> None:
    """Of words, positions and biases alike: what is not finite in the positions is none of the words' business."""
    model = torch.nn.ParameterList([torch.tensor([[np.nan, 1.0]]), torch.tensor([np.inf])])
    exec(RULES["not-finite"].fix, {"model": model})
    assert [weights.tolist() for weights in model.parameters()] == [[[0, 1]], [0]]


def test_every_fault_has_its_own_finding() -> None:
    """At least twenty findings of the catalogue are planted."""
    planted = {finding for _, _, finding, _ in PLANTS.values()}
    assert planted <= set(RULES)
    assert len(planted) >= 40


NINE = {
    "qwen2_audio": (True, False, False, True),
    "voxtral": (True, False, False, True),
    "voxtral_realtime": (False, None, True, True),
    "glmasr": (True, True, True, False),
    "granite_speech": (False, None, True, True),
    "granite_speech_plus": (False, None, True, True),
    "audioflamingo3": (True, False, False, True),
    "musicflamingo": (True, False, False, True),
    "vibevoice_asr": (True, False, False, True),
}
"""A maintainer's table of nine models: head stored, equal to the token table, tied by the configuration, a match.

Source: pull request 46456 of transformers. ``glmasr`` was the mismatch.
"""


@pytest.mark.parametrize("model_type", NINE)
def test_the_table_of_nine_models(model_type: str, tmp_path: Path) -> None:
    stored, equal, tied, matches = NINE[model_type]
    tensors: Arrays = {"language_model.model.embed_tokens.weight": rows(TOKENS)}
    if stored:
        tensors["language_model.lm_head.weight"] = rows(TOKENS, seed=0 if equal else 1)
    save_file(tensors, tmp_path / "model.safetensors")
    text = {**LLAMA, "num_hidden_layers": 0, "tie_word_embeddings": tied}
    config = {"model_type": model_type, "tie_word_embeddings": tied, "text_config": text, "architectures": []}
    write(tmp_path, "config.json", config)
    opened = open_source(tmp_path, revision=None, token=None, limits=DEFAULT_LIMITS, full=True)
    facts = head_facts(opened)
    assert (facts.tensor is not None, facts.equal, facts.tied, facts.matches) == NINE[model_type]
    found = hpe.check(tmp_path)
    assert ("head-stored-twice" in found) == (not matches)
    assert not any(name in found for name in ("head-differs", "head-missing", "head-equal-untied"))


def test_a_negative_row_is_not_taken_for_untrained(tmp_path: Path) -> None:
    """Rows whose numbers are all negative are trained; a widespread heuristic took them for untrained."""
    folder = llama(tmp_path)
    set_rows(EMBED, 92, -0.5)(folder)
    assert hpe.check(folder).findings == ()


def test_the_padding_row_may_be_zero(tmp_path: Path) -> None:
    folder = bert(tmp_path)
    set_rows("embeddings.word_embeddings.weight", 0, 0)(folder)
    (one,) = hpe.check(folder).findings
    assert (one.name, one.severity) == ("padding-row-zero", "note")


def test_tokens_may_be_fewer_than_rows_only_by_padding(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    tokenizer(folder)
    padded(folder)
    assert hpe.check(folder)["padded-rows"].numbers == {"rows": 128, "tokens": 96, "surplus": 32, "multiple": 128}


@pytest.mark.parametrize(
    ("rows", "tokens", "padding", "padded"),
    [
        (201_088, 200_019, True, True),  # gpt-oss: 1,069 rows, .5 %
        (152_064, 151_646, True, True),
        (256_206, 256_204, True, False),  # NLLB's two rows pad to no multiple
        (256_000, 250_000, False, False),
        (201_089, 200_019, False, False),
        (128, 32, False, False),
        (96, 96, False, False),
    ],
)
def test_few_rows_pad_and_many_belong_to_another_tokenizer(
    rows: int, tokens: int, *, padding: bool, padded: bool
) -> None:
    assert (are_padding(rows, tokens), padded_rows(rows, tokens)) == (padding, padded)


def test_a_single_row_is_spoken_of_in_the_singular(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    set_rows(EMBED, 5, 0)(folder)
    assert hpe.check(folder)["zero-rows"].message.startswith("1 row of the token table is zero; the first is row 5")


def test_a_table_is_described_as_it_is_stored(tmp_path: Path) -> None:
    folder = llama(tmp_path)
    edit(folder, lambda tensors: tensors.update({EMBED: tensors[EMBED].astype(np.float16)}))
    assert f"token table {TOKENS} × 32 F16" in str(hpe.check(folder))
