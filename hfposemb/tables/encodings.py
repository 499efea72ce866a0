"""Position encodings: one value class for each mechanism by which models distinguish positions.

``PositionEncoding`` is the union of the classes below. Each has

- ``kind``, the mechanism, and ``unit``, the unit of its values; values of different units never share an axis;
- ``matrix(length)`` [queries, keys], the value for every pair of the first ``length`` positions;
- ``profile(distances)``, the value at each signed distance key − query, NaN where no pair has that distance;
- ``offset``, the number of leading rows of the stored tensor that are not positions.

If ``has_table`` is true, ``table`` has one row for each position, starting at position 0, and NumPy, torch and
scikit-learn accept the encoding as an array of these rows. Otherwise ``table`` raises ``MissingTableError``, which
names an alternative.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .encoding_base import ByDistance, Kind, Unit, WithoutRows, WithoutValues, WithRows, unit_rows
from .rotary import Rotary
from .table import EmbeddingTable, all_rows


@dataclass(frozen=True)
class Grid:
    """Layout of a table's rows over an image: ``first`` rows that are not patches, then the patches, row by row."""

    rows: int
    columns: int
    first: int = 0


@dataclass(frozen=True, eq=False)
class Absolute(WithRows):
    """Absolute positions, learned or computed: one row of a table for each position; their unit is the cosine.

    Attributes:
        table: The table [positions, width].
        kind: Whether the rows are learned, sinusoidal or otherwise fixed.
        offset: Number of leading rows of the stored tensor that are not positions.
        grid: Layout of the rows over an image, if they belong to its patches.
    """

    table: EmbeddingTable
    kind: Literal["learned", "sinusoidal", "fixed"] = "learned"
    offset: int = 0
    grid: Grid | None = None
    unit: ClassVar[Unit] = "cosine"

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the cosines of the first ``length`` positions [length, length].

        NaN for rows that are zero or not finite. ``length`` defaults to all positions; raises ``InputError`` if the
        table has fewer.
        """
        rows = self.table.shape[0]
        if length is not None and not 1 <= length <= rows:
            raise InputError(f"length must be from 1 to {rows:,} for {self.table.name}; got {length:,}")
        unit = unit_rows(self.table.rows(0, length or rows))
        return np.asarray(np.clip(unit @ unit.T, -1.0, 1.0))

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean cosine over all pairs of positions at each distance; the sign of the distance is ignored."""
        unit = unit_rows(all_rows(self.table))
        unit = np.where(np.isfinite(unit).all(axis=1, keepdims=True), unit, np.nan)
        out = np.full(len(distances), np.nan)
        for place, distance in enumerate(np.abs(np.asarray(distances, np.int64))):
            if distance < len(unit):
                cosines = np.einsum("ij,ij->i", unit[: len(unit) - distance], unit[distance:])
                if np.isfinite(cosines).any():
                    out[place] = np.nanmean(cosines)
        return out


def alibi_slopes(heads: int, *, longest: float = 8.0, kept: bool = True) -> NDArray[np.float64]:
    """Return the slopes of ALiBi (Press et al. 2022, arXiv 2108.12409).

    If n, the number of heads, is a power of two, they are the powers 1 … n of 2^(−longest/n). Otherwise there are two
    conventions, see ``kept``.

    Args:
        heads: Number of heads.
        longest: Negative exponent of the last slope.
        kept: If true, use the slopes for the next lower power of two, followed by every second slope of the next higher
            one, as the reference code and BLOOM do. If false, take the slopes of the next higher power of two, those at
            even places (2nd, 4th, …) before those at odd places, and keep as many as there are heads, as MPT does.

    Returns:
        Slopes [heads].

    Raises:
        InputError: If ``heads`` is out of range.

    >>> from hfposemb.tables.encodings import alibi_slopes
    >>> alibi_slopes(4).tolist()
    [0.25, 0.0625, 0.015625, 0.00390625]
    """
    if not 1 <= heads <= 65_536:
        raise InputError(f"heads must be from 1 to 65,536; got {heads}")
    lower = 1 << (heads.bit_length() - 1)

    def powers(count: int) -> NDArray[np.float64]:
        return np.asarray(2.0 ** (-longest / count * np.arange(1, count + 1)), np.float64)

    if lower == heads:
        return powers(heads)
    if kept:
        return np.concatenate([powers(lower), powers(2 * lower)[::2][: heads - lower]])
    return np.concatenate([powers(2 * lower)[1::2], powers(2 * lower)[::2]])[:heads]


@dataclass(frozen=True, eq=False)
class Alibi(ByDistance):
    """Linear biases by distance (ALiBi; Press et al. 2022, arXiv 2108.12409).

    Attributes:
        slopes: Slopes [heads].
        length: Number of positions drawn by default.
        scale: Factor that the model applies to the biases before adding them to scaled scores: 1/√(head width) in
            Falcon.
        rounded: Whether the model rounds its biases to bfloat16, as Falcon does; ``slopes`` are not rounded.
    """

    slopes: NDArray[np.float64]
    length: int
    scale: float = 1.0
    rounded: bool = False
    kind: ClassVar[Kind] = "alibi"
    unit: ClassVar[Unit] = "additive bias"

    @property
    def effective(self) -> NDArray[np.float64]:
        """Slopes [heads] as they act on scaled scores."""
        return self.slopes * self.scale

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bias −slope·|Δ| on scaled scores at each distance, averaged over heads."""
        return np.asarray(-np.abs(np.asarray(distances, np.float64)) * self.effective.mean())


@dataclass(frozen=True, eq=False)
class RelativeBias(ByDistance):
    """Learned bias for each bucket of distances (T5; Raffel et al. 2020, arXiv 1910.10683).

    Attributes:
        bias: Learned biases [buckets, heads].
        length: Number of positions drawn by default.
        bidirectional: Whether later keys have buckets of their own.
        max_distance: Distance from which all share the last bucket.
        zero: ``None`` for T5's logarithmic buckets. Otherwise each row belongs to one distance, in order; ``zero`` is
            the row of distance 0, and distances outside the table use the first or last row.
    """

    bias: NDArray[np.float64]
    length: int
    bidirectional: bool = True
    max_distance: int = 128
    zero: int | None = None
    kind: ClassVar[Kind] = "relative-bias"
    unit: ClassVar[Unit] = "additive bias"

    def buckets(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bucket of each signed distance key − query, computed as in T5."""
        relative = np.asarray(distances, np.int64)
        if self.zero is not None:
            return np.clip(relative + self.zero, 0, len(self.bias) - 1)
        count = len(self.bias) // 2 if self.bidirectional else len(self.bias)
        first = np.where(relative > 0, count, 0) if self.bidirectional else np.zeros_like(relative)
        far = np.abs(relative) if self.bidirectional else np.maximum(-relative, 0)
        exact = count // 2
        with np.errstate(divide="ignore"):
            steps = np.log(far / exact) / np.log(self.max_distance / exact) * (count - exact)
        logarithmic = np.minimum(exact + np.where(far > 0, steps, 0).astype(np.int64), count - 1)
        return first + np.where(far < exact, far, logarithmic)

    def bias_at(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bias at each distance [distances, heads]."""
        return np.asarray(self.bias, np.float64)[self.buckets(distances)]

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bias at each distance, averaged over heads."""
        return np.asarray(self.bias_at(distances).mean(axis=1))


@dataclass(frozen=True, eq=False)
class WindowBias(WithoutRows):
    """Learned bias for every displacement within a window of patches (Swin; Liu et al. 2021, arXiv 2103.14030).

    Positions are the patches of the window, row by row.

    Attributes:
        bias: Learned biases [2h − 1, 2w − 1, heads], indexed by the displacement query − key in rows, from −(h − 1),
            and in columns, from −(w − 1).
    """

    bias: NDArray[np.float64]
    kind: ClassVar[Kind] = "relative-bias"
    unit: ClassVar[Unit] = "additive bias"

    @property
    def grid(self) -> Grid:
        """Size of the window in patches."""
        return Grid((self.bias.shape[0] + 1) // 2, (self.bias.shape[1] + 1) // 2)

    @property
    def length(self) -> int:
        """Number of patches in the window."""
        return self.grid.rows * self.grid.columns

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the bias between the first ``length`` patches of the window [length, length], averaged over heads.

        Raises ``InputError`` for more patches than the window has.
        """
        count = length or self.length
        if not 1 <= count <= self.length:
            raise InputError(f"length must be from 1 to {self.length}, the patches of the window; got {count:,}")
        row, column = np.divmod(np.arange(count), self.grid.columns)
        down = row[:, None] - row[None, :] + self.grid.rows - 1
        across = column[:, None] - column[None, :] + self.grid.columns - 1
        return np.asarray(self.bias.mean(axis=2)[down, across])

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bias along a row of the window, averaged over heads; NaN outside the window."""
        columns = self.grid.columns
        place = columns - 1 - np.asarray(distances, np.int64)
        known = (place >= 0) & (place < 2 * columns - 1)
        along = self.bias.mean(axis=2)[self.grid.rows - 1]
        return np.asarray(np.where(known, along[np.clip(place, 0, 2 * columns - 2)], np.nan))


@dataclass(frozen=True, eq=False)
class RelativeTable(ByDistance):
    """Relative positions as rows of a table, one for each distance (Shaw et al. 2018; DeBERTa, He et al. 2021).

    This is not ``.table``, which would have one row for each position. A row also serves the distances beyond its own,
    up to the next row's. Logarithmic buckets, as in DeBERTa-v3, are therefore given by the distance nearest to 0 in
    each.

    Attributes:
        rows: Vectors [distances, width].
        distances: Signed distance key − query of each row [rows]; distinct, with 0 among them, in any order.
        length: Number of positions drawn by default.
        clipped: Whether distances beyond the farthest row use that row, as in Shaw's model and DeBERTa; others have no
            row there.

    Raises:
        InputError: If rows and distances do not match.
    """

    rows: NDArray[Any]
    distances: NDArray[np.int64]
    length: int
    clipped: bool = True
    kind: ClassVar[Kind] = "relative-table"
    unit: ClassVar[Unit] = "cosine"

    def __post_init__(self) -> None:
        """Check that every distance has one row."""
        shape, count = np.shape(self.rows), len(self.distances)
        if len(shape) != 2 or shape[0] != count or len(np.unique(self.distances)) != count:
            raise InputError(
                f"rows must hold one row for each of {count} different distances; their shape is {list(shape)}"
            )
        if not (np.asarray(self.distances) == 0).any():
            raise InputError("distances must include 0, which the others are compared with")

    def row_of(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row that the model reads at each signed distance; −1 if it has none."""
        wanted, known = np.asarray(distances, np.int64), np.asarray(self.distances, np.int64)
        order = np.argsort(known)
        ordered = known[order]
        towards_zero = np.where(
            wanted >= 0,
            np.searchsorted(ordered, wanted, side="right") - 1,
            np.searchsorted(ordered, wanted, side="left"),
        )
        outside = (wanted < ordered[0]) | (wanted > ordered[-1])
        return np.asarray(np.where(outside & (not self.clipped), -1, order[towards_zero]))

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine between the row of each distance and the row of distance 0.

        Beyond the table it is the cosine of the farthest row if the model is ``clipped``, since the model reads that
        row there, and NaN otherwise. It is also NaN for rows that are zero or not finite.
        """
        unit, place = unit_rows(self.rows), self.row_of(distances)
        same = unit[self.row_of(np.zeros(1, np.int64))[0]]
        return np.asarray(np.where(place >= 0, np.clip(unit @ same, -1.0, 1.0)[place], np.nan))


@dataclass(frozen=True, eq=False)
class Convolution(WithoutValues):
    """Positions from a convolution over the input (wav2vec 2.0; Baevski et al. 2020, arXiv 2006.11477).

    The kernel mixes contents with positions, so there is neither a vector for a position nor a number for a distance.
    Only its extent, which ``sees`` returns, holds for every input.

    Attributes:
        width: Number of taps.
        groups: Number of groups of channels.
    """

    width: int
    groups: int = 1
    kind: ClassVar[Kind] = "convolution"

    def __post_init__(self) -> None:
        """Check that width and number of groups are positive."""
        if self.width < 1 or self.groups < 1:
            raise InputError(f"width and groups must be at least 1; got {self.width} and {self.groups}")

    @property
    def reach(self) -> int:
        """Farthest distance under the kernel: width // 2, with padding that keeps the length."""
        return self.width // 2

    def sees(self, distances: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the kernel covers each signed distance key − query: |Δ| ≤ width // 2.

        A kernel of even width has one tap fewer on the right, because wav2vec 2.0 drops the last output.
        """
        relative = np.asarray(distances, np.int64)
        return np.asarray((-self.reach <= relative) & (relative <= self.reach - (self.width % 2 == 0)))

    @property
    def reason(self) -> str:
        """Why nothing is drawn, as text."""
        kernel = f"a convolution of width {self.width} in {self.groups} {'group' if self.groups == 1 else 'groups'}"
        return (
            f"its positions come from {kernel}, reaching {self.reach} positions to either side, so there is no "
            "vector for a position and no value for a distance"
        )


@dataclass(frozen=True, eq=False)
class NoPositions(WithoutValues):
    """No position encoding; ``order`` names what conveys the order of the input instead."""

    order: str = "the causal mask alone"
    kind: ClassVar[Kind] = "none"

    @property
    def reason(self) -> str:
        """Why nothing is drawn, as text."""
        return f"it has no position encoding; order comes from {self.order}"


@dataclass(frozen=True, eq=False)
class Unmeasured(WithoutValues):
    """A mechanism that is recognised but not computed, with the reason."""

    kind: Kind
    reason: str


PositionEncoding: TypeAlias = (
    Absolute | Rotary | Alibi | RelativeBias | WindowBias | RelativeTable | Convolution | NoPositions | Unmeasured
)
"""Any position encoding; the module docstring lists their common members."""


def table_in(value: EmbeddingTable | PositionEncoding) -> EmbeddingTable:
    """Return a table unchanged, or an encoding's table with one row for each position.

    Raises:
        MissingTableError: For encodings without such a table.
        InputError: For anything else.

    >>> import hfposemb as hpe
    >>> from hfposemb.tables.encodings import table_in
    >>> table_in(hpe.sinusoidal(64, 16).position).shape
    (64, 16)
    """
    if isinstance(value, EmbeddingTable):
        return value
    if not isinstance(value, PositionEncoding):
        raise InputError(_not_a_table(value))
    return value.table


def _not_a_table(value: object) -> str:
    """Return an error message that names what to pass instead of ``value``."""
    if isinstance(value, (str, Path)):
        return (
            f"expected a table or a position encoding, got the string {str(value)[:80]!r}; "
            f"open it first: hpe.extract({str(value)[:80]!r}).token or .position"
        )
    if hasattr(value, "tables") and hasattr(value, "positions"):
        roles = [role for role in ("token", "position") if role in (*value.tables, *value.positions)]
        use = " or ".join(f"embeddings.{role}" for role in roles or ("token", "position"))
        return f"expected a table or a position encoding, got an Embeddings, which holds several; give {use}"
    if hasattr(value, "shape") or isinstance(value, (list, tuple)):
        return (
            f"expected a table or a position encoding, got {type(value).__name__}; "
            "make a table first: hpe.from_arrays(token=vectors).token"
        )
    return f"expected a table or a position encoding such as .token or .position; got {type(value).__name__}"
