"""Labels of a token table's rows, read from the tokenizer files of a checkpoint.

Labels come from the text of tokenizer.json, else vocab.txt, else vocab.json. The Rust tokenizer, which panics on some
files, is used only to tokenise texts, in ``tokenizers.load_tokenizer``.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ...errors import SourceError
from ...tables.table import TOKEN_CLASSES, Labels
from ...text import named

LARGEST_FILE = 40 * 2**20
"""Size limit of a tokenizer file in bytes; Gemma's has 33 MB."""


MOST_VALUES = 1_000_000
"""Limit for the values in a JSON file, merges excluded: 40 MB of short ones would take gigabytes. mT5's has 760,000."""


LARGEST_TEXT = 48 * 2**20
"""Limit for the bytes of a file's text in memory, without merges and indentation.

Each character takes four bytes if the text has an emoji.
"""


LARGEST_ID = 2**31 - 1
"""Largest token id; the Rust tokenizer's ids are 32 bits wide."""


_START, _CONTINUATION, _DIGIT, _OTHER, _UNUSED, _SPECIAL, _PADDING = range(len(TOKEN_CLASSES))


def read_labels(folder: Path, *, rows: int) -> Labels | None:
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

    Returns:
        The labels; ``None`` if the folder has no tokenizer files.

    Raises:
        SourceError: If a file violates its format.
    """
    vocabulary = read_vocabulary(folder)
    return None if vocabulary is None else vocabulary.labels(rows)


SURROGATES = re.compile("[\ud800-\udfff]")


class _ByteMap(dict[int, str]):
    """Map from characters that represent bytes to these bytes, as Latin-1; other characters map to U+FFFF."""

    def __missing__(self, code: int) -> str:
        return "\uffff"


def _byte_map() -> _ByteMap:
    """Return the inverse of GPT-2's ``bytes_to_unicode`` (Radford et al. 2019, encoder.py)."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    codes = visible + [256 + place for place in range(len(hidden))]
    return _ByteMap({code: chr(byte) for code, byte in zip(codes, visible + hidden, strict=True)})


_BYTES = _byte_map()
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_NO_CHARACTER = "\ufffd"
_LOOSE = re.compile("[\udc80-\udcff]+")


def _by_characters(raw: bytes) -> str:
    """Decode UTF-8, with each run of invalid bytes written as ``<0xE2 0x80>``."""
    text = raw.decode(errors="surrogateescape")
    return _LOOSE.sub(lambda run: f"<{' '.join(f'0x{ord(byte) - 0xDC00:02X}' for byte in run[0])}>", text)


@dataclass(frozen=True)
class Style:
    """Notation of a vocabulary's pieces: the marks for bytes, spaces, continuations and ends of words."""

    byte_level: bool = False
    space: str = ""
    prefix: str = ""
    suffix: str = ""

    def bare(self, piece: str) -> tuple[str, str]:
        """Return a piece's text for display and for classification; the latter has U+FFFD for invalid bytes."""
        if self.suffix and piece.endswith(self.suffix):
            piece = piece.removesuffix(self.suffix)
        if self.byte_level:
            if piece.isascii():  # fast path for most pieces: visible ASCII characters represent themselves
                return piece, piece
            try:
                raw = piece.translate(_BYTES).encode("latin-1")
            except UnicodeEncodeError:
                return piece, piece
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                return _by_characters(raw), raw.decode(errors="replace")
            return text, text
        if self.space:
            if piece[:1] == "<" and _BYTE_PIECE.fullmatch(piece):
                return piece, _NO_CHARACTER
            piece = piece.replace(self.space, " ")
        return piece, piece


_UNUSED_NAME = re.compile(
    r"madeupword\d+"
    r"|[\[<]\|?(?:unused|reserved(?:_special)?(?:_token)?|placeholder|dummy|control|SPECIAL|extra)_?\d+\|?[\]>]"
)


_UNUSED_STARTS = ("m", "[", "<")
_SPECIAL_NAME = re.compile(
    r"\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS)\]|</?s>|<(?:pad|unk|mask|bos|eos|cls|sep|s_start|extra_id_\d+)>|<\|[^|]*\|>"
)


@dataclass(frozen=True)
class Vocabulary:
    """A vocabulary as stated by its files.

    Attributes:
        file: File that it was read from.
        pieces: Pieces by id.
        style: Notation of the pieces.
        literal: Added tokens by id, which are written literally.
        special: Special tokens.
        declared: Special tokens by role (``cls_token``), if declared.
        unused: Ids that are declared unused, whatever their names.
    """

    file: str
    pieces: Mapping[int, str]
    style: Style
    literal: Mapping[int, str] = field(default_factory=dict)
    special: frozenset[str] = frozenset()
    declared: Mapping[str, str] = field(default_factory=dict)
    unused: frozenset[int] = frozenset()

    def text(self, row: int, piece: str) -> str:
        """Return the readable text of the piece at an id."""
        if row in self.literal or piece in self.special:
            return _shown(piece)
        return _shown(self.style.bare(piece)[0])

    def labels(self, rows: int) -> Labels:
        """Return the labels of ``rows`` rows."""
        pieces, texts, plain = ([""] * rows for _ in range(3))
        reserved: dict[int, int] = {}
        found, bare = self.pieces.get, self.style.bare
        for row in range(rows):
            literal = self.literal.get(row)
            piece = found(row) if literal is None else literal
            if piece is None:
                piece, reserved[row] = f"(padding {row})", _PADDING
            elif row in self.unused or (piece[:1] in _UNUSED_STARTS and _UNUSED_NAME.fullmatch(piece)):
                reserved[row] = _UNUSED
            elif piece in self.special:
                reserved[row] = _SPECIAL
            if row in reserved:
                texts[row] = piece
            elif literal is None:
                texts[row], plain[row] = bare(piece)
            else:
                texts[row] = plain[row] = piece
            pieces[row] = piece
        classes = _classes(self.style, pieces, plain)
        classes[list(reserved)] = list(reserved.values())
        # A single search over all pieces, since most vocabularies have no surrogates.
        if SURROGATES.search("".join(pieces)):
            pieces = [SURROGATES.sub(lambda one: named(one[0]), piece) for piece in pieces]
        return Labels(tuple(map(_shown, texts)), tuple(pieces), classes)


def _shown(text: str) -> str:
    return text if text and text.isprintable() else named(text) or "⟨empty⟩"


_IS_DIGIT, _IS_OTHER, _IS_WORD = 1, 2, 4


def _character_flags(code: int) -> int:
    character = chr(code)
    category = unicodedata.category(character)
    flags = _IS_DIGIT if character.isdigit() else 0
    if category[0] in "LM":
        name = unicodedata.name(character, "")
        # Latin letters, modifier letters and combining marks are recognised by their Unicode names.
        latin = (
            code < 0x250 or "LATIN" in name or name.startswith(("COMBINING", "MODIFIER LETTER", "VARIATION SELECTOR"))
        )
        flags |= _IS_WORD | (0 if latin else _IS_OTHER)
    return flags | (_IS_WORD if flags & _IS_DIGIT or character == _NO_CHARACTER else 0)


_BLOCK, _CLASSIFIED = 4096, 1000
"""Rows classified at once, and characters considered of each: a label can be as long as its file."""


def _classes(style: Style, pieces: list[str], plain: list[str]) -> NDArray[np.uint8]:
    """Return the classes [rows] that follow from the notation of the pieces."""
    any_flag, first_flag = np.zeros((2, len(plain)), np.uint8)
    flag_of, known = np.zeros(0x110000, np.uint8), np.zeros(0x110000, bool)
    for begin in range(0, len(plain), _BLOCK):
        block = [text[:_CLASSIFIED] for text in plain[begin : begin + _BLOCK]]
        lengths = np.fromiter(map(len, block), np.int64, len(block))
        codes = np.frombuffer("".join(block).encode("utf-32-le", "surrogatepass"), "<u4")
        present = np.unique(codes)
        for code in present[~known[present]].tolist():
            flag_of[code], known[code] = _character_flags(code), True
        flags = flag_of[codes]
        filled = np.flatnonzero(lengths)
        starts = (np.cumsum(lengths) - lengths)[filled]
        if len(filled):
            any_flag[begin + filled] = np.bitwise_or.reduceat(flags, starts)
            first_flag[begin + filled] = flags[starts]
    if style.suffix:
        inner = np.array([not piece.endswith(style.suffix) for piece in pieces]) & (first_flag & _IS_WORD > 0)
    elif style.prefix:
        inner = np.array([piece.startswith(style.prefix) for piece in pieces])
    elif style.byte_level or style.space:
        inner = first_flag & _IS_WORD > 0
    else:
        inner = np.zeros(len(plain), bool)
    classes = np.where(inner, np.uint8(_CONTINUATION), np.uint8(_START))
    classes[any_flag & _IS_DIGIT > 0] = _DIGIT
    classes[any_flag & _IS_OTHER > 0] = _OTHER
    return classes


def read_vocabulary(folder: Path) -> Vocabulary | None:
    """Return the vocabulary from the tokenizer files in ``folder``; ``None`` if there are none.

    Raises ``SourceError`` for a file that violates its format.
    """
    for file, read in _READERS.items():
        if is_regular_file(folder / file):
            return read(folder)
    return None


def has_vocabulary(folder: Path) -> bool:
    """Return whether ``folder`` has a file from which ``read_labels`` can read labels."""
    return any(is_regular_file(folder / file) for file in _READERS)


def is_regular_file(path: Path) -> bool:
    """Return whether ``path`` is a regular file. Raises ``SourceError`` if it cannot be accessed."""
    try:
        return path.is_file()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}; check the folder") from error


def read_bounded(path: Path) -> bytes:
    """Return a file's bytes. Raises ``SourceError`` if it cannot be read or exceeds ``LARGEST_FILE``."""
    try:
        with path.open("rb") as file:
            # A link to a file of the system that states no size, such as /proc/kmsg, could be waited for forever.
            raw = file.read(min(os.fstat(file.fileno()).st_size, LARGEST_FILE + 1))
    except OSError as error:
        raise SourceError(f"{path.name} cannot be read: {error.strerror}; check the file in {path.parent}") from error
    if len(raw) > LARGEST_FILE:
        raise SourceError(f"{path.name} exceeds the limit of {LARGEST_FILE >> 20} MB for a tokenizer file")
    return raw


def read_lines(path: Path) -> list[str]:
    """Return a UTF-8 file's lines, split at LF, CR and CRLF only. Raises ``SourceError`` if invalid or too long."""
    try:
        text = read_bounded(path).decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"{path.name} is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    if text.count("\n") + text.count("\r") > MOST_VALUES:
        raise SourceError(f"{path.name} exceeds the limit of {MOST_VALUES:,} lines for a tokenizer file")
    # str.splitlines would also break at U+2028, which is a token in several vocabularies.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_tokenizer_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, {} if the file is absent. Merges, half of some files, are skipped: they label no row."""
    if not is_regular_file(path):
        return {}
    raw = _without_merges(read_bounded(path))
    if len(raw) * _width(raw) > LARGEST_TEXT:
        raw = _without_indentation(raw)
    if sum(map(raw.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise SourceError(f"{path.name} exceeds the limit of {MOST_VALUES:,} values for a tokenizer file")
    if len(raw) * _width(raw) > LARGEST_TEXT:
        raise SourceError(f"{path.name} exceeds the limit of {LARGEST_TEXT >> 20} MB of text for a tokenizer file")
    try:
        text = raw.decode()
        del raw  # free memory: the text and the parsed value each take as much again
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path.name} is not JSON ({str(error)[:80]}); download it again") from error
    return cast(dict[str, Any], _expect(found, dict, f"{path.name} as a whole"))


_MERGES = re.compile(rb'"merges"\s*+:\s*+(?=\[)')
_TEXT = rb'"(?:[^"\\]++|\\.)*+"'
_LIST = re.compile(rb'\[(?:[^"\[\]]++|%b|\[(?:[^"\[\]]++|%b)*+\])*+\]' % (_TEXT, _TEXT), re.DOTALL)


def _without_merges(raw: bytes) -> bytes:
    """Return JSON with its first list named ``merges`` emptied."""
    # Only the first, since searching for an end after every such name would take quadratic time.
    if (name := _MERGES.search(raw)) and (listed := _LIST.match(raw, name.end())):
        return b"%b[]%b" % (raw[: name.end()], raw[listed.end() :])
    return raw


def _without_indentation(raw: bytes) -> bytes:
    """Return JSON without most spaces at line starts; JSON strings contain no line breaks."""
    for depth in (16, 8, 4, 2, 1):
        raw = raw.replace(b"\n" + b" " * depth, b"\n")
    return raw


def _width(raw: bytes) -> int:
    """Return the bytes per character that Python needs for this UTF-8 text."""
    return 1 if raw.isascii() else 4 if re.search(rb"[\xf0-\xff]", raw) else 2


def _expect(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        names = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}
        raise SourceError(f"{what:.80} must be {names[kind]}; found {type(value).__name__}; download the file again")
    return value


def _given(stated: Mapping[str, Any], name: str, absent: Any) -> Any:
    return absent if stated.get(name) is None else stated[name]


def _id(value: Any, what: str) -> int:
    # bool is a subclass of int in Python, but not a JSON number.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_ID:
        raise SourceError(f"the id of {what!r:.40} must be a whole number from 0 to {LARGEST_ID}; found {value!r:.40}")
    return value


def _by_id(vocabulary: Any, what: str) -> dict[int, str]:
    """Return the pieces by id from a vocabulary of the form {piece: id}, [[piece, score], …] or [piece, …]."""
    if isinstance(vocabulary, dict):
        ids = vocabulary.values()
        if ids and set(map(type, ids)) == {int} and 0 <= min(ids) <= max(ids) <= LARGEST_ID:
            return dict(zip(ids, vocabulary, strict=True))
        return {_id(row, piece): piece for piece, row in vocabulary.items()}
    pieces = {}
    for row, entry in enumerate(_expect(vocabulary, list, what)):
        piece = entry[0] if isinstance(entry, list) and entry else entry
        pieces[row] = _expect(piece, str, f"piece {row} of {what}")
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


def _from_tokenizer_json(folder: Path) -> Vocabulary:
    data = read_tokenizer_json(folder / "tokenizer.json")
    model = _expect(data.get("model"), dict, "model in tokenizer.json")
    literal: dict[int, str] = {}
    special = set()
    for token in _expect(_given(data, "added_tokens", []), list, "added_tokens in tokenizer.json"):
        content = _expect(_expect(token, dict, "an added token").get("content"), str, "content of an added token")
        literal[_id(token.get("id"), content)] = content
        if token.get("special") is True:
            special.add(content)
    pieces = _by_id(model.get("vocab"), "vocab in tokenizer.json")
    return Vocabulary(
        "tokenizer.json", pieces, _style_of(data, model), literal, frozenset(special) or _special_by_name(pieces)
    )


def _special_by_name(pieces: Mapping[int, str]) -> frozenset[str]:
    return frozenset(piece for piece in pieces.values() if _SPECIAL_NAME.fullmatch(piece))


@dataclass(frozen=True)
class _Declared:
    """Special and added tokens declared in the files next to a bare vocabulary."""

    literal: Mapping[int, str]
    special: frozenset[str]
    parts: Mapping[str, str]


def _declared(folder: Path) -> _Declared:
    settings = read_tokenizer_json(folder / "tokenizer_config.json")
    added = {_id(row, token): token for token, row in read_tokenizer_json(folder / "added_tokens.json").items()}
    special: set[str] = set()
    for key, token in _expect(_given(settings, "added_tokens_decoder", {}), dict, "added_tokens_decoder").items():
        if (
            isinstance(token, dict)
            and isinstance(content := token.get("content"), str)
            and re.fullmatch(r"\d{1,9}", key)
        ):
            added[int(key)] = content
            special |= {content} if token.get("special") is True else set()
    parts: dict[str, str] = {}
    for stated in (settings, read_tokenizer_json(folder / "special_tokens_map.json")):
        for part, value in stated.items():
            if part.endswith("_token") and (content := _content(value)) is not None:
                parts[part] = content
                special.add(content)
            elif part.endswith("_tokens") and isinstance(value, list):
                special |= {content for token in value if (content := _content(token)) is not None}
    return _Declared(added, frozenset(special), parts)


def _content(token: Any) -> str | None:
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def _from_vocab_txt(folder: Path) -> Vocabulary | None:
    if is_regular_file(folder / "bpe.codes"):
        return None  # a fairseq dictionary (BERTweet, PhoBERT): pieces with counts, not one for each row
    declared = _declared(folder)
    pieces = dict(enumerate(read_lines(folder / "vocab.txt")))
    prefix = "##" if any(piece.startswith("##") for piece in pieces.values()) else ""
    return _bare("vocab.txt", pieces, Style(prefix=prefix), declared)


def _from_vocab_json(folder: Path) -> Vocabulary:
    declared = _declared(folder)
    pieces = _by_id(read_tokenizer_json(folder / "vocab.json"), "vocab.json")
    return _bare("vocab.json", pieces, style_by_share(pieces.values()), declared)


def _bare(file: str, pieces: Mapping[int, str], style: Style, declared: _Declared) -> Vocabulary:
    # Special tokens that no file declares are defined by the tokenizer's class; these names cover all classes.

    special = declared.special | _special_by_name(pieces)
    return Vocabulary(file, pieces, style, declared.literal, special, declared.parts)


def style_by_share(pieces: Iterable[str]) -> Style:
    """Return the notation of a vocabulary, inferred from its pieces alone."""
    known = set(pieces)
    enough = max(1, len(known) // 20)

    def often(found: Iterable[str]) -> bool:
        return sum(1 for _ in found) >= enough

    # CLIP's has no piece with Ġ but, like every byte-level vocabulary, one piece for each byte.

    byte_level = all(chr(code) in known for code in _BYTES) or often(piece for piece in known if piece[:1] == "Ġ")
    suffix = "</w>" if often(piece for piece in known if piece.endswith("</w>")) else ""
    space = "▁" if not byte_level and often(piece for piece in known if piece[:1] == "▁") else ""
    return Style(byte_level=byte_level, suffix=suffix, space=space)


_READERS: Mapping[str, Callable[[Path], Vocabulary | None]] = {
    "tokenizer.json": _from_tokenizer_json,
    "vocab.txt": _from_vocab_txt,
    "vocab.json": _from_vocab_json,
}
