"""Whatever files state a vocabulary, its rows have the names that transformers' tokenizer gives them, id by id."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import hfposemb as hpe
from hfposemb.checkpoints.tokenizers.small_files import LARGEST_FILE
from hfposemb.checkpoints.tokenizers.vocabulary_files import needed_files, read_labels, vocabulary_file
from hfposemb.errors import SourceError
from hfposemb.tables.table import TOKEN_CLASSES, Labels
from tests.support.checkpoints.onnx_files import field

CORPUS = ["the king of the hill sang a song about 123 kings", "a man walks in the park with the dog", "Hello world!"]
BERT_PIECES = {"pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]"}
MODELS: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram"},
    "llama": {"model_type": "bpe", "vocab_size": 310, "byte_fallback": True},
    "gemma": {"model_type": "bpe", "vocab_size": 310, "byte_fallback": True, "pad_id": 0, "eos_id": 1, "bos_id": 2}
    | {"unk_id": 3, "user_defined_symbols": ["<mask>", "[multimodal]", "<unused0>", "<start_of_turn>"]},
    "t5": {"model_type": "unigram", "pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1},
    "albert": {"model_type": "unigram", "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    | {"control_symbols": ["[CLS]", "[SEP]", "[MASK]"]},
    "xlnet": {"model_type": "unigram", "control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]},
    "deberta": {"model_type": "unigram", "pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, **BERT_PIECES},
}
"""How SentencePiece models of each kind are trained."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """SentencePiece models by kind."""
    spm = pytest.importorskip("sentencepiece")
    folder = tmp_path_factory.mktemp("models")
    (folder / "corpus").write_text("\n".join(CORPUS * 5), "utf-8")
    found = {}
    for kind, how in MODELS.items():
        options = {"vocab_size": 80, "hard_vocab_limit": how["model_type"] == "bpe", "minloglevel": 3, **how}
        spm.SentencePieceTrainer.train(input=folder / "corpus", model_prefix=folder / kind, **options)
        found[kind] = (folder / f"{kind}.model").read_bytes()
    return found


def write(folder: Path, files: Mapping[str, Any], **config: Any) -> Path:
    for name, content in {"config.json": config, **files}.items():
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def labels_of(folder: Path, rows: int) -> Labels:
    labels = read_labels(folder, rows=rows)
    assert labels is not None
    return labels


def assert_as_transformers(folder: Path) -> Labels:
    """Compare the stored pieces with those of the tokenizer, and the rows after them with padding."""
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    expected = [theirs.convert_ids_to_tokens(row) for row in range(len(theirs))]
    labels = labels_of(folder, len(expected) + 2)
    assert labels.pieces[: len(expected)] == tuple(expected)
    assert {TOKEN_CLASSES[one] for one in labels.classes[len(expected) :]} == {"padding"}
    return labels


SENTENCEPIECE = [
    ("xlm-roberta", "XLMRobertaTokenizer", "sentencepiece.bpe.model", "unigram"),
    ("xlm-roberta", None, "sentencepiece.bpe.model", "unigram"),
    ("layoutlmv2", "LayoutXLMTokenizer", "sentencepiece.bpe.model", "unigram"),
    ("camembert", "CamembertTokenizer", "sentencepiece.bpe.model", "unigram"),
    ("camembert", None, "sentencepiece.bpe.model", "unigram"),
    ("mbart", "MBartTokenizer", "sentencepiece.bpe.model", "unigram"),
    ("mbart", "MBart50Tokenizer", "sentencepiece.bpe.model", "unigram"),
    ("m2m_100", "NllbTokenizer", "sentencepiece.bpe.model", "unigram"),
    ("seamless_m4t", "SeamlessM4TTokenizer", "sentencepiece.bpe.model", "unigram"),
    ("plbart", "PLBartTokenizer", "sentencepiece.bpe.model", "unigram"),
    ("mbart", "BarthezTokenizer", "sentencepiece.bpe.model", "unigram"),
    ("t5", "T5Tokenizer", "spiece.model", "t5"),
    ("mt5", None, "spiece.model", "t5"),
    ("pegasus", "PegasusTokenizer", "spiece.model", "t5"),
    ("udop", "UdopTokenizer", "spiece.model", "t5"),
    ("siglip", "SiglipTokenizer", "spiece.model", "t5"),
    ("albert", "AlbertTokenizer", "spiece.model", "albert"),
    ("fnet", "FNetTokenizer", "spiece.model", "albert"),
    ("rembert", "RemBertTokenizer", "sentencepiece.model", "albert"),
    ("big_bird", "BigBirdTokenizer", "spiece.model", "unigram"),
    ("reformer", "ReformerTokenizer", "spiece.model", "unigram"),
    ("xlnet", "XLNetTokenizer", "spiece.model", "xlnet"),
    ("deberta-v2", "DebertaV2TokenizerFast", "spm.model", "deberta"),
    ("bert-generation", "BertGenerationTokenizer", "spiece.model", "unigram"),
    ("gpt2", "GPTSw3Tokenizer", "spiece.model", "unigram"),
    ("speecht5", "SpeechT5Tokenizer", "spm_char.model", "unigram"),
    ("llama", "LlamaTokenizer", "tokenizer.model", "llama"),
    ("internlm2", "InternLM2Tokenizer", "tokenizer.model", "llama"),
    ("mistral", None, "tokenizer.model", "llama"),
    ("gemma", "GemmaTokenizer", "tokenizer.model", "gemma"),
]


@pytest.mark.parametrize(("kind", "name", "file", "model"), SENTENCEPIECE)
@pytest.mark.parametrize(
    "more", [{}, {"pad_token": "[PAD0]"}, {"additional_special_tokens": ["<x1>", "<x2>"]}], ids=["", "pad", "more"]
)
def test_sentencepiece_models(
    tmp_path: Path,
    models: Mapping[str, bytes],
    kind: str,
    name: str | None,
    file: str,
    model: str,
    more: dict[str, Any],
) -> None:
    stated = {**({} if name is None else {"tokenizer_class": name}), **more}
    if name in ("BertGenerationTokenizer", "GPTSw3Tokenizer", "SpeechT5Tokenizer", "PLBartTokenizer") and more:
        pytest.skip("transformers' tokenizer raises for ids after the pieces")
    assert_as_transformers(write(tmp_path, {file: models[model], "tokenizer_config.json": stated}, model_type=kind))


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("T5Tokenizer", {"extra_ids": 0}),
        ("T5Tokenizer", {"extra_ids": 7}),
        ("PegasusTokenizer", {"offset": 0, "mask_token": "[MASK]", "mask_token_sent": None}),
        ("PLBartTokenizer", {"language_codes": "multi"}),
    ],
)
def test_settings_of_a_class(tmp_path: Path, models: Mapping[str, bytes], name: str, stated: dict[str, Any]) -> None:
    own = name == "PLBartTokenizer"
    files = {"sentencepiece.bpe.model" if own else "spiece.model": models["unigram" if own else "t5"]}
    settings = {"tokenizer_class": name, **stated}
    assert_as_transformers(write(tmp_path, {**files, "tokenizer_config.json": settings}, model_type="t5"))


@pytest.mark.parametrize("where", ["added_tokens.json", "tokenizer_config.json"])
def test_added_tokens_follow_the_pieces(tmp_path: Path, models: Mapping[str, bytes], where: str) -> None:
    tokens = {"<|im_start|>": 310, "word": 311}
    decoder = {str(row): {"content": token, "special": row == 310} for token, row in tokens.items()}
    settings = {"tokenizer_class": "LlamaTokenizer"}
    files = {"added_tokens.json": tokens} if where == "added_tokens.json" else {}
    settings |= {} if files else {"added_tokens_decoder": decoder}
    write(
        tmp_path, {"tokenizer.model": models["llama"], "tokenizer_config.json": settings, **files}, model_type="llama"
    )
    labels = assert_as_transformers(tmp_path)
    assert labels[310] == "<|im_start|>"
    assert labels[labels.pieces.index("▁the")] == " the"


RANKS = [bytes([one]) for one in range(256)] + [b"th", b"he", b" t", b"the", b" the", "é".encode()]
TIKTOKEN = "".join(f"{base64.b64encode(raw).decode()} {rank}\n" for rank, raw in enumerate(RANKS))


FLAGS = ("lstrip", "rstrip", "normalized", "single_word")


def added(tokens: Mapping[int, str]) -> dict[str, Any]:
    flags = dict.fromkeys(FLAGS, False)
    return {str(row): {"content": token, "special": True, **flags} for row, token in tokens.items()}


def tekken(**parts: Any) -> dict[str, Any]:
    config = {"pattern": r" ?\p{L}+|\s+", "default_vocab_size": 282, "default_num_special_tokens": 20, "version": "v3"}
    ranked = [*RANKS, b"left out"]
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(raw).decode()} for rank, raw in enumerate(ranked)]
    special = [{"rank": rank, "token_str": token} for rank, token in enumerate(("<unk>", "<s>", "</s>", "[INST]"))]
    return {"config": config, "vocab": vocab, "special_tokens": special, **parts}


GPT2 = {"vocab.json": {piece: row for row, piece in enumerate(["<|endoftext|>", "a", "b", "Ġ", "ab", "Ġab"])}} | {
    "merges.txt": "#version: 0.2\na b\nĠ ab\n"
}
BERT = {"vocab.txt": "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c"]) + "\n"}
FAIRSEQ = "the 12\nca@@ 5\nt 3\n"
TRANSLATION = {piece: row for row, piece in enumerate(["<s>", "<pad>", "</s>", "<unk>", "▁the", "s"])}
WHOLE = {
    "version": "1.0",
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "added_tokens": [{"id": 3, "content": "<s>", "special": True, **dict.fromkeys(FLAGS, False)}],
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "tokenizer.json, added later": (
        "llama",
        {"tokenizer.json": WHOLE}
        | {"tokenizer_config.json": {"added_tokens_decoder": added({3: "<s>", 4: "<|im_start|>", 5: "<|im_end|>"})}},
    ),
    "tokenizer.json, as transformers 4.30": ("llama", {"tokenizer.json": WHOLE, "added_tokens.json": {"<x>": 4}}),
    "Kimi": (
        "kimi_k25",
        {"tiktoken.model": TIKTOKEN}
        | {"tokenizer_config.json": {"added_tokens_decoder": added({262: "[BOS]", 274: "[PAD]"})}},
    ),
    "tiktoken, by role": (
        "kimi_k25",
        {"tiktoken.model": TIKTOKEN}
        | {"tokenizer_config.json": {"bos_token": "[BOS]", "additional_special_tokens": ["[X]"]}},
    ),
    "Llama 3": (
        "llama",
        {"tokenizer.model": TIKTOKEN}
        | {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"}}
        | {"added_tokens.json": {"<|begin_of_text|>": 262, "<|end_of_text|>": 263}},
    ),
    "tekken": ("mistral", {"tekken.json": tekken()}),
    "gpt2": ("gpt2", GPT2),
    "gpt2, padded": ("gpt2", {**GPT2, "special_tokens_map.json": {"pad_token": "[PAD]"}}),
    "gpt2, added": (
        "gpt2",
        {**GPT2, "added_tokens.json": {"<x>": 6, "y": 7}, "special_tokens_map.json": {"pad_token": "<x>"}},
    ),
    "qwen2": (
        "qwen2",
        {**GPT2, "tokenizer_config.json": {"added_tokens_decoder": added({6: "<|im_start|>", 7: "<|im_end|>"})}},
    ),
    "bert": ("bert", BERT),
    "bert, more": ("bert", {**BERT, "special_tokens_map.json": {"additional_special_tokens": ["[E1]", "[E2]"]}}),
    "phobert": (
        "roberta",
        {
            "vocab.txt": FAIRSEQ,
            "bpe.codes": "t h 5\n",
            "tokenizer_config.json": {"tokenizer_class": "PhobertTokenizer"},
        },
    ),
    "m2m": (
        "m2m_100",
        {"vocab.json": TRANSLATION, "sentencepiece.bpe.model": "unigram"}
        | {"tokenizer_config.json": {"tokenizer_class": "M2M100Tokenizer"}},
    ),
    "bartpho": (
        "mbart",
        {"dict.txt": FAIRSEQ, "sentencepiece.bpe.model": "unigram"}
        | {"tokenizer_config.json": {"tokenizer_class": "BartphoTokenizer"}},
    ),
    "esm": ("esm", {"vocab.txt": "<cls>\n<pad>\n<eos>\n<unk>\nL\nA\n<mask>\n"}),
}


def stated(row: int, token: str, *, special: bool = True) -> dict[str, Any]:
    return {"id": row, "content": token, "special": special, **dict.fromkeys(FLAGS, False)}


PLACED: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "a hole": ([stated(3, "<s>"), stated(9, "<x>")], {}),
    "out of order": ([stated(5, "<x>"), stated(4, "<y>"), stated(3, "<s>")], {}),
    "one id twice": ([stated(3, "<x>"), stated(3, "<y>")], {}),
    "one token twice": ([stated(3, "<x>"), stated(4, "<x>"), stated(5, "<y>")], {}),
    "over a piece": ([stated(1, "<x>")], {}),
    "a piece at another id": ([stated(3, "b", special=False), stated(4, "<x>")], {}),
    "empty": ([stated(3, ""), stated(4, "<x>")], {}),
    "far beside it": ([], {"tokenizer_config.json": {"added_tokens_decoder": added({3: "<x>", 9: "<y>"})}}),
    "over a piece beside it": ([], {"tokenizer_config.json": {"added_tokens_decoder": added({1: "<x>"})}}),
    "another name beside it": (
        [stated(3, "<x>")],
        {"tokenizer_config.json": {"added_tokens_decoder": added({3: "<y>"})}},
    ),
    "by role": ([stated(3, "<x>")], {"tokenizer_config.json": {"pad_token": "[PAD]", "bos_token": "<x>"}}),
    "by a role of its own": (
        [],
        {"tokenizer_config.json": {"image_token": "<image>", "unk_token": "<u>", "extra_special_tokens": ["<e>"]}},
    ),
    "in the map": (
        [],
        {"special_tokens_map.json": {"pad_token": "[PAD]", "additional_special_tokens": ["<e>", "<f>"]}},
    ),
    "in the map, beside a list": (
        [],
        {"special_tokens_map.json": {"pad_token": "[PAD]"}, "added_tokens.json": {"<z>": 4}}
        | {"tokenizer_config.json": {"added_tokens_decoder": added({3: "<x>"})}},
    ),
    "named": ([], {"tokenizer_config.json": {"extra_special_tokens": {"image_token": "<image>", "boi_token": "<b>"}}}),
}
"""Added tokens of tokenizer.json whose ids are not those that the library gives them, and tokens beside it."""


@pytest.mark.parametrize("case", PLACED)
@pytest.mark.parametrize("kind", ["BPE", "Unigram", "WordLevel"])
def test_added_tokens_have_the_ids_that_the_library_gives_them(tmp_path: Path, kind: str, case: str) -> None:
    listed, files = PLACED[case]
    model: dict[str, Any] = {"type": kind, "vocab": {"a": 0, "b": 1, "ab": 2}}
    model |= {"BPE": {"merges": ["a b"]}, "Unigram": {"unk_id": None}, "WordLevel": {"unk_token": "a"}}[kind]
    if kind == "Unigram":
        model["vocab"] = [["a", 0.0], ["b", -1.0], ["ab", -2.0]]
    whole = {"version": "1.0", "model": model, "added_tokens": listed}
    assert_as_transformers(write(tmp_path, {"tokenizer.json": whole, **files}, model_type="llama"))


@pytest.mark.parametrize("case", OTHERS)
def test_other_vocabularies(tmp_path: Path, models: Mapping[str, bytes], case: str) -> None:
    pytest.importorskip("tiktoken")
    kind, files = OTHERS[case]
    given = {name: models["unigram"] if name.startswith("sentencepiece") else one for name, one in files.items()}
    assert_as_transformers(write(tmp_path, given, model_type=kind))


LINES = {"vocab.txt": "king\nqueen\n##s\n"}
BPE = {"vocab.json": {"a": 0, "b": 1, "Ġa": 2, "Ġ": 3}, "merges.txt": "#version: 0.2\nĠ a\n"}
BARE: dict[str, Mapping[str, Any]] = {
    **dict.fromkeys(("Bert", "DistilBert", "Funnel", "MPNet", "SqueezeBert"), LINES),
    **dict.fromkeys(("CLIP", "Deberta", "GPT2", "GPTNeoX", "Herbert", "LED", "OpenAIGPT", "Qwen2", "Roberta"), BPE),
}
WRITTEN_IN_PYTHON: dict[str, Mapping[str, Any]] = {
    **{"Esm": LINES, "CTRL": BPE, "Vits": BPE, "BlenderbotSmall": BPE},
    **dict.fromkeys(("Wav2Vec2CTC", "Wav2Vec2PhonemeCTC"), BPE),
}
HOLES = {"added_tokens.json": {"<x>": 9, "<y>": 12}}


@pytest.mark.parametrize("name", BARE | WRITTEN_IN_PYTHON)
def test_special_tokens_of_its_class_follow_a_vocabulary_that_lacks_them(tmp_path: Path, name: str) -> None:
    settings = {"tokenizer_config.json": {"tokenizer_class": f"{name}Tokenizer"}}
    assert_as_transformers(write(tmp_path, {**(BARE | WRITTEN_IN_PYTHON)[name], **settings}, model_type="bert"))


@pytest.mark.parametrize("name", [*BARE, "XLMRoberta"])
def test_added_tokens_with_holes_between_their_ids_are_numbered_anew(
    tmp_path: Path, models: Mapping[str, bytes], name: str
) -> None:
    files = BARE.get(name, {"sentencepiece.bpe.model": models["unigram"]})
    settings = {"tokenizer_config.json": {"tokenizer_class": f"{name}Tokenizer"}}
    assert_as_transformers(write(tmp_path, {**files, **settings, **HOLES}, model_type="bert"))


@pytest.mark.parametrize(
    ("files", "rows"),
    [
        (
            {"qwen.tiktoken": TIKTOKEN},
            {
                65: "A",
                260: " the",
                261: "é",
                200: "<0xC8>",
                262: "<|endoftext|>",
                264: "<|im_end|>",
                469: "<|extra_204|>",
            },
        ),
        ({"hy.tiktoken": TIKTOKEN}, {262: "<|endoftext|>", 266: "<|pad|>", 267: "<|extra_0|>"}),
        ({"other.tiktoken": TIKTOKEN}, {260: " the", 262: "(padding 262)"}),
        ({"empty.tiktoken": TIKTOKEN + "= 262\n"}, {261: "é", 262: "⟨empty⟩", 263: "(padding 263)"}),
        ({"tekken.json": tekken(special_tokens=None)}, {3: "[INST]", 11: "<pad>", 20 + 260: " the"}),
        (
            {"dict.txt": "2 9\n1 5\n", "encoder.json": {"a": 0, "b": 1, "Ġab": 2}},
            {3: "<unk>", 4: " ab", 5: "b", 6: "<mask>"},
        ),
        ({"encoder.json": {"a": 0, "b": 1, "Ġab": 2}}, {2: " ab"}),
        ({"prophetnet.tokenizer": "[PAD]\nking\n##s\n"}, {1: "king", 2: "##s", 3: "(padding 3)"}),
        (
            {"vocab.json": {"deu": {"ä": 0, "b": 1}, "eng": {"a": 0}}, "tokenizer_config.json": {"target_lang": "deu"}},
            {0: "ä", 1: "b", 2: "(padding 2)"},
        ),
        (
            {"rwkv_vocab_v20230424.txt": "1 '\\x00' 1\n2 b'\\xff' 1\n3 ' it\\'s' 5\n4 \"it's\" 4\n5 'é' 2\n7 ' ' 1\n"},
            {0: "<|endoftext|>", 2: "<0xFF>", 3: " it's", 4: "it's", 5: "é", 6: "(padding 6)", 7: " "},
        ),
    ],
)
def test_what_transformers_does_not_read(tmp_path: Path, files: Mapping[str, Any], rows: Mapping[int, str]) -> None:
    labels = labels_of(write(tmp_path, files), 500)
    assert {row: labels[row] for row in rows} == rows


def test_llama_3s_own_tokens(tmp_path: Path) -> None:
    lines = [f"{base64.b64encode(rank.to_bytes(3, 'big')).decode()} {rank}" for rank in range(128_000)]
    labels = labels_of(write(tmp_path, {"tokenizer.model": "\n".join(lines)}), 128_256)
    assert labels.pieces[128_000:128_002] == ("<|begin_of_text|>", "<|end_of_text|>")
    assert labels.pieces[128_006] == "<|start_header_id|>"
    # Versions of Llama 3 differ in this one.
    assert TOKEN_CLASSES[labels.classes[128_004]] == "unused"


def test_xglm_is_numbered_as_it_was_trained(tmp_path: Path, models: Mapping[str, bytes]) -> None:
    """transformers 5 leaves its pieces out; fairseq shifted them by one and added seven words."""
    spm = pytest.importorskip("sentencepiece").SentencePieceProcessor(model_proto=models["unigram"])
    pieces = [spm.id_to_piece(row) for row in range(spm.get_piece_size())]
    settings = {"tokenizer_class": "XGLMTokenizer"}
    write(tmp_path, {"sentencepiece.bpe.model": models["unigram"], "tokenizer_config.json": settings})
    expected = ["<s>", "<pad>", "</s>", "<unk>", *pieces[3:], *(f"<madeupword{number}>" for number in range(7))]
    assert labels_of(tmp_path, len(expected)).pieces == tuple(expected)


def test_a_piece_is_of_the_kind_that_the_model_states(tmp_path: Path) -> None:
    pieces = [("<unk>", 2), ("[CTRL]", 3), ("<0x41>", 6), ("▁the", 1), ("gone", 5), ("[user]", 4), ("▁▁", 4), ("9", 77)]
    raw = b"".join(field(1, field(1, text.encode()) + field(3, kind)) for text, kind in pieces)
    labels = labels_of(write(tmp_path, {"tokenizer.model": raw}), 8)
    named = {text: TOKEN_CLASSES[one] for text, one in zip(labels, labels.classes, strict=True)}
    assert named == {
        "<unk>": "special",
        "[CTRL]": "special",
        "<0x41>": "continuation",
        " the": "word start",
        "gone": "unused",
        "[user]": "word start",
        "  ": "word start",
        "9": "has a digit",
    }


@pytest.mark.parametrize(
    ("file", "line"), [("one.tiktoken", "PC9zPg== 0\n"), ("rwkv_vocab_v20230424.txt", "0 '</s>' 4\n")]
)
def test_no_piece_that_a_text_is_cut_into_is_special_by_its_spelling(tmp_path: Path, file: str, line: str) -> None:
    labels = labels_of(write(tmp_path, {file: line}), 1)
    assert (labels[0], TOKEN_CLASSES[labels.classes[0]]) == ("</s>", "word start")


def test_a_vocabulary_of_256_000_pieces_is_read(tmp_path: Path) -> None:
    numbers = range(256_000)
    score = b"\x15" + np.float32(-1).tobytes()
    raw = b"".join(field(1, field(1, f"▁{number}".encode()) + score + field(3, 1)) for number in numbers)
    labels = labels_of(write(tmp_path, {"tokenizer.model": raw}), 256_000)
    assert labels.pieces[-1] == "▁255999"


MALFORMED: dict[str, tuple[str, bytes]] = {
    "empty model": ("tokenizer.model", b""),
    "no field": ("tokenizer.model", b"\x0f" * 40),
    "piece past the end": ("tokenizer.model", b"\x0a\xff\xff\xff\x7f"),
    "endless number": ("tokenizer.model", b"\x0a" + b"\xff" * 30),
    "piece is a number": ("tokenizer.model", field(1, 7)),
    "text is a number": ("tokenizer.model", field(1, field(1, 7))),
    "piece is not UTF-8": ("tokenizer.model", field(1, field(1, b"\xff\xfe"))),
    "piece too long": ("tokenizer.model", field(1, field(1, b"x" * 70_000))),
    "no pieces": ("tokenizer.model", field(2, b"")),
    "a pointer of Git LFS": ("tokenizer.model", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4\n"),
    "a page": ("spiece.model", b"<!DOCTYPE html><html>not found</html>"),
    "a pickle": ("tokenizer.model", b"\x80\x04\x95\x10\x00\x00"),
    "rank is missing": ("qwen.tiktoken", b"IQ==\n"),
    "rank is vast": ("qwen.tiktoken", b"IQ== 99999999999999999999\n"),
    "rank is negative": ("tiktoken.model", b"IQ== -1\n"),
    "not base64": ("tiktoken.model", b"I$== 0\n"),
    "not text": ("tiktoken.model", b"\xff\xff 0\n"),
    "tekken is a list": ("tekken.json", b"[]"),
    "tekken has no vocabulary": ("tekken.json", b"{}"),
    "tekken is short": ("tekken.json", b'{"vocab": [{}], "config": {}}'),
    "tekken states too many": ("tekken.json", b'{"vocab": [], "config": {"default_num_special_tokens": 2000000000}}'),
    "tekken has a rank of text": ("tekken.json", b'{"vocab": [], "special_tokens": [{"rank": "0", "token_str": "a"}]}'),
    "rwkv without a size": ("rwkv_vocab_v20230424.txt", b"1 'a'\n"),
    "rwkv with code": ("rwkv_vocab_v20230424.txt", b"1 print('a') 1\n"),
    "rwkv with half an escape": ("rwkv_vocab_v20230424.txt", b"1 '\\x0' 1\n"),
    "rwkv with half a character": ("rwkv_vocab_v20230424.txt", b"1 '\\ud800' 3\n"),
    "no language of several": ("vocab.json", b'{"eng": {"a": 0}, "deu": {"b": 0}}'),
    "a few ids that are none": ("vocab.json", b'{"a": 0, "b": "1"}'),
    "an id of a token that is none": ("tokenizer.json", b'{"model": {"vocab": {"a": 0.5}}}'),
    "words that are a number": ("whitespacetokenizer_config.json", b'{"vocab": 5}'),
    "a dictionary without counts": ("dict.txt", b"the\n"),
}


@pytest.mark.parametrize(("file", "raw"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_one_line(tmp_path: Path, file: str, raw: bytes) -> None:
    with pytest.raises(SourceError) as error:
        read_labels(write(tmp_path, {file: raw}), rows=4)
    assert file in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize(
    "raw", ['{"tokens": ["a"]}', '{"vocab": {"model": {"a": "b"}}}', '{"name": "vocabulary", "new": true}']
)
def test_a_file_of_another_program_numbers_the_rows_and_says_so(tmp_path: Path, raw: str) -> None:
    write(tmp_path, {"vocab.json": raw})
    save_file({"embedding.weight": np.arange(1, 7, dtype=np.float32).reshape(3, 2)}, tmp_path / "model.safetensors")
    found = hpe.extract(tmp_path).token.labels
    said = "vocab.json is no vocabulary: no text has a whole number as its id there"
    assert (found.texts, found.note) == (("0", "1", "2"), f"{said}, so rows are numbered")
    report = hpe.check(tmp_path)
    assert not report.findings
    assert any(one.startswith(said) for one in report.not_checked)
    assert hpe.vocabulary_difference(tmp_path, "sample:bert").verdict == "cannot tell"
    write(tmp_path, {"tiktoken.model": "YQ== 0\n"})
    assert hpe.extract(tmp_path).token.labels.texts[0] == "a", "another file states them"


@pytest.mark.parametrize("file", ["tokenizer.model", "tiktoken.model", "tekken.json"])
def test_a_file_past_the_limit_is_not_read(tmp_path: Path, file: str) -> None:
    with (tmp_path / file).open("wb") as opened:
        opened.truncate(LARGEST_FILE + 1)
    with pytest.raises(SourceError, match="40 MB"):
        read_labels(tmp_path, rows=4)


@pytest.mark.parametrize(
    ("names", "file", "needed"),
    [
        (
            ["tokenizer.json", "tokenizer.model", "tokenizer_config.json"],
            "tokenizer.json",
            ("tokenizer.json", "tokenizer_config.json"),
        ),
        (["tekken.json", "tokenizer.model.v3", "params.json"], "tekken.json", ("tekken.json",)),
        (["tokenizer.model.v3", "params.json"], "tokenizer.model.v3", ("tokenizer.model.v3",)),
        (["vocab.json", "merges.txt", "source.spm", "a.safetensors"], "vocab.json", ("vocab.json", "merges.txt")),
        (
            ["spiece.model", "config.json", "added_tokens.json", "README.md"],
            "spiece.model",
            ("spiece.model", "added_tokens.json", "config.json"),
        ),
        (["source.spm", "target.spm"], None, ()),
        (["vocab.json", "target_vocab.json"], "vocab.json", ("vocab.json", "target_vocab.json")),
        (["cl100k_base.tiktoken"], "cl100k_base.tiktoken", ("cl100k_base.tiktoken",)),
        (["word2vec.model", "merges.txt", "tokenizer_config.json"], None, ()),
    ],
)
def test_which_files_are_read(names: list[str], file: str | None, needed: tuple[str, ...]) -> None:
    assert vocabulary_file(names) == file
    assert needed_files(names) == needed
