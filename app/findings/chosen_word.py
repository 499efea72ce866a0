"""The word selected in the Tokens tab, and its row in each source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hfposemb.tables.row_lookup import spelt
from hfposemb.tables.table import EmbeddingTable
from hfposemb.text import one_line

from ..components.plot import Panel
from ..limits import LONGEST_QUERY, LONGEST_SOURCE
from ..session.opened import HEAD_NEEDS, UNREAD, Opened

if TYPE_CHECKING:
    from ..session.state import Session

TABLES = {"Token": "token", "Head": "head"}
"""The tables that can stand for the tokens, by what the control calls them."""

HEAD = "head"
FIRST_WORD = "king"
FIRST_WORDS = "king, queen, father, mother, heaven, earth"


@dataclass(frozen=True)
class Word:
    """The selected word: its spelling, and the source and row where it was picked, if any."""

    text: str
    source: str = ""
    row: int = -1

    @property
    def shown(self) -> str:
        """The word without the space that marks the start of a word."""
        return shown(self.text)


def write_word(word: Word) -> str:
    """Serialise the word for the URL: its spelling, and where it was picked."""
    return word.text if word.row < 0 else f"{word.text}|{word.row}|{word.source}"


def read_word(text: str) -> Word:
    """Parse the output of ``write_word``."""
    spelling, *picked = text.rsplit("|", 2)
    if len(text) > LONGEST_QUERY + LONGEST_SOURCE:
        raise ValueError(text[:40])
    if len(picked) == 2 and picked[0].isdecimal() and len(picked[0]) < 9:
        return Word(spelling, picked[1], int(picked[0]))
    return Word(text)


def shown(label: str) -> str:
    """Return a token's label without the space that marks the start of a word, truncated for display."""
    return one_line(label.strip(), width=40) or "(space)"


def row_of(table: EmbeddingTable, word: Word, source: str) -> int | None:
    """Return the row of a word in a source: the picked row, or found by spelling, or by id."""
    if word.source == source and 0 <= word.row < table.shape[0]:
        return word.row
    if (row := spelt(table.labels, word.text)) is not None:
        return row
    bare = word.text.strip()
    if not word.source and bare.isascii() and bare.isdecimal() and len(bare) < 9 and int(bare) < table.shape[0]:
        return int(bare)
    return None


def common_key(label: str) -> str:
    """Return the letters of a token, which identify it across vocabularies."""
    return label.strip().removeprefix("##").casefold()


def with_tokens(opened: Sequence[Opened]) -> list[Opened]:
    """Return the sources that have a token table."""
    return [source for source in opened if source.table("token") is not None]


def which_choices(opened: Sequence[Opened]) -> list[tuple[str, str]]:
    """Return the sources with a token table as choices: name and source text."""
    return [(source.name, source.text) for source in with_tokens(opened)]


def source_of(opened: Sequence[Opened], which: str | None) -> Opened | None:
    """Return the source with token table that ``which`` names, or the first one, or ``None``."""
    candidates = with_tokens(opened)
    return next((source for source in candidates if source.text == which), candidates[0] if candidates else None)


def why_no_tokens(source: Opened) -> str:
    """Return one line that explains why a source has no tokens."""
    if source.embeddings is None:
        return f"{source.name}: {source.error}"
    if source.words == "head":
        is_token = f"The head of {source.name} is its token table."
        return is_token if source.tying else f"{source.name} has no output head."
    reason = source.embeddings.absent.get("token", "no token table in its checkpoint")
    if reason.startswith("it is "):
        return f"{source.name} {reason[3:].partition(';')[0]}."
    return f"{source.name} has no tokens: {reason}."


def of_table(session: Session, opened: Sequence[Opened], table: str) -> tuple[Opened, ...]:
    """Return the sources with the table that stands for their tokens: ``token``, or ``head`` where a source has one.

    A head of the Hub that has not been read is a source that is not open, which says so.
    """
    if table != HEAD or not any(source.untied for source in opened):
        return tuple(opened)
    return tuple(_with_head(session, source) for source in opened)


def _with_head(session: Session, source: Opened) -> Opened:
    if source.untied and session.library.opened(source.text, HEAD_NEEDS, public=session.public) is None:
        return replace(source, embeddings=None, error=UNREAD, words="head")
    return replace(source, words="head")


def empty_panel(key: str, title: str, message: str) -> tuple[Panel, ...]:
    """Return a panel with a title and a message, in a tuple."""
    return (Panel(key, title, message=message),)


def cosine(centred: bool) -> str:
    """Return the name of the measure."""
    return "centred cosine" if centred else "cosine"
