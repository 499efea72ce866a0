"""Embedding tables: labelled rows of vectors with their provenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, require
from ..guesses import Answering, several
from ..lazy_attributes import lazy_attribute
from ..memory_maps import lendable, lent, made_lendable, mapped_again
from .scattered_rows import read_scattered
from .tabular import card

if TYPE_CHECKING:
    from pathlib import Path

    import pandas
    import torch

Vectors: TypeAlias = NDArray[np.floating[Any]]
"""Floating-point vectors [rows, width]: float32, or float64 if the file stores float64."""

RowReader: TypeAlias = Callable[[int, int], Vectors]
"""Reads rows ``[start, stop)`` of a table, widened to float32 or float64, into memory that nothing else uses."""

TOKEN_CLASSES = ("word start", "continuation", "has a digit", "other script", "unused", "special", "padding")
"""Classes of vocabulary rows; ``Labels.classes`` holds indices into this tuple."""

CHUNK_BYTES = 8 * 2**20
"""Bytes read at once when a table is iterated by rows: memory of larger arrays is cleared anew for each of them."""


@dataclass(frozen=True)
class Provenance:
    """Origin of a table, complete enough to find it again.

    Attributes:
        source: Name of the source.
        commit: Commit of the repository on the Hub.
        file: File that holds the tensor.
        tensor: Name of the tensor.
        stored_dtype: Data type in the file.
        nbytes: Size of the stored tensor.
        file_bytes: Size of the file; ``None`` if nothing was read from a file.
        row_offset: Number of leading rows of the stored tensor that the table leaves out.
        notes: Remarks about how it was read.
        saved: Provenance, as the file states it, of the table that ``EmbeddingTable.save`` wrote into it.
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
    saved: Provenance | None = None


@dataclass(frozen=True, eq=False)
class Labels(Answering, Sequence[str]):
    """Readable names of the rows of a vocabulary; a sequence of ``texts``.

    Attributes:
        texts: Labels as shown to people (``Ġking`` becomes `` king``).
        pieces: Pieces as the tokenizer stores them.
        classes: Indices into ``TOKEN_CLASSES`` [rows].
        note: Why rows have no names but their numbers; "" if they have.
        largest: Largest id of the tokenizer, where it has more tokens than the table has rows; 0 elsewhere.
    """

    texts: tuple[str, ...]
    pieces: tuple[str, ...]
    classes: NDArray[np.uint8]
    note: str = ""
    largest: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            raise InputError(f"labels are a sequence of texts; for the row of one write table.row({index!r:.40})")
        return self.texts[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def take(self, rows: NDArray[np.int64]) -> Labels:
        """Return the labels of the given rows, in that order."""
        wanted = rows.tolist()
        texts, pieces = (tuple(names[row] for row in wanted) for names in (self.texts, self.pieces))
        return Labels(texts, pieces, self.classes[rows], self.note)

    @property
    def remark(self) -> str:
        """The ``note``, or that the tokenizer has tokens without a row; "" if all is well."""
        beyond = f"its tokenizer has ids up to {self.largest:,}, but its rows end at {len(self) - 1:,}"
        return beyond if self.largest else self.note

    @lazy_attribute
    def _ids(self) -> dict[str, int]:
        # Among rows with the same text, prefer the first that starts a word, else the first.
        order = np.argsort(self.classes != 0, kind="stable")[::-1].tolist()
        ids = {self.texts[row]: row for row in order}
        # Stored pieces are keys as well, so that either spelling of a token can be looked up.
        return ids | {piece: row for row, piece in enumerate(self.pieces) if piece not in ids}

    def exact(self, label: str) -> int | None:
        """Return the row whose text or stored piece equals ``label``; ``None`` if there is none."""
        return self._ids.get(label)

    def find(self, label: str) -> int | None:
        """Return the row that a person means by ``label``; ``None`` if there is none.

        It matches the text or stored piece, with or without a leading space. If both ``king`` and `` king`` exist, a
        label that begins with a letter means the one that starts a word, since people type words without their space.
        """
        spaced, exact = self.exact(f" {label}"), self.exact(label)
        return spaced if spaced is not None and (exact is None or label[:1].isalpha()) else exact


def row_labels(rows: int, note: str = "") -> Labels:
    """Label rows by their number, for tables without a vocabulary.

    Args:
        rows: Number of rows.
        note: Why they have no other names.

    >>> from hfposemb.tables.table import row_labels
    >>> list(row_labels(3))
    ['0', '1', '2']
    """
    texts = tuple(map(str, range(rows)))
    return Labels(texts, texts, np.zeros(rows, np.uint8), note)


@dataclass(eq=False)
class _Held:
    """Rows of a table in memory, lent out on each call.

    ``was_read`` records whether all rows were read before. ``again`` maps rows that were read and given away.
    """

    kept: Vectors | None = None
    was_read: bool = False
    again: Callable[[], Vectors] | None = None

    @property
    def rows(self) -> Vectors | None:
        """The rows, mapped if they are not yet but can be; ``None`` if they have to be read."""
        if self.kept is None and self.again is not None:
            again, self.again = self.again, None
            with suppress(OSError):  # the process has too many maps
                self.kept = again()
        return self.kept

    def __call__(self, start: int, stop: int) -> Vectors:
        """Return rows ``[start, stop)`` in memory that nothing else uses."""
        assert self.rows is not None
        return lent(self.rows[start:stop])


@dataclass(frozen=True, eq=False)
class EmbeddingTable(Answering):
    """Table of vectors that is read on first use.

    NumPy, torch, pandas, scikit-learn and matplotlib accept a table as an array [rows, width], and ``table["king"]`` or
    ``table[3:7]`` selects rows. Tables compare by identity.

    Pickling a table of a checkpoint stores the location of its rows, not the rows: they are read again after loading,
    with a ``CheckpointError`` if the file has changed since. Tables made from arrays or a live module are pickled with
    their rows.

    Attributes:
        name: Name in messages and figures.
        shape: (rows, width).
        dtype: Data type of the returned vectors. F16 and BF16 are widened exactly to float32; float64 stays.
        provenance: Where the table came from.
        reader: Reads rows.
        named: Makes the labels on first access; ``None`` labels rows by number.

    >>> import hfposemb as hpe
    >>> table = hpe.extract("sample:gpt2").token
    >>> table.shape, table["king"].shape
    ((4000, 128), (128,))
    """

    _is_one: ClassVar[bool] = True  # for ``several``
    _called: ClassVar[dict[str, str]] = {"table": "table", "source": "model"}
    _made: ClassVar[str] = "hpe.extract('owner/name').token or hpe.from_arrays(token=vectors).token"
    name: str
    shape: tuple[int, int]
    dtype: np.dtype[np.floating[Any]]
    provenance: Provenance
    reader: RowReader = field(repr=False)
    named: Callable[[], Labels] | None = field(default=None, repr=False)
    _held: _Held = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Share the rows of a reader that already has all of them in memory."""
        object.__setattr__(self, "_held", self.reader if isinstance(self.reader, _Held) else _Held())

    def __repr__(self) -> str:
        """Describe the table by name, size and origin, without reading it."""
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
        """Shape and dtype as text."""
        return f"{self.shape[0]:,} × {self.shape[1]:,} {self.dtype.name}"

    @property
    def origin(self) -> str:
        """Tensor, file and stored dtype as text."""
        found = self.provenance
        stored = f", stored as {found.stored_dtype}" if found.file else ""
        return f"{' of '.join(part for part in (found.tensor, found.file) if part) or 'computed'}{stored}"

    @property
    def row_bytes(self) -> int:
        """Bytes of a row as it is stored, with its share of the scales where the table is quantised."""
        kept = self.provenance
        own = self.shape[1] * self.dtype.itemsize
        return -(-kept.nbytes // max(self.shape[0] + kept.row_offset, 1)) if kept.nbytes else own

    def rows(self, start: int | Sequence[int | str] | NDArray[Any], stop: int | None = None) -> Vectors:
        """Return rows ``[start, stop)``, or the given rows, reading no others.

        From the Hub, given rows are fetched by ranges of bytes: neighbouring rows together, and several ranges at once.

        Args:
            start: First row, or row numbers and labels [m] if ``stop`` is not given.
            stop: End of the rows, exclusive.

        Returns:
            Vectors [stop − start, width] or [m, width], in the given order.

        Raises:
            InputError: If there is no such row.

        >>> import hfposemb as hpe
        >>> table = hpe.extract("sample:gpt2").token
        >>> table.rows(0, 3).shape, table.rows([5, 900, 17]).shape
        ((3, 128), (3, 128))
        """
        if not isinstance(start, (int, np.integer)) or stop is None:
            if stop is not None or isinstance(start, (int, np.integer)):
                raise InputError("rows takes a first row and an end, rows(3, 7), or a list of rows, rows([3, 'king'])")
            wanted = start if isinstance(start, slice) else several(start)
            return self[list(wanted) if isinstance(wanted, tuple) else wanted]
        if not 0 <= start <= stop <= self.shape[0]:
            raise InputError(f"rows {start}:{stop} are out of range for {self.name}, which has {self.shape[0]:,} rows")
        return self.reader(start, stop) if self._held.rows is None else self._held(start, stop)

    def take(self, rows: NDArray[np.integer[Any]]) -> Vectors:
        """Return the given rows [m, width] in the given order, and read no others.

        Args:
            rows: Row numbers [m], counted from 0.
        """
        rows = np.asarray(several(rows))
        if self._held.rows is not None:
            return np.asarray(self._held.rows[rows])
        most = CHUNK_BYTES if self.provenance.commit is None else None
        return read_scattered(self.rows, rows, self.shape[1], self.dtype, most=most)

    def pick(self, rows: Sequence[int | str] | NDArray[Any]) -> Self:
        """Return the given rows as a separate table, in the given order; they are read on first use.

        Args:
            rows: Row numbers or labels [m].

        Raises:
            InputError: If there is no such row.

        >>> import hfposemb as hpe
        >>> list(hpe.extract("sample:gpt2").token.pick(["king", "queen"]).labels)
        [' king', ' queen']
        """
        places = np.array([self._place(one) for one in several(rows)], np.int64)
        picked = _Picked(self, places)
        named = None if self.named is None else picked.labels
        return replace(self, shape=(len(places), self.shape[1]), reader=picked, named=named)

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __iter__(self) -> Iterator[Vectors]:
        """Yield every row [width]."""
        for _, vectors in self.chunks():
            yield from vectors

    def __contains__(self, key: object) -> bool:
        """Return whether ``key`` is the label of a row."""
        return isinstance(key, str) and self.labels.find(key) is not None

    def __getitem__(self, key: int | str | slice | Sequence[int | str] | NDArray[Any]) -> Vectors:
        """Return the row [width] of a number or label, or the rows [m, width] of a slice, list, array or boolean mask.

        Negative numbers count from the end. Everything but a slice of step 1 is copied. Raises ``InputError`` if there
        is no such row.

        >>> import hfposemb as hpe
        >>> hpe.extract("sample:gpt2").token[["king", "queen"]].shape
        (2, 128)
        """
        bounds = (key.start, key.stop, key.step) if isinstance(key, slice) else ()
        if isinstance(key, slice) and all(one is None or isinstance(one, SupportsIndex) for one in bounds):
            start, stop, step = key.indices(len(self))
            return self.rows(start, max(start, stop)) if step == 1 else self.take(np.arange(start, stop, step))
        if isinstance(key, str) or (isinstance(key, SupportsIndex) and np.ndim(key) == 0):
            return np.asarray(self.take(np.array([self._place(key)]))[0])
        if isinstance(key, (tuple, slice)) or np.ndim(key) != 1:
            raise InputError(
                f"{self.name} is indexed by rows: table[3], table['king'], table[3:7] or table[['king', 'queen']]; "
                "for columns use np.asarray(table)[:, 0]"
            )
        wanted = np.asarray(key)
        if wanted.dtype == bool:
            if len(wanted) != len(self):
                raise InputError(f"the mask has {len(wanted):,} entries, but {self.name} has {len(self):,} rows")
            return self.take(np.flatnonzero(wanted))
        return self.take(np.array([self._place(one) for one in (key if isinstance(key, list) else wanted)], np.int64))

    def _place(self, key: object) -> int:
        """Return the row of a label or a number; negative numbers count from the end."""
        if isinstance(key, str):
            return self.row(str(key))
        if isinstance(key, (bool, np.bool_)) or not isinstance(key, SupportsIndex):
            raise InputError(f"a row of {self.name} must be a number or a label; got {key!r:.80}")
        number = key.__index__()
        return self.row(number + len(self) if -len(self) <= number < 0 else number)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Vectors:
        """Return all rows for NumPy: read-only, or a writable copy if ``copy`` is true."""
        if copy is False and dtype is not None and np.dtype(dtype) != self.dtype:
            raise ValueError(f"{self.name} is {self.dtype.name}; converting it to {np.dtype(dtype).name} needs a copy")
        vectors = self.vectors
        return np.asarray(np.array(vectors, dtype) if copy else vectors.astype(dtype or self.dtype, copy=False))

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **wanted: Any) -> Any:
        """Return all rows for ``torch.as_tensor`` and ``from_dlpack``, in memory that nothing else uses."""
        # DLPack before 1.0 cannot mark an array as read-only.
        if max_version is None or max_version < (1, 0):
            return np.array(self.vectors).__dlpack__(**wanted)
        return self.vectors.__dlpack__(max_version=max_version, **wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device, the CPU."""
        return (1, 0)

    def to_numpy(self, dtype: Any = None) -> Vectors:
        """Return all rows [rows, width], as ``vectors`` does; a copy of them may be changed.

        Args:
            dtype: Data type, such as ``"float16"``; by default that of ``vectors``.
        """
        return self.__array__(dtype)

    def to_torch(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return a copy of all rows as a CPU tensor [rows, width]. Raises ``MissingExtraError`` without torch.

        Args:
            dtype: Data type, such as ``torch.float16``; by default that of ``vectors``.

        >>> import torch
        >>> import hfposemb as hpe
        >>> weights = hpe.extract("sample:gpt2").token.to_torch()
        >>> layer = torch.nn.Embedding.from_pretrained(weights, freeze=False)
        """
        require("torch", extra="torch", purpose="to_torch()")
        import torch

        return torch.from_numpy(np.array(self.vectors)).to(dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle how to read the table, without rows that were read, unless they exist only in memory."""
        return EmbeddingTable, (self.name, self.shape, self.dtype, self.provenance, self.reader, self.named)

    @property
    def vectors(self) -> Vectors:
        """All rows [rows, width], read-only, and not copied if the file stores F32 or F64.

        Each access returns a separate array. Torch ignores the read-only flag and may modify one in place; the table
        and everything computed from it stay unchanged. F16 and BF16 tables are widened when first read; from the second
        access on, the widened rows stay in memory.
        """
        held = self._held
        if held.rows is None or not lendable(held.rows):
            if not held.was_read:
                held.was_read = True
                return self._first()
            held.kept = made_lendable(all_rows(self))
        return lent(all_rows(self))

    def _first(self) -> Vectors:
        """Read all rows for what may be the only access, so that they are neither kept in memory nor mapped twice."""
        read = self.reader(0, self.shape[0])
        held = self._held
        if held.rows is not None:
            return read
        if self.provenance.file:
            held.again = mapped_again(read)
            if held.again is not None or not lendable(read):
                return read
        held.kept = read
        return lent(read)

    def part(self, start: int, stop: int) -> EmbeddingTable:
        """Return rows ``[start, stop)`` as a separate table, read immediately and labelled by number."""
        return table_of(self.rows(start, stop), name=self.name, provenance=self.provenance)

    def chunks(self) -> Iterator[tuple[int, Vectors]]:
        """Iterate over the table as (first row, vectors), about ``CHUNK_BYTES`` at a time."""
        return _walk(self.shape, self.dtype, self.rows)

    @lazy_attribute
    def labels(self) -> Labels:
        """Label of every row; row numbers if the source has no tokenizer."""
        return self.named() if self.named is not None else row_labels(self.shape[0])

    @property
    def has_names(self) -> bool:
        """Whether rows have names other than their numbers, which are no names that another table could share."""
        return self.named is not None and not self.labels.note

    @lazy_attribute
    def finite(self) -> NDArray[np.bool_]:
        """Mask [rows] of the rows without NaN or Inf; all computations leave the others out and report it.

        Numbers that float32 does not hold count as infinite: no model computes with them, and their squares overflow.
        """
        mask = np.empty(self.shape[0], bool)
        for start, vectors in walk(self):
            with np.errstate(over="ignore", invalid="ignore"):
                vectors = np.asarray(vectors, np.float32)
                # NaN and Inf remain in a sum; a row whose sum is neither has neither.
                finite = np.isfinite(np.einsum("ij->i", vectors))
            rest = np.flatnonzero(~finite)
            finite[rest] = np.isfinite(vectors[rest]).all(axis=1)
            mask[start : start + len(vectors)] = finite
        return mask

    @lazy_attribute
    def digest(self) -> str:
        """SHA-256 of shape, dtype and vectors: tables with the same digest hold the same numbers."""
        import hashlib

        sha = hashlib.sha256(f"{self.shape}{self.dtype.str}".encode())
        for _, vectors in walk(self):
            sha.update(np.ascontiguousarray(vectors).data)
        return sha.hexdigest()

    def row(self, key: int | str) -> int:
        """Return the row number of a row number or label. Raises ``InputError`` if there is none."""
        if isinstance(key, str):
            if (found := self.labels.find(key)) is None:
                cases = (
                    one for one in (key.lower(), key.capitalize(), key.strip()) if self.labels.find(one) is not None
                )
                near = next((f"did you mean {one!r}?" for one in cases), None)
                rows = f"give one of its labels or a row number from 0 to {self.shape[0] - 1:,}"
                beyond = f" ({self.labels.remark})" if self.labels.largest else ""
                raise InputError(f"{self.name} has no row named {key!r}{beyond}; {near or rows}")
            return found
        if not 0 <= key < self.shape[0]:
            raise InputError(f"{self.name} has no row {key}; its rows are 0 to {self.shape[0] - 1:,}")
        return int(key)

    def save(self, path: str | Path) -> None:
        """Write the table in the format of the file's ending, from which ``hpe.extract`` opens it again.

        Args:
            path: File that ends in .safetensors, .npy, .npz, .parquet, .csv or .tsv; see ``hpe.write_table``.

        >>> import tempfile
        >>> import hfposemb as hpe
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     hpe.extract("sample:gpt2").token.save(f"{folder}/words.npz")
        ...     hpe.extract(f"{folder}/words.npz").token.provenance.saved.source
        'sample:gpt2'
        """
        import hfposemb  # the writers import this module

        hfposemb.write_table(self, path)

    def to_frame(self) -> pandas.DataFrame:
        """Return the vectors as a pandas DataFrame, indexed by label. Raises ``MissingExtraError`` without pandas."""
        require("pandas", extra="export", purpose="to_frame()")
        import pandas

        return pandas.DataFrame(self.vectors, index=pandas.Index(list(self.labels), name="label"))


def table_of(
    vectors: Vectors, *, name: str, provenance: Provenance, named: Callable[[], Labels] | None = None
) -> EmbeddingTable:
    """Make a table from vectors in memory.

    Args:
        vectors: Real numbers [rows, width]. All but float64 are converted to float32.
        name: Name in messages and figures.
        provenance: Where they came from.
        named: Makes the labels; ``None`` labels rows by number.

    Raises:
        InputError: If ``vectors`` is not two-dimensional, is empty or does not hold real numbers.

    >>> from hfposemb.tables.table import Provenance, table_of
    >>> table_of([[0.0, 1.0], [1.0, 0.0]], name="mine", provenance=Provenance("mine"))
    EmbeddingTable('mine', 2 × 2 float64, computed)
    """
    array = np.asarray(vectors)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"{name} must be a non-empty table [rows, width]; its shape is {list(array.shape)}")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must hold real numbers; its dtype is {array.dtype}")
    if array.dtype != np.float64:
        array = array.astype(np.float32, copy=False)
    shape = (len(array), array.shape[1])
    return EmbeddingTable(name, shape, array.dtype, provenance, rows_in_memory(array), named)


@dataclass(frozen=True, eq=False)
class _Picked:
    """Reader of some rows of another table."""

    table: EmbeddingTable
    places: NDArray[np.int64]

    def __call__(self, start: int, stop: int) -> Vectors:
        """Return rows ``[start, stop)`` of the picked ones."""
        return self.table.take(self.places[start:stop])

    def labels(self) -> Labels:
        """Return the labels of the picked rows."""
        return self.table.labels.take(self.places)


def rows_in_memory(vectors: Vectors) -> RowReader:
    """Return a picklable reader of vectors [rows, width] in memory."""
    return _Held(vectors)


def all_rows(table: EmbeddingTable) -> Vectors:
    """Return all rows of a table [rows, width], read once and shared between callers.

    For internal computation only: the array is not protected. To give rows away, use ``EmbeddingTable.vectors``.
    """
    held = table._held
    if (rows := held.rows) is None:
        rows = held.kept = table.reader(0, table.shape[0])
    return rows


def walk(table: EmbeddingTable, *, whole: bool = False, least: int = 1) -> Iterator[tuple[int, Vectors]]:
    """Iterate over a table like ``EmbeddingTable.chunks``, without copying rows in memory; for internal computation.

    Args:
        table: Table [n, d].
        whole: Whether to yield rows that are in memory in one piece.
        least: Minimum number of rows per piece, but for the last.

    >>> import hfposemb as hpe
    >>> from hfposemb.tables.table import walk
    >>> [(start, rows.shape) for start, rows in walk(hpe.sinusoidal(64, 16).position.table)]
    [(0, (64, 16))]
    """
    held = table._held.rows
    if whole and held is not None:
        return iter([(0, held)])
    read = table.reader if held is None else lambda start, stop: held[start:stop]
    return _walk(table.shape, table.dtype, read, least)


def _walk(
    shape: tuple[int, int], dtype: np.dtype[Any], read: RowReader, least: int = 1
) -> Iterator[tuple[int, Vectors]]:
    step = max(least, CHUNK_BYTES // max(1, shape[1] * dtype.itemsize))
    for start in range(0, shape[0], step):
        yield start, read(start, min(start + step, shape[0]))
