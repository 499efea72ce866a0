"""How a model tells positions apart: one value object for every kind of position encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .errors import InputError, MissingTableError
from .table import EmbeddingTable

Kind: TypeAlias = Literal[
    "learned", "sinusoidal", "fixed", "rotary", "alibi", "relative-bias", "relative-table", "convolution", "none"
]
Unit: TypeAlias = Literal["cosine", "expected rotary kernel", "additive bias", "none"]


@runtime_checkable
class PositionEncoding(Protocol):
    """Tell how alike two positions are to a model, whatever the mechanism.

    ``matrix`` and ``profile`` are in ``unit``; units are never mixed on one axis.
    """

    @property
    def kind(self) -> Kind: ...

    @property
    def unit(self) -> Unit: ...

    @property
    def table(self) -> EmbeddingTable | None:
        """One row for each position, from position 0; ``None`` where the mechanism has no such table."""

    @property
    def offset(self) -> int:
        """How many leading rows of the stored tensor are not positions."""

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the pairwise values [length, length] of the first ``length`` positions, query by key."""

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the value at each signed distance, key − query; NaN where no pair has that distance."""


def _unit_rows(vectors: NDArray[Any]) -> NDArray[np.float64]:
    rows = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(rows, norms, out=np.full_like(rows, np.nan), where=norms > 0)
    return unit


@dataclass(frozen=True, eq=False)
class Absolute:
    """Hold positions that are rows of a table, learned or computed; their unit is the cosine of two rows."""

    table: EmbeddingTable
    kind: Literal["learned", "sinusoidal", "fixed"] = "learned"
    offset: int = 0
    unit: ClassVar[Unit] = "cosine"

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the cosines [length, length]; NaN for rows that are zero or not finite.

        Raises ``InputError`` for more positions than the table has.
        """
        rows = self.table.shape[0]
        if length is not None and not 1 <= length <= rows:
            raise InputError(f"{self.table.name} has {rows:,} positions; a matrix of {length:,} cannot be drawn")
        unit = _unit_rows(self.table.rows(0, length or rows))
        cosines: NDArray[np.float64] = np.clip(unit @ unit.T, -1.0, 1.0)
        return cosines

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean cosine of all pairs of positions at each distance, in either direction."""
        unit = _unit_rows(self.table.vectors)
        unit = np.where(np.isfinite(unit).all(axis=1, keepdims=True), unit, np.nan)
        out = np.full(len(distances), np.nan)
        for place, distance in enumerate(np.abs(np.asarray(distances, np.int64))):
            if distance < len(unit):
                cosines = np.einsum("ij,ij->i", unit[: len(unit) - distance], unit[distance:])
                if np.isfinite(cosines).any():
                    out[place] = np.nanmean(cosines)
        return out


def _relative_matrix(encoding: PositionEncoding, length: int) -> NDArray[np.float64]:
    distances = np.arange(-length + 1, length)
    position = np.arange(length)
    matrix: NDArray[np.float64] = encoding.profile(distances)[position[None, :] - position[:, None] + length - 1]
    return matrix


@dataclass(frozen=True, eq=False)
class Rotary:
    """Hold rotary positions (Su et al. 2021): pair i of a query or key turns by ``inv_freq[i]`` a position.

    ``inv_freq`` [rotated dimensions / 2] in radians a position; cos and sin are both scaled by ``attention_scaling``.
    ``length`` is the longest input the configuration states.
    """

    inv_freq: NDArray[np.float64]
    length: int
    attention_scaling: float = 1.0
    layout: Literal["half", "interleaved"] = "half"
    source: str = "rotary"
    table: ClassVar[None] = None
    kind: ClassVar[Kind] = "rotary"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "expected rotary kernel"

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the expected kernel [length, length]."""
        return _relative_matrix(self, length or self.length)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return mean_i cos(ω_i Δ), which assumes q = k with equal energy in every pair of dimensions."""
        angles = np.multiply.outer(np.asarray(distances, np.float64), self.inv_freq)
        kernel: NDArray[np.float64] = np.cos(angles).mean(axis=1)
        return kernel


@dataclass(frozen=True, eq=False)
class Alibi:
    """Hold the linear biases of Press et al. 2022; ``slopes`` [heads], ``length`` positions are drawn by default."""

    slopes: NDArray[np.float64]
    length: int
    table: ClassVar[None] = None
    kind: ClassVar[Kind] = "alibi"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "additive bias"

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return the bias [length, length], the mean over heads."""
        return _relative_matrix(self, length or self.length)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return −slope·|Δ|, the mean over heads."""
        bias: NDArray[np.float64] = -np.abs(np.asarray(distances, np.float64)) * self.slopes.mean()
        return bias


@dataclass(frozen=True, eq=False)
class RelativeBias:
    """Hold a learned bias for buckets of distances (Raffel et al. 2020); ``bias`` [buckets, heads]."""

    bias: NDArray[np.float64]
    length: int
    bidirectional: bool
    max_distance: int = 128
    table: ClassVar[None] = None
    kind: ClassVar[Kind] = "relative-bias"
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "additive bias"

    def buckets(self, distances: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bucket of each signed distance, key − query, as T5 chooses it."""
        relative = np.asarray(distances, np.int64)
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
class Unmeasured:
    """Name a mechanism that has neither rows nor a closed form here: what it is, and why nothing is drawn."""

    kind: Kind
    reason: str
    table: ClassVar[None] = None
    offset: ClassVar[int] = 0
    unit: ClassVar[Unit] = "none"

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Raise ``MissingTableError`` with the reason."""
        raise MissingTableError(self.reason)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Raise ``MissingTableError`` with the reason."""
        raise MissingTableError(self.reason)


def table_in(value: EmbeddingTable | PositionEncoding) -> EmbeddingTable:
    """Return the table itself, or the one with a row for each position that an encoding has.

    Raises ``MissingTableError`` for encodings without rows, ``InputError`` for anything else.
    """
    if isinstance(value, EmbeddingTable):
        return value
    if not isinstance(value, PositionEncoding):
        raise InputError(
            f"expected a table or a position encoding such as .token or .position; got {type(value).__name__}"
        )
    if value.table is None:
        raise MissingTableError(f"{value.kind} positions have no row for each position; use .matrix() or .profile()")
    return value.table
