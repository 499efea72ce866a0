"""A source on the page: what was opened, or the reason why not."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hfposemb.errors import HfposembError, MissingTableError, SourceError
from hfposemb.figures.style import listed
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.sources import LOCAL_PREFIXES
from hfposemb.tables.table import EmbeddingTable

from ..limits import MOST_SOURCES
from .source_names import short_names

if TYPE_CHECKING:
    from hfposemb.tables.encodings import PositionEncoding
    from hfposemb.tables.output_head import Tying


NEEDS = ("position", "token", "inputs", "attention")
"""The parts of a source that a tab may need: all tables of a role, or what is required to compute the input of a
sentence or the attention of the first layer."""


HEAD_NEEDS = ("token", "head")
"""What is read of a source whose output head is shown, if that is a table of its own."""

UNREAD = "its output head has not been read from the Hub"
WAITING = "it is being read from the Hub"
STOPPED = "reading was stopped; select it again to continue"


@dataclass(frozen=True)
class Opened:
    """A source on the page: its ``text`` as given, short ``name``, colour, dash style, and what was opened.

    If opening failed, ``embeddings`` is ``None`` and ``error`` gives the reason in one line. ``wanted`` selects the
    part whose positions are shown, for sources that have several. ``words`` is the table that stands for its tokens:
    the token table, or the output head where that is a table of its own.
    """

    text: str
    name: str
    color: str
    dash: str
    embeddings: Embeddings | None = None
    error: str = ""
    wanted: str = ""
    words: Literal["token", "head"] = "token"

    @property
    def there(self) -> bool:
        """Whether it was opened, or is still being read."""
        return self.error in ("", WAITING)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the source that have positions, in order."""
        return () if self.embeddings is None else tuple(self.embeddings.positions)

    @property
    def part(self) -> str:
        """The part whose positions are shown: ``wanted`` if the source has it, otherwise the first."""
        return self.wanted if self.wanted in self.parts else next(iter(self.parts), "")

    @property
    def position(self) -> PositionEncoding:
        """The position encoding that is shown. Raises ``HfposembError`` if there is none or opening failed."""
        if self.embeddings is None:
            raise SourceError(self.error)
        return self.embeddings.positions[self.part] if self.parts else self.embeddings.position

    @property
    def encoding(self) -> PositionEncoding | None:
        """The same; ``None`` if there is none, for which the panel of the source itself shows the reason."""
        try:
            return self.position
        except HfposembError:
            return None

    def table(self, role: str) -> EmbeddingTable | None:
        """Return a table, or ``None`` if the source lacks it or was not opened.

        ``token`` is the table that ``words`` chooses, ``head`` the output head if it is a table of its own.
        """
        if self.embeddings is None:
            return None
        if role == "head" or (role == "token" and self.words == "head"):
            return self.embeddings.head if self.untied else None
        return self.embeddings.tables.get(role)

    @property
    def tokens(self) -> EmbeddingTable:
        """The table that stands for the tokens. Raises ``MissingTableError`` if there is none."""
        table = self.table("token")
        if table is None:
            raise MissingTableError(f"{self.name} has no {self.words} table", reason=f"there is no {self.words} table")
        return table

    @property
    def tying(self) -> Tying | None:
        """How the output head is tied, from names and configuration; ``None`` if there is no head. Reads nothing."""
        ties = {} if self.embeddings is None else self.embeddings.ties
        return next((ties[key] for key in ("head", "decoder.head") if key in ties), None)

    @property
    def separate(self) -> bool:
        """Whether there is an output head that is stored apart from the token table. Reads nothing."""
        return self.tying is not None and self.tying.how not in ("absent", "alias", "same tensor")

    @property
    def untied(self) -> bool:
        """Whether there is an output head that is a table of its own. Reads nothing."""
        return self.tying is not None and not self.tying.tied

    @property
    def vocabulary(self) -> str:
        """The name for sentences about its tokens, which says if they are those of the output head."""
        return self.name if self.words == "token" else f"{self.name}’s output head"


def waiting(opened: Sequence[Opened]) -> list[Opened]:
    """Return the sources that have yet to be fetched."""
    return [source for source in opened if source.error == WAITING]


def split(texts: Iterable[str] | None) -> tuple[list[str], list[str]]:
    """Return the sources that a page shows, trimmed and once each, and those beyond ``MOST_SOURCES``."""
    named = list(dict.fromkeys(text.strip() for text in texts or () if text.strip()))
    return named[:MOST_SOURCES], named[MOST_SOURCES:]


def left_out(texts: Sequence[str]) -> list[str]:
    """Return the notice that sources beyond ``MOST_SOURCES`` are not shown, if there are any."""
    if not texts:
        return []
    verb = "was" if len(texts) == 1 else "were"
    return [f"Up to {MOST_SOURCES} sources are shown; {listed(short_names(texts))} {verb} left out."]


def problems(opened: Sequence[Opened], notices: Sequence[str] = ()) -> str:
    """Return the HTML below the source field: which sources could not be opened, why, and further notices."""
    lines = [
        f'<p role="alert"><strong>{html.escape(source.name)}</strong> {_with_link(_unnamed(source))}</p>'
        for source in opened
        if source.error and source.error != WAITING
    ]
    return "".join([*lines, *(f'<p role="alert">{html.escape(notice)}</p>' for notice in notices)])


def _unnamed(source: Opened) -> str:
    """Return an error without the name of its source, which stands before it; a path is more than its name."""
    if source.text.startswith(LOCAL_PREFIXES):
        return source.error
    return re.sub(rf"^{re.escape(source.text)}(?::| (?=[\w.-]+:|does |is |has )) ?", "", source.error)


def _with_link(error: str) -> str:
    """Return an error as HTML, in which the address of a page of the Hub is a link."""
    from huggingface_hub import constants

    page = rf"{re.escape(html.escape(constants.ENDPOINT))}/[\w./-]*\w"
    return re.sub(page, r'<a href="\g<0>" target="_blank" rel="noopener">\g<0></a>', html.escape(error))
