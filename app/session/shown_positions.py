"""The positions of the sources on the page: how many are shown, and their cached measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

import hfposemb as hpe
from hfposemb.reports.position_findings import Facts, Value, measure
from hfposemb.tables.encodings import PositionEncoding
from hfposemb.tables.rotary import Rotary
from hfposemb.text import number

from ..jobs.first_pictures import first_picture, quickly_measured
from .opened import Opened
from .state import Session

if TYPE_CHECKING:
    from hfposemb.tables.table import EmbeddingTable


Method = Literal["pca", "umap"]


GROUP = "position"  # row group of the figures, for linked hover
MOST = 4_096  # positions drawn at most: larger matrices take too long
MOST_WIDE = 2_048  # the same for wide tables, where MOST rows would exceed CELLS numbers
KERNEL = 512  # positions drawn of a mechanism that has no rows of its own
CELLS = 2**22  # numbers of a table that are measured for drawing
NEIGHBOURS = hpe.UMAPParameters().n_neighbors


@dataclass(frozen=True, eq=False)
class Positions:
    """The positions of one table that are shown, with measurements that are computed once for all visitors.

    ``whole`` belongs to ``source``. ``encoding`` is set if the rows come from an encoding that is not compared by the
    cosine of two rows.
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
        """The first ``length`` rows, or the table itself if it has no more."""
        whole = self.whole
        if self.complete:
            return whole
        return self._result("first rows", lambda: whole.part(0, self.length))

    @property
    def facts(self) -> Facts:
        """The measurements of the rows that are shown."""
        return self._result("facts", lambda: measure(self.table))

    @property
    def cumulative(self) -> NDArray[np.float64]:
        """The cumulative shares of variance of the rows that are shown, without their other measurements.

        Raises ``HfposembError`` if there is no variance.
        """
        return self._result("cumulative", lambda: hpe.spectrum(self.table).cumulative)

    @property
    def turning(self) -> bool:
        """Whether the rows are angles of a rotary encoding, which is not added to the input."""
        return self.encoding is not None

    @property
    def cosines(self) -> NDArray[np.float32]:
        """The cosine of every pair of rows [n, n]."""
        return self._result("cosines", lambda: hpe.similarity(self.table).astype(np.float32))

    def drawn(self, dims: int) -> int:
        """Return the number of dimensions of a picture: ``dims``, or the table's width if smaller."""
        return min(dims, self.whole.shape[1])

    def pca(self, dims: int) -> hpe.Projection:
        """Project the positions that are shown by PCA, and measure how well that keeps their neighbourhoods."""
        return self._result(f"pca {self.drawn(dims)}", lambda: quickly_measured(self.picture(dims), self.table))

    def picture(self, dims: int) -> hpe.Projection:
        """Project the positions that are shown by PCA, and measure nothing."""
        dims = self.drawn(dims)
        return self._result(f"picture {dims}", lambda: first_picture(self.table, dims))

    def umap(self, dims: int) -> hpe.Projection | None:
        """Return the shown rows of the UMAP projection of the whole table; ``None`` until it has been computed."""
        found = self.session.projection(self.whole, "umap", dims)
        if found is None or self.complete:
            return found
        return found.take(np.flatnonzero(found.rows < self.length))


@dataclass(frozen=True)
class View:
    """The reader's choices: projection, number of positions to show (0: all), and the marked position."""

    method: Method = "pca"
    dims: int = 3
    length: int = 0
    marked: int = 64


def positions_of(source: Opened, length: int, session: Session) -> Positions | None:
    """Return the positions of a source that has one vector for each; ``None`` if it has not.

    Raises ``HfposembError`` if the source has no positions or they cannot be read.
    """
    found = rows_of(source, length, session)
    return None if found is None or found.turning else found


def rows_of(source: Opened, length: int, session: Session) -> Positions | None:
    """Return the positions of a source that has one row for each: a vector, or the cosines and sines of its angles.

    Raises ``HfposembError`` as ``positions_of`` does.
    """
    encoding = source.position
    if isinstance(encoding, Rotary):
        # Compute no more than is drawn, whatever length and width the configuration claims.
        most = min(encoding.length, KERNEL, max(2, CELLS // (2 * len(encoding.inv_freq))))
        table = encoding.at(most).table
        return Positions(table, min(most, length or most), session, source, encoding)
    if not encoding.has_table:
        return None
    rows, width = encoding.table.shape
    most = min(rows, MOST, max(MOST_WIDE, CELLS // width))
    return Positions(encoding.table, min(most, length or most), session, source)


def tables_of(
    opened: Sequence[Opened], length: int, session: Session, *, turning: bool = False
) -> dict[Opened, Positions]:
    """Return the positions of all readable sources that have a vector for each; with ``turning`` also rotary rows."""
    found = {}
    for source in opened:
        try:
            positions = (rows_of if turning else positions_of)(source, length, session)
            if positions is not None and len(positions.facts.norms):
                found[source] = positions
        except hpe.HfposembError:
            continue  # the source's own panel shows the reason
    return found


def longest(opened: Sequence[Opened], session: Session) -> int:
    """Return the largest number of positions that any of the sources shows."""
    lengths = []
    for source in opened:
        try:
            positions = rows_of(source, 0, session)
        except hpe.HfposembError:
            continue  # the source's own panel shows the reason
        lengths += [positions.length] if positions is not None and positions.length else []
    return max(lengths, default=KERNEL)


def parts_of(opened: Sequence[Opened]) -> list[str]:
    """Return the parts to choose from: those of all sources that have several."""
    return list(dict.fromkeys(part for source in opened if len(source.parts) > 1 for part in source.parts))


def of_part(opened: Sequence[Opened], part: str | None) -> tuple[Opened, ...]:
    """Return the sources with ``part`` selected; one without that part shows its first."""
    return tuple(replace(source, wanted=part or "") for source in opened)


def shown_part(source: Opened) -> str:
    """Return the name of the shown part if the source has several, otherwise an empty string."""
    return source.part if len(source.parts) > 1 else ""


def enough(positions: Positions) -> bool:
    """Return whether there are more non-zero positions than the number of neighbours UMAP uses."""
    return int((positions.facts.norms > 0).sum()) > NEIGHBOURS


def drawn_length(encoding: PositionEncoding, length: int, most: int = KERNEL) -> int:
    """Return how many positions to draw of a mechanism that has no rows."""
    return int(min(getattr(encoding, "length", most), length or most, most))


def scale_end(value: float) -> str:
    """Return the label of an end of a colour scale, with a plus sign for positive values."""
    return ("+" if value > 0 else "") + number(value, digits=2 if abs(value) >= 0.1 else 3)
