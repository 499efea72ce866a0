"""What all position encodings have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, MissingTableError
from ..guesses import Answering
from .table import EmbeddingTable, Vectors

Kind: TypeAlias = Literal[
    "learned", "sinusoidal", "fixed", "rotary", "alibi", "relative-bias", "relative-table", "convolution", "none"
]


Unit: TypeAlias = Literal["cosine", "expected rotary kernel", "additive bias", "none"]


Profile: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Value for each signed distance."""


class WithRows(Answering):
    """Mixin that exposes ``table`` as an array to NumPy, torch, pandas and scikit-learn."""

    has_table: ClassVar[bool] = True
    _is_one: ClassVar[bool] = True  # for ``several``
    _called: ClassVar[dict[str, str]] = {"table": "model.position.table", "source": "model"}

    if TYPE_CHECKING:

        @property
        def table(self) -> EmbeddingTable:
            """Table with one row for each position."""
            ...

    def __len__(self) -> int:
        """Return the number of rows of the table."""
        return len(self.table)

    def __iter__(self) -> Iterator[Vectors]:
        """Yield every row of the table [width]."""
        return iter(self.table)

    def __getitem__(self, key: int | str | slice | Sequence[int | str] | NDArray[Any]) -> Vectors:
        """Return rows of the table; see ``EmbeddingTable.__getitem__``."""
        return self.table[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """Return all rows of the table for NumPy."""
        return self.table.__array__(dtype, copy)

    def __dlpack__(self, **wanted: Any) -> Any:
        """Return all rows of the table for ``torch.as_tensor`` and ``from_dlpack``."""
        return self.table.__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device, the CPU."""
        return self.table.__dlpack_device__()


class WithoutRows(Answering):
    """Mixin of encodings without a table; accessing it raises an error that names an alternative."""

    has_table: ClassVar[bool] = False
    offset: ClassVar[int] = 0

    @property
    def table(self) -> EmbeddingTable:
        """Raise ``MissingTableError``, since there is no row for each position."""
        whose = getattr(self, "kind", "none")
        reason = getattr(self, "reason", "")
        said = f": {reason}" if reason else "; use .matrix(length) or .profile(distances)"
        name = "the model's" if whose == "none" else whose
        raise MissingTableError(f"{name} positions have no vector for a position{said}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """Raise ``MissingTableError``; NumPy would otherwise make an array of one object."""
        return self.table.__array__(dtype, copy)


def unit_rows(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rows scaled to unit length; NaN for rows that are zero or not finite.

    >>> from hfposemb.tables.encodings import unit_rows
    >>> unit_rows([[3.0, 4.0]]).tolist()
    [[0.6, 0.8]]
    """
    rows = np.asarray(vectors, np.float64)
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
    known = np.isfinite(norms) & (norms > 0)
    return np.asarray(np.divide(rows, norms, out=np.full_like(rows, np.nan), where=known))


def shortened(rows: Vectors, layer: Any) -> Vectors:
    """Return rows of an ``nn.Embedding`` as it looks them up: no longer than its ``max_norm``, if it has one.

    Calling the layer would shorten its rows for good, as the first lookup of each does.
    """
    if (longest := getattr(layer, "max_norm", None)) is None:
        return rows
    lengths = np.linalg.norm(rows, layer.norm_type, -1, keepdims=True)
    return np.asarray(rows * np.minimum(1, longest / (lengths + 1e-7)))


MOST_PAIRS = 20_000
"""Most positions for which a matrix of all pairs is computed: 3.2 GB in float64."""


def relative_matrix(profile: Profile, length: int) -> NDArray[np.float64]:
    """Return the matrix [length, length] of a function of distance; raise ``InputError`` above ``MOST_PAIRS``."""
    if not 1 <= length <= MOST_PAIRS:
        raise InputError(f"length must be from 1 to {MOST_PAIRS:,} for a matrix of all pairs; got {length:,}")
    distances = np.arange(-length + 1, length)
    position = np.arange(length)
    return np.asarray(profile(distances)[position[None, :] - position[:, None] + length - 1])


class ByDistance(WithoutRows):
    """Mixin of encodings whose values depend on the distance of two positions alone."""

    length: int
    profile: Profile

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Return ``profile`` at the distance of every pair of the first ``length`` positions [length, length]."""
        return relative_matrix(self.profile, length or self.length)


class WithoutValues(WithoutRows):
    """Mixin of encodings that have neither rows nor values of pairs; ``reason`` says why."""

    unit: ClassVar[Unit] = "none"

    if TYPE_CHECKING:

        @property
        def reason(self) -> str:
            """Why nothing is drawn, as text."""
            ...

    def matrix(self, length: int | None = None) -> NDArray[np.float64]:
        """Raise ``MissingTableError`` with the reason."""
        raise MissingTableError(self.reason)

    def profile(self, distances: NDArray[np.int64]) -> NDArray[np.float64]:
        """Raise ``MissingTableError`` with the reason."""
        raise MissingTableError(self.reason)
