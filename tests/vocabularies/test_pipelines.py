"""One planted difference of the pipeline each, and one tokenizer saved in several ways."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

import hfposemb as hpe
from hfposemb.checkpoints.tokenizers.vocabulary import Style
from tests.vocabularies.planted import Data, base, files, with_model, write

Change = Callable[[Data], Data]
SPACED = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]}
CASED = {"type": "Lowercase"}
ROBERTA = {"type": "RobertaProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
ROBERTA |= {"trim_offsets": True, "add_prefix_space": False}


def _model(**changes: object) -> Change:
    return lambda data: with_model(data, **changes)


def _part(**changes: object) -> Change:
    return lambda data: {**data, **changes}


def _flag(name: str, value: bool = True) -> Change:
    return lambda data: {**data, "added_tokens": [{**one, name: value} for one in data["added_tokens"]]}


def _template(**ids: int) -> dict[str, Any]:
    """Return what adds [CLS] before and [SEP] after a text, by these ids."""
    known = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in ids}
    ends = [{"SpecialToken": {"id": name, "type_id": 0}} for name in known]
    one, two = ({"Sequence": {"id": name, "type_id": place}} for place, name in enumerate("AB"))
    after = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    found = {"type": "TemplateProcessing", "special_tokens": known, "single": [ends[0], one, ends[1]]}
    return {**found, "pair": [ends[0], one, ends[1], two, after]}


def _unigram(data: Data, **changes: object) -> Data:
    vocab = [[piece, -float(row)] for piece, row in sorted(data["model"]["vocab"].items(), key=lambda pair: pair[1])]
    return {**data, "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": False, **changes}}


def _rescored(data: Data) -> Data:
    found = _unigram(data)
    return with_model(
        found, vocab=[[one, score - (row == 300)] for row, (one, score) in enumerate(found["model"]["vocab"])]
    )


def _without_bytes(data: Data) -> Data:
    vocab = [piece for piece in data["model"]["vocab"] if Style(space="▁").fallback(piece) is None]
    return with_model(data, vocab={piece: row for row, piece in enumerate(vocab)}, merges=[], byte_fallback=False)


def _split(behavior: str = "Isolated", *, invert: bool = False, **pattern: str) -> Change:
    step = {"type": "Split", "pattern": pattern or {"String": "e"}, "behavior": behavior, "invert": invert}
    return _part(pre_tokenizer={"type": "Sequence", "pretokenizers": [step, base()["pre_tokenizer"]]})


def _metaspace(**fields: object) -> Change:
    return _part(pre_tokenizer={"type": "Metaspace", "replacement": "▁", **fields}, normalizer=None)


SAME: Change = lambda data: data  # noqa: E731 - beside the changes

DIFFERENT: dict[str, tuple[str, Change, Change, str]] = {
    "ignore_merges": ("bytes", SAME, _model(ignore_merges=True), "options"),
    "dropout": ("bytes", SAME, _model(dropout=0.1), "options"),
    "end_of_word_suffix": ("bytes", SAME, _model(end_of_word_suffix="</w>"), "options"),
    "continuing_subword_prefix": ("bytes", SAME, _model(continuing_subword_prefix="@@"), "options"),
    "byte_fallback": ("sentencepiece", SAME, _model(byte_fallback=False), "options"),
    "unk_token": (
        "sentencepiece",
        _without_bytes,
        lambda one: with_model(_without_bytes(one), unk_token=None),
        "options",
    ),
    "fuse_unk": (
        "sentencepiece",
        _without_bytes,
        lambda one: with_model(_without_bytes(one), fuse_unk=False),
        "options",
    ),
    "unk_token of WordPiece": ("wordpiece", SAME, _model(unk_token="[MASK]"), "options"),
    "prefix of WordPiece": ("wordpiece", SAME, _model(continuing_subword_prefix="@@"), "options"),
    "max_input_chars_per_word": ("wordpiece", SAME, _model(max_input_chars_per_word=20), "options"),
    "unk_id": ("sentencepiece", _unigram, lambda one: _unigram(one, unk_id=1), "options"),
    "byte_fallback of Unigram": ("sentencepiece", _unigram, lambda one: _unigram(one, byte_fallback=True), "options"),
    "one score": ("sentencepiece", _unigram, _rescored, "scores"),
    "lstrip": ("bytes", SAME, _flag("lstrip"), "added-flags"),
    "rstrip": ("bytes", SAME, _flag("rstrip"), "added-flags"),
    "single_word": ("bytes", SAME, _flag("single_word"), "added-flags"),
    "normalized": ("wordpiece", SAME, _flag("normalized"), "added-flags"),
    "no longer added": (
        "wordpiece",
        SAME,
        lambda one: {**one, "added_tokens": one["added_tokens"][1:]},
        "added-before",
    ),
    "no post-processor": ("wordpiece", SAME, _part(post_processor=None), "tokens-around"),
    "ids of the template": (
        "wordpiece",
        _part(post_processor=_template(**{"[CLS]": 2, "[SEP]": 3})),
        _part(post_processor=_template(**{"[CLS]": 2, "[SEP]": 4})),
        "tokens-around",
    ),
    "two texts": ("wordpiece", SAME, _part(post_processor=ROBERTA), "tokens-around"),
    "a normaliser": ("bytes", SAME, _part(normalizer={"type": "NFKC"}), "normaliser"),
    "another form": ("bytes", _part(normalizer={"type": "NFC"}), _part(normalizer={"type": "NFKC"}), "normaliser"),
    "a prepended space": ("sentencepiece", SAME, _part(normalizer=SPACED), "normaliser"),
    "accents": (
        "wordpiece",
        SAME,
        lambda one: {**one, "normalizer": {**one["normalizer"], "strip_accents": False}},
        "normaliser",
    ),
    "prepend_scheme": ("sentencepiece", _metaspace(), _metaspace(prepend_scheme="first"), "pre-tokenizer"),
    "split of Metaspace": ("sentencepiece", _metaspace(), _metaspace(split=False), "pre-tokenizer"),
    "behaviour of a split": ("bytes", _split(), _split("Removed"), "pre-tokenizer"),
    "an inverted split": ("bytes", _split(), _split(invert=True), "pre-tokenizer"),
    "a text or a pattern": ("bytes", _split(String="."), _split(Regex="."), "pre-tokenizer"),
    "punctuation": (
        "bytes",
        _part(pre_tokenizer={"type": "Punctuation"}),
        _part(pre_tokenizer={"type": "Punctuation", "behavior": "Removed"}),
        "pre-tokenizer",
    ),
    "regular expression left out": (
        "bytes",
        SAME,
        lambda one: {**one, "pre_tokenizer": {**one["pre_tokenizer"], "use_regex": False}},
        "pre-tokenizer",
    ),
    "the order of steps": (
        "bytes",
        _part(normalizer={"type": "Sequence", "normalizers": [CASED, {"type": "NFC"}]}),
        _part(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, CASED]}),
        "normaliser",
    ),
    "the decoder": ("bytes", SAME, _part(decoder={"type": "Fuse"}), "decoder"),
}


def _found(tmp_path: Path, a: Data, b: Data) -> hpe.VocabularyDifference:
    def given(data: Data) -> dict[str, str | bytes]:
        return files(data) if isinstance(data["model"]["vocab"], dict) else {"tokenizer.json": json.dumps(data)}

    return hpe.vocabulary_difference(write(tmp_path / "a", given(a)), write(tmp_path / "b", given(b)))


@pytest.mark.parametrize("planted", DIFFERENT)
def test_a_planted_difference_is_named(tmp_path: Path, planted: str) -> None:
    kind, one, other, name = DIFFERENT[planted]
    found = _found(tmp_path, one(base(kind)), other(base(kind)))
    named = {each.name: each for each in found.findings}
    assert name in named, str(found)
    verdict = "same" if name == "decoder" else "different" if "notation" in named else "same ids"
    assert found.verdict == verdict, str(found)
    assert planted.split(" ")[0] not in base(kind)["model"] or planted.split(" ")[0] in named[name].message


def _saved(data: Data) -> Data:
    """Return what the current library writes of a tokenizer."""
    found: Data = json.loads(Tokenizer.from_str(json.dumps(data)).to_str())
    return found


def _bare(data: Data) -> Data:
    """Return a tokenizer.json without the fields that have their defaults, as old versions write it."""
    model = {name: value for name, value in data["model"].items() if value not in (None, False, "") and name != "type"}
    if data["model"]["type"] == "Unigram":
        model = {**model, "type": "Unigram"}
    before = data["pre_tokenizer"]
    if before and before["type"] == "ByteLevel":
        before = {name: value for name, value in before.items() if name != "use_regex"}
    return {
        **{name: value for name, value in data.items() if value is not None},
        "model": model,
        "pre_tokenizer": before,
    }


ALIKE: dict[str, tuple[str, Change, Change]] = {
    **{f"defaults left out, {kind}": (kind, SAME, _bare) for kind in ("bytes", "wordpiece", "sentencepiece")},
    **{f"saved again, {kind}": (kind, SAME, _saved) for kind in ("bytes", "wordpiece", "sentencepiece")},
    "saved again, Unigram": ("sentencepiece", _unigram, lambda one: _saved(_unigram(one))),
    "whole numbers as scores": (
        "sentencepiece",
        _unigram,
        lambda one: _unigram(one, vocab=[[piece, int(score)] for piece, score in _unigram(one)["model"]["vocab"]]),
    ),
    "empty texts": (
        "bytes",
        SAME,
        _model(unk_token="", continuing_subword_prefix="", end_of_word_suffix="", dropout=0.0),
    ),
    "unknown where each byte has a token": ("bytes", SAME, _model(unk_token="!", fuse_unk=True)),
    "unknown with byte fallback": ("sentencepiece", SAME, _model(unk_token="<s>", fuse_unk=False)),
    "a template of BERT's": ("wordpiece", SAME, _part(post_processor=_template(**{"[CLS]": 2, "[SEP]": 3}))),
    "normalized without a normaliser": ("bytes", SAME, _flag("normalized")),
    "an empty sequence": ("bytes", SAME, _part(normalizer={"type": "Sequence", "normalizers": []})),
    "a sequence of one": (
        "bytes",
        _part(normalizer=CASED),
        _part(normalizer={"type": "Sequence", "normalizers": [CASED]}),
    ),
    "offsets": (
        "bytes",
        SAME,
        _part(post_processor={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}),
    ),
    "Metaspace of old versions": (
        "sentencepiece",
        _metaspace(prepend_scheme="always", split=True),
        _metaspace(add_prefix_space=True),
    ),
    "padding and truncation": ("bytes", SAME, _part(truncation={"max_length": 8, "stride": 0})),
}


@pytest.mark.parametrize("saved", ALIKE)
def test_two_savings_of_one_tokenizer_are_the_same(tmp_path: Path, saved: str) -> None:
    kind, one, other = ALIKE[saved]
    found = _found(tmp_path, one(base(kind)), other(base(kind)))
    assert (found.verdict, [each.name for each in found.findings if each.name != "padding-rows"]) == ("same", []), str(
        found
    )


def _field(number: int, value: bytes | int | float) -> bytes:
    """Return a field of a protobuf message of fewer than 128 bytes."""
    if isinstance(value, float):
        return _number(number << 3 | 5) + struct.pack("<f", value)
    return (
        _number(number << 3) + _number(value)
        if isinstance(value, int)
        else _number(number << 3 | 2) + _number(len(value)) + value
    )


def _number(value: int) -> bytes:
    return bytes([value & 127 | 128, value >> 7]) if value > 127 else bytes([value])


def _sentencepiece(
    scores: float = 1.0,
    kind: int = 1,
    trainer: dict[int, int] | None = None,
    normaliser: dict[int, int | bytes] | None = None,
) -> dict[str, str | bytes]:
    """Return a SentencePiece model of a few pieces, by the numbers of its fields."""
    pieces = [("<unk>", 0.0, 2), *(("▁" + one, -scores * place, kind) for place, one in enumerate("abcdefgh", 1))]
    raw = b"".join(
        _field(1, _field(1, piece.encode()) + _field(2, score) + _field(3, of)) for piece, score, of in pieces
    )
    specs = (
        b"".join(_field(number, value) for number, value in (spec or {}).items()) for spec in (trainer, normaliser)
    )
    return {"tokenizer.model": raw + b"".join(_field(number, spec) for number, spec in enumerate(specs, 2))}


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (_sentencepiece(), ""),
        (_sentencepiece(trainer={3: 1, 24: 0}, normaliser={3: 1, 4: 1, 5: 1}), ""),
        (_sentencepiece(2.0), "scores"),
        (_sentencepiece(trainer={3: 2}), "model"),
        (_sentencepiece(trainer={24: 1}), "settings"),
        (_sentencepiece(normaliser={2: b"map"}), "settings"),
        (_sentencepiece(normaliser={3: 0}), "settings"),
        (_sentencepiece(normaliser={4: 0}), "settings"),
        (_sentencepiece(normaliser={5: 0}), "settings"),
        (_sentencepiece(kind=4), "added-before"),
        (_sentencepiece(kind=5), "added-before"),
    ],
)
def test_sentencepiece_models_of_the_same_pieces(tmp_path: Path, other: dict[str, str | bytes], name: str) -> None:
    found = hpe.vocabulary_difference(write(tmp_path / "a", _sentencepiece()), write(tmp_path / "b", other))
    assert found.verdict == ("same ids" if name else "same"), str(found)
    assert {one.name for one in found.findings if one.matters} == ({name} if name else set()), str(found)
