"""The positions of the sources on the page: how many are shown, and what was measured of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.figures.style import number
from hfposemb.reports.position_findings import Facts, Value, measure
from hfposemb.tables.encodings import PositionEncoding, Rotary

from .opened import Opened
from .state import Session

if TYPE_CHECKING:
    from hfposemb.tables.table import EmbeddingTable


Method = Literal["pca", "umap"]


GROUP = "position"  # what the figures call their rows, for linked hover
FILES = ("PNG", "SVG")
MOST = 4_096  # positions drawn at most: nobody waits for a larger matrix
MOST_WIDE = 2_048  # of a table so wide that as many would have more than CELLS numbers
KERNEL = 512  # positions drawn of a mechanism that has no rows of its own
CELLS = 2**22  # numbers of a table that are measured to be drawn
NEIGHBOURS = hpe.UMAPParameters().neighbors


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of one table that are shown, and what was measured of them, each once for everybody.

    They are those of a ``source``; ``encoding`` is what has the table, where its unit is not the cosine of two rows.
    """

    whole: EmbeddingTable
    length: int
    session: Session
    source: Opened
    encoding: PositionEncoding | None = None

    def _result(self, what: str, maker: Callable[[], Value]) -> Value:
        return self.session.library.result(self.whole, (what, self.length), maker)

    @property
    def complete(self) -> bool:
        """Whether all rows are shown."""
        return self.length == self.whole.shape[0]

    @property
    def table(self) -> EmbeddingTable:
        """The first ``length`` rows; the table itself where it has no more."""
        whole = self.whole
        if self.complete:
            return whole
        return self._result("first rows", lambda: whole.part(0, self.length))

    @property
    def facts(self) -> Facts:
        """What was measured of them."""
        return self._result("facts", lambda: measure(self.table))

    @property
    def turning(self) -> bool:
        """Whether the rows are angles of a rotary encoding, that nothing is added to."""
        return self.encoding is not None

    @property
    def cosines(self) -> NDArray[np.float32]:
        """The cosine of every pair [n, n]."""
        return self._result("cosines", lambda: hpe.similarity(self.table).astype(np.float32))

    def drawn(self, dims: int) -> int:
        """Return in how many dimensions a picture can be: no more than the table has."""
        return min(dims, self.whole.shape[1])

    def pca(self, dims: int) -> hpe.Projection:
        """Project the positions that are shown by PCA."""
        dims = self.drawn(dims)
        if self.complete:
            found = self.session.projection(self.whole, "pca", dims)
            assert found is not None
            return found
        return self._result(f"pca {dims}", lambda: hpe.project(self.table, method="pca", dims=dims))

    def umap(self, dims: int) -> hpe.Projection | None:
        """Return the positions that are shown where UMAP laid them out among all, ``None`` until it has."""
        found = self.session.projection(self.whole, "umap", dims)
        if found is None or self.complete:
            return found
        return found.take(np.flatnonzero(found.rows < self.length))


@dataclass(frozen=True)
class View:
    """What the reader chose: how to project, how many positions to show (0: all), and which one is marked."""

    method: Method = "pca"
    dims: int = 3
    length: int = 0
    marked: int = 64


def positions_of(source: Opened, length: int, session: Session) -> Positions | None:
    """Return the positions of a source that has a vector for each, ``None`` where it has not.

    Raises ``HfposembError`` where it has no positions at all, or they cannot be read.
    """
    found = rows_of(source, length, session)
    return None if found is None or found.turning else found


def rows_of(source: Opened, length: int, session: Session) -> Positions | None:
    """Return the positions of a source that has a row for each: a vector, or the cosines and sines of its angles.

    Raises ``HfposembError`` as ``positions_of`` does.
    """
    encoding = source.position
    if isinstance(encoding, Rotary):
        # Whatever length and width a configuration states, no more is computed than is drawn.
        most = min(encoding.length, KERNEL, max(2, CELLS // (2 * len(encoding.inv_freq))))
        table = replace(encoding, length=most).table
        return Positions(table, min(most, length or most), session, source, encoding)
    if not encoding.has_table:
        return None
    rows, width = encoding.table.shape
    most = min(rows, MOST, max(MOST_WIDE, CELLS // width))
    return Positions(encoding.table, min(most, length or most), session, source)


def tables_of(
    opened: Sequence[Opened], length: int, session: Session, *, turning: bool = False
) -> dict[Opened, Positions]:
    """Return the positions of all sources that have a vector for each and can be read, ``turning`` rows too."""
    found = {}
    for source in opened:
        try:
            positions = (rows_of if turning else positions_of)(source, length, session)
            if positions is not None and len(positions.facts.norms):
                found[source] = positions
        except hpe.HfposembError:
            continue  # its own panel says why
    return found


def longest(opened: Sequence[Opened], session: Session) -> int:
    """Return how many positions the longest of the sources shows."""
    lengths = []
    for source in opened:
        try:
            positions = rows_of(source, 0, session)
        except hpe.HfposembError:
            continue  # its own panel says why
        lengths += [positions.length] if positions is not None and positions.length else []
    return max(lengths, default=KERNEL)


def parts_of(opened: Sequence[Opened]) -> list[str]:
    """Return the parts there are to choose from: those of all sources that have several."""
    return list(dict.fromkeys(part for source in opened if len(source.parts) > 1 for part in source.parts))


def of_part(opened: Sequence[Opened], part: str | None) -> tuple[Opened, ...]:
    """Return the sources with the part that is wanted of each; one that has no such part shows its first."""
    return tuple(replace(source, wanted=part or "") for source in opened)


def shown_part(source: Opened) -> str:
    """Name the part that is shown, where a source has several."""
    return source.part if len(source.parts) > 1 else ""


def enough(positions: Positions) -> bool:
    """Tell whether UMAP has more positions than it looks for neighbours."""
    return int((positions.facts.norms > 0).sum()) > NEIGHBOURS


def drawn_length(encoding: PositionEncoding, length: int, most: int = KERNEL) -> int:
    """Return how many positions are drawn of a mechanism that has no rows."""
    return int(min(getattr(encoding, "length", most), length or most, most))


def scale_end(value: float) -> str:
    return ("+" if value > 0 else "") + number(value, digits=2 if abs(value) >= 0.1 else 3)
