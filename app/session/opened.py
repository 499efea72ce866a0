"""A source on the page, opened or not, and why."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hfposemb.errors import (
    SourceError,
)
from hfposemb.tables.embeddings import Embeddings
from hfposemb.tables.table import EmbeddingTable

if TYPE_CHECKING:
    from hfposemb.tables.encodings import PositionEncoding


NEEDS = ("position", "token", "inputs", "attention")
"""What a tab may need of a source: all tables of these roles, and what it takes to feed it a sentence, or to know how
its first layer attends."""


WAITING = "it is being read from the Hub"
STOPPED = "was stopped; choose it again to go on"


@dataclass(frozen=True)
class Opened:
    """One of the sources on the page: its ``text`` as given, short ``name``, colour and dash, and what was opened.

    ``embeddings`` is ``None`` where opening failed, and ``error`` says why in one line. ``wanted`` is the part whose
    positions are asked for, where it has several.
    """

    text: str
    name: str
    color: str
    dash: str
    embeddings: Embeddings | None = None
    error: str = ""
    wanted: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the source that have positions, the first one first."""
        return () if self.embeddings is None else tuple(self.embeddings.positions)

    @property
    def part(self) -> str:
        """The part whose positions are shown: the one that is wanted, else the first."""
        return self.wanted if self.wanted in self.parts else next(iter(self.parts), "")

    @property
    def position(self) -> PositionEncoding:
        """The positions that are shown. Raises ``HfposembError`` where it has none or was not opened."""
        if self.embeddings is None:
            raise SourceError(self.error)
        return self.embeddings.positions[self.part] if self.parts else self.embeddings.position

    def table(self, role: str) -> EmbeddingTable | None:
        """Return a table, or ``None`` where the source has none or was not opened."""
        return None if self.embeddings is None else self.embeddings.tables.get(role)


def waiting(opened: Sequence[Opened]) -> list[Opened]:
    """Return the sources that are still to be fetched."""
    return [source for source in opened if source.error == WAITING]


def problems(opened: Sequence[Opened], notices: Sequence[str] = ()) -> str:
    """Return the line under the source field, as HTML: which source could not be opened, and what to do."""
    lines = [
        f'<p role="alert"><strong>{html.escape(source.name)}</strong> {html.escape(source.error)}</p>'
        for source in opened
        if source.error and source.error != WAITING
    ]
    return "".join([*lines, *(f'<p role="alert">{html.escape(notice)}</p>' for notice in notices)])
