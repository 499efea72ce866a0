"""A text cut by a model's tokenizer: tokens per word and by script, and the rows that the text never uses."""

from __future__ import annotations

import codecs
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..checkpoints.strict_json import open_regular
from ..checkpoints.tokenizers.worker import Cutter
from ..errors import InputError, MissingTableError, OfflineError, RefusedError, SourceError
from ..models.extraction import extract
from ..tables.embeddings import Embeddings
from ..tables.inputs import Pieces
from ..tables.sources import Source
from ..tables.tabular import Columns, Tabular, columns_of
from ..text import counted, number, percent
from .opened_tokenizer import open_alone

COVERAGE = "hfposemb.text/1"
"""Format of the JSON; the number rises with every change that a reader has to know."""

LONGEST_TEXT = 16 * 2**20
"""Most bytes of a text file."""

_CHUNK = 50_000
_OTHER = "none"


@dataclass(frozen=True)
class ScriptTokens:
    """The words of one script.

    Attributes:
        script: Name of the script in Unicode, such as LATIN; ``none`` for numbers and signs.
        words: Number of words, which spaces separate; Chinese and Thai texts have few.
        characters: Number of their characters.
        tokens: Number of tokens that they are cut into.
    """

    _document = ("script", "words", "characters", "tokens", "tokens_per_word")
    script: str
    words: int
    characters: int
    tokens: int

    @property
    def tokens_per_word(self) -> float:
        """Mean number of tokens of a word."""
        return self.tokens / self.words


@dataclass(frozen=True, eq=False)
class TextCoverage(Tabular):
    """What a tokenizer makes of a text.

    Attributes:
        source: Name of the source.
        characters: Number of characters of the text.
        words: Number of words, which spaces separate.
        tokens: Number of tokens, without those that the tokenizer adds around a text.
        unknown: Number of tokens that stand for what the vocabulary cannot write.
        scripts: The words by script, the most frequent first.
        counts: How often each row is used, by its number; rows that the text never uses are left out.
        rows: Rows of the token table; the ids of the tokenizer where there is no table.
        row_bytes: Stored bytes of a row, in the token table and in an output head of its own; ``None`` without a table.
    """

    _document = (
        *("source", "characters", "words", "tokens", "tokens_per_word", "unknown", "covered", "scripts"),
        *("rows", "used", "unused", "row_bytes", "unused_bytes"),
    )
    source: str
    characters: int
    words: int
    tokens: int
    unknown: int
    scripts: tuple[ScriptTokens, ...]
    counts: Mapping[int, int]
    rows: int
    row_bytes: int | None

    @property
    def tokens_per_word(self) -> float:
        """Mean number of tokens of a word."""
        return self.tokens / max(self.words, 1)

    @property
    def used(self) -> int:
        """Number of rows that the text uses."""
        return len(self.counts)

    @property
    def unused(self) -> int:
        """Number of rows that the text never uses."""
        return self.rows - self.used

    @property
    def unused_bytes(self) -> int | None:
        """Bytes of these rows; ``None`` without a table."""
        return None if self.row_bytes is None else self.unused * self.row_bytes

    @property
    def covered(self) -> float:
        """Share of the tokens that stand for what is written."""
        return 1 - self.unknown / max(self.tokens, 1)

    def __str__(self) -> str:
        """State coverage, tokens per word, scripts and unused rows."""
        lines = [
            f"{self.source}: {counted(self.tokens, 'token')} for {counted(self.words, 'word')}, "
            f"{number(self.tokens_per_word, digits=2)} per word; {percent(self.covered)} covered, "
            f"{self.unknown:,} unknown"
        ]
        for one in self.scripts:
            each = number(one.tokens_per_word, digits=2)
            size = f"{counted(one.words, 'word')}, {counted(one.characters, 'character')}"
            lines.append(f"  {one.script}: {size}, {each} tokens per word")
        share = percent(self.unused / max(self.rows, 1))
        unused = self.unused_bytes
        what, cost = ("ids", "") if unused is None else ("rows", f": {unused / 1e6:,.1f} MB")
        lines.append(f"  {counted(self.unused, '', f'of {self.rows:,} {what} ({share})', 'are')} never used{cost}")
        return "\n".join(lines)

    def columns(self) -> Columns:
        """Return one row per script: ``script``, ``words``, ``characters``, ``tokens`` and ``tokens_per_word``."""
        return columns_of(self.scripts, *ScriptTokens._document)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that can be serialised as JSON."""
        return {"format": COVERAGE, **super().to_dict()}


def text_coverage(source: str | Path | Source | Embeddings, text: str) -> TextCoverage:
    """Cut a text with a model's tokenizer: tokens per word and by script, and the rows that the text never uses.

    No table is read, nor need there be one. The words of a script are cut by themselves, with spaces between.

    Args:
        source: A source, what ``extract`` returned for it, or a folder or repository that has a tokenizer alone.
        text: A text of at most 16 MB.

    Returns:
        The counts.

    Raises:
        SourceError: If the source cannot be read, or the tokenizer fails.
        MissingTableError: If the source has no token table.
        InputError: If the text has no words, or the source no tokenizer that can cut texts.

    Examples:
        >>> import hfposemb as hpe
        >>> found = hpe.text_coverage("sample:bert", "The king and the queen.")
        >>> found.words, found.tokens, found.rows - found.unused
        (5, 6, 5)
    """
    if not isinstance(text, str):
        raise InputError(f"text must be a text; got {type(text).__name__}; read a file first, as hfposemb vocab does")
    words = text.split()
    if not words or len(text) > LONGEST_TEXT:
        raise InputError(f"the text must have words and at most {LONGEST_TEXT:,} characters; it has {len(text):,}")
    one = _of_model(source) if isinstance(source, Embeddings) else _of_source(source)

    def ids(part: str) -> Sequence[int]:
        return one.cut(part).ids

    around = Counter(ids(""))
    counts = _counted(ids, text, around)
    by_script: dict[str, list[str]] = {}
    for word in words:
        by_script.setdefault(script_of(word), []).append(word)
    scripts = [
        ScriptTokens(name, len(some), sum(map(len, some)), _counted(ids, " ".join(some), around).total())
        for name, some in by_script.items()
    ]
    unknown = [row for row in counts if one.token(row) in _UNKNOWN]
    return TextCoverage(
        one.name,
        len(text),
        len(words),
        counts.total(),
        sum(counts[row] for row in unknown),
        tuple(sorted(scripts, key=lambda one: -one.words)),
        dict(counts),
        one.rows,
        one.row_bytes,
    )


class _Cutting(NamedTuple):
    """What cuts the texts of a source, with the rows that its tokens have."""

    name: str
    cut: Callable[[str], Pieces]
    token: Callable[[int], str | None]
    rows: int
    row_bytes: int | None


def _of_model(model: Embeddings) -> _Cutting:
    if "token" not in model.tables:
        raise MissingTableError(f"{model.name} has no token table: {model.absent.get('token', 'it was not found')}")
    if model.cut is None:
        raise InputError(f"{model.name} has no tokenizer that can cut a text; give a model with a tokenizer.json")
    table = model.tables["token"]
    heads = [head for head in model.heads.values() if not head.tied and head.shape[0] == table.shape[0]]
    size = sum(one.row_bytes for one in (table, *heads))
    return _Cutting(model.name, model.cut, lambda row: table.labels[row], table.shape[0], size)


def _of_source(source: str | Path | Source) -> _Cutting:
    """Open a model, or a tokenizer alone."""
    try:
        return _of_model(extract(source))
    except SourceError as error:
        if isinstance(error, OfflineError | RefusedError):
            raise
        vocabulary, folder = open_alone(source, error)
        return _Cutting(vocabulary.name, Cutter(folder), vocabulary.pieces.get, vocabulary.size, None)


_UNKNOWN = ("[UNK]", "<unk>", "<|unk|>", "<UNK>", "UNK")


def _counted(ids: Callable[[str], Sequence[int]], text: str, around: Counter[int]) -> Counter[int]:
    """Count the tokens of a text, which is cut in chunks, without those that are added around each."""
    found: Counter[int] = Counter()
    for part in _chunks(text):
        found.update(ids(part))
        found.subtract(around)
    return +found


def _chunks(text: str) -> Iterator[str]:
    """Yield a text in parts that end at a space, where it has one."""
    start = 0
    while start < len(text):
        stop = start + _CHUNK
        if stop < len(text) and (space := max(text.rfind(" ", start + 1, stop), text.rfind("\n", start + 1, stop))) > 0:
            stop = space
        yield text[start:stop]
        start = stop


def script_of(word: str) -> str:
    """Return the script of a word's first letter by its name in Unicode; ``none`` if it has no letter.

    >>> from hfposemb.vocabularies.measured_text import script_of
    >>> [script_of(word) for word in ("“naïve”", "Привет", "北京", "3.14")]
    ['LATIN', 'CYRILLIC', 'CJK', 'none']
    """
    letter = next((one for one in word if one.isalpha()), "")
    return unicodedata.name(letter, _OTHER).split(" ")[0] if letter else _OTHER


def read_text(path: Path) -> str:
    """Return a text file in UTF-8, or in UTF-16 that begins with its mark, without this mark.

    Raises ``SourceError`` if it cannot be read, is no regular file or no such text, or exceeds ``LONGEST_TEXT``.
    """
    with open_regular(path) as file:
        raw = file.read(LONGEST_TEXT + 1)
    if len(raw) > LONGEST_TEXT:
        raise SourceError(f"{path} exceeds the limit of {LONGEST_TEXT >> 20} MB for a text; give a part of it")
    wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return raw.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        kind = "UTF-16" if wide else "UTF-8"
        raise SourceError(f"{path} is not {kind} at byte {error.start}; save it as UTF-8") from error
