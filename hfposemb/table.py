"""An embedding table: named rows of vectors and where they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .cards import card
from .errors import InputError

if TYPE_CHECKING:
    import pandas

Vectors: TypeAlias = NDArray[Any]
"""Floating vectors, one a row: float32, or float64 where the file stores float64."""

RowReader: TypeAlias = Callable[[int, int], Vectors]
"""Reads rows ``[start, stop)`` of a table, widened to float32 or float64."""

TOKEN_CLASSES = ("word start", "continuation", "has a digit", "other script", "unused", "special", "padding")
"""What a row of a vocabulary can be; ``Labels.classes`` holds indices into this tuple."""

CHUNK_BYTES = 32 * 2**20
"""How much of a table is read at once where it is walked through by rows."""


@dataclass(frozen=True)
class Provenance:
    """Say where a table came from, so that it can be found again.

    ``row_offset`` is how many leading rows of the stored tensor the table leaves out; ``nbytes`` is the size of the
    stored tensor and ``file_bytes`` that of the file holding it (``None`` where nothing was read from a file).
    """

    source: str
    commit: str | None = None
    file: str | None = None
    tensor: str | None = None
    stored_dtype: str = "F32"
    nbytes: int = 0
    file_bytes: int | None = None
    row_offset: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Labels(Sequence[str]):
    """Name the rows of a vocabulary, readably.

    ``texts`` is what a person reads (``Ġking`` is `` king``); ``pieces`` what the tokenizer stores; ``classes``
    [rows] indexes ``TOKEN_CLASSES``. Behaves as the sequence of ``texts``.
    """

    texts: tuple[str, ...]
    pieces: tuple[str, ...]
    classes: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: Any) -> Any:
        return self.texts[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def take(self, rows: NDArray[np.int64]) -> Labels:
        """Return the labels of some rows, in that order."""
        wanted = rows.tolist()
        texts, pieces = (tuple(names[row] for row in wanted) for names in (self.texts, self.pieces))
        return Labels(texts, pieces, self.classes[rows])

    @cached_property
    def _ids(self) -> dict[str, int]:
        # Of rows that read the same, the first that begins a word is meant, else the first.
        order = np.argsort(self.classes != 0, kind="stable")[::-1].tolist()
        ids = {self.texts[row]: row for row in order}
        # A piece as stored always names its own row, so that both spellings of a token can be asked for.
        return ids | {piece: row for row, piece in enumerate(self.pieces) if piece not in ids}

    def find(self, label: str) -> int | None:
        """Return the row of ``label``: as shown, as stored, or with a leading space; ``None`` if there is none."""
        for spelling in (label, f" {label}"):
            if (row := self._ids.get(spelling)) is not None:
                return row
        return None


def row_labels(rows: int) -> Labels:
    """Name rows by their number, for tables that nothing names."""
    texts = tuple(map(str, range(rows)))
    return Labels(texts, texts, np.zeros(rows, np.uint8))


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """Hold a table of vectors that is read when first used.

    ``shape`` is (rows, width); ``dtype`` that of the vectors as given out: F16 and BF16 are widened exactly to
    float32, float64 stays. ``named`` gives the labels when they are first asked for.
    """

    name: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    provenance: Provenance
    reader: RowReader = field(repr=False)
    named: Callable[[], Labels] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Name the table, its size and where it came from, without reading it."""
        return f"EmbeddingTable({self.name!r}, {self.size}, {self.origin})"

    def _repr_html_(self) -> str:
        found = self.provenance
        facts = {"rows × width": self.size, "from": self.origin, "commit": found.commit or ""}
        facts["left out"] = f"{found.row_offset} leading rows" if found.row_offset else ""
        return card(
            self.name, [(name, value) for name, value in (*facts.items(), ("", "; ".join(found.notes))) if value]
        )

    @property
    def size(self) -> str:
        """How large it is, in words."""
        return f"{self.shape[0]:,} × {self.shape[1]:,} {self.dtype.name}"

    @property
    def origin(self) -> str:
        """Where it came from, in words: tensor and file, and how it is stored."""
        found = self.provenance
        stored = f", stored as {found.stored_dtype}" if found.file else ""
        return f"{' of '.join(part for part in (found.tensor, found.file) if part) or 'computed'}{stored}"

    def rows(self, start: int, stop: int) -> Vectors:
        """Return rows ``[start, stop)`` [stop − start, width], reading no others."""
        if not 0 <= start <= stop <= self.shape[0]:
            raise InputError(f"rows {start}:{stop} are not within {self.name}, which has {self.shape[0]:,} rows")
        held = vars(self).get("vectors")  # what was read as a whole is not read and widened again
        return self.reader(start, stop) if held is None else held[start:stop]

    @cached_property
    def vectors(self) -> Vectors:
        """All rows [rows, width]; a view of the file where its layout permits."""
        return self.rows(0, self.shape[0])

    def part(self, start: int, stop: int) -> EmbeddingTable:
        """Return rows ``[start, stop)`` as a table of their own, read now; its rows are named by number."""
        return table_of(self.rows(start, stop), name=self.name, provenance=self.provenance)

    def chunks(self) -> Iterator[tuple[int, Vectors]]:
        """Walk through the table as (first row, vectors), about ``CHUNK_BYTES`` at a time."""
        step = max(1, CHUNK_BYTES // max(1, self.shape[1] * self.dtype.itemsize))
        for start in range(0, self.shape[0], step):
            yield start, self.rows(start, min(start + step, self.shape[0]))

    @cached_property
    def labels(self) -> Labels:
        """The name of every row; row numbers where the source has no tokenizer."""
        return self.named() if self.named is not None else row_labels(self.shape[0])

    @cached_property
    def finite(self) -> NDArray[np.bool_]:
        """Which rows [rows] hold neither NaN nor Inf; everything computed leaves the others out and says so."""
        mask = np.empty(self.shape[0], bool)
        for start, vectors in self.chunks():
            mask[start : start + len(vectors)] = np.isfinite(vectors).all(axis=1)
        return mask

    @cached_property
    def digest(self) -> str:
        """SHA-256 of shape, dtype and vectors: two tables with the same digest hold the same numbers."""
        import hashlib

        sha = hashlib.sha256(f"{self.shape}{self.dtype.str}".encode())
        for _, vectors in self.chunks():
            sha.update(np.ascontiguousarray(vectors).data)
        return sha.hexdigest()

    def row(self, key: int | str) -> int:
        """Return the row that ``key`` names: a row number, or a label.

        Raises ``InputError`` where no row has that number or label.
        """
        if isinstance(key, str):
            if (found := self.labels.find(key)) is None:
                raise InputError(f"{self.name} has no row named {key!r}; search its .labels, or give a row number")
            return found
        if not 0 <= key < self.shape[0]:
            raise InputError(f"{self.name} has no row {key}; its rows are 0 to {self.shape[0] - 1:,}")
        return int(key)

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame: one row a vector, named by its label. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            from .errors import MissingExtraError

            raise MissingExtraError("pandas", extra="export", purpose="to_frame()") from error
        return pandas.DataFrame(self.vectors, index=pandas.Index(list(self.labels), name="label"))


def table_of(
    vectors: Vectors, *, name: str, provenance: Provenance, named: Callable[[], Labels] | None = None
) -> EmbeddingTable:
    """Make a table of vectors [rows, width] that are in memory.

    Raises ``InputError`` unless ``vectors`` is a two-dimensional array of real numbers with at least one row.
    """
    array = np.asarray(vectors)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must be a table [rows, width] that is not empty; its shape is {list(array.shape)}")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must hold real numbers; its dtype is {array.dtype}")
    if array.dtype != np.float64:
        array = array.astype(np.float32, copy=False)
    array = array.view()
    array.flags.writeable = False
    return EmbeddingTable(name, (len(array), array.shape[1]), array.dtype, provenance, lambda a, b: array[a:b], named)
