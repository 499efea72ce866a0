"""The files that state a vocabulary: which one of a folder is read, and how.

Pieces of files of bytes by rank (tiktoken's, and tekken.json of Mistral) are written as tokenizer.json has them, with a
character for each byte, as transformers converts them.

tokenizer.json states nearly everything itself; tokens that were added later may stand beside it. Every other file is
completed by the small files beside it, which declare added and special tokens. The Rust tokenizer, which panics on some
files, is used only to tokenise texts, in ``loading``.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import SourceError
from ...tables.table import Labels
from ..strict_json import foreign
from .class_tokens import class_tokens
from .declared import SETTINGS, completed, listed_tokens, numbered, read_declared, special_by_name
from .sentencepiece import read_sentencepiece
from .small_files import (
    LARGEST_ID,
    NoVocabularyError,
    expect,
    given,
    is_regular_file,
    read_lines,
    read_tokenizer_json,
    token_id,
)
from .vocabulary import Style, Vocabulary, as_characters, style_by_share

RANKED = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]{1,9}\r?(?:\n|\Z)")
"""The first line of a tiktoken file: bytes in base64 and their rank."""

_EXTRAS = tuple(f"<|extra_{number}|>" for number in range(205))
_RESERVED, _LLAMA_RESERVED = "<|reserved_token_{}|>", 256
_MOST_RESERVED = 1_000_000
_PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "qwen.tiktoken": ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *_EXTRAS),
    "hy.tiktoken": ("<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>", *_EXTRAS),
}
"""Special tokens by file, which follow the ranks and are stated only in the code that is published with the models."""

_LLAMA3, _LLAMA3_RANKS = {0: "<|begin_of_text|>", 1: "<|end_of_text|>"}, 128_000
_LLAMA3 |= {6: "<|start_header_id|>", 7: "<|end_header_id|>", 9: "<|eot_id|>"}
"""Special tokens of Llama 3 after the ranks, where its versions agree; they differ in the reserved ones between."""

_TEKKEN = (
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] "
    "[IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]"
)
"""Special tokens of the first files named tekken.json, which do not list them."""


def read_tiktoken(folder: Path, file: str) -> Vocabulary:
    """Return the vocabulary of a tiktoken file and of the files beside it.

    Ids between the last rank and the last added token are reserved, as in transformers' ``TikTokenConverter``.

    Args:
        folder: Folder of the tokenizer's files.
        file: Name of the file.

    Raises:
        SourceError: If a file violates its format.
    """
    pieces: dict[int, str] = {}
    for number, line in enumerate(read_lines(folder / file)):
        text, _, rank = line.partition(" ")
        if not line.strip():
            continue
        if not re.fullmatch(r"[0-9]{1,9}", rank.strip()):
            raise SourceError(f"line {number + 1} of {file} must hold bytes in base64 and a rank; found {line!r:.60}")
        pieces[int(rank)] = _piece(text, f"line {number + 1} of {file}")
    declared = read_declared(folder)
    first = max(pieces, default=-1) + 1
    literal = dict(enumerate(_PUBLISHED.get(file, ()), first))
    if first == _LLAMA3_RANKS and not declared.literal:
        literal |= {first + place: _RESERVED.format(first + place) for place in range(_LLAMA_RESERVED)}
        literal |= {first + place: token for place, token in _LLAMA3.items()}
    last = max((row for row in declared.literal if row < first + _MOST_RESERVED), default=-1)
    literal |= {row: _RESERVED.format(row) for row in range(first, last) if row not in literal}
    stated = {*literal.values(), *declared.literal.values()}
    literal |= enumerate((one for one in declared.more if one not in stated), max((*literal, last, first - 1)) + 1)
    found = Vocabulary(file, pieces, Style(byte_level=True), literal, frozenset(literal.values()))
    return completed(found, declared, ordinary=True)


def read_tekken(folder: Path, file: str) -> Vocabulary:
    """Return the vocabulary of Mistral's tekken.json.

    Args:
        folder: Folder of the tokenizer's files.
        file: Name of the file.

    Raises:
        SourceError: If the file violates its format.
    """
    data = read_tokenizer_json(folder / file)
    config = expect(given(data, "config", {}), dict, f"config in {file}")
    listed: Any = data.get("special_tokens")
    if listed is None:
        literal = dict(enumerate(_TEKKEN.split()))
    else:
        literal = {}
        for one in expect(listed, list, f"special_tokens in {file}"):
            named = f"a special token in {file}"
            token = expect(expect(one, dict, named).get("token_str"), str, f"token_str of {named}")
            literal[token_id(one.get("rank"), f"{token:.20} in {file}")] = token
    room = token_id(given(config, "default_num_special_tokens", len(literal)), "the last special token")
    if room > _MOST_RESERVED:
        raise SourceError(f"{file} states {room:,} special tokens; download it again")
    literal |= {row: f"<SPECIAL_{row}>" for row in range(room) if row not in literal}
    ranked = expect(data.get("vocab"), list, f"vocab in {file}")
    size = config.get("default_vocab_size")
    most = len(ranked) if size is None else max(token_id(size, "the last token") - room, 0)
    pieces = {}
    for rank, one in enumerate(ranked[:most]):
        named = f"token {rank} in {file}"
        pieces[room + rank] = _piece(expect(expect(one, dict, named).get("token_bytes"), str, named), named)
    return Vocabulary(file, pieces, Style(byte_level=True), literal, frozenset(literal.values()))


def _piece(text: str, what: str) -> str:
    try:
        # Padding alone is no bytes: Whisper's multilingual.tiktoken ends with "= 50256".
        return as_characters(base64.b64decode(text if text.strip("=") else "", validate=True))
    except (binascii.Error, ValueError) as error:
        raise SourceError(f"{what} must hold bytes in base64; found {json.dumps(text)[:60]}") from error


def read_labels(folder: Path, *, rows: int, target: bool = False) -> Labels | None:
    """Return the labels of a token table from the tokenizer files in ``folder``.

    ``texts`` are readable and complete. Byte-level pieces are decoded (``Ġking`` becomes `` king``), and bytes that
    form no character are written ``<0xE2 0x80>``. SentencePiece's ``▁king`` becomes `` king``, ``##ing`` stays,
    ``king</w>`` becomes ``king``. Control, bidi and other invisible characters are replaced by their names. HTML is not
    escaped. ``pieces`` are as stored, except for lone surrogates, which no file can contain and which are replaced by
    their names.

    ``classes`` holds the first of these that applies:

    - *padding*: no token has this id;
    - *unused*: so named (``[unused12]``, ``<|reserved_special_token_3|>``), even if declared special;
    - *special*: declared so in tokenizer.json (including T5's ``<extra_id_0>``); if no token is declared so, or there
      is only a bare vocabulary, a name such as ``<s>`` suffices;
    - *other script*: contains a letter or vowel sign that is not Latin;
    - *has a digit*;
    - *continuation*: starts with ``##``; or starts with a letter and no space, if spaces are marked; or lacks ``</w>``,
      if ends of words are marked; or is part of a character;
    - *word start*: everything else, including punctuation. ``</w>`` marks an end, but most such pieces are whole words.

    Args:
        folder: Folder of the tokenizer's files.
        rows: Number of rows of the table.
        target: Whether the labels are those of a decoder with a vocabulary of its own, which another file states.

    Returns:
        The labels; ``None`` if the folder has no tokenizer files.

    Raises:
        SourceError: If a file violates its format.
        NoVocabularyError: If a file that is named as a vocabulary holds something else, and no other file states one.
    """
    if target:
        file = next((one for one in _TARGETS if is_regular_file(folder / one)), None)
        vocabulary = None if file is None else _from_vocab_json(folder, file)
    else:
        vocabulary = read_vocabulary(folder)
    return None if vocabulary is None else vocabulary.labels(rows)


def read_vocabulary(folder: Path, file: str | None = None) -> Vocabulary | None:
    """Return the vocabulary from the tokenizer files in ``folder``, or from one of them; ``None`` if there are none.

    A file of a vocabulary's name that holds something else counts only if no other file states one.

    Raises ``SourceError`` for a file that violates its format, ``NoVocabularyError`` for one that holds something else.
    """
    names = _regular_files(folder) if file is None else [file]
    other: NoVocabularyError | None = None
    while (file := vocabulary_file(names)) is not None:
        read = _READERS.get(file, read_tiktoken if file.endswith(".tiktoken") else _from_model)
        try:
            return read(folder, file)
        except NoVocabularyError as error:
            other = other or error
            names = [name for name in names if name != file]
    if other is not None:
        raise other
    return None


def of_bytes(tokenizer_class: object, settings: Mapping[str, Any]) -> Vocabulary | None:
    """Return the vocabulary of a tokenizer that needs no file, since its tokens are bytes; ``None`` for any other.

    Args:
        tokenizer_class: Class of the tokenizer.
        settings: Content of tokenizer_config.json, which lists the tokens that are no bytes, or says how many follow.
    """
    special = _OF_BYTES.get(tokenizer_class) if isinstance(tokenizer_class, str) else None
    if special is None:
        return None
    before, extra = special
    extra = count if type(count := settings.get("extra_ids", extra)) is int and 0 <= count <= 10_000 else extra
    pieces = {len(before) + byte: as_characters(bytes([byte])) for byte in range(256)}
    after = enumerate((f"<extra_id_{number}>" for number in range(extra)), len(before) + 256)
    literal = listed_tokens(settings) or dict(enumerate(before)) | dict(after)
    return Vocabulary(str(tokenizer_class), pieces, Style(byte_level=True), literal, frozenset(literal.values()))


def has_vocabulary(folder: Path) -> bool:
    """Return whether ``folder`` has a file from which ``read_labels`` can read labels."""
    return vocabulary_of(folder) is not None


def vocabulary_of(folder: Path) -> str | None:
    """Return the name of the file in ``folder`` that states the vocabulary; ``None`` if no file does."""
    return vocabulary_file(_regular_files(folder))


def vocabulary_file(names: Collection[str]) -> str | None:
    """Return the file of a folder that states the vocabulary; ``None`` if no file does.

    Args:
        names: Names of the files in the folder.

    >>> from hfposemb.checkpoints.tokenizers.vocabulary_files import vocabulary_file
    >>> vocabulary_file(["config.json", "tokenizer.model", "tokenizer_config.json"])
    'tokenizer.model'
    """
    known = next((file for file in _READERS if file in names), None)
    if known is not None:
        return known
    named = [file for file in names if _NAMED.fullmatch(file)]
    return named[0] if len(named) == 1 else None


def needed_files(names: Collection[str]) -> tuple[str, ...]:
    """Return the files of a folder that its vocabulary and its tokenizer are read from; empty if none states it.

    Args:
        names: Names of the files in the folder.

    >>> from hfposemb.checkpoints.tokenizers.vocabulary_files import needed_files
    >>> needed_files(["tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json"])
    ('tokenizer.json', 'tokenizer_config.json')
    """
    file = vocabulary_file(names)
    if file is None:
        return ()
    beside = _BESIDE.get(file, (*SETTINGS, "config.json", *_MERGES))
    return (file, *(one for one in (*beside, *_TARGETS) if one in names))


def _regular_files(folder: Path) -> list[str]:
    """Return the names of the regular files of a folder. Raises ``SourceError`` if it cannot be listed."""
    try:
        known = [name for name in os.listdir(folder) if name in _READERS or _NAMED.fullmatch(name)]
        return sorted(name for name in known if is_regular_file(folder / name))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SourceError(f"{folder} cannot be read: {error.strerror}; check the folder") from error


def _by_id(vocabulary: Any, what: str) -> dict[int, str]:
    """Return the pieces by id from a vocabulary of the form {piece: id}, [[piece, score], …] or [piece, …]."""
    if isinstance(vocabulary, dict):
        ids = vocabulary.values()
        if ids and set(map(type, ids)) == {int} and 0 <= min(ids) <= max(ids) <= LARGEST_ID:
            return dict(zip(ids, vocabulary, strict=True))
        return {token_id(row, piece, file=what): piece for piece, row in vocabulary.items()}
    pieces = {}
    for row, entry in enumerate(expect(vocabulary, list, what)):
        piece = entry[0] if isinstance(entry, list) and entry else entry
        pieces[row] = expect(piece, str, f"piece {row} of {what}")
    return pieces


def _components(found: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a normalizer, pre-tokenizer or decoder, including those of a Sequence."""
    waiting = [found]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            for name in ("normalizers", "pretokenizers", "decoders"):
                if isinstance(inner := part.get(name), list):
                    waiting.extend(inner)


def _style_of(data: Mapping[str, Any], model: Mapping[str, Any]) -> Style:
    byte_level, space, suffix = False, "", ""
    for part in (part for name in ("normalizer", "pre_tokenizer", "decoder") for part in _components(data.get(name))):
        kind, pattern = part.get("type"), part.get("pattern")
        byte_level |= kind == "ByteLevel"
        if kind == "Metaspace":
            space = _sign(part.get("replacement", "▁"))
        elif kind == "Replace" and part.get("content") == " " and isinstance(pattern, dict):
            # Llama's files have no Metaspace; their decoder replaces the mark instead.
            sign = _sign(pattern.get("String"))
            space = space or (sign if sign == "▁" else "")
        elif kind == "BPEDecoder":
            suffix = _sign(part.get("suffix", "</w>"))
    return Style(
        byte_level=byte_level,
        space=space,
        prefix=_sign(model.get("continuing_subword_prefix")),
        suffix=_sign(model.get("end_of_word_suffix")) or suffix,
    )


def _sign(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= 16 else ""


def _from_tokenizer_json(folder: Path, file: str) -> Vocabulary:
    data = read_tokenizer_json(folder / "tokenizer.json")
    model = expect(data.get("model"), dict, "model in tokenizer.json")
    added, special = [], set()
    for token in expect(given(data, "added_tokens", []), list, "added_tokens in tokenizer.json"):
        content = expect(expect(token, dict, "an added token").get("content"), str, "content of an added token")
        token_id(token.get("id"), content, file=file)  # raises if it is none; the library numbers the tokens anew
        added.append(content)
        if token.get("special") is True:
            special.add(content)
    pieces = _by_id(model.get("vocab"), "vocab in tokenizer.json")
    special = special or {*special_by_name(pieces)}
    # Tokens that were added later may be declared beside it only.
    declared = read_declared(folder, listed_alone=True)
    later = [token for _, token in sorted(declared.literal.items())]
    added += [*later, *declared.by_role()]
    own = model["vocab"] if isinstance(model["vocab"], dict) else _ids_of({*added}, pieces)
    literal = numbered(added, own, len(model["vocab"]))
    special |= declared.special & {token for row, token in literal.items() if row not in pieces}
    return Vocabulary("tokenizer.json", pieces, _style_of(data, model), literal, frozenset(special))


def _ids_of(tokens: Collection[str], pieces: Mapping[int, str]) -> dict[str, int]:
    """Return the ids of the tokens that are pieces."""
    return {piece: row for row, piece in pieces.items() if piece in tokens}


def _from_vocab_txt(folder: Path, file: str) -> Vocabulary:
    declared, lines = read_declared(folder), read_lines(folder / file)
    if is_regular_file(folder / _FAIRSEQ_MERGES):
        return completed(Vocabulary(file, _of_dictionary(lines, file), Style()), declared, _MASK)
    pieces = dict(enumerate(lines))
    prefix = "##" if any(piece.startswith("##") for piece in pieces.values()) else ""
    tokens, anew = class_tokens(folder, declared, file)
    return completed(Vocabulary(file, pieces, Style(prefix=prefix)), declared, tokens, anew=anew)


def _from_vocab_json(folder: Path, file: str) -> Vocabulary:
    declared, stated = read_declared(folder), read_tokenizer_json(folder / file)
    # A vocabulary for each language, as of Wav2Vec2's models of a thousand, is read for the one of the stored head.
    several = bool(stated) and all(isinstance(one, dict) and _numbers(one) for one in stated.values())
    if not several and not _numbers(stated):
        raise NoVocabularyError(f"{file} is no vocabulary: no text has a whole number as its id there")
    if several:
        language = declared.settings.get("target_lang")
        if not isinstance(language, str) or language not in stated:
            told = f"{file} states a vocabulary for each of {len(stated):,} languages"
            raise SourceError(f"{told}, but tokenizer_config.json none of them as target_lang; write it there")
        stated = stated[language]
    pieces = _by_id(stated, file)
    tokens, anew = class_tokens(folder, declared, file)
    return completed(Vocabulary(file, pieces, style_by_share(pieces.values())), declared, tokens, anew=anew)


def _numbers(stated: Mapping[str, Any]) -> bool:
    """Return whether a JSON object gives any text a number, if it has texts."""
    return not stated or any(type(row) is int for row in stated.values())


def _from_words(folder: Path, file: str) -> Vocabulary:
    """Read the words of a mean of word vectors, as sentence-transformers saves GloVe's."""
    return Vocabulary(file, _by_id(read_tokenizer_json(folder / file).get("vocab"), f"vocab in {file}"), Style())


def _from_model(folder: Path, file: str) -> Vocabulary:
    """Read a file that is named as SentencePiece's models are, as which Llama 3 and others publish tiktoken's text."""
    with (folder / file).open("rb") as opened:
        start = opened.read(512)
    if not start.startswith(b"\n") and (kind := foreign(start[:8])):
        raise SourceError(f"{file} {kind}")
    return (read_tiktoken if RANKED.match(start) else read_sentencepiece)(folder, file)


def _from_dictionary(folder: Path, file: str) -> Vocabulary:
    declared, pieces = read_declared(folder), _of_dictionary(read_lines(folder / file), file)
    if is_regular_file(folder / _GPT2_IDS) and all(piece.isdecimal() for row, piece in pieces.items() if row > 3):
        # fairseq numbers GPT-2's pieces anew, by how often they occur.
        texts = _by_id(read_tokenizer_json(folder / _GPT2_IDS), _GPT2_IDS)
        pieces = {row: texts.get(int(piece), piece) if row > 3 else piece for row, piece in pieces.items()}
    return completed(Vocabulary(file, pieces, style_by_share(pieces.values())), declared, _MASK)


def _of_dictionary(lines: list[str], file: str) -> dict[int, str]:
    """Return the pieces of a fairseq dictionary: four special tokens, then one on each line with its count."""
    pieces = dict(enumerate(("<s>", "<pad>", "</s>", "<unk>")))
    for line in lines:
        piece, _, count = line.strip().rpartition(" ")
        if not piece or not count.isdecimal():
            raise SourceError(f"every line of {file} must hold a piece and its count; found {line!r:.60}")
        pieces[len(pieces)] = piece
    return pieces


def _from_rwkv(folder: Path, file: str) -> Vocabulary:
    """Read the vocabulary of RWKV's World models: on each line a row, a literal of Python, and its size in bytes."""
    pieces = {}
    for number, line in enumerate(read_lines(folder / file)):
        if (found := _LITERAL.fullmatch(line.rstrip())) is None:
            told = "a row, a text or bytes as Python writes them, and their number"
            raise SourceError(f"line {number + 1} of {file} must hold {told}; found {line!r:.60}")
        try:
            text = ast.literal_eval(found["text"])
            raw = text.encode() if isinstance(text, str) else text
        except (SyntaxError, ValueError) as error:  # an escape that is cut, bytes beyond ASCII, or half a character
            raise SourceError(f"line {number + 1} of {file} is no text: {line!r:.60}") from error
        pieces[token_id(int(found["row"]), f"line {number + 1} of {file}")] = as_characters(raw)
    literal = {} if 0 in pieces else {0: "<|endoftext|>"}
    read = Vocabulary(file, pieces, Style(byte_level=True), literal, frozenset(literal.values()))
    return completed(read, read_declared(folder), ordinary=True)


_OF_BYTES: Mapping[str, tuple[Sequence[str], int]] = {
    "ByT5Tokenizer": (("<pad>", "</s>", "<unk>"), 125),
    "PerceiverTokenizer": (("[PAD]", "[BOS]", "[EOS]", "[MASK]", "[CLS]", "[SEP]"), 0),
}
"""Special tokens before the bytes, and the number of extra ones after them, by class."""

_LITERAL = re.compile(r"""(?P<row>[0-9]{1,9}) (?P<text>b?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")) [0-9]{1,6}""")

_MASK: Mapping[str, str] = {"mask_token": "<mask>"}
"""What follows the pieces of a fairseq dictionary."""

_FAIRSEQ_MERGES, _GPT2_IDS = "bpe.codes", "encoder.json"
_MERGES = ("merges.txt", _FAIRSEQ_MERGES, _GPT2_IDS)
_TARGETS = ("target_vocab.json", "vocab-tgt.json")
"""Vocabularies of decoders that have their own, of Marian and of fairseq's translation models."""

_MODELS = ("sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model", "sentencepiece.model")
_WORDS = ("whitespacetokenizer_config.json", "phrasetokenizer_config.json")
_RANKS = ("tiktoken.model", "qwen.tiktoken", "hy.tiktoken")

_READERS: Mapping[str, Callable[[Path, str], Vocabulary]] = {
    "tokenizer.json": _from_tokenizer_json,
    "tekken.json": read_tekken,
    "vocab.txt": _from_vocab_txt,
    "vocab.json": _from_vocab_json,
    "vocab-src.json": _from_vocab_json,
    "dict.txt": _from_dictionary,
    "rwkv_vocab_v20230424.txt": _from_rwkv,
    "prophetnet.tokenizer": _from_vocab_txt,
    _GPT2_IDS: _from_vocab_json,
    **dict.fromkeys(_WORDS, _from_words),
    **dict.fromkeys(_MODELS, _from_model),
    **dict.fromkeys(_RANKS, read_tiktoken),
}
"""Readers by file, the file first that states most."""

_NAMED = re.compile(
    r"(?=.*(?:tok|spm|spiece|piece|bpe|vocab|text)).{1,80}\.model(?:\.v[0-9]{1,3})?(?:m[0-9])?|.{1,80}\.(?:spm|tiktoken)"
    r"|tokenizer\.model\.v[0-9]{1,3}(?:m[0-9])?",
    re.IGNORECASE,
)
"""Further names of SentencePiece models and tiktoken files, which are read if a folder has only one of them."""
_BESIDE: Mapping[str, tuple[str, ...]] = {"tokenizer.json": SETTINGS, "tekken.json": ()}
"""What is read beside a file that states special tokens itself."""
