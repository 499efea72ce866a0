"""The named corpus of hostile config.json and tokenizer files: each gives right tables or one line, cheaply.

Each case is a whole repository, made by a function, so that the large ones cost nothing until they are written.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors.numpy import save

WORDS = ("[UNK]", "the", "king", "saw", "queen", "a", "b", "[CLS]", "[SEP]", "[PAD]", "ab", "##s")
IDS = {word: row for row, word in enumerate(WORDS)}
TEXT = "the king saw the queen"
MARKER = "HFPOSEMB_HOSTILE_MARKER"
"""Environment variable that names the file which code of a repository would write."""

CODE = f"import os\nopen(os.environ['{MARKER}'], 'w').write('imported')\n".encode()
_DRAW = np.random.default_rng(11)
TOKEN, POSITION, NORM = (_DRAW.standard_normal(shape).astype(np.float32) for shape in ((12, 4), (16, 4), (4,)))
_NAMES = {
    "gpt2": ("wte.weight", "wpe.weight"),
    "bert": ("embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"),
    "opt": ("decoder.embed_tokens.weight", "decoder.embed_positions.weight"),
}


@dataclass(frozen=True)
class Case:
    """Name one hostile repository. ``refused`` are the steps that must end in one line, all others in right tables.

    Steps are ``extract``, ``labels``, ``position`` and ``inputs``; what follows a refused ``extract`` is not tried.
    ``offset`` is the first row of the stored position table that is a position.
    """

    name: str
    build: Callable[[], Mapping[str, bytes]]
    refused: tuple[str, ...] = ()
    offset: int = 0


def weights(kind: str = "gpt2") -> bytes:
    """Return the tensors of a model of a kind, whose first layer is fed token + position, normalised in BERT's."""
    token, position = _NAMES[kind]
    norm = {"embeddings.LayerNorm.weight": NORM, "embeddings.LayerNorm.bias": NORM} if kind == "bert" else {}
    return save({token: TOKEN, position: POSITION, **norm})


def tokenizer(**parts: Any) -> dict[str, Any]:
    """Return a tokenizer.json that cuts at spaces, some of its parts changed."""
    model = {"type": "WordLevel", "vocab": IDS, "unk_token": "[UNK]"}
    names = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    absent = dict.fromkeys(names)
    split = {"type": "Whitespace"}
    return {"version": "1.0", "added_tokens": [], **absent, "pre_tokenizer": split, "model": model, **parts}


PLAIN = json.dumps(tokenizer()).encode()


# --- config.json ------------------------------------------------------------------------------------------------------


def _configs() -> tuple[Case, ...]:
    found: list[Case] = []

    def add(
        name: str, text: str | bytes | Callable[[], str], *refused: str, kind: str = "gpt2", offset: int = 0
    ) -> None:
        def build() -> dict[str, bytes]:
            made = text() if callable(text) else text
            raw = made.encode("utf-8", "surrogatepass") if isinstance(made, str) else made
            files = {"config.json": raw, "model.safetensors": weights(kind), "tokenizer.json": PLAIN}
            return files | ({"modeling_x.py": CODE, "configuration_x.py": CODE} if "code" in name else {})

        found.append(Case(f"config-{name}", build, refused, offset))

    def stated(kind: str = "gpt2", **values: str) -> str:
        return "{" + ",".join(f'"{key}":{value}' for key, value in ({"model_type": f'"{kind}"'} | values).items()) + "}"

    add("num-labels-ten-million", stated(num_labels="10000000"))
    add("id2label-of-a-million", lambda: stated(id2label="{" + ",".join(f'"{i}":"x"' for i in range(250_000)) + "}"))
    add("vocab-size-two-to-62", stated(vocab_size=str(2**62), n_positions=str(2**62), n_embd=str(2**62)))
    add("numbers-negative", stated(vocab_size="-1", n_positions="-5", n_embd="-4", n_layer="-2"))
    add("numbers-nan", stated(vocab_size="NaN", n_positions="NaN", n_embd="Infinity", layer_norm_epsilon="-Infinity"))
    add("numbers-past-a-float", stated(vocab_size="1e999", n_positions="-1e999", n_embd="1e-999"))
    add("numbers-as-text", stated(vocab_size='"12"', n_positions='"sixteen"', n_embd='"4"'))
    add("number-of-5000-digits", stated(vocab_size="9" * 5000), "extract")
    add("number-of-4000-digits", stated(vocab_size="9" * 4000))
    add("nested-lists", "[" * 100_000 + "]" * 100_000, "extract")
    add("nested-objects", '{"a":' * 100_000 + "1" + "}" * 100_000, "extract")
    add("nested-in-a-field", stated(rope_scaling="[" * 100_000 + "]" * 100_000), "extract")
    add("five-megabytes-of-keys", lambda: stated(**{f"k{i}": "1" for i in range(380_000)}), "extract")
    add("five-megabytes-of-one-text", lambda: stated(x='"' + "x" * 4_900_000 + '"'))
    add("past-five-megabytes", lambda: stated(x='"' + "x" * 5_000_000 + '"'), "extract")
    add("duplicate-keys", '{"model_type":"opt","model_type":"gpt2","n_positions":1,"n_positions":16}')
    add("lone-surrogate", stated(x='"\\ud800"'), "extract")
    add("lone-surrogate-raw", stated(x='"\ud800"'), "extract")
    add("not-utf-8", b'{"model_type":"\xff"}', "extract")
    add("utf-16", stated().encode("utf-16"), "extract")
    add("a-list", "[]", "extract")
    add("a-text", '"gpt2"', "extract")
    add("null", "null", "extract")
    add("empty", "", "extract")
    add("html", "<!DOCTYPE html><script>alert(1)</script>", "extract")
    add("code-auto-map", stated(auto_map='{"AutoConfig":"configuration_x.C","AutoModel":"modeling_x.M"}'))
    add("code-trusted", stated(trust_remote_code="true", auto_map='{"AutoModel":"somebody/other--modeling_x.M"}'))
    add("code-as-model-type", '{"model_type":"modeling_x","auto_map":{"AutoConfig":"modeling_x.C"}}', "inputs")
    add("code-as-architecture", stated(architectures='["modeling_x.M","os.system","../../modeling_x"]'))
    add("code-as-attention", stated(_attn_implementation='"somebody/kernel:modeling_x"', attn_implementation='"x/y"'))
    add("model-type-a-path", '{"model_type":"../../../../etc/passwd"}', "inputs")
    add("model-type-a-list", '{"model_type":["gpt2"]}', "inputs")
    add("model-type-an-object", '{"model_type":{"gpt2":"gpt2"}}', "inputs")
    add("model-type-a-megabyte", lambda: '{"model_type":"' + "g" * 1_000_000 + '"}', "inputs")
    add("model-type-invisible", '{"model_type":"gpt2\\u202e\\u0000\\u001b[2J\\n"}', "inputs")
    add("rope-a-list", stated(rope_scaling="[1,2]"))
    add("rope-a-number", stated(rope_scaling="3", rope_theta='"x"', rope_parameters="[]"))
    add(
        "rope-of-itself",
        stated(rope_scaling='{"rope_type":{"rope_type":{"rope_type":[]}},"type":{}}', rope_theta="1e400"),
    )
    add("heads-zero", stated(num_attention_heads="0", n_head="0", hidden_size="0", head_dim="0", rope_theta="0"))
    add("padding-huge", stated("roberta", pad_token_id=str(2**62)), "inputs", kind="bert", offset=2)
    add("padding-negative", stated("roberta", pad_token_id="-1"), "inputs", kind="bert", offset=2)
    add("padding-true", stated("roberta", pad_token_id="true"), "inputs", kind="bert", offset=2)
    add("padding-the-last-row", stated("roberta", pad_token_id="15"), "inputs", kind="bert", offset=2)
    add("maximum-contradicts", stated("opt", max_position_embeddings="9999"), kind="opt", offset=2)
    add("maximum-two-less", stated("opt", max_position_embeddings="14"), kind="opt", offset=2)
    add("maximum-negative", stated("opt", max_position_embeddings="-14"), kind="opt", offset=2)
    add("maximum-a-fraction", stated("opt", max_position_embeddings="14.0"), kind="opt", offset=2)
    for name, eps, refused in (
        ("a-text", '"1e-5"', ("inputs",)),
        ("negative", "-1", ("inputs",)),
        ("infinite", "Infinity", ("inputs",)),
        ("nan", "NaN", ("inputs",)),
        ("null", "null", ("inputs",)),
        ("zero", "0", ()),
    ):
        add(f"eps-{name}", stated("bert", layer_norm_eps=eps), *refused, kind="bert")
    add("tied-as-text", stated(tie_word_embeddings='"false"'))
    add("quantized", stated(quantization_config='{"quant_method":"gptq","bits":-3,"modules":["modeling_x"]}'))
    add("attention-map", lambda: stated(attn_map=json.dumps({str(i): [i] * 9 for i in range(20_000)})))
    return tuple(found)


# --- tokenizers -------------------------------------------------------------------------------------------------------


def _sequence(kind: str, part: dict[str, Any], count: int) -> dict[str, Any]:
    return {"type": "Sequence", kind: [part] * count}


def _nested(open_: str, inner: str, close: str, depth: int) -> str:
    return PLAIN.decode().replace('"decoder": null', '"decoder": ' + open_ * depth + inner + close * depth)


def _added(count: int, content: Callable[[int], str] = "<{}>".format, first: int = 12) -> list[dict[str, Any]]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return [{"id": first + row, "content": content(row), **flags} for row in range(count)]


def _template(single: list[dict[str, Any]], ids: list[int]) -> dict[str, Any]:
    special = {"[CLS]": {"id": "[CLS]", "ids": ids, "tokens": ["[CLS]"] * len(ids)}}
    pair = [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": special}


_A = {"Sequence": {"id": "A", "type_id": 0}}
_CLS = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
_BACKTRACKS = r"(?:(?:[a-z ]|[a-u ]|(?:the|t|h|e)+)+)+(?=[0-9])(?<!x)"
_SLOW = r"(?:[a-z ]+){6}[0-9]"
"""Takes long enough for a few thousand of it, and not so long that the library itself gives up."""

_INVISIBLE = ("<script>alert(1)</script>", "a\u202eb", "\x00\x1b[2J", "=cmd|'/c calc'!A0", "\ud83d", "\u200b")


def _tokenizers() -> tuple[Case, ...]:
    found: list[Case] = []

    def add(name: str, build: Callable[[], Mapping[str, bytes]], *refused: str) -> None:
        def whole() -> dict[str, bytes]:
            return {"config.json": b'{"model_type":"gpt2"}', "model.safetensors": weights(), **build()}

        found.append(Case(f"tokenizer-{name}", whole, refused))

    def words(vocab: dict[str, int], unknown: str = "a") -> dict[str, Any]:
        return tokenizer(model={"type": "WordLevel", "vocab": vocab, "unk_token": unknown})

    def unigram(vocab: Any, unknown: int) -> dict[str, Any]:
        return tokenizer(model={"type": "Unigram", "unk_id": unknown, "vocab": vocab})

    def one(name: str, made: Any, *refused: str) -> None:
        def build() -> dict[str, bytes]:
            text = made() if callable(made) else made
            raw = text if isinstance(text, bytes) else text if isinstance(text, str) else json.dumps(text)
            return {"tokenizer.json": raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw}

        add(name, build, *refused)

    def bpe(vocab: Any, merges: Any, **more: Any) -> dict[str, Any]:
        return tokenizer(model={"type": "BPE", "vocab": vocab, "merges": merges, **more})

    def normal(part: Any) -> dict[str, Any]:
        return tokenizer(normalizer=part)

    def regex(pattern: str) -> dict[str, Any]:
        return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}

    # computes for ever
    one(
        "regex-backtracks",
        lambda: tokenizer(pre_tokenizer=_sequence("pretokenizers", regex(_BACKTRACKS), 400)),
        "inputs",
    )
    one(
        "normalizer-doubles",
        lambda: normal(_sequence("normalizers", {"type": "Replace", "pattern": {"String": "e"}, "content": "ee"}, 40)),
        "inputs",
    )
    one("normalizer-chain", lambda: normal(_sequence("normalizers", {"type": "NFD"}, 100_000)), "inputs")
    one(
        "normalizer-chain-of-regexes",
        lambda: normal(
            _sequence("normalizers", {"type": "Replace", "pattern": {"Regex": _SLOW}, "content": "x"}, 3_000)
        ),
        "inputs",
    )
    # takes all memory
    one("prepends-ten-megabytes", lambda: normal({"type": "Prepend", "prepend": "a " * 5_000_000}), "inputs")
    one(
        "template-multiplies",
        lambda: tokenizer(post_processor=_template([*[_CLS] * 200_000, _A], [7] * 50)),
        "labels",
        "inputs",
    )
    one("template-many-pieces", lambda: tokenizer(post_processor=_template([*[_CLS] * 9_000, _A], [7] * 200)), "inputs")
    one(
        "pads-to-the-moon",
        tokenizer(
            padding={"strategy": {"Fixed": 10**12}, "direction": "Right", "pad_to_multiple_of": None}
            | {"pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
        ),
    )
    # panics, or should
    for place, charsmap in enumerate((b"\0" * 10, b"\4\0\0\0" + b"\xff" * 8, b"\xff" * 8, b"garbage")):
        encoded = base64.b64encode(charsmap).decode()
        one(
            f"charsmap-{place}",
            lambda text=encoded: normal({"type": "Precompiled", "precompiled_charsmap": text}),
            "inputs",
        )
    one("charsmap-a-number", normal({"type": "Precompiled", "precompiled_charsmap": 3}), "inputs")
    one("chunks-of-nothing", tokenizer(pre_tokenizer={"type": "FixedLength", "length": 0}), "inputs")
    one(
        "template-without-its-token",
        tokenizer(post_processor=_template([_CLS, _A], [7]) | {"special_tokens": {}}),
        "inputs",
    )
    one("merges-that-do-not-exist", bpe({"t": 0, "h": 1}, [["t", "h"], ["zz", "q"]]), "inputs")
    one("merges-without-a-sum", bpe({"t": 0, "h": 1}, [["t", "h"]]), "inputs")
    one(
        "merge-prefix-past-the-piece",
        bpe({"t": 0, "h": 1, "th": 2}, [["t", "h"]], continuing_subword_prefix="zzzzzz"),
        "inputs",
    )
    one("merges-a-number", bpe({"t": 0}, 7), "inputs")
    one("unknown-token-missing", words({"x": 0}, "?"), "inputs")
    one(
        "byte-fallback-of-itself",
        bpe({"<0x74>": 0, "<0x3C>": 1}, [], byte_fallback=True, unk_token="<0x74>", fuse_unk=True),
    )
    one("byte-fallback-unknown-missing", bpe({"<0x74>": 0}, [], byte_fallback=True, unk_token="<0xZZ>"), "inputs")
    one("dropout-of-seven", bpe({"t": 0}, [], dropout=7.5), "inputs")
    one("unigram-unknown-past-the-end", unigram([["a", 0]], 9), "inputs")
    one("model-nobody-knows", tokenizer(model={"type": "modeling_x", "vocab": IDS}), "inputs")
    one("ids-past-32-bits", words({"a": 2**32}), "labels", "inputs")
    one("ids-past-31-bits", words({"a": 2**31}), "labels", "inputs")
    one("ids-negative", words({"a": -1}), "labels", "inputs")
    one("ids-without-a-row", words({"the": 2**31 - 1, "?": 0}, "?"), "inputs")
    one(
        "special-ids-without-a-row",
        tokenizer(
            post_processor={"type": "RobertaProcessing", "sep": ["x", 4_000_000_000], "cls": ["y", 2**32 - 1]}
            | {"trim_offsets": True, "add_prefix_space": True}
        ),
        "inputs",
    )
    one("ids-twice", words({"a": 0, "b": 0}))
    # large files
    one("64-megabytes-of-space", lambda: b" " * (64 * 2**20 - 2) + b"{}", "labels", "inputs")
    one("64-megabytes-of-one-text", lambda: b'{"x":"' + b"x" * (64 * 2**20 - 8) + b'"}', "labels", "inputs")
    one("39-megabytes-of-space", lambda: b"\n " * (39 * 2**19) + PLAIN)
    one("39-megabytes-of-one-text", lambda: b'{"model":{"vocab":{"' + b"x" * (39 * 2**20) + b'":1}}}', "inputs")
    one("past-64-megabytes", lambda: b" " * (64 * 2**20) + PLAIN, "labels", "inputs")
    one("three-million-values", lambda: b'{"x":[' + b"1," * 3_000_000 + b"1]}", "labels", "inputs")
    one("three-million-objects", lambda: b'{"x":[' + b"{}," * 3_000_000 + b"1]}", "labels", "inputs")
    one("merges-never-closed", lambda: b'{"x":[' + b'"merges":[],' * 3_300_000, "labels", "inputs")
    one("merges-of-a-million", lambda: bpe(IDS, [["t", "h"]] * 1_000_000), "inputs")
    one("a-megabyte-token", lambda: words(IDS | {"x" * 10**6: 11}))
    one("ten-megabytes-of-emoji", lambda: f'{{"model":{{"vocab":{{"{"🙂" * 2_500_000}":1}}}}}}', "inputs")
    one("twenty-megabytes-of-emoji", lambda: f'{{"model":{{"vocab":{{"{"🙂" * 5_000_000}":1}}}}}}', "labels", "inputs")
    one("added-tokens-a-million", lambda: tokenizer(added_tokens=_added(400_000)), "labels", "inputs")
    one("added-tokens-ten-thousand", lambda: tokenizer(added_tokens=_added(10_000)))
    one("added-tokens-invisible", tokenizer(added_tokens=_added(6, _INVISIBLE.__getitem__, first=6)), "inputs")
    one("added-token-empty", tokenizer(added_tokens=_added(1, lambda _: "")))
    # shapes
    one("decoders-nested-50", _nested('{"type":"Sequence","decoders":[', '{"type":"Fuse"}', "]}", 50))
    one("decoders-nested-100", _nested('{"type":"Sequence","decoders":[', "", "]}", 100), "inputs")
    one(
        "decoders-nested-100000",
        lambda: _nested('{"type":"Sequence","decoders":[', "", "]}", 100_000),
        "labels",
        "inputs",
    )
    one("a-list", "[]", "labels", "inputs")
    one("code", tokenizer(auto_map={"AutoTokenizer": ["modeling_x.T", None]}), "inputs")
    # files without a tokenizer.json
    add("vocab-txt-not-utf-8", lambda: {"vocab.txt": b"a\n\xff\n"}, "labels", "inputs")
    add("vocab-txt-of-lines", lambda: {"vocab.txt": b"\n" * (39 * 2**20)}, "labels", "inputs")
    add(
        "vocab-txt-settings-hostile",
        lambda: {"vocab.txt": b"[UNK]\n[CLS]\n[SEP]\n##a\n", "tokenizer_config.json": b'{"do_lower_case":"../x"}'},
    )
    add(
        "vocab-json-merges-missing",
        lambda: {"vocab.json": json.dumps({"\u0120a": 0, "b": 1}).encode(), "merges.txt": b"\xc4\xa0 nowhere\n"},
        "inputs",
    )
    add(
        "vocab-json-merges-of-lines",
        lambda: {"vocab.json": json.dumps({"\u0120a": 0, "b": 1}).encode(), "merges.txt": b"\n" * (39 * 2**20)},
        "inputs",
    )
    code = {"vocab.json": json.dumps(IDS).encode(), "modeling_x.py": CODE, "tokenization_x.py": CODE}
    named = {"auto_map": {"AutoTokenizer": ["tokenization_x.T", None]}, "tokenizer_class": "T"}
    add("vocab-json-code", lambda: code | {"tokenizer_config.json": json.dumps(named).encode()}, "inputs")
    return tuple(found)


CONFIGS = _configs()
TOKENIZERS = _tokenizers()
