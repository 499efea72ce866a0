"""SentencePiece models: the pieces in the file, and the ids that a tokenizer's class gives them.

The file is a protobuf message, ``ModelProto`` of https://github.com/google/sentencepiece, and a piece's id its place in
it. Classes that came from fairseq and a few others begin with tokens of their own, leave out the first pieces or add
tokens at the end; what they do is that of transformers' ``convert_slow_tokenizer`` and of its slow tokenizers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import SourceError
from ..file_ranges import LocalRanges
from ..protobuf import MessageReader, Span
from .class_tokens import FAIRSEQ, numbers_anew
from .declared import Declared, completed, read_declared, tokenizer_class
from .small_files import LARGEST_FILE, MOST_VALUES
from .vocabulary import Style, Vocabulary

_PIECES, _TEXT, _SCORE, _KIND = 1, 1, 2, 3
"""Numbers of the fields: the pieces of the model, and text, score and kind of a piece."""

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_KINDS = range(_NORMAL, _BYTE + 1)
_MOST_FIELDS, _LONGEST_PIECE = 3_000_000, 2**16


@dataclass(frozen=True)
class Layout:
    """How a class numbers the pieces of its model.

    Attributes:
        head: What stands before the pieces: tokens, or roles such as ``bos_token``.
        skipped: Number of leading pieces that are left out.
        tail: What stands after them.
        roles: Special tokens by role, which the files beside the model may replace; those that the pieces lack follow.
    """

    head: tuple[str, ...] = ()
    skipped: int = 0
    tail: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)


_BERT: Mapping[str, str] = {
    "bos_token": "[CLS]",
    "eos_token": "[SEP]",
    "unk_token": "<unk>",
    "sep_token": "[SEP]",
    "pad_token": "<pad>",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
_FAIRSEQ = ("bos_token", "pad_token", "eos_token", "unk_token")
_ENDS: Mapping[str, str] = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
_PADDED: Mapping[str, str] = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_MBART = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)
_MBART50 = (
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN "
    "te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
_PLBART = "__java__ __python__ __en_XX__"
_PLBART_MULTI = f"{_PLBART} __javascript__ __php__ __ruby__ __go__"
_UNMASKED = {role: token for role, token in FAIRSEQ.items() if role != "mask_token"}

_XLNET: Mapping[str, str] = {**FAIRSEQ, "sep_token": "<sep>", "cls_token": "<cls>"}
_GEMMA: Mapping[str, str] = {"bos_token": "<bos>", "eos_token": "<eos>", "unk_token": "<unk>", "pad_token": "<pad>"}
_MADE_UP = tuple(f"<madeupword{number}>" for number in range(7))

LAYOUTS: Mapping[str, Layout] = {
    **dict.fromkeys(
        ("XLMRobertaTokenizer", "LayoutXLMTokenizer", "MLukeTokenizer"), Layout(_FAIRSEQ, 3, ("mask_token",), FAIRSEQ)
    ),
    "NllbTokenizer": Layout(_FAIRSEQ, 3, (), FAIRSEQ),
    "MBartTokenizer": Layout(_FAIRSEQ, 3, (*_MBART.split(), "mask_token"), FAIRSEQ),
    "MBart50Tokenizer": Layout(
        ("cls_token", "pad_token", "eos_token", "unk_token"),
        3,
        (*_MBART.split(), *_MBART50.split(), "mask_token"),
        {role: token for role, token in FAIRSEQ.items() if role != "bos_token"},
    ),
    "PLBartTokenizer": Layout(_FAIRSEQ, 3, (*_PLBART.split(), "mask_token"), FAIRSEQ),
    "XGLMTokenizer": Layout(_FAIRSEQ, 3, _MADE_UP, _UNMASKED),
    "SeamlessM4TTokenizer": Layout(("<pad>", "<unk>", "<s>", "</s>"), 3, (), _UNMASKED),
    "CamembertTokenizer": Layout(
        ("<s>NOTUSED", "pad_token", "</s>NOTUSED", "unk_token", "<unk>NOTUSED"), 1, ("mask_token",), FAIRSEQ
    ),
    "BarthezTokenizer": Layout(roles=FAIRSEQ),
    **dict.fromkeys(("T5Tokenizer", "UdopTokenizer", "VideoPrismTokenizer"), Layout(roles=_PADDED)),
    "PegasusTokenizer": Layout(skipped=2, roles=_PADDED),
    "DebertaV2Tokenizer": Layout(roles={**_BERT, "unk_token": "[UNK]", "pad_token": "[PAD]"}),
    **dict.fromkeys(("AlbertTokenizer", "FNetTokenizer", "RemBertTokenizer"), Layout(roles=_BERT)),
    "BigBirdTokenizer": Layout(roles={**_BERT, **_ENDS}),
    **dict.fromkeys(("XLNetTokenizer", "CpmTokenizer"), Layout(roles=_XLNET)),
    **dict.fromkeys(("LlamaTokenizer", "CodeLlamaTokenizer"), Layout(roles=_ENDS)),
    "GemmaTokenizer": Layout(roles={**_GEMMA, "mask_token": "<mask>"}),
    "ReformerTokenizer": Layout(roles={"eos_token": "</s>", "unk_token": "<unk>"}),
    "BertGenerationTokenizer": Layout(roles={**_ENDS, "pad_token": "<pad>", "sep_token": "<::::>"}),
    "GPTSw3Tokenizer": Layout(roles={**_ENDS, "eos_token": "<|endoftext|>", "pad_token": "<pad>"}),
    "SpeechT5Tokenizer": Layout(roles={**_ENDS, "pad_token": "<pad>"}),
    "SiglipTokenizer": Layout(roles={**_PADDED, "pad_token": "</s>"}),
    # Its code, published with the model, appends these to the pieces.
    "ChatGLMTokenizer": Layout(tail=("[MASK]", "[gMASK]", "[sMASK]", "sop", "eop")),
}

_NAMED_ALIKE = (
    *("Barthez", "Camembert", "ChatGLM", "FNet", "MBart", "PLBart", "Reformer", "RemBert", "Siglip", "SpeechT5"),
    *("Udop", "VideoPrism", "XGLM", "XLNet"),
)
"""Classes after whose names the model types are called."""

OF_TYPES: Mapping[str, str] = {
    **{name.lower(): f"{name}Tokenizer" for name in _NAMED_ALIKE},
    **dict.fromkeys(
        ("xlm-roberta", "xlm-roberta-xl", "xmod", "gte", "trocr", "metaclip_2", "jina_embeddings_v3", "altclip"),
        "XLMRobertaTokenizer",
    ),
    **dict.fromkeys(("t5", "longt5", "mt5", "switch_transformers", "musicgen", "musicgen_melody"), "T5Tokenizer"),
    **dict.fromkeys(("pegasus", "pegasus_x", "bigbird_pegasus"), "PegasusTokenizer"),
    **dict.fromkeys(("nllb", "nllb-moe"), "NllbTokenizer"),
    **dict.fromkeys(("seamless_m4t", "seamless_m4t_v2"), "SeamlessM4TTokenizer"),
    **dict.fromkeys(("albert", "yoso"), "AlbertTokenizer"),
    "bert-generation": "BertGenerationTokenizer",
    "big_bird": "BigBirdTokenizer",
    "code_llama": "CodeLlamaTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "gpt-sw3": "GPTSw3Tokenizer",
}
"""Classes by model type, for folders that state none; the pieces of all other types are numbered as they stand."""


def read_sentencepiece(folder: Path, file: str) -> Vocabulary:
    """Return the vocabulary of a SentencePiece model and of the files beside it.

    Args:
        folder: Folder of the tokenizer's files.
        file: Name of the model's file.

    Raises:
        SourceError: If a file violates its format.
    """
    declared = read_declared(folder)
    name = tokenizer_class(folder, declared, OF_TYPES)
    layout = _layout(name, declared)
    roles = {**layout.roles, **declared.parts}
    # A role that stands for a token is written as the token; transformers writes an absent one as "None".
    head, tail = ([(roles.get(one, one), _CONTROL) for one in ends] for ends in (layout.head, layout.tail))
    own = [(piece, kind) for piece, kind, _ in _pieces(folder / file)]
    pieces: dict[int, str] = {}
    literal: dict[int, str] = {}
    special, unused = set(), set()
    for row, (piece, kind) in enumerate([*head, *own[layout.skipped :], *tail]):
        pieces[row] = piece
        if kind in (_CONTROL, _UNKNOWN):
            special.add(piece)
        elif kind == _UNUSED:
            unused.add(row)
        if kind in (_CONTROL, _UNKNOWN) or (kind == _USER_DEFINED and "▁" not in piece):
            literal[row] = piece
    found = Vocabulary(file, pieces, Style(space="▁"), literal, frozenset(special), unused=frozenset(unused))
    return completed(found, declared, layout.roles, anew=name in LAYOUTS and numbers_anew(name))


@dataclass(frozen=True)
class Settings:
    """How a SentencePiece model changes and cuts a text.

    Attributes:
        model: ``Unigram``, ``BPE``, ``word`` or ``char``.
        scores: Scores of the pieces, by which a text is cut.
        kinds: Kinds of the pieces that are not ordinary.
        byte_fallback: Whether it was trained to write unknown characters in bytes.
        normaliser: What it does to a text before, each as name and value.
    """

    model: str
    scores: Mapping[str, float]
    kinds: Mapping[str, str]
    byte_fallback: bool
    normaliser: tuple[str, ...]


_TRAINER, _NORMALISER = 2, 3
_MODEL, _SUFFIX, _FALLBACK, _MAP = 3, 24, 35, 2
_FLAGS: Mapping[int, str] = {3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}
_MODELS: Mapping[int, str] = {1: "Unigram", 2: "BPE", 3: "word", 4: "char"}
_NAMES: Mapping[int, str] = {_UNKNOWN: "unknown", _CONTROL: "control", _USER_DEFINED: "user-defined", _UNUSED: "unused"}
_LONGEST_MAP = 2**24


def read_settings(path: Path) -> Settings:
    """Return how a SentencePiece model changes and cuts a text.

    Args:
        path: The model's file.

    Raises:
        SourceError: If it violates its format.
    """
    import hashlib  # 3.6 MB, for texts alone

    reader = MessageReader(LocalRanges.open(path), most_fields=_MOST_FIELDS)
    trainer: dict[int, int] = {}
    flags, changes = dict.fromkeys(_FLAGS, 1), b""
    specs: list[Span] = []
    pieces = list(_pieces(path, specs))
    for span in specs:
        for one in list(reader.fields(*reader.message(span))):
            if span.number == _TRAINER and one.number in (_MODEL, _SUFFIX, _FALLBACK):
                trainer[one.number] = reader.integer(one)
            elif span.number == _NORMALISER and one.number in _FLAGS:
                flags[one.number] = reader.integer(one)
            elif span.number == _NORMALISER and one.number == _MAP:
                changes = reader.bytes(one, most=_LONGEST_MAP)
    normaliser = [f"{name} {bool(flags[number])}" for number, name in _FLAGS.items()]
    normaliser += [f"spaces as suffixes {bool(trainer.get(_SUFFIX))}"]
    normaliser += [f"map of characters {hashlib.sha256(changes).hexdigest()[:12] if changes else 'none'}"]
    return Settings(
        _MODELS.get(trainer.get(_MODEL, 1), "Unigram"),
        {piece: score for piece, kind, score in pieces if kind == _NORMAL},
        {piece: _NAMES[kind] for piece, kind, _ in pieces if kind in _NAMES},
        bool(trainer.get(_FALLBACK)),
        tuple(normaliser),
    )


def _layout(name: str, declared: Declared) -> Layout:
    """Return the layout of a class, as its settings extend it."""
    layout = LAYOUTS.get(name, Layout())
    if name in ("T5Tokenizer", "VideoPrismTokenizer"):
        extra = _count(declared.settings, "extra_ids", 100)
        return Layout(tail=tuple(f"<extra_id_{number}>" for number in range(extra - 1, -1, -1)), roles=layout.roles)
    if name == "PLBartTokenizer" and declared.settings.get("language_codes") == "multi":
        return Layout(layout.head, layout.skipped, tuple(_PLBART_MULTI.split()), _UNMASKED)
    if name == "PegasusTokenizer":
        masks = [
            declared.parts.get(role, default if role not in declared.settings else "")
            for role, default in (("mask_token", "<mask_1>"), ("mask_token_sent", "<mask_2>"))
        ]
        unknown = (f"<unk_{number}>" for number in range(2, _count(declared.settings, "offset", 103)))
        distinct = (mask for mask in dict.fromkeys(masks) if mask)
        return Layout(("pad_token", "eos_token", *distinct, *unknown), 2, (), layout.roles)
    return layout


def _count(settings: Mapping[str, Any], name: str, absent: int) -> int:
    found = settings.get(name, absent)
    return found if type(found) is int and 0 <= found <= 10_000 else absent


def _pieces(path: Path, specs: list[Span] | None = None) -> Iterator[tuple[str, int, float]]:
    """Yield text, kind and score of each piece of a model; and collect where its other settings stand."""
    file = LocalRanges.open(path)
    if file.size > LARGEST_FILE:
        raise SourceError(f"{path.name} exceeds the limit of {LARGEST_FILE >> 20} MB for a tokenizer file")
    reader, count, at = MessageReader(file, most_fields=_MOST_FIELDS), 0, 0
    whole = reader.bytes(Span(0, 2, 0, 0, file.size), most=LARGEST_FILE)  # the reader keeps it, too
    while at < len(whole):
        usual = _usual(whole, at)
        if usual is not None:
            text, kind, score, at = usual
        else:
            span = next(reader.fields(at, file.size))
            at = span.stop
            if span.number != _PIECES:
                if specs is not None and span.number in (_TRAINER, _NORMALISER):
                    specs.append(span)
                continue
            text, kind, score = _any(reader, span)
        count += 1
        if count > MOST_VALUES:
            raise reader.fault(f"exceeds the limit of {MOST_VALUES:,} pieces for a tokenizer file")
        try:
            yield text.decode(), kind if kind in _KINDS else _NORMAL, score
        except UnicodeDecodeError:
            raise reader.fault(f"piece {count - 1} is not UTF-8; download the file again") from None
    if not count:
        raise reader.fault("has no pieces, so it is not a SentencePiece model; download it again")


def _usual(raw: bytes, at: int) -> tuple[bytes, int, float, int] | None:
    """Return text, kind and score of the piece at a byte, and the byte after it, if it is short and in the usual order.

    That is text, score, kind, of which the last or the last two may be left out; ``None`` for any other field.
    """
    if at > len(raw) - 4:
        return None
    field, size, inner, length = _HEAD(raw, at)
    end, stop = at + 4 + length, at + 2 + size
    if field != 0x0A or inner != 0x0A or size > 127 or length > 127 or not end <= stop <= len(raw):
        return None
    text, rest = raw[at + 4 : end], stop - end
    if not rest:
        return text, _NORMAL, 0.0, stop
    if rest not in (5, 7) or raw[end] != 0x15:
        return None
    score = _FLOAT(raw, end + 1)[0]
    if rest == 5:
        return text, _NORMAL, score, stop
    return (text, raw[end + 6], score, stop) if raw[end + 5] == 0x18 and raw[end + 6] < 128 else None


_HEAD, _FLOAT = struct.Struct("4B").unpack_from, struct.Struct("<f").unpack_from


def _any(reader: MessageReader, span: Span) -> tuple[bytes, int, float]:
    text, kind, score = b"", _NORMAL, 0.0
    reader.bytes(span, most=_LONGEST_PIECE)  # raises for any other field, and for one too long
    for one in reader.fields(*reader.message(span)):
        if one.number == _TEXT:
            text = reader.bytes(one, most=_LONGEST_PIECE)
        elif one.number == _SCORE:
            score = reader.floating(one)
        elif one.number == _KIND:
            kind = reader.integer(one)
    return text, kind, score
