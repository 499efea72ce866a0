"""Pairs of vocabularies with one planted difference each, written as the files that people publish."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from hfposemb.checkpoints.tokenizers.vocabulary import Style
from tests.support.checkpoints.gguf_models import BYTE, CONTROL, NORMAL, UNUSED, USER_DEFINED, Model, Tokens

Files: TypeAlias = dict[str, str | bytes]
Data: TypeAlias = dict[str, Any]

TEXT = [
    "The king and the queen walked to the old town; café, naïve, 2026, 北京, Привет, it's 3.14!",
    "def main(args):\n    return [x ** 2 for x in args if x > 0]\n",
    "Embedding tables hold one row for each token, and a tokenizer says which text it stands for.",
]
CHAT = ("<|end|>", "<|user|>", "<|model|>")
TEMPLATE = "{% for m in messages %}<|user|>{{ m }}<|end|>{% endfor %}<|model|>"
GPT4 = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"


@cache
def _trained(kind: str) -> str:
    """Return the tokenizer.json of a small trained tokenizer."""
    if kind == "wordpiece":
        one = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        one.normalizer = normalizers.BertNormalizer(lowercase=True)
        one.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        one.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=220, special_tokens=special))
        ids = [(token, one.token_to_id(token)) for token in ("[SEP]", "[CLS]")]
        one.post_processor = processors.BertProcessing(*ids)
        return str(one.to_str())
    if kind == "sentencepiece":
        one = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
        one.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        one.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
        one.train_from_iterator(TEXT * 3, trainers.BpeTrainer(vocab_size=500, special_tokens=special))
        data = json.loads(one.to_str())
        data["added_tokens"] = data["added_tokens"][:3]
        return json.dumps(data)
    one = Tokenizer(models.BPE())
    one.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    one.decoder = decoders.ByteLevel()
    corpus = TEXT if kind == "bytes" else [text[::-1].upper() for text in TEXT]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    one.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet))
    one.add_special_tokens([AddedToken(token, normalized=False) for token in CHAT])
    return str(one.to_str())


def base(kind: str = "bytes") -> Data:
    """Return the tokenizer.json of a small tokenizer, to be changed."""
    found: Data = json.loads(_trained(kind))
    return found


def files(data: Data, *, rows: int | None = None, template: str = TEMPLATE, **settings: object) -> Files:
    """Return the files of a model without its weights."""
    ids = [*data["model"]["vocab"].values(), *(token["id"] for token in data["added_tokens"])]
    config = {"model_type": "llama", "vocab_size": max(ids) + 1 if rows is None else rows}
    stated = (
        {"chat_template": template, "eos_token": "<|end|>", **settings} if "<|end|>" in json.dumps(data) else settings
    )
    found: Files = {"tokenizer.json": json.dumps(data), "config.json": json.dumps(config)}
    return {**found, "tokenizer_config.json": json.dumps(stated)}


def write(folder: Path, given: Files | Tokens) -> Path:
    """Write the files of a model into a folder, or a GGUF file."""
    if isinstance(given, Tokens):
        import numpy as np

        table = np.ones((len(given.texts), 8), np.float32)
        folder.mkdir(parents=True)
        return Model("llama", {"embedding_length": 8}, {"token_embd.weight": table}, given).write(folder / "model.gguf")
    folder.mkdir(parents=True)
    for name, content in given.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def with_model(data: Data, **changes: object) -> Data:
    """Return a tokenizer.json with fields of its model replaced."""
    return {**data, "model": {**data["model"], **changes}}


def renumbered(data: Data, number: Callable[[int], int]) -> Data:
    """Return a tokenizer.json with other ids."""
    added = [{**token, "id": number(token["id"])} for token in data["added_tokens"]]
    added.sort(key=lambda token: int(token["id"]))  # the library numbers them in their order
    vocab = {piece: number(row) for piece, row in data["model"]["vocab"].items()}
    return with_model({**data, "added_tokens": added}, vocab=vocab)


def more(data: Data, *tokens: str, special: bool = True) -> Data:
    """Return a tokenizer.json with further added tokens at its end."""
    at = 1 + max([*data["model"]["vocab"].values(), *(token["id"] for token in data["added_tokens"])])
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
    added = [{"id": at + place, "content": token, **plain} for place, token in enumerate(tokens)]
    return {**data, "added_tokens": [*data["added_tokens"], *added]}


def renamed(data: Data, old: str, new: str) -> Data:
    """Return a tokenizer.json with another name for one token."""
    added = [
        {**token, "content": new if token["content"] == old else token["content"]} for token in data["added_tokens"]
    ]
    vocab = {new if piece == old else piece: row for piece, row in data["model"]["vocab"].items()}
    return with_model({**data, "added_tokens": added}, vocab=vocab)


def swapped(first: int, second: int) -> Callable[[int], int]:
    """Return what swaps two ids."""
    return lambda row: {first: second, second: first}.get(row, row)


def gguf(data: Data, *, rows: int = 0, model: str = "gpt2", roles: Mapping[str, int] | None = None) -> Tokens:
    """Return the tokens of a GGUF file, as llama.cpp's converter lists them."""
    vocab, added = data["model"]["vocab"], data["added_tokens"]
    size = max(rows, 1 + max([*vocab.values(), *(token["id"] for token in added)]))
    texts, kinds = [f"[PAD{row}]" for row in range(size)], [UNUSED] * size
    for piece, row in vocab.items():
        texts[row], kinds[row] = (
            piece,
            BYTE if model == "llama" and Style(space="▁").fallback(piece) is not None else NORMAL,
        )
    for token in added:
        texts[token["id"]] = token["content"]
        kinds[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    if model == "bert":
        texts = [
            text if kind == CONTROL else text[2:] if text.startswith("##") else f"▁{text}"
            for text, kind in zip(texts, kinds, strict=True)
        ]
    pairs = (one.split(" ") if isinstance(one, str) else one for one in data["model"].get("merges", ()))
    # gguf's SpecialVocab has other letters for spaces in the pieces.
    merges = [" ".join(piece.replace(" ", chr(ord(" ") + 256)) for piece in one) for one in pairs]
    return Tokens(model, texts, kinds, roles or {}, TEMPLATE if model == "gpt2" else "", merges)


def unmarked(tokens: Tokens, token: str) -> Tokens:
    """Return tokens of which one has no ``▁``, as older converters of llama.cpp write names in brackets."""
    assert token in tokens.texts
    return replace(tokens, texts=[text.removeprefix("▁") if text == token else text for text in tokens.texts])


def slow(data: Data, **settings: object) -> Files:
    """Return the files that GPT-2 has without a tokenizer.json, the added tokens in a file of their own."""
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in data["model"]["merges"]]
    added = {token["content"]: token["id"] for token in data["added_tokens"]}
    settings = {"chat_template": TEMPLATE, "eos_token": "<|end|>", "additional_special_tokens": list(CHAT), **settings}
    whole = files(data)
    return {
        "vocab.json": json.dumps({piece: row for piece, row in data["model"]["vocab"].items() if piece not in added}),
        "merges.txt": "\n".join(["#version: 0.2", *merges]),
        "added_tokens.json": json.dumps(added),
        "tokenizer_config.json": json.dumps(settings),
        "config.json": whole["config.json"],
    }


def tiktoken(data: Data) -> Files:
    """Return the same as bytes by rank."""
    raw, added = Style(byte_level=True).raw, {token["content"]: token["id"] for token in data["added_tokens"]}
    vocab = {piece: row for piece, row in data["model"]["vocab"].items() if piece not in added}
    lines = [f"{base64.b64encode(raw(piece)).decode()} {row}" for piece, row in vocab.items()]
    decoder = {str(row): {"content": token, "special": True} for token, row in added.items()}
    settings = {"chat_template": TEMPLATE, "eos_token": "<|end|>", "added_tokens_decoder": decoder}
    return {"some.tiktoken": "\n".join(lines), "tokenizer_config.json": json.dumps(settings)}


def word_pieces(data: Data, **settings: object) -> Files:
    """Return the vocab.txt of a BERT."""
    pieces = sorted(data["model"]["vocab"], key=data["model"]["vocab"].get)
    return {"vocab.txt": "\n".join(pieces), "tokenizer_config.json": json.dumps(settings)}


class Pair(NamedTuple):
    """Two vocabularies and what is expected of them."""

    a: Files | Tokens
    b: Files | Tokens
    verdict: str
    finding: str = ""


def pairs() -> dict[str, Pair]:
    """Return the pairs by what was planted."""
    one, words, pieces = base(), base("wordpiece"), base("sentencepiece")
    plain = files(one)
    last = max(one["model"]["vocab"].values())
    size = last + 4 if last < one["added_tokens"][0]["id"] else last + 1
    merges = [*one["model"]["merges"]]
    merges[40], merges[60] = merges[60], merges[40]
    split = [two.split(" ") if isinstance(two, str) else two for two in one["model"]["merges"]]
    roomy = with_model(one, merges=[[piece.replace("Ġ", " ") for piece in two] for two in split])
    cased = {**words, "normalizer": {**words["normalizer"], "lowercase": False}}
    without = [pair for pair in pieces["model"]["vocab"].items() if Style(space="▁").fallback(pair[0]) is None]
    scored = [[piece, -float(row)] for piece, row in sorted(without, key=lambda pair: pair[1])]
    unigram = {**with_model(pieces, type="Unigram", vocab=scored), "added_tokens": pieces["added_tokens"]}
    unigram["model"] = {"type": "Unigram", "unk_id": 0, "vocab": scored}
    rescored = {**unigram, "model": {"type": "Unigram", "unk_id": 0, "vocab": [[p, s * 0.5 - 1] for p, s in scored]}}
    first = {piece: row for piece, row in one["model"]["vocab"].items() if row < 300}
    kept = {token["content"]: token["id"] for token in one["added_tokens"]}  # pieces, since others would follow the 300
    small = with_model(one, vocab=first | kept, merges=merges[:20])
    fim = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
    pair = Pair

    def cut(pattern: str) -> Files:
        step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return files({**one, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [step, bytes_alone]}})

    return {
        "nothing": pair(plain, plain, "same"),
        "padding as Qwen's": pair(files(one, rows=512), files(one, rows=640), "same", "row-counts"),
        "padding on one side": pair(plain, files(one, rows=512), "same", "padding-rows"),
        "a FIM tail": pair(plain, files(more(one, *fim)), "extended", "tokens-added"),
        "a FIM tail in padding": pair(
            files(one, rows=512), files(more(one, *fim), rows=512), "extended", "tokens-added"
        ),
        "an ordinary tail": pair(files(more(one, "zebra", "gnu", special=False)), plain, "extended", "tokens-missing"),
        "gemma against starcoder": pair(files(pieces), plain, "different", "ids-name-other-texts"),
        "reserved tokens of other names": pair(
            files(more(one, "<|reserved_special_token_0|>")), files(more(one, "[unused0]")), "same"
        ),
        "an offset": pair(plain, files(renumbered(one, lambda row: row + 7)), "moved", "tokens-moved"),
        "BPE against WordPiece": pair(plain, files(words), "different", "notation"),
        "one swapped pair": pair(plain, files(renumbered(one, swapped(300, 301))), "moved", "tokens-moved"),
        "two swapped bytes": pair(files(pieces), files(renumbered(pieces, swapped(20, 68))), "moved", "tokens-moved"),
        "a chat token renamed": pair(
            plain, files(renamed(one, "<|user|>", "<|human|>")), "moved", "ids-name-other-texts"
        ),
        "a chat template with another token": pair(
            plain, files(one, template=TEMPLATE.replace("<|user|>", "<|human|>")), "same ids", "chat-tokens"
        ),
        "a chat template in other words": pair(plain, files(one, template=TEMPLATE + "\n"), "same", "chat-template"),
        "a chat template on one side": pair(plain, files(one, template=""), "same", "chat-template-missing"),
        "without byte fallback": pair(
            files(pieces), files(with_model(pieces, vocab=dict(without), byte_fallback=False)), "extended", "options"
        ),
        "byte fallback turned off": pair(
            files(pieces), files(with_model(pieces, byte_fallback=False)), "same ids", "options"
        ),
        "merges in another order": pair(plain, files(with_model(one, merges=merges)), "same ids", "merges"),
        "other scores": pair(unigram_files(unigram), unigram_files(rescored), "same ids", "scores"),
        "cased": pair(files(words), files(cased), "same ids", "normaliser"),
        "cased by its settings": pair(
            word_pieces(words), word_pieces(words, do_lower_case=False), "same ids", "normaliser"
        ),
        "lower case before": pair(plain, files({**one, "normalizer": {"type": "Lowercase"}}), "same ids", "normaliser"),
        "another regular expression": pair(plain, cut(GPT4), "same ids", "pre-tokenizer"),
        "a prefix space": pair(
            plain,
            files({**one, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}),
            "same ids",
            "pre-tokenizer",
        ),
        "no tokenizer in B": pair(plain, {"config.json": plain["config.json"]}, "cannot tell"),
        "no tokenizer in A": pair({"config.json": plain["config.json"]}, plain, "cannot tell"),
        "added_tokens.json": pair(plain, slow(one), "same"),
        "another eos": pair(plain, files(one, eos_token="<|model|>"), "same ids", "special-role"),
        "another pad": pair(
            files(one, pad_token="<|end|>"), files(one, pad_token="<|user|>"), "same ids", "special-role"
        ),
        "a special token at another id": pair(
            plain,
            files(renumbered(one, swapped(one["added_tokens"][0]["id"], one["added_tokens"][1]["id"]))),
            "moved",
            "special-role",
        ),
        "the first tokens alone": pair(plain, files(small), "extended", "tokens-missing"),
        "another training text": pair(plain, files(base("other")), "different", "tokens-missing"),
        "a token of text twice": pair(files(more(one, "king")), files(more(one, "king")), "same"),
        "tokens beyond the table": pair(plain, files(one, rows=size - 2), "same ids", "tokens-beyond-table"),
        "GGUF": pair(plain, gguf(one), "same"),
        "GGUF without merges": pair(plain, replace(gguf(one), merges=()), "same", "merges-unstated"),
        "GGUF with other merges": pair(plain, gguf(with_model(one, merges=merges)), "same ids", "merges"),
        "GGUF of merges with spaces": pair(files(roomy), gguf(roomy), "same"),
        "GGUF, padded": pair(plain, gguf(one, rows=512), "same", "padding-rows"),
        "GGUF of WordPiece": pair(files(words), gguf(words, model="bert"), "same"),
        "GGUF of WordPiece, unmarked brackets": pair(
            files(renamed(words, "the", "[unused0]")),
            unmarked(gguf(renamed(words, "the", "[unused0]"), model="bert"), "▁[unused0]"),
            "same",
        ),
        "GGUF with byte fallback": pair(files(pieces), gguf(pieces, model="llama"), "same"),
        "GGUF with two swapped": pair(plain, gguf(renumbered(one, swapped(300, 301))), "moved", "tokens-moved"),
        "vocab.txt": pair(files(words), word_pieces(words), "same"),
        "tiktoken": pair(plain, tiktoken(one), "same"),
        "a list of merges in pairs": pair(plain, files(with_model(one, merges=[*map(" ".join, split)])), "same"),
        "GPT-2's split written out": pair(plain, cut(GPT2), "same"),
        "tokens added around a text": pair(
            files(words), files({**words, "post_processor": None}), "same ids", "tokens-around"
        ),
    }


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def unigram_files(data: Data) -> Files:
    """Return the files of a Unigram tokenizer."""
    return {"tokenizer.json": json.dumps(data), "config.json": json.dumps({"model_type": "t5"})}
