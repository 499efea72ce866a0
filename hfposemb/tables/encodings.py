"""How a model tells positions apart: one value object for every kind of position encoding.

``PositionEncoding`` is any of the classes below. Each has ``kind``, ``unit``, ``matrix(length)`` [length, length],
query by key, of the first positions, and ``profile(distances)``, the value at each signed distance, key − query, NaN
where no pair has that distance; both are in ``unit``, and units are never mixed on one axis. ``offset`` is how many
leading rows of the stored tensor are not positions.

Where ``has_table`` is true, ``table`` has one row for each position, from position 0, and NumPy, torch and scikit-learn
take the encoding as an array of these rows. Elsewhere ``table`` raises ``MissingTableError``, which names what to use
instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, MissingTableError
from .table import EmbeddingTable, Provenance, Vectors, all_rows

Kind: TypeAlias = Literal[
    "learned", "sinusoidal", "fixed", "rotary", "alibi", "relative-bias", "relative-table", "convolution", "none"
]
Unit: TypeAlias = Literal["cosine", "expected rotary kernel", "additive bias", "none"]


class _Rows:
    """Give an encoding the behaviour of its table: NumPy, torch, pandas and scikit-learn take it as an array."""

    has_table: ClassVar[bool] = True

    if TYPE_CHECKING:

        @property
        def table(self) -> EmbeddingTable: ...

    def __len__(self) -> int:
        """Return the number of rows of the table."""
        return len(self.table)

    def __iter__(self) -> Iterator[Vectors]:
        """Yield every row of the table [width]."""
        return iter(self.table)

    def __getitem__(self, key: int | str | slice | Sequence[int | str] | NDArray[Any]) -> Vectors:
        """Return rows of the table, as ``EmbeddingTable`` does."""
        return self.table[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """Return all rows of the table for NumPy."""
        return self.table.__array__(dtype, copy)

    def __dlpack__(self, **wanted: Any) -> Any:
        """Return all rows of the table for ``torch.as_tensor`` and ``from_dlpack``."""
        return self.table.__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's name of the CPU."""
        return self.table.__dlpack_device__()


class _NoRows:
    """Say of an encoding without a table what to use instead."""

    has_table: ClassVar[bool] = False

    @property
    def table(self) -> EmbeddingTable:
        """Raise ``MissingTableError``: there is no row for each position."""
        whose = getattr(self, "kind", "none")
        reason = getattr(self, "reason", "")
        said = f": {reason}" if reason else "; use .matrix(length) or .profile(distances)"
        name = "the model's" if whose == "none" else whose
        raise MissingTableError(f"{name} positions have no row for each position{said}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """Raise ``MissingTableError``, where NumPy would else make an array of one object."""
        return self.table.__array__(dtype, copy)


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rows at length 1; NaN for those that are zero or not finite."""
    rows = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    known = np.isfinite(norms) & (norms > 0)
    unit: NDArray[np.float64] = np.divide(rows, norms, out=np.full_like(rows, np.nan), where=known)
    return unit


@dataclass(frozen=True)
class Grid:
    """How the rows of a table lie over an image: ``first`` rows that are no patch, then the patches, row by row."""

    rows: int
    columns: int
    first: int = 0


@dataclass(frozen=True, eq=False)
class Absolute(_Rows):
    """Hold positions that are rows of a table, learned or computed; their unit is the cosine of two rows.

    ``grid`` says how they lie over an image, where they are those of its patches.
    """

    table: EmbeddingTable
    kind: Literal["learned", "sinusoidal", "fixed"] = "learned"
    offset: int = 0
    grid: Grid | None = None
    unit: ClassVar[Unit] = "cosine"

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the cosines [length, length]; NaN for rows that are zero or not finite.

        Raises ``InputError`` for more positions than the table has.
        """
        rows = self.table.shape[0]
        if length is not None and not 1 <= length <= rows:
            raise InputError(f"{self.table.name} has {rows:,} positions; a matrix of {length:,} cannot be drawn")
        unit = unit_rows(self.table.rows(0, length or rows))
        cosines: NDArray[np.float64] = np.clip(unit @ unit.T, -1.0, 1.0)
        return cosines

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean cosine of all pairs of positions at each distance, in either direction."""
        unit = unit_rows(all_rows(self.table))
        unit = np.where(np.isfinite(unit).all(axis=1, keepdims=True), unit, np.nan)
        out = np.full(len(distances), np.nan)
        for place, distance in enumerate(np.abs(np.asarray(distances, np.int64))):
            if distance < len(unit):
                cosines = np.einsum("ij,ij->i", unit[: len(unit) - distance], unit[distance:])
                if np.isfinite(cosines).any():
                    out[place] = np.nanmean(cosines)
        return out


MOST_PAIRS = 20_000
"""Positions of which a matrix of all pairs is made at most: 3.2 GB in float64."""


def _relative_matrix(encoding: PositionEncoding, length: int) -> NDArray[np.float64]:
    if not 1 <= length <= MOST_PAIRS:
        raise InputError(f"a matrix of all pairs has 1 to {MOST_PAIRS:,} positions; got {length:,}; give a length")
    distances = np.arange(-length + 1, length)
    position = np.arange(length)
    matrix: NDArray[np.float64] = encoding.profile(distances)[position[None, :] - position[:, None] + length - 1]
    return matrix


@dataclass(frozen=True, eq=False)
class Wavelengths:
    """Hold how many positions each pair of a rotary encoding takes for one turn; infinite where it stands still.

    ``before`` [pairs] without the scaling that the configuration states, ``after`` [pairs] with it. The model was
    trained on ``trained_length`` positions, before it was scaled.
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]
    trained_length: int

    @property
    def beyond(self) -> NDArray[np.bool_]:
        """Which pairs turned less than once in training (Peng et al. 2023): they never saw all of their angles."""
        return np.asarray(self.before > self.trained_length)

    @property
    def beyond_after(self) -> NDArray[np.bool_]:
        """Which pairs turn less than once in the trained length after scaling."""
        return np.asarray(self.after > self.trained_length)

    @property
    def moved(self) -> NDArray[np.bool_]:
        """Which pairs the scaling turns faster or slower, by more than rounding."""
        return ~np.isclose(self.before, self.after, rtol=1e-9, atol=0.0)


@dataclass(frozen=True, eq=False)
class Rotary(_Rows):
    """Hold rotary positions (Su et al. 2021): pair i of a query or key turns by ``inv_freq[i]`` a position.

    ``inv_freq`` [rotated dimensions / 2] in radians a position; cos and sin are both scaled by ``attention_scaling``.
    ``length`` is the longest input the configuration states. ``base_freq`` are the frequencies before ``scaling``, the
    name of a rope type, and ``trained_length`` the longest input before it; by default nothing was scaled.
    """

    inv_freq: NDArray[np.float64]
    length: int
    attention_scaling: float = 1.0
    layout: Literal["half", "interleaved"] = "half"
    base_freq: NDArray[np.float64] | None = None
    trained_length: int | None = None
    scaling: str = ""
    kind: ClassVar[Kind] = "rotary"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "expected rotary kernel"

    @cached_property
    def table(self) -> EmbeddingTable:
        """The cosines and sines [length, 2 · pairs] that the model turns with, as it lays them out; made when read.

        "half": all cosines, then all sines; "interleaved": cos ω₀t, sin ω₀t, cos ω₁t, …. No model adds these rows to
        its words. The cosine of two of them is the expected kernel of their distance.
        """
        width = 2 * len(self.inv_freq)
        origin = Provenance("rotary", notes=("computed: cosines and sines of the angles, not added to any vector",))
        return EmbeddingTable("rotary positions", (self.length, width), np.dtype(np.float32), origin, self._rows)

    def _rows(self, start: int, stop: int) -> Vectors:
        angles = np.multiply.outer(np.arange(start, stop, dtype=np.float64), self.inv_freq)
        parts = self.attention_scaling * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        ordered = parts if self.layout == "half" else parts.transpose(0, 2, 1)
        return ordered.reshape(stop - start, 2 * len(self.inv_freq)).astype(np.float32)

    @property
    def wavelengths(self) -> NDArray[np.float64]:
        """Positions for one turn of each pair [pairs], 2π/ω; infinite where ω is 0."""
        return _turns(self.inv_freq)

    @property
    def scaled(self) -> Wavelengths:
        """The wavelengths before and after scaling, and the trained length they are held against."""
        before = self.wavelengths if self.base_freq is None else _turns(self.base_freq)
        return Wavelengths(before, self.wavelengths, self.trained_length or self.length)

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the expected kernel [length, length]."""
        return _relative_matrix(self, length or self.length)

    def kernels(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return cos(ω_i Δ) [distances, pairs]: what each pair adds to the kernel."""
        kernels: NDArray[np.float64] = np.cos(np.multiply.outer(np.asarray(distances, np.float64), self.inv_freq))
        return kernels

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return mean_i cos(ω_i Δ), which assumes q = k with equal energy in every pair of dimensions."""
        kernel: NDArray[np.float64] = self.kernels(distances).mean(axis=1)
        return kernel


def _turns(frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
    frequencies = np.abs(np.asarray(frequencies, np.float64))
    turns: NDArray[np.float64] = np.divide(
        2 * np.pi, frequencies, out=np.full(frequencies.shape, np.inf), where=frequencies > 0
    )
    return turns


def alibi_slopes(heads: int, *, longest: float = 8.0, kept: bool = True) -> NDArray[np.float64]:
    """Return the slopes of ALiBi [heads], from 2^(−longest/n) by its powers where n, the heads, is a power of two.

    Otherwise, as the reference code and BLOOM do (``kept``): the slopes of the lower power of two, then every second
    one of the next; as MPT does: of the next power of two those with odd place, then those with even, as many as
    there are heads. Raises ``InputError`` for no heads.
    """
    if not 1 <= heads <= 65_536:
        raise InputError(f"ALiBi has a slope for each head, 1 to 65,536 of them; got {heads}")
    lower = 1 << (heads.bit_length() - 1)

    def powers(count: int) -> NDArray[np.float64]:
        return np.asarray(2.0 ** (-longest / count * np.arange(1, count + 1)), np.float64)

    if lower == heads:
        return powers(heads)
    if kept:
        return np.concatenate([powers(lower), powers(2 * lower)[::2][: heads - lower]])
    return np.concatenate([powers(2 * lower)[1::2], powers(2 * lower)[::2]])[:heads]


@dataclass(frozen=True, eq=False)
class Alibi(_NoRows):
    """Hold the linear biases of Press et al. 2022; ``slopes`` [heads], ``length`` positions are drawn by default.

    ``scale`` is what a model multiplies them by before they are added to scaled scores: 1/√(head width) in Falcon,
    which rounds them to bfloat16 as well (``rounded``; the slopes here are not).
    """

    slopes: NDArray[np.float64]
    length: int
    scale: float = 1.0
    rounded: bool = False
    kind: ClassVar[Kind] = "alibi"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "additive bias"

    @property
    def effective(self) -> NDArray[np.float64]:
        """The slopes [heads] as they act on scaled scores."""
        return self.slopes * self.scale

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the bias [length, length], the mean over heads."""
        return _relative_matrix(self, length or self.length)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return −slope·|Δ| as it acts on scaled scores, the mean over heads."""
        bias: NDArray[np.float64] = -np.abs(np.asarray(distances, np.float64)) * self.effective.mean()
        return bias


@dataclass(frozen=True, eq=False)
class RelativeBias(_NoRows):
    """Hold a learned bias for buckets of distances (Raffel et al. 2020); ``bias`` [buckets, heads].

    ``zero`` is the row of distance 0 where every row stands for one distance, in order, and those beyond the last for
    the last; ``None`` where they are T5's buckets.
    """

    bias: NDArray[np.float64]
    length: int
    bidirectional: bool = True
    max_distance: int = 128
    zero: int | None = None
    kind: ClassVar[Kind] = "relative-bias"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "additive bias"

    def buckets(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bucket of each signed distance, key − query, as T5 chooses it."""
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
        """Return the bias [distances, heads]."""
        return np.asarray(self.bias, np.float64)[self.buckets(distances)]

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the bias [length, length], the mean over heads."""
        return _relative_matrix(self, length or self.length)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bias at each distance, the mean over heads."""
        bias: NDArray[np.float64] = self.bias_at(distances).mean(axis=1)
        return bias


@dataclass(frozen=True, eq=False)
class WindowBias(_NoRows):
    """Hold a learned bias for every displacement within a window of patches (Liu et al. 2021, Swin).

    ``bias`` [2h − 1, 2w − 1, heads] is that of a patch displaced by so many rows and columns, query − key, from
    −(h − 1), −(w − 1) on. Positions are the patches of the window, row by row.
    """

    bias: NDArray[np.float64]
    kind: ClassVar[Kind] = "relative-bias"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "additive bias"

    @property
    def grid(self) -> Grid:
        """The window in patches."""
        return Grid((self.bias.shape[0] + 1) // 2, (self.bias.shape[1] + 1) // 2)

    @property
    def length(self) -> int:
        """The number of patches in the window."""
        return self.grid.rows * self.grid.columns

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the bias between the first ``length`` patches of the window [length, length], the mean over heads.

        Raises ``InputError`` for more patches than the window has.
        """
        count = length or self.length
        if not 1 <= count <= self.length:
            raise InputError(f"the window has {self.length} patches; a matrix of {count:,} cannot be drawn")
        row, column = np.divmod(np.arange(count), self.grid.columns)
        down = row[:, None] - row[None, :] + self.grid.rows - 1
        across = column[:, None] - column[None, :] + self.grid.columns - 1
        bias: NDArray[np.float64] = self.bias.mean(axis=2)[down, across]
        return bias

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the bias along a row of the window, the mean over heads; NaN outside of it."""
        columns = self.grid.columns
        place = columns - 1 - np.asarray(distances, np.int64)
        known = (place >= 0) & (place < 2 * columns - 1)
        along = self.bias.mean(axis=2)[self.grid.rows - 1]
        bias: NDArray[np.float64] = np.where(known, along[np.clip(place, 0, 2 * columns - 2)], np.nan)
        return bias


@dataclass(frozen=True, eq=False)
class RelativeTable(_NoRows):
    """Hold relative positions that are rows of a table, one for each distance (Shaw et al. 2018; He et al. 2021).

    ``distances`` [rows] is the signed distance, key − query, that each row of ``rows`` [distances, width] stands for,
    each once and 0 among them; a model stores them in any order. A row serves the distances beyond its own too, up to
    the next row's: so buckets, as DeBERTa-v3 has them, are stated by the distance nearest to 0 in each. Beyond the
    farthest row ``clipped`` models read that row, as Shaw's and DeBERTa do; others have none. ``length`` positions are
    drawn by default. The table is not ``.table``, which has one row for each position. Raises ``InputError``.
    """

    rows: NDArray[Any]
    distances: NDArray[np.int64]
    length: int
    clipped: bool = True
    kind: ClassVar[Kind] = "relative-table"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "cosine"

    def __post_init__(self) -> None:
        """Check that there is one row for each distance."""
        shape, count = np.shape(self.rows), len(self.distances)
        if len(shape) != 2 or shape[0] != count or len(np.unique(self.distances)) != count:
            raise InputError(f"expected one row for each of {count} different distances; the rows are {list(shape)}")
        if not (np.asarray(self.distances) == 0).any():
            raise InputError("no row stands for distance 0, which the others are compared with")

    def row_of(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row that the model reads at each signed distance, −1 where it has none."""
        wanted, known = np.asarray(distances, np.int64), np.asarray(self.distances, np.int64)
        order = np.argsort(known)
        ordered = known[order]
        towards_zero = np.where(
            wanted >= 0,
            np.searchsorted(ordered, wanted, side="right") - 1,
            np.searchsorted(ordered, wanted, side="left"),
        )
        outside = (wanted < ordered[0]) | (wanted > ordered[-1])
        found: NDArray[np.int64] = np.where(outside & (not self.clipped), -1, order[towards_zero])
        return found

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the profile of every pair [length, length]."""
        return _relative_matrix(self, length or self.length)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the cosine of the row of each distance with the row of distance 0.

        Beyond the table it is that of the farthest row where the model is ``clipped``, because that row is what the
        model reads there, and else NaN, as it is for rows that are zero or not finite.
        """
        unit, place = unit_rows(self.rows), self.row_of(distances)
        same = unit[self.row_of(np.zeros(1, np.int64))[0]]
        cosines: NDArray[np.float64] = np.where(place >= 0, np.clip(unit @ same, -1.0, 1.0)[place], np.nan)
        return cosines


@dataclass(frozen=True, eq=False)
class Convolution(_NoRows):
    """Hold positions that a convolution over the input leaves in it (Baevski et al. 2020, wav2vec 2.0).

    Its ``width`` taps in ``groups`` of channels look at neighbours, and mix contents with places: there is neither a
    vector nor a number for a position or a distance. What holds of every input is how far the kernel ``sees``.
    """

    width: int
    groups: int = 1
    kind: ClassVar[Kind] = "convolution"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "none"

    def __post_init__(self) -> None:
        """Check that there is a kernel."""
        if self.width < 1 or self.groups < 1:
            raise InputError(f"a convolution has at least one tap and one group; got {self.width} and {self.groups}")

    @property
    def reach(self) -> int:
        """The farthest distance that the kernel sees: width // 2, with the padding that keeps the length."""
        return self.width // 2

    def sees(self, distances: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether a position at each signed distance, key − query, is under the kernel: |Δ| ≤ width // 2.

        A kernel of an even width has one tap fewer on the right, because wav2vec 2.0 drops the last output.
        """
        relative = np.asarray(distances, np.int64)
        under: NDArray[np.bool_] = (-self.reach <= relative) & (relative <= self.reach - (self.width % 2 == 0))
        return under

    @property
    def reason(self) -> str:
        """Why nothing is drawn."""
        kernel = f"a convolution of width {self.width} in {self.groups} {'group' if self.groups == 1 else 'groups'}"
        return (
            f"its positions come from {kernel}, which sees {self.reach} positions to either side: it has no vector for "
            "a position and no number for a distance"
        )

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Raise ``MissingTableError``: what is under the kernel is known, how alike it is depends on the input."""
        raise MissingTableError(self.reason)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Raise ``MissingTableError``, as ``matrix`` does."""
        raise MissingTableError(self.reason)


@dataclass(frozen=True, eq=False)
class NoPositions(_NoRows):
    """Hold nothing: the model is told no positions, and ``order`` says what carries the order of its input instead."""

    order: str = "the causal mask alone"
    kind: ClassVar[Kind] = "none"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "none"

    @property
    def reason(self) -> str:
        """Why nothing is drawn."""
        return f"it is told no positions: what carries the order is {self.order}"

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Raise ``MissingTableError`` with the reason."""
        raise MissingTableError(self.reason)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Raise ``MissingTableError`` with the reason."""
        raise MissingTableError(self.reason)


@dataclass(frozen=True, eq=False)
class Unmeasured(_NoRows):
    """Name a mechanism that is not computed yet: what it is, and why nothing is drawn."""

    kind: Kind
    reason: str
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "none"

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Raise ``MissingTableError`` with the reason."""
        raise MissingTableError(self.reason)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Raise ``MissingTableError`` with the reason."""
        raise MissingTableError(self.reason)


PositionEncoding: TypeAlias = (
    Absolute | Rotary | Alibi | RelativeBias | WindowBias | RelativeTable | Convolution | NoPositions | Unmeasured
)
"""Any position encoding; the module says what all of them have."""


def table_in(value: EmbeddingTable | PositionEncoding) -> EmbeddingTable:
    """Return the table itself, or the one with a row for each position that an encoding has.

    Raises ``MissingTableError`` for encodings without rows, ``InputError`` for anything else.
    """
    if isinstance(value, EmbeddingTable):
        return value
    if not isinstance(value, PositionEncoding):
        raise InputError(_not_a_table(value))
    return value.table


def _not_a_table(value: object) -> str:
    """Say what to give instead of something that is neither a table nor an encoding."""
    if isinstance(value, (str, Path)):
        return (
            f"expected a table or a position encoding, got the text {str(value)[:80]!r}; "
            f"open it first: hpe.extract({str(value)[:80]!r}).token or .position"
        )
    if hasattr(value, "tables") and hasattr(value, "positions"):
        roles = [role for role in ("token", "position") if role in (*value.tables, *value.positions)]
        use = " or ".join(f"embeddings.{role}" for role in roles or ("token", "position"))
        return f"expected a table or a position encoding, got an Embeddings, which holds several; give {use}"
    if hasattr(value, "shape") or isinstance(value, (list, tuple)):
        return (
            f"expected a table or a position encoding, got {type(value).__name__}; "
            "make a table of your own vectors first: hpe.from_arrays(token=vectors).token"
        )
    return f"expected a table or a position encoding such as .token or .position; got {type(value).__name__}"
