"""Fingerprints of token tables: a few hundred rows chosen by the hash of their token, and a sketch of the vocabulary.

The anchors are the tokens of smallest hash, so that two models whose vocabularies overlap keep mostly the same ones
without knowing of each other. A file holds them in bytes, with hashes of the rows as they are stored.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, SourceError
from ..files import complete_file
from ..tables.embeddings import Embeddings
from ..tables.table import TOKEN_CLASSES, EmbeddingTable
from ..tables.tabular import Facts
from ..text import display

ANCHORS = 256
"""Most rows that are read; so many are fetched one by one, without what lies between them."""

SKETCH = 1024
"""Smallest hashes of a vocabulary that are kept, from which overlaps are estimated to about 3 %."""

ANCHOR_BYTES = 2**19
"""Most bytes of the rows in a file; of a table of 4,096 columns that are 128 rows."""

MOST_FILE_BYTES = 2**20
"""Largest file that is read as a fingerprint."""

ENDING = ".kinship.safetensors"
VERSION = 1
PRECISIONS = ("F32", "F16", "BF16")
"""Precisions in which rows are hashed, from the finest to the coarsest."""

_NO_WORDS = tuple(TOKEN_CLASSES.index(name) for name in ("unused", "special", "padding"))
_PADDING = TOKEN_CLASSES.index("padding")

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Fingerprint(Facts):
    """What is kept of a token table to recognise it, and tables made from it.

    Attributes:
        name: Name of the source.
        commit: Its commit on the Hub; "" for other sources.
        stored: Data type in the file.
        exact: Coarsest of F32, F16 and BF16 that has the rows exactly, whatever they are stored as.
        rows: Number of rows, with those that no token has.
        words: Number of distinct tokens; 0 if rows have no names but their numbers.
        vocabulary: Hash of all tokens in order, in hexadecimal digits.
        sketch: The smallest hashes of tokens, in order.
        anchors: Hashes of the tokens whose rows are kept [n], in order.
        vectors: Their rows [n, width].
        digests: Hashes of these rows, rounded to float32, float16 and bfloat16 [n, 3].
    """

    name: str
    commit: str
    stored: str
    exact: str
    rows: int
    words: int
    vocabulary: str
    sketch: Hashes
    anchors: Hashes
    vectors: NDArray[np.float32]
    digests: Hashes

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return int(self.vectors.shape[1])

    def __repr__(self) -> str:
        """Describe the fingerprint by its source and sizes."""
        return f"Fingerprint({self.name!r}, {self.words:,} tokens × {self.width:,}, {len(self.anchors)} anchors)"

    def save(self, path: str | Path) -> Path:
        """Write the fingerprint to a file of less than a megabyte; its rows are rounded to eight bits.

        Args:
            path: The file, whose name ends in ``.kinship.safetensors``.

        Returns:
            The file.

        Raises:
            InputError: If the name ends otherwise, or there are no rows to keep.

        >>> import hfposemb as hpe
        >>> path = hpe.fingerprint("sample:gpt2").save("gpt2.kinship.safetensors")
        >>> hpe.kinship(path, "sample:gpt2").verdict
        'same'
        """
        out = Path(path)
        if not out.name.endswith(ENDING):
            raise InputError(f"{out.name} must end in {ENDING}")
        with complete_file(out) as file:
            file.write(self.to_bytes())
        return out

    def to_bytes(self) -> bytes:
        """Return the content of such a file.

        Raises:
            InputError: If there are no rows to keep.
        """
        if not len(self.anchors):
            raise InputError(f"{self.name} has no rows of words that could be kept")
        most = max(1, ANCHOR_BYTES // self.width)
        vectors = self.vectors[:most]
        steps = np.abs(vectors).max(axis=1, initial=0) / 127
        codes = np.rint(np.divide(vectors, steps[:, None], out=np.zeros_like(vectors), where=steps[:, None] > 0))
        parts: dict[str, NDArray[Any]] = {
            "sketch": self.sketch,
            "anchors": self.anchors[:most],
            "digests": self.digests[:most],
            "codes": codes.astype(np.int8),
            "steps": steps.astype(np.float32),
        }
        facts = {"version": VERSION, **{name: getattr(self, name) for name in _FACTS}}
        head: dict[str, Any] = {"__metadata__": {"fingerprint": json.dumps(facts)}}
        at = 0
        for name, part in parts.items():
            head[name] = {"dtype": _KINDS[name][0], "shape": part.shape, "data_offsets": [at, at + part.nbytes]}
            at += part.nbytes
        said = json.dumps(head).encode()
        stored = (part.astype(_KINDS[name][1]).tobytes() for name, part in parts.items())
        return b"".join([len(said).to_bytes(8, "little"), said, *stored])


_FACTS: Mapping[str, type] = {
    one.name: {"str": str, "int": int}[str(one.type)] for one in fields(Fingerprint) if one.type in ("str", "int")
}
"""Fields of a fingerprint that a file states as JSON."""

_KINDS: dict[str, tuple[str, np.dtype[Any], int]] = {
    "sketch": ("U64", np.dtype("<u8"), 1),
    "anchors": ("U64", np.dtype("<u8"), 1),
    "digests": ("U64", np.dtype("<u8"), 2),
    "codes": ("I8", np.dtype("|i1"), 2),
    "steps": ("F32", np.dtype("<f4"), 1),
}
"""Tensors of a file, in their order: kind in safetensors and in NumPy, and number of axes."""


def token_hashes(table: EmbeddingTable) -> Hashes:
    """Return the hash of the text of every row [rows]; 0 for rows that no token has."""
    labels = table.labels
    joined = (
        b"" if at == _PADDING else text.encode("utf-8", "surrogatepass")
        for text, at in zip(labels.texts, labels.classes.tolist(), strict=True)
    )
    hashes = np.frombuffer(b"".join(blake2b(one, digest_size=8).digest() for one in joined), "<u8").astype(np.uint64)
    return np.where(labels.classes == _PADDING, np.uint64(0), hashes)


def of_table(source: Embeddings, among: Hashes | None = None, hashes: Hashes | None = None) -> Fingerprint:
    """Return the fingerprint of a source, reading at most 256 rows.

    Args:
        source: An open source.
        among: Hashes of the tokens that anchors are chosen from; all if ``None``.
        hashes: The hashes of its tokens (``token_hashes``), if they are known.

    Raises:
        MissingTableError: If the source has no token table.
    """
    table = source.token
    hashes = token_hashes(table) if hashes is None else hashes
    distinct, first = np.unique(hashes, return_index=True)
    distinct, first = distinct[distinct > 0], first[distinct > 0]
    usable = ~np.isin(table.labels.classes[first], _NO_WORDS)
    if among is not None:
        usable &= np.isin(distinct, among)
    anchors, rows = distinct[usable][:ANCHORS], first[usable][:ANCHORS]
    with np.errstate(over="ignore"):
        vectors = np.asarray(table.take(rows), np.float32)
    finite = np.isfinite(vectors).all(axis=1)
    anchors, vectors = anchors[finite], vectors[finite]
    kept = table.provenance
    return Fingerprint(
        source.name,
        kept.commit or "",
        kept.stored_dtype,
        _exact(vectors),
        table.shape[0],
        len(distinct) if table.has_names else 0,
        blake2b(hashes[hashes > 0].tobytes(), digest_size=16).hexdigest(),
        distinct[:SKETCH],
        anchors,
        vectors,
        row_digests(vectors),
    )


def fingerprint(model: str | Path | Embeddings) -> Fingerprint:
    """Take the fingerprint of a model's token table: at most 256 rows, read by ranges, and hashes of its tokens.

    Args:
        model: An open source, or a name or path as in ``hpe.extract``.

    Returns:
        The fingerprint, which ``kinship`` compares and ``Fingerprint.save`` keeps.

    Raises:
        SourceError: If the source cannot be opened.
        MissingTableError: If it has no token table.

    >>> import hfposemb as hpe
    >>> hpe.fingerprint("sample:gpt2")
    Fingerprint('sample:gpt2', 4,000 tokens × 128, 256 anchors)
    """
    return of_table(as_open(model))


def as_open(model: str | Path | Embeddings) -> Embeddings:
    """Return an open source as it is, and open anything else. Raises ``SourceError`` if that fails."""
    if isinstance(model, Embeddings):
        return model
    from ..models.extraction import extract

    return extract(model)


def row_digests(vectors: NDArray[np.float32]) -> Hashes:
    """Return a hash of every row [n, 3] in each of ``PRECISIONS``; 0 for rows of equal numbers, such as zeros."""
    with np.errstate(over="ignore"):
        forms = (vectors, vectors.astype("<f2"), to_bfloat16(vectors))
    out = np.zeros((len(vectors), len(forms)), np.uint64)
    for place, form in enumerate(forms):
        plain = np.ascontiguousarray(form + form.dtype.type(0))  # −0 as 0
        digests = b"".join(blake2b(row.tobytes(), digest_size=8).digest() for row in plain)
        out[:, place] = np.frombuffer(digests, "<u8")
    flat = (vectors == vectors[:, :1]).all(axis=1) | ~np.isfinite(vectors).all(axis=1)
    out[flat] = 0
    return out


def _exact(vectors: NDArray[np.float32]) -> str:
    """Return the coarsest of ``PRECISIONS`` in which rows are exact."""
    bits = np.ascontiguousarray(vectors, "<f4").view("<u4")
    if not (bits & np.uint32(0xFFFF)).any():
        return "BF16"
    with np.errstate(over="ignore"):
        return "F16" if np.array_equal(vectors.astype(np.float16), vectors, equal_nan=True) else "F32"


def to_bfloat16(vectors: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the upper halves of numbers rounded to bfloat16, ties to even, with −0 as 0."""
    bits = np.ascontiguousarray(vectors + np.float32(0), "<f4").view("<u4")
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16)


def read_fingerprint(path: str | Path) -> Fingerprint:
    """Read a fingerprint that ``Fingerprint.save`` wrote; every size in it is checked before it is used.

    Args:
        path: The file.

    Raises:
        SourceError: If it cannot be read or is no fingerprint.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            raw = opened.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{_shown(file)} cannot be read: {error.strerror or 'not a file'}") from error
    if len(raw) > MOST_FILE_BYTES:
        raise _wrong(file, f"it has more than {MOST_FILE_BYTES:,} bytes")
    try:
        facts, arrays = _parts(raw)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _wrong(file, "it is damaged") from error
    return _checked(facts, arrays, file)


def _parts(raw: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return the facts and tensors of a file, which must lie in their order and fill it."""
    start = 8 + int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:start])
    if set(head) != {"__metadata__", *_KINDS}:
        raise ValueError
    arrays, at = {}, 0
    for name, (kind, dtype, axes) in _KINDS.items():
        shape = head[name]["shape"]
        if head[name]["dtype"] != kind or len(shape) != axes or any(type(one) is not int or one < 1 for one in shape):
            raise ValueError
        stop = at + math.prod(shape) * dtype.itemsize
        if head[name]["data_offsets"] != [at, stop] or start + stop > len(raw):
            raise ValueError
        arrays[name] = np.frombuffer(raw[start + at : start + stop], dtype).reshape(shape)
        at = stop
    if start + at != len(raw):
        raise ValueError
    return json.loads(head["__metadata__"]["fingerprint"]), arrays


def _checked(facts: Any, arrays: Mapping[str, NDArray[Any]], file: Path) -> Fingerprint:
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise _wrong(file, f"this version of hfposemb reads version {VERSION}")
    if any(type(facts.get(name)) is not kind for name, kind in _FACTS.items()):
        raise _wrong(file, "it does not say what it is of")
    count = len(arrays["anchors"])
    if arrays["digests"].shape != (count, len(PRECISIONS)) or not count == len(arrays["codes"]) == len(arrays["steps"]):
        raise _wrong(file, "its parts do not fit together")
    if not np.isfinite(arrays["steps"]).all():
        raise _wrong(file, "its numbers are not finite")
    if any((arrays[name][1:] <= arrays[name][:-1]).any() for name in ("anchors", "sketch")):
        raise _wrong(file, "its tokens are not in order")
    if facts["exact"] not in PRECISIONS or not (0 <= facts["words"] < 2**40 and 0 <= facts["rows"] < 2**40):
        raise _wrong(file, "its sizes are impossible")
    said: dict[str, Any] = {
        name: display(facts[name], width=300) if kind is str else facts[name] for name, kind in _FACTS.items()
    }
    kept: dict[str, Any] = {name: arrays[name] for name in ("sketch", "anchors", "digests")}
    with np.errstate(over="ignore"):
        vectors = arrays["codes"].astype(np.float32) * arrays["steps"][:, None]
    return Fingerprint(**said, **kept, vectors=vectors)


def _wrong(file: Path, why: str) -> SourceError:
    return SourceError(f"{_shown(file)} is no fingerprint of a model: {why}; write it again with hpe.fingerprint")


def _shown(file: Path) -> str:
    return display(file.name)
