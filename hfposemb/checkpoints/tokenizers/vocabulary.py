"""A vocabulary, whatever files state it, and the labels of a token table's rows that follow from it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...tables.table import TOKEN_CLASSES, Labels
from ...text import named

_START, _CONTINUATION, _DIGIT, _OTHER, _UNUSED, _SPECIAL, _PADDING = range(len(TOKEN_CLASSES))


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
_CHARACTERS = {byte: chr(code) for code, byte in ((code, ord(byte)) for code, byte in _BYTES.items())}
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_NO_CHARACTER = "\ufffd"
_LOOSE = re.compile("[\udc80-\udcff]+")


def as_characters(raw: bytes) -> str:
    """Return bytes in the notation of GPT-2, a character each, as tokenizer.json has them."""
    return raw.decode("latin-1").translate(_CHARACTERS)


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

    def raw(self, piece: str) -> bytes:
        """Return the bytes of a text that a piece stands for, the same in all notations; ``##`` is kept."""
        piece = piece.removesuffix(self.suffix) + " " if self.suffix and piece.endswith(self.suffix) else piece
        if self.byte_level:
            plain = piece.replace("Ġ", " ")  # fast path for most pieces, which have no other character but ASCII
            if plain.isascii() and " " not in piece:
                return plain.encode()
            with suppress(UnicodeEncodeError):
                return piece.translate(_BYTES).encode("latin-1")
        elif self.space:
            if (byte := self.fallback(piece)) is not None:
                return bytes([byte])
            piece = piece.replace(self.space, " ")
        return piece.encode(errors="surrogatepass")

    def fallback(self, piece: str) -> int | None:
        """Return the byte of a piece such as ``<0x0A>`` that stands for it, ``None`` for any other piece."""
        found = _BYTE_PIECE.fullmatch(piece) if self.space and piece[:1] == "<" else None
        return None if found is None else int(found[1], 16)


_UNUSED_NAME = re.compile(
    r"<?madeupword\d+>?"
    r"|[\[<]\|?(?:unused|reserved(?:_special)?(?:_token)?|placeholder|dummy|control|SPECIAL|extra)_?\d+\|?[\]>]"
)


_UNUSED_STARTS = ("m", "[", "<")
SPECIAL_NAME = re.compile(
    r"\[(?:CLS|SEP|PAD|UNK|MASK|BOS|EOS)\]|</?s>|<(?:pad|unk|mask|bos|eos|cls|sep|s_start|extra_id_\d+)>|<\|[^|]*\|>"
)


def is_reserved(piece: str) -> bool:
    """Return whether a piece is named as one that is kept for later use, such as ``[unused12]``."""
    return piece[:1] in _UNUSED_STARTS and _UNUSED_NAME.fullmatch(piece) is not None


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
            elif row in self.unused or is_reserved(piece):
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
        largest = max((0, *self.pieces, *self.literal))
        return Labels(tuple(map(_shown, texts)), tuple(pieces), classes, largest=largest if largest >= rows else 0)


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
